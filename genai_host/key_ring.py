"""The keyring of the system, by the library `keyring`, where that is installed and finds
one: `pip install "genai-host[keyring]"`."""

from __future__ import annotations

import os
from typing import Protocol

from genai_host.api import Secret
from genai_host.errors import ConfigurationError
from genai_host.names import APP
from genai_host.telling import told


class Backend(Protocol):
    """What is used of a keyring's backend."""

    def get_password(self, service: str, username: str) -> str | None: ...

    def set_password(self, service: str, username: str, password: str) -> None: ...

    def delete_password(self, service: str, username: str) -> None: ...


class KeyRing:
    """Secrets by name.

    backend   None for the one that the library finds, when it is first needed

    Raises `ConfigurationError` where the keyring refuses.
    """

    def __init__(self, backend: Backend | None = None) -> None:
        self._given = backend

    def lack(self) -> str:
        """Why there is none; empty if there is one."""
        found = self._find()
        return found if isinstance(found, str) else ""

    def get(self, name: str, service: str = "") -> Secret | None:
        try:
            found = self._backend().get_password(service or _service(), name)
        except ConfigurationError:
            raise
        except Exception as error:  # noqa: BLE001 - each backend raises errors of its own
            raise _refused("asked", error) from None
        return Secret(found) if found else None

    def set(self, name: str, secret: Secret) -> None:
        try:
            self._backend().set_password(_service(), name, secret.reveal())
        except ConfigurationError:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            raise _refused("written", error, secret) from None

    def delete(self, name: str) -> None:
        """One that is not there is no error."""
        try:
            if self._backend().get_password(_service(), name) is not None:
                self._backend().delete_password(_service(), name)
        except ConfigurationError:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            raise _refused("written", error) from None

    def _backend(self) -> Backend:
        found = self._find()
        if isinstance(found, str):
            raise ConfigurationError(f"the keyring cannot be asked: {found}")
        return found

    def _find(self) -> Backend | str:
        """The backend, or why there is none."""
        if self._given is not None:
            return self._given
        try:
            import keyring
            from keyring.backends import fail, null
        except ImportError:
            return f"keyring is not installed: pip install '{APP}[keyring]'"
        try:
            found = keyring.get_keyring()
        except Exception as error:  # noqa: BLE001 - whatever it finds is imported there
            return f"keyring finds none: {told(error)}"
        if isinstance(found, (fail.Keyring, null.Keyring)):
            return "this machine has none that keyring could use"
        return found


def _service() -> str:
    """What moves with the files of the host moves with its secrets."""
    home = os.environ.get("GENAI_HOST_HOME")
    return f"{APP} {os.path.abspath(home)}" if home else APP


def _refused(what: str, error: Exception, secret: Secret | None = None) -> ConfigurationError:
    """What a backend says may hold what it was given."""
    why = told(error)
    if secret is not None:
        why = why.replace(secret.reveal(), "***")
    return ConfigurationError(
        f"the keyring cannot be {what}: {why}", hint="is it unlocked? genai-host doctor"
    )
