"""The providers of a host: configured ones, and those added or removed since."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from genai_host.api import Clock, ProviderType
from genai_host.config import InstanceConfig
from genai_host.config.loading import place_of
from genai_host.errors import ConfigurationError, NoRoute, ProviderRemoved
from genai_host.plugins.observers import Observers
from genai_host.providers.instance import ProviderInstance
from genai_host.secrets.keys import SecretStore
from genai_host.util.names import PLAIN_NAME, PLAIN_NAME_RULE, plugin_line, unknown_name_hint
from genai_host.util.text import close_matches, did_you_mean

_CLOSED = "closed with its host"


class ProviderInstances:
    """All providers by name: one for each provider type, and those configured under other names.

    Adding and removing calls the observers and increments `version`. Providers are created on first
    use, because their types may be in plugins that are not loaded.
    """

    def __init__(
        self,
        types: Mapping[str, ProviderType[Any]],
        configured: Mapping[str, InstanceConfig],
        clock: Clock,
        observers: Observers,
        keys: SecretStore,
        file: str = "",
    ) -> None:
        self._types = types
        self._clock = clock
        self._observers = observers
        self._keys = keys
        self._file = file
        self._lock = threading.RLock()
        self._closed = False
        self.version = 0
        self.unknown: dict[str, str] = {}
        self._instances: dict[str, ProviderInstance | InstanceConfig] = {
            name: InstanceConfig(name) for name in types
        }
        self._removal_reasons: dict[str, str] = {}  # and why
        for name, config in configured.items():
            if config.type in types:  # which loads its plugin
                self._instances[name] = config
            else:
                self.unknown[name] = self._unknown_type_reason(name, config)
                self._instances.pop(name, None)

    def __iter__(self) -> Iterator[ProviderInstance]:
        return filter(None, map(self._instance, list(self._instances)))

    def __contains__(self, name: object) -> bool:
        return name in self._instances

    def of_types(self, types: Collection[str]) -> Iterator[ProviderInstance]:
        for name, each in list(self._instances.items()):
            type = each.type if isinstance(each, InstanceConfig) else each.type.name
            if type in types and (instance := self._instance(name)):
                yield instance

    def __getitem__(self, name: str) -> ProviderInstance:
        """Raises `ProviderRemoved` if the provider was removed, `NoRoute` if it is unknown."""
        instance = self._instance(name)
        if instance is not None:
            return instance
        reason = self._removal_reasons.get(name)
        if reason is None:
            raise self._unknown(name)
        raise ProviderRemoved(
            f"provider {name!r} was {reason}", provider=name, hint="choose another provider"
        )

    def _unknown(self, name: str) -> NoRoute:
        if name in self.unknown:
            return NoRoute(f"unknown provider {name!r}: {self.unknown[name]}")
        known = sorted(self._instances)
        return NoRoute(
            f"unknown provider {name!r}",
            suggestions=close_matches(name, known),
            hint=unknown_name_hint("vendor", name, known),
        )

    def add(
        self,
        name: str,
        type: str,
        settings: Mapping[str, Any] | None = None,
        models: Mapping[str, str] | None = None,
        limits: Mapping[str, Any] | None = None,
    ) -> ProviderInstance:
        """Add a provider to the running host; the configuration file is not changed.

        Args:
            name: Unique name; `[a-z0-9-]+`.
            type: Name of the provider type.
            settings: Settings by name.
            models: Model ids by model name.
            limits: Call limits by name; see `genai_host.providers.limits`.

        Raises:
            ConfigurationError: The name is taken or invalid, or the type is unknown.
        """
        if type not in self._types:
            raise ConfigurationError(
                f"unknown provider type {type!r}",
                hint=unknown_name_hint("vendor", type, sorted(self._types)),
            )
        if not re.fullmatch(PLAIN_NAME, name):
            raise ConfigurationError(f"invalid provider name {name!r}", hint=PLAIN_NAME_RULE)
        config = InstanceConfig(type, True, models or {}, settings or {}, limits or {})
        instance = self._new(name, config, is_in_file=False)
        with self._lock:
            if name in self._instances:
                raise ConfigurationError(f"provider {name!r} already exists", provider=name)
            self._instances[name] = instance
            self._removal_reasons.pop(name, None)
            self.version += 1
        self._observers.notify("genai_on_change", kind="provider", name=name, added=True)
        return instance

    def remove(self, name: str) -> None:
        """Remove a provider; calls of conversations that use it fail from now on."""
        self._remove(name, "removed")

    def disable(self, name: str) -> None:
        """Close a provider and list it as disabled."""
        instance = self._remove(name, "disabled")
        config = instance.config._replace(enabled=False)
        self._replace(self._new(name, config))

    def enable(self, name: str) -> None:
        instance = self[name]
        if not instance.config.enabled:
            config = instance.config._replace(enabled=True)
            self._replace(self._new(name, config))
            self._observers.notify("genai_on_change", kind="provider", name=name, added=True)

    def reopen(self, name: str) -> None:
        """Cancel the calls of a provider, and open it again on its next use, with the
        current keys."""
        instance = self[name]
        if instance.config.enabled:
            self._replace(self._new(name, instance.config))
            instance.close("opened anew")

    def configure(self, name: str, config: InstanceConfig | None) -> None:
        """Apply a changed configuration to a provider; None if it was removed from the file. Calls
        in progress are cancelled."""
        if config is None and name in self._types:
            config = InstanceConfig(name)
        if config is not None and config.type not in self._types:
            self.unknown[name] = self._unknown_type_reason(name, config)
            config = None
        before = self._instance(name)
        if config is not None:
            self._replace(self._new(name, config))
            self._observers.notify("genai_on_change", kind="provider", name=name, added=True)
            if before is not None:
                before.close("configured anew")
        elif before is not None:
            self.remove(name)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            instances = list(self._instances.values())
        for instance in instances:
            if isinstance(instance, ProviderInstance):
                instance.close(_CLOSED)

    def _instance(self, name: str) -> ProviderInstance | None:
        """A provider; None if it is unknown, or its plugin turns out to be broken."""
        found = self._instances.get(name)
        if not isinstance(found, InstanceConfig):
            return found
        with self._lock:
            found = self._instances.get(name)
            if isinstance(found, InstanceConfig):
                if found.type not in self._types:
                    del self._instances[name]
                    return None
                found = self._instances[name] = self._new(name, found)
                if self._closed:
                    found.close(_CLOSED)
            return found

    def _new(
        self, name: str, config: InstanceConfig, *, is_in_file: bool = True
    ) -> ProviderInstance:
        file = self._file if is_in_file else ""
        return ProviderInstance(
            name,
            self._types[config.type],
            config,
            self._clock,
            self._keys,
            self._observers.watchdog,
            file,
        )

    def _unknown_type_reason(self, name: str, config: InstanceConfig) -> str:
        reason = f"unknown provider type {config.type!r}"
        if self._file:
            reason = f"{place_of(self._file, 'providers', name, 'type')[0]}: {reason}"
        line = plugin_line("vendor", config.type)
        if line:
            return f"{reason}: {line}"
        near = did_you_mean(config.type, self._types)
        return f"{reason}; {near}" if near else reason

    def _remove(self, name: str, reason: str) -> ProviderInstance:
        with self._lock:
            instance = self[name]
            self._removal_reasons[name] = reason
            del self._instances[name]
            self.version += 1
        instance.close(reason)
        self._observers.notify("genai_on_change", kind="provider", name=name, added=False)
        return instance

    def _replace(self, instance: ProviderInstance) -> None:
        with self._lock:
            self._instances[instance.name] = instance
            self._removal_reasons.pop(instance.name, None)
            self.version += 1
