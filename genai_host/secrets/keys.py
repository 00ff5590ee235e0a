"""Finds the secrets of provider instances. The first source with a value is used:

    GENAI_HOST_PROVIDERS__MY_NAME__API_KEY    the environment, for any instance
    api_key = { env = "MY_KEY" }              a reference in the configuration
    OPENAI_API_KEY                            the usual variable of the type, only for the instance
                                              with the name of its type, since another instance
                                              may be another service
    the keyring, or else the file             where `SecretStore.set` stored it

Errors contain no secret.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from genai_host.api import Secret
from genai_host.api.settings import Setting
from genai_host.config import must_be_writable
from genai_host.config.environment import variable_of
from genai_host.errors import ConfigurationError
from genai_host.secrets.backends import IN_KEYRING, KeyFile, KeyRing
from genai_host.util import paths
from genai_host.util.files import read_text

_FORMS = '{ env = "VARIABLE" }, { file = "/a/file" } or { keyring = "service/name" }'


@frozen
class FoundKey:
    """A secret, and a description of its location."""

    secret: Secret
    source: str


class SecretStore:
    """Finds and stores the secrets of provider instances. Errors contain no secret.

    Args:
        file: File for secrets if there is no keyring; None for the default.
        ring: Keyring; None for that of the system.
        environ: Environment; None for that of the process.

    Raises:
        ConfigurationError: The file or the keyring is invalid.
    """

    def __init__(
        self,
        file: str | None = None,
        ring: KeyRing | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._file = KeyFile(file or paths.keys_file())
        self._ring = ring or KeyRing()
        self._environ = environ

    @property
    def path(self) -> str:
        return self._file.path

    def keyring_unavailable_reason(self) -> str:
        """Why no keyring is used; empty if one is."""
        return self._ring.unavailable_reason()

    def find(
        self,
        instance: str,
        setting: Setting,
        *,
        kind: str = "",
        given: Any = None,
        table: str = "providers",
    ) -> FoundKey | None:
        """The secret of a provider or a set of tools; None if it is not set.

        Args:
            instance: Name of the provider.
            setting: The setting of the secret.
            kind: Name of the provider type.
            given: Reference in the configuration.
            table: Table of the configuration; only secrets of `providers` are stored.

        Raises:
            ConfigurationError: The configuration contains the secret itself, or a reference to
                nothing.
        """
        own = variable_of(table, instance, setting.name)
        if self._variable(own):
            return FoundKey(Secret(self._variable(own)), f"the environment variable {own}")
        if given is not None:
            is_kept = table == "providers"
            fix = f"genai-host keys set {instance} --secret {setting.name}" if is_kept else ""
            return self._referred(setting.name, given, fix)
        for variable in setting.env if instance == kind else ():
            if self._variable(variable):
                secret = Secret(self._variable(variable))
                return FoundKey(secret, f"the environment variable {variable}")
        return self._kept(instance, setting.name) if table == "providers" else None

    def set(self, instance: str, setting: str, secret: Secret) -> str:
        """Store a secret in the keyring, or else in the file; return a description of the
        location."""
        must_be_writable(environ=self._environ)
        with self._file.edit() as kept:
            has_ring = not self._ring.unavailable_reason()
            if has_ring:
                self._ring.set(_name(instance, setting), secret)
            settings = kept.setdefault(instance, {})
            settings[setting] = dict(IN_KEYRING) if has_ring else secret.reveal()
        return self._place(in_keyring=has_ring)

    def remove(self, instance: str, setting: str | None = None) -> list[str]:
        """Delete the stored secrets of an instance, or one of its settings; return the deleted
        settings."""
        must_be_writable(environ=self._environ)
        with self._file.edit() as kept:
            settings = kept.get(instance, {})
            removed = [name for name in settings if setting in (None, name)]
            for name in removed:
                if settings[name] == IN_KEYRING:
                    self._ring.delete(_name(instance, name))
                del settings[name]
        return removed

    def kept(self) -> dict[tuple[str, str], str]:
        """Stored secrets by instance and setting, with a description of the location."""
        return {
            (instance, setting): self._place(in_keyring=value == IN_KEYRING)
            for instance, settings in self._file.read().items()
            for setting, value in settings.items()
        }

    def _kept(self, instance: str, setting: str) -> FoundKey | None:
        value = self._file.read().get(instance, {}).get(setting)
        if value is None:
            return None
        if value != IN_KEYRING:
            return FoundKey(Secret(value), self._place(in_keyring=False))
        secret = self._ring.get(_name(instance, setting))
        if secret is None:
            raise ConfigurationError(
                f"the keyring no longer has {setting} of {instance}",
                hint=f"genai-host keys set {instance} --secret {setting}",
            )
        return FoundKey(secret, self._place(in_keyring=True))

    def _referred(self, setting: str, given: Any, fix: str) -> FoundKey:
        if not isinstance(given, Mapping):
            raise ConfigurationError(
                f"{setting} is a secret and must not be in the configuration",
                setting=setting,
                hint=f"remove it, then: {fix}" if fix else f"refer to it: {_FORMS}",
            )
        [(form, target), *more] = given.items() or [("", "")]
        if more or form not in ("env", "file", "keyring") or not isinstance(target, str):
            raise ConfigurationError(
                f"{setting} must refer to a secret", setting=setting, hint=f"refer to it: {_FORMS}"
            )
        try:
            secret, source = self._look_up(form, target)
        except ConfigurationError as error:
            raise ConfigurationError(f"{setting}: {error}", setting=setting) from None
        if secret is None or not secret.reveal():
            raise ConfigurationError(f"{setting}: nothing in {source}", setting=setting)
        return FoundKey(secret, f"{source}, as configured")

    def _look_up(self, form: str, target: str) -> tuple[Secret | None, str]:
        if form == "env":
            return Secret(self._variable(target)), f"the environment variable {target}"
        if form == "file":
            text = read_text(os.path.expanduser(target))
            return None if text is None else Secret(text.strip()), f"the file {target}"
        service, _, name = target.rpartition("/")
        return self._ring.get(name, service), f"the keyring, as {target}"

    def _variable(self, name: str) -> str:
        environ = os.environ if self._environ is None else self._environ
        return environ.get(name, "")

    def _place(self, *, in_keyring: bool) -> str:
        return "the keyring" if in_keyring else f"the file {self.path}"


def _name(instance: str, setting: str) -> str:
    return f"{instance}/{setting}"
