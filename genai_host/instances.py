"""The provider instances of a host: opened when first used, closed when removed."""

from __future__ import annotations

import copy
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import frozen

from genai_host import paths
from genai_host.api import Clock, Provider, ProviderType, Services
from genai_host.api.settings import read_settings
from genai_host.cancellation import Cancellation
from genai_host.config import InstanceConfig
from genai_host.errors import ConfigurationError, GenaiError, ProviderRemoved
from genai_host.names import PLAIN_NAME
from genai_host.observers import Observers


@frozen
class Unopened:
    """Why an instance has no provider to ask."""

    reason: str


class Instance:
    """One provider instance: a name, a type, settings, and the provider itself once
    it is needed."""

    def __init__(
        self,
        name: str,
        kind: ProviderType[Any],
        config: InstanceConfig,
        clock: Clock,
    ) -> None:
        self.name = name
        self.type = kind
        self.config = config
        self._clock = clock
        self._lock = threading.Lock()
        self._provider: Provider | None = None
        self._attempts: set[Cancellation] = set()
        self._gone: ProviderRemoved | None = None
        if not config.enabled:
            self._gone = ProviderRemoved(f"the provider {name!r} is disabled", provider=name)

    @property
    def provider(self) -> Provider:
        """The provider, opened now if it was not.

        Raises `ConfigurationError` if its settings are wrong, `ProviderRemoved` if
        the instance is gone, and `GenaiError` if its plugin fails to open it.
        """
        with self._lock:
            if self._gone is not None:
                raise copy.copy(self._gone)
            if self._provider is None:
                self._provider = self._open()
            return self._provider

    def look(self) -> Provider | Unopened:
        """The provider, or why there is none to ask."""
        try:
            return self.provider
        except GenaiError as error:
            return Unopened(f"{error}{'; ' + error.hint if error.hint else ''}")

    @contextmanager
    def attempt(self, above: Cancellation) -> Iterator[Cancellation]:
        """The limits of one call of this provider, which end with those above, and
        with the instance."""
        with Cancellation(above) as limits:
            with self._lock:
                if self._gone is not None:
                    raise copy.copy(self._gone)
                self._attempts.add(limits)
            try:
                yield limits
            finally:
                with self._lock:
                    self._attempts.discard(limits)

    def close(self, why: str = "closed") -> None:
        """End the calls under way and close the provider; what still uses it fails."""
        with self._lock:
            if self._gone is None:
                self._gone = ProviderRemoved(
                    f"the provider {self.name!r} was {why}", provider=self.name
                )
            provider, self._provider = self._provider, None
            attempts = list(self._attempts)
        for attempt in attempts:
            attempt.cancel(self._gone)
        if provider is not None:
            provider.close()

    def _open(self) -> Provider:
        owner = f"provider {self.name}"
        try:
            settings = read_settings(self.type.settings, self.config.settings, owner=owner)
            data_dir = Path(paths.data_dir(self.type.name))
            return self.type.open(settings, Services(self.name, self._clock, data_dir))
        except GenaiError as error:
            raise error.located(provider=self.name) from error
        except Exception as error:  # a plugin's fault must not end the host
            raise ConfigurationError(
                f"{owner} cannot be opened: {type(error).__name__}: {error}", provider=self.name
            ) from error


class Instances:
    """All instances by name: one for each provider type, named like it, and those
    that are configured under names of their own.

    Adding and removing tells the observers; `version` grows with it.
    """

    def __init__(
        self,
        types: Mapping[str, ProviderType[Any]],
        configured: Mapping[str, InstanceConfig],
        clock: Clock,
        observers: Observers,
    ) -> None:
        self._types = types
        self._clock = clock
        self._observers = observers
        self._lock = threading.Lock()
        self.version = 0
        self.unknown: dict[str, str] = {}
        named = {name: InstanceConfig(name) for name in types}
        named.update(configured)
        self._instances: dict[str, Instance] = {}
        for name, config in named.items():
            if config.type in types:
                self._instances[name] = Instance(name, types[config.type], config, clock)
            else:
                self.unknown[name] = f"no plugin brings the provider type {config.type!r}"

    def __iter__(self) -> Iterator[Instance]:
        return iter(list(self._instances.values()))

    def __contains__(self, name: object) -> bool:
        return name in self._instances

    def __getitem__(self, name: str) -> Instance:
        """Raises `ProviderRemoved` for a name that there is no instance of."""
        try:
            return self._instances[name]
        except KeyError:
            raise ProviderRemoved(
                f"the provider {name!r} was removed", provider=name, hint="choose another"
            ) from None

    def add(
        self,
        name: str,
        type: str,
        settings: Mapping[str, Any] | None = None,
        models: Mapping[str, str] | None = None,
    ) -> Instance:
        """Add a named instance while the host runs; the configuration file stays.

        name       unique; `[a-z0-9-]+`
        type       name of a provider type
        settings   of that type, by name
        models     model name to its id there

        Raises `ConfigurationError` for a name that is taken and for an unknown type.
        """
        if type not in self._types:
            raise ConfigurationError(
                f"no plugin brings the provider type {type!r}",
                hint=f"there are {', '.join(sorted(self._types))}",
            )
        if not re.fullmatch(PLAIN_NAME, name):
            raise ConfigurationError(f"{name!r} is no name for a provider: as my-{type}")
        config = InstanceConfig(type, True, models or {}, settings or {})
        instance = Instance(name, self._types[type], config, self._clock)
        with self._lock:
            if name in self._instances:
                raise ConfigurationError(f"there is a provider {name!r} already", provider=name)
            self._instances[name] = instance
            self.version += 1
        self._observers.tell("genai_on_change", kind="provider", name=name, added=True)
        return instance

    def remove(self, name: str) -> None:
        """Remove an instance: conversations that use it fail from now on."""
        self._take_out(name, "removed")

    def disable(self, name: str) -> None:
        """Close an instance and keep it listed as disabled, until `enable`."""
        instance = self._take_out(name, "disabled")
        config = instance.config._replace(enabled=False)
        self._put_back(Instance(name, instance.type, config, self._clock))

    def enable(self, name: str) -> None:
        """Take back a `disable`."""
        instance = self[name]
        if not instance.config.enabled:
            config = instance.config._replace(enabled=True)
            self._put_back(Instance(name, instance.type, config, self._clock))
            self._observers.tell("genai_on_change", kind="provider", name=name, added=True)

    def close(self) -> None:
        """Close all of them."""
        for instance in self:
            instance.close("closed with its host")

    def _take_out(self, name: str, why: str) -> Instance:
        with self._lock:
            instance = self[name]
            del self._instances[name]
            self.version += 1
        instance.close(why)
        self._observers.tell("genai_on_change", kind="provider", name=name, added=False)
        return instance

    def _put_back(self, instance: Instance) -> None:
        with self._lock:
            self._instances[instance.name] = instance
            self.version += 1
