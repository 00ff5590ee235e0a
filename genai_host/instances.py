"""The provider instances of a host: opened when first used, closed when removed."""

from __future__ import annotations

import copy
import logging
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import frozen

from genai_host import paths
from genai_host.api import (
    Clock,
    Provider,
    ProviderType,
    Secret,
    Services,
)
from genai_host.api.settings import Setting, read_settings
from genai_host.bounds import Bounds
from genai_host.breaker import Breaker
from genai_host.cancellation import Cancellation
from genai_host.config import InstanceConfig
from genai_host.config.reading import place_of
from genai_host.errors import ConfigurationError, GenaiError, NoRoute, ProviderRemoved
from genai_host.gate import Gate
from genai_host.keys import FoundKey, Keys
from genai_host.late_http import LateHttp
from genai_host.names import PLAIN_NAME
from genai_host.observers import Observers
from genai_host.telling import nearest, told
from genai_host.watch import Watch

_log = logging.getLogger(__name__)


@frozen
class Unopened:
    """Why an instance has no provider to ask."""

    reason: str


@frozen
class Attempt:
    """One call of a provider: bounded, and counted, while it lasts."""

    provider: Provider
    limits: Cancellation
    watch: Watch


class Instance:
    """One provider instance: a name, a type, settings, and the provider itself once
    it is needed, with what bounds its calls."""

    def __init__(
        self,
        name: str,
        kind: ProviderType[Any],
        config: InstanceConfig,
        clock: Clock,
        keys: Keys,
        file: str = "",
    ) -> None:
        self.name = name
        self.type = kind
        self.config = config
        self._clock = clock
        self._keys = keys
        self._file = file
        self._lock = threading.Lock()
        self._opened: _Opened | None = None
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
        return self._open().provider

    def look(self) -> Provider | Unopened:
        """The provider, or why there is none to ask."""
        try:
            return self.provider
        except GenaiError as error:
            return Unopened(f"{error}{'; ' + error.hint if error.hint else ''}")

    def find_key(self, setting: Setting) -> FoundKey | None:
        """One of its secrets, and where it is; None if there is none.

        Raises `ConfigurationError` if what says so is not in order.
        """
        given = self.config.settings.get(setting.name)
        try:
            return self._keys.find(self.name, setting, kind=self.type.name, given=given)
        except ConfigurationError as error:
            raise self._placed(error, setting.name) from None

    @contextmanager
    def attempt(self, above: Cancellation) -> Iterator[Attempt]:
        """One call of this provider: it ends with what is above, with the instance, and
        at the instance's deadlines.

        Raises `RateLimited` if too many wait, `CircuitOpen` if the service failed too
        often, and what `provider` raises.
        """
        with Cancellation(above) as limits:
            opened = self._open()
            with self._lock:
                if self._gone is not None:
                    raise copy.copy(self._gone)
                self._attempts.add(limits)
            try:
                with (
                    opened.gate.passed(limits),
                    opened.breaker.attempt(),
                    Watch(limits, opened.bounds, self._clock) as watch,
                ):
                    yield Attempt(opened.provider, limits, watch)
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
            opened, self._opened = self._opened, None
            attempts = list(self._attempts)
        for attempt in attempts:
            attempt.cancel(self._gone)
        if opened is not None:
            try:
                opened.provider.close()
            except Exception:  # noqa: BLE001 - a plugin's fault must not keep others open
                _log.warning("the provider %s failed to close", self.name, exc_info=True)
            opened.http.close()

    def _open(self) -> _Opened:
        with self._lock:
            if self._gone is not None:
                raise copy.copy(self._gone)
            if self._opened is None:
                self._opened = self._make()
            return self._opened

    def _make(self) -> _Opened:
        try:
            settings = self.read_settings()
            http = LateHttp()
            data_dir = Path(paths.data_dir(self.type.name))
            services = Services(self.name, self._clock, data_dir, http, self.type.name)
            provider = self.type.open(settings, services)
            bounds = http.bounds = self.read_bounds(provider.bounds)
            return _Opened(
                provider,
                bounds,
                http,
                Gate(bounds.at_once, bounds.line),
                Breaker(self._clock, failures=bounds.failures, seconds=bounds.pause),
            )
        except GenaiError as error:
            raise error.located(provider=self.name) from error
        except (Exception, SystemExit) as error:  # a plugin's fault must not end the host
            raise ConfigurationError(
                f"{self._owner} cannot be opened: {told(error)}", provider=self.name
            ) from error

    def read_settings(self) -> Any:
        """Its settings, as its type has them. Raises `ConfigurationError`."""
        overrides = self.config.overrides
        try:
            return read_settings(
                self.type.settings,
                self.config.settings,
                owner=self._owner,
                overrides={name: overrides[name] for name in overrides if "." not in name},
                secrets=self._secret,
            )
        except ConfigurationError as error:
            raise self._placed(error, error.setting) from error.__cause__

    def read_bounds(self, usual: Mapping[str, float]) -> Bounds:
        """What bounds its calls; `usual` where nothing is configured. Raises
        `ConfigurationError`."""
        overrides = self.config.overrides
        try:
            return read_settings(
                Bounds,
                {**usual, **self.config.calls},
                owner=f"{self._owner}: calls",
                overrides={
                    name.removeprefix("calls."): overrides[name]
                    for name in overrides
                    if name.startswith("calls.")
                },
            )
        except ConfigurationError as error:
            raise self._placed(error, "calls", error.setting) from error.__cause__

    def _secret(self, setting: Setting, given: Any) -> Secret | None:
        found = self.find_key(setting)
        return found.secret if found else None

    @property
    def _owner(self) -> str:
        return f"provider {self.name}"

    def _placed(self, error: ConfigurationError, *key: str) -> ConfigurationError:
        """The same with the provider's name, and its place in the file if it has one."""
        message = str(error)
        if self._owner not in message:
            message = f"{self._owner}: {message}"
        if self._file and not error.file and all(key) and self._is_configured(*key):
            place, error.line = place_of(self._file, "providers", self.name, *key)
            error.file = self._file
            message = f"{place}: {message}"
        error.args = (message,)
        return error

    def _is_configured(self, name: str, call: str = "") -> bool:
        return call in self.config.calls if call else name in self.config.settings


@frozen
class _Opened:
    """What an instance has once it is needed."""

    provider: Provider
    bounds: Bounds
    http: LateHttp
    gate: Gate
    breaker: Breaker


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
        keys: Keys,
        file: str = "",
    ) -> None:
        self._types = types
        self._clock = clock
        self._observers = observers
        self._keys = keys
        self._file = file
        self._lock = threading.Lock()
        self.version = 0
        self.unknown: dict[str, str] = {}
        named = {name: InstanceConfig(name) for name in types}
        named.update(configured)
        self._instances: dict[str, Instance] = {}
        self._gone: dict[str, str] = {}  # and how it went
        for name, config in named.items():
            if config.type in types:
                self._instances[name] = self._new(name, config)
            else:
                self.unknown[name] = self._why_unknown(name, config)

    def __iter__(self) -> Iterator[Instance]:
        return iter(list(self._instances.values()))

    def __contains__(self, name: object) -> bool:
        return name in self._instances

    def __getitem__(self, name: str) -> Instance:
        """Raises `ProviderRemoved` if there is one no more, `NoRoute` if there never was."""
        instance = self._instances.get(name)
        if instance is not None:
            return instance
        why = self._gone.get(name)
        if why is None:
            raise self._unknown(name)
        raise ProviderRemoved(
            f"the provider {name!r} was {why}", provider=name, hint="choose another"
        )

    def _unknown(self, name: str) -> NoRoute:
        if name in self.unknown:
            return NoRoute(f"there is no provider {name!r}: {self.unknown[name]}")
        known = sorted(self._instances)
        near = nearest(name, known)
        there_are = f"there are: {', '.join(known) or 'none'}"
        return NoRoute(
            f"there is no provider {name!r}",
            suggestions=near,
            hint=f"did you mean {near[0]}?" if near else there_are,
        )

    def add(
        self,
        name: str,
        type: str,
        settings: Mapping[str, Any] | None = None,
        models: Mapping[str, str] | None = None,
        calls: Mapping[str, Any] | None = None,
    ) -> Instance:
        """Add a named instance while the host runs; the configuration file stays.

        name       unique; `[a-z0-9-]+`
        type       name of a provider type
        settings   of that type, by name
        models     model name to its id there
        calls      what bounds its calls, by name; see `genai_host.bounds`

        Raises `ConfigurationError` for a name that is taken and for an unknown type.
        """
        if type not in self._types:
            raise ConfigurationError(
                f"no plugin brings the provider type {type!r}",
                hint=f"there are {', '.join(sorted(self._types))}",
            )
        if not re.fullmatch(PLAIN_NAME, name):
            raise ConfigurationError(f"{name!r} is no name for a provider: as my-{type}")
        config = InstanceConfig(type, True, models or {}, settings or {}, calls or {})
        instance = self._new(name, config, is_in_file=False)
        with self._lock:
            if name in self._instances:
                raise ConfigurationError(f"there is a provider {name!r} already", provider=name)
            self._instances[name] = instance
            self._gone.pop(name, None)
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
        self._put_back(self._new(name, config))

    def enable(self, name: str) -> None:
        """Take back a `disable`."""
        instance = self[name]
        if not instance.config.enabled:
            config = instance.config._replace(enabled=True)
            self._put_back(self._new(name, config))
            self._observers.tell("genai_on_change", kind="provider", name=name, added=True)

    def reopen(self, name: str) -> None:
        """Open an instance anew when it is next needed, with the keys that there are then;
        the calls under way are ended."""
        instance = self[name]
        if instance.config.enabled:
            self._put_back(self._new(name, instance.config))
            instance.close("opened anew")

    def close(self) -> None:
        """Close all of them."""
        for instance in self:
            instance.close("closed with its host")

    def _new(self, name: str, config: InstanceConfig, *, is_in_file: bool = True) -> Instance:
        file = self._file if is_in_file else ""
        return Instance(name, self._types[config.type], config, self._clock, self._keys, file)

    def _why_unknown(self, name: str, config: InstanceConfig) -> str:
        import difflib

        why = f"no plugin brings the provider type {config.type!r}"
        near = difflib.get_close_matches(config.type, self._types, 1)
        if self._file:
            why = f"{place_of(self._file, 'providers', name, 'type')[0]}: {why}"
        return f"{why}; did you mean {near[0]}?" if near else why

    def _take_out(self, name: str, why: str) -> Instance:
        with self._lock:
            instance = self[name]
            self._gone[name] = why
            del self._instances[name]
            self.version += 1
        instance.close(why)
        self._observers.tell("genai_on_change", kind="provider", name=name, added=False)
        return instance

    def _put_back(self, instance: Instance) -> None:
        with self._lock:
            self._instances[instance.name] = instance
            self._gone.pop(instance.name, None)
            self.version += 1
