"""Storage of secrets: a file of the user, or the system keyring.

The file is used if there is no keyring. It is JSON that only its owner can read:

    {"version": 1, "keys": {"my-service": {"api_key": "...", "token": {"in": "keyring"}}}}

The file also lists the secrets in the keyring, which cannot list them itself and is slow to query.
Errors and their causes never quote the file.

The keyring is used through the library `keyring`, if that is installed and finds one:
`pip install "genai-host[keyring]"`.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterator
from typing import Any, Final, Protocol

from genai_host.api import Secret
from genai_host.errors import ConfigurationError
from genai_host.util.files import alone, read_text, write_text, writing
from genai_host.util.names import APP
from genai_host.util.text import describe_exception

IN_KEYRING: Final = {"in": "keyring"}
_VERSION = 1
_OTHER_USERS = stat.S_IRWXG | stat.S_IRWXO

StoredKeys = dict[str, dict[str, Any]]
"""By instance and setting: the secret, or `IN_KEYRING`."""


class KeyFile:
    """A file with secrets.

    Raises:
        ConfigurationError: The file is damaged, has a newer version, or can be read by other users.
            It is not changed then.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def read(self) -> StoredKeys:
        text = read_text(self.path)
        if text is None:
            return {}
        self._check_private()
        return self._parsed(text)

    @contextlib.contextmanager
    def edit(self) -> Iterator[StoredKeys]:
        """Edit the content: one process at a time, and atomically."""
        path = os.path.realpath(self.path)  # preserve a symbolic link
        with alone(path):
            stored = self.read()
            yield stored
            filled = {name: settings for name, settings in stored.items() if settings}
            text = json.dumps({"version": _VERSION, "keys": filled}, indent=2)
            with writing(path):
                write_text(path, f"{text}\n")

    def _check_private(self) -> None:
        """Reject a file that other users can read, as OpenSSH does."""
        if os.name != "nt" and os.stat(self.path).st_mode & _OTHER_USERS:
            raise ConfigurationError(
                f"{self.path} has keys, and other users can read it",
                file=self.path,
                hint=f"chmod 600 {self.path}",
            )

    def _parsed(self, text: str) -> StoredKeys:
        try:
            data = json.loads(text)
            version, stored = data["version"], data["keys"]
        except (ValueError, LookupError, TypeError, RecursionError):
            raise self._damaged() from None  # the original error quotes the file
        if type(version) is int and version > _VERSION:
            raise ConfigurationError(
                f"{self.path} was written by a newer genai-host",
                file=self.path,
                hint="pip install --upgrade genai-host",
            )
        if version != _VERSION or not _are_stored_keys(stored):
            raise self._damaged()
        return dict(stored)

    def _damaged(self) -> ConfigurationError:
        return ConfigurationError(
            f"{self.path} is damaged; it was not changed",
            file=self.path,
            hint="correct it, or move it away and set the keys again",
        )


def _are_stored_keys(stored: Any) -> bool:
    return isinstance(stored, dict) and all(
        isinstance(settings, dict)
        and all(isinstance(each, str) or each == IN_KEYRING for each in settings.values())
        for settings in stored.values()
    )


class KeyringBackend(Protocol):
    """The part of a keyring backend that is used."""

    def get_password(self, service: str, username: str) -> str | None: ...

    def set_password(self, service: str, username: str, password: str) -> None: ...

    def delete_password(self, service: str, username: str) -> None: ...


class KeyRing:
    """Secrets by name in a keyring.

    Args:
        backend: Backend; None for the one that the library finds on first use.

    Raises:
        ConfigurationError: The keyring reports an error.
    """

    def __init__(self, backend: KeyringBackend | None = None) -> None:
        self._backend_given = backend

    def unavailable_reason(self) -> str:
        """Why there is no keyring; empty if there is one."""
        found = self._find()
        return found if isinstance(found, str) else ""

    def get(self, name: str, service: str = "") -> Secret | None:
        with _converted_errors("read from"):
            found = self._backend().get_password(service or _service(), name)
        return Secret(found) if found else None

    def set(self, name: str, secret: Secret) -> None:
        with _converted_errors("write to", secret):
            self._backend().set_password(_service(), name, secret.reveal())

    def delete(self, name: str) -> None:
        """Delete a secret, if it exists."""
        with _converted_errors("write to"):
            if self._backend().get_password(_service(), name) is not None:
                self._backend().delete_password(_service(), name)

    def _backend(self) -> KeyringBackend:
        found = self._find()
        if isinstance(found, str):
            raise ConfigurationError(f"cannot use the keyring: {found}")
        return found

    def _find(self) -> KeyringBackend | str:
        """The backend, or why there is none."""
        if self._backend_given is not None:
            return self._backend_given
        try:
            import keyring
            from keyring.backends import fail, null
        except ImportError:
            return f"keyring is not installed: pip install '{APP}[keyring]'"
        try:
            found = keyring.get_keyring()
        except Exception as error:  # noqa: BLE001 - it imports third-party backends
            return f"no usable keyring backend: {describe_exception(error)}"
        if isinstance(found, (fail.Keyring, null.Keyring)):
            return "no usable keyring backend on this machine"
        return found


def _service() -> str:
    """Service name of the secrets; depends on the data directory of the host."""
    home = os.environ.get("GENAI_HOST_HOME")
    return f"{APP} {os.path.abspath(home)}" if home else APP


@contextlib.contextmanager
def _converted_errors(what: str, secret: Secret | None = None) -> Iterator[None]:
    """Convert errors of a backend, without the secret that their messages may contain."""
    try:
        yield
    except ConfigurationError:
        raise
    except Exception as error:  # noqa: BLE001 - each backend has its own exceptions
        reason = describe_exception(error)
        if secret is not None:
            reason = reason.replace(secret.reveal(), "***")
        raise ConfigurationError(
            f"cannot {what} the keyring: {reason}", hint="unlock it, then run: genai-host doctor"
        ) from None
