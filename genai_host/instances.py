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
    Framing,
    Http,
    HttpRequest,
    Limits,
    Provider,
    ProviderReply,
    ProviderType,
    ReplyStream,
    Services,
)
from genai_host.api.settings import read_settings
from genai_host.bounds import Bounds
from genai_host.breaker import Breaker
from genai_host.cancellation import Cancellation
from genai_host.config import InstanceConfig
from genai_host.errors import ConfigurationError, GenaiError, NoRoute, ProviderRemoved
from genai_host.gate import Gate
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
    ) -> None:
        self.name = name
        self.type = kind
        self.config = config
        self._clock = clock
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
        owner = f"provider {self.name}"
        try:
            settings = read_settings(self.type.settings, self.config.settings, owner=owner)
            http = _Http()
            data_dir = Path(paths.data_dir(self.type.name))
            provider = self.type.open(settings, Services(self.name, self._clock, data_dir, http))
            given = {**provider.bounds, **self.config.calls}
            bounds = http.bounds = read_settings(Bounds, given, owner=f"{owner}: calls")
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
                f"{owner} cannot be opened: {told(error)}", provider=self.name
            ) from error


@frozen
class _Opened:
    """What an instance has once it is needed."""

    provider: Provider
    bounds: Bounds
    http: _Http
    gate: Gate
    breaker: Breaker


class _Http:
    """The transport of one instance, made with its first request: what it is built on
    takes long to import, and many providers need none."""

    def __init__(self) -> None:
        self.bounds = Bounds()
        self._lock = threading.Lock()
        self._transport: Any = None

    def send(self, request: HttpRequest, limits: Limits) -> ProviderReply:
        reply: ProviderReply = self._made().send(request, limits)
        return reply

    def stream(
        self,
        request: HttpRequest,
        limits: Limits,
        framings: Mapping[str, Framing] | None = None,
    ) -> ReplyStream | ProviderReply:
        reply: ReplyStream | ProviderReply = self._made().stream(request, limits, framings)
        return reply

    def close(self) -> None:
        with self._lock:
            if self._transport is not None:
                self._transport.close()

    def _made(self) -> Http:
        if self._transport is None:
            from genai_host.http.transport import Transport

            bounds = self.bounds
            with self._lock:
                if self._transport is None:
                    self._transport = Transport(
                        connect=bounds.connect,
                        total=bounds.total,
                        proxy=bounds.proxy,
                        ca_file=bounds.ca_file,
                    )
        made: Http = self._transport
        return made


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
        self._gone: dict[str, str] = {}  # and how it went
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
        instance = Instance(name, self._types[type], config, self._clock)
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
