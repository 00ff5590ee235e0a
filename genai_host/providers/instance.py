"""A configured provider: opened once, called within its limits.

Its HTTP transport is created with the first request, since its dependencies are slow to import and
many providers do not use it.
"""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import frozen

from genai_host.api import (
    CancelToken,
    Clock,
    HttpRequest,
    HttpTransport,
    Preparation,
    Provider,
    ProviderReply,
    ProviderType,
    ReplyStream,
    Secret,
    Services,
    StreamParser,
)
from genai_host.api.cancellation import Cancellation
from genai_host.api.http_provider import MIN_KEY_LENGTH
from genai_host.api.json_text import write_json
from genai_host.api.settings import Setting, describe, read_settings
from genai_host.config import InstanceConfig
from genai_host.config.loading import placed
from genai_host.errors import ConfigurationError, GenaiError, ProviderRemoved
from genai_host.plugins.watchdog import Watchdog, Watched
from genai_host.providers.limits import (
    CallLimits,
    CircuitBreakers,
    ConcurrencyLimiter,
    DeadlineTimer,
)
from genai_host.secrets.keys import FoundKey, SecretStore
from genai_host.util import paths
from genai_host.util.forking import renew_after_fork
from genai_host.util.text import describe_exception


class LazyTransport:
    """`Services.http` of a provider; set `call_limits` before the first request."""

    def __init__(self) -> None:
        self.call_limits = CallLimits()
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Begin without connections."""
        self._lock = threading.Lock()
        self._transport: Any = None

    def send(self, request: HttpRequest, limits: CancelToken) -> ProviderReply:
        reply: ProviderReply = self._made().send(request, limits)
        return reply

    def stream(
        self,
        request: HttpRequest,
        limits: CancelToken,
        framings: Mapping[str, StreamParser] | None = None,
    ) -> ReplyStream | ProviderReply:
        reply: ReplyStream | ProviderReply = self._made().stream(request, limits, framings)
        return reply

    def close(self) -> None:
        with self._lock:
            if self._transport is not None:
                self._transport.close()

    def _made(self) -> HttpTransport:
        if self._transport is None:
            from genai_host.http.transport import Transport

            limits = self.call_limits
            with self._lock:
                if self._transport is None:
                    self._transport = Transport(
                        connect_timeout=limits.connect_timeout,
                        timeout=limits.timeout,
                        proxy=limits.proxy,
                        ca_file=limits.ca_file,
                    )
        made: HttpTransport = self._transport
        return made


_log = logging.getLogger(__name__)


@frozen
class ProviderUnavailable:
    """Why a provider cannot be opened."""

    reason: str


@frozen
class ProviderCall:
    """A call of a provider in progress.

    Attributes:
        watch: Deadlines of the call.
        without_keys: Redacts keys in texts of the service.
        received: Collects the raw reply, if it is stored; else None.
    """

    provider: Provider
    limits: Cancellation
    watch: DeadlineTimer
    without_keys: Callable[[str], str]
    type_name: str
    received: list[bytes] | None = None

    def collect(self, data: bytes) -> None:
        if self.received is not None:
            self.received.append(data)


class ProviderInstance:
    """A configured provider: name, type, settings and limits; opened on first use."""

    def __init__(
        self,
        name: str,
        kind: ProviderType[Any],
        config: InstanceConfig,
        clock: Clock,
        keys: SecretStore,
        watchdog: Watchdog,
        file: str = "",
    ) -> None:
        self.name = name
        self.type = kind
        self.config = config
        self._clock = clock
        self._keys = keys
        self._watchdog = watchdog
        self._file = file
        self._lock = threading.Lock()
        self._opening = threading.Lock()  # held while the plugin opens it, which may hang
        self._opened: _Opened | None = None
        self._attempts: set[Cancellation] = set()
        self._removed_error: ProviderRemoved | None = None
        self._revealed: set[str] = set()
        if not config.enabled:
            self._removed_error = ProviderRemoved(f"provider {name!r} is disabled", provider=name)

    @property
    def provider(self) -> Provider:
        """The provider, opened on first use.

        Raises:
            ConfigurationError: A setting is invalid.
            ProviderRemoved: The provider was removed or closed.
            GenaiError: Its plugin cannot open it.
        """
        return self._open().provider

    @property
    def is_configured(self) -> bool:
        """Whether the user configured it. A provider exists for each type anyway, and disabling it
        or limiting its calls does not count."""
        config = self.config
        return bool(
            self.name != self.type.name or config.settings or config.models or config.overrides
        )

    @property
    def takes_key(self) -> bool:
        return any(setting.secret for setting in describe(self.type.settings))

    def look(self) -> Provider | ProviderUnavailable:
        """The provider, or why it cannot be opened."""
        try:
            return self.provider
        except GenaiError as error:
            return ProviderUnavailable(f"{error}{'; ' + error.hint if error.hint else ''}")

    def watching(self, method: str) -> Watched:
        """Watch a method of the provider, which must return soon."""
        return self._watchdog.watch("provider", self.type.name, method)

    def preparation(self, model_id: str = "") -> Preparation | None:
        """The step that makes a model available (`Provider.preparation`); None if there is none or
        its plugin fails."""
        provider = self.look()
        if isinstance(provider, ProviderUnavailable):
            return None
        try:
            with self.watching("preparation"):
                found = provider.preparation(model_id)
        except Exception:  # noqa: BLE001 - affects only that provider
            _log.warning("preparation() of provider %s failed", self.name, exc_info=True)
            return None
        return found if isinstance(found, Preparation) else None

    def find_key(self, setting: Setting) -> FoundKey | None:
        """A secret of the provider, with its source; None if it is not set. Raises
        `ConfigurationError` if the reference to the secret is invalid."""
        given = self.config.settings.get(setting.name)
        try:
            return self._keys.find(self.name, setting, kind=self.type.name, given=given)
        except ConfigurationError as error:
            raise self._with_location(error, setting.name) from None

    @contextmanager
    def attempt(self, above: Cancellation, model_id: str = "") -> Iterator[ProviderCall]:
        """Context of one call, of a model unless its id is empty. It ends with the caller's
        cancellation, with the provider, and at the deadlines. Raises `RateLimited` if the queue is
        full, `CircuitOpen` after repeated failures, and the error of a provider that cannot be
        opened."""
        with Cancellation(above) as limits:
            opened = self._open()
            self._attempts.add(limits)  # before it is seen that the provider is closed
            try:
                if self._removed_error is not None:
                    raise copy.copy(self._removed_error)
                with (
                    opened.gate.passed(limits),
                    opened.breakers.attempt(model_id),
                    DeadlineTimer(limits, opened.call_limits, self._clock) as watch,
                ):
                    yield ProviderCall(
                        opened.provider, limits, watch, self._without_keys, self.type.name
                    )
            finally:
                self._attempts.discard(limits)

    def close(self, reason: str = "closed") -> None:
        """Cancel the calls in progress and close the provider; later calls fail."""
        with self._lock:
            if self._removed_error is None:
                self._removed_error = ProviderRemoved(
                    f"provider {self.name!r} was {reason}", provider=self.name
                )
            opened, self._opened = self._opened, None
            attempts = list(self._attempts)
        for attempt in attempts:
            attempt.cancel(self._removed_error)
        if opened is not None:
            self._close(opened)

    def _close(self, opened: _Opened) -> None:
        try:
            if type(opened.provider).close is not Provider.close:
                close = opened.provider.close
                self._watchdog.run("provider", self.type.name, "close", close)
        except Exception:  # noqa: BLE001 - the others must be closed, too
            _log.warning("close() of provider %s failed", self.name, exc_info=True)
        opened.http.close()

    def _open(self) -> _Opened:
        opened = self._current()
        if opened is not None:
            return opened
        with self._opening:
            opened = self._current()
            if opened is not None:
                return opened
            opened = self._make()
            with self._lock:
                removed_error = self._removed_error
                if removed_error is None:
                    self._opened = opened
                    return opened
        self._close(opened)
        raise copy.copy(removed_error)

    def _current(self) -> _Opened | None:
        """The provider, if it is open. Raises `ProviderRemoved` if it was closed."""
        with self._lock:
            if self._removed_error is not None:
                raise copy.copy(self._removed_error)
            return self._opened

    def _make(self) -> _Opened:
        try:
            settings = self.read_settings()
            http = LazyTransport()
            data_dir = Path(paths.data_dir(self.type.name))
            services = Services(self.name, self._clock, data_dir, http, self.type.name)
            with self.watching("open"):
                provider = self.type.open(settings, services)
            limits = http.call_limits = self.read_limits(provider.call_limits)
            return _Opened(
                provider,
                limits,
                http,
                ConcurrencyLimiter(limits.max_concurrency, limits.queue_size),
                CircuitBreakers(
                    self._clock, failures=limits.breaker_threshold, seconds=limits.breaker_reset
                ),
            )
        except GenaiError as error:
            raise error.located(provider=self.name) from error
        except (Exception, SystemExit) as error:  # a faulty plugin must not end the host
            raise ConfigurationError(
                f"cannot open {self._owner}: {describe_exception(error)}", provider=self.name
            ) from error

    def read_settings(self) -> Any:
        """Its settings, as an object. Raises `ConfigurationError`."""
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
            raise self._with_location(error, error.setting) from error.__cause__

    def read_limits(self, defaults: Mapping[str, float]) -> CallLimits:
        """Its call limits; `defaults` has defaults. Raises `ConfigurationError`."""
        overrides = self.config.overrides
        try:
            return read_settings(
                CallLimits,
                {**defaults, **self.config.limits},
                owner=f"{self._owner}: limits",
                overrides={
                    name.removeprefix("limits."): overrides[name]
                    for name in overrides
                    if name.startswith("limits.")
                },
            )
        except ConfigurationError as error:
            raise self._with_location(error, "limits", error.setting) from error.__cause__

    def _secret(self, setting: Setting, given: Any) -> Secret | None:
        found = self.find_key(setting)
        if found is None or found.secret is None:
            return None
        key = found.secret.reveal().strip()
        if len(key) >= MIN_KEY_LENGTH:
            self._revealed.add(key)
        return found.secret

    def _without_keys(self, text: str) -> str:
        """Redact keys in a text of the service. Placeholders such as `x` are not keys."""
        for key in sorted(self._revealed, key=len, reverse=True):
            for written in (key, write_json(key).decode()[1:-1]):
                text = text.replace(written, "***")
        return text

    @property
    def _owner(self) -> str:
        return f"provider {self.name}"

    def _with_location(self, error: ConfigurationError, *key: str) -> ConfigurationError:
        """Add the provider's name to an error, and its place in the configuration file."""
        if self._owner not in str(error):
            error.args = (f"{self._owner}: {error}",)
        given = self.config.settings if len(key) == 1 else self.config.limits
        if all(key) and key[-1] in given:
            placed(error, self._file, "providers", self.name, *key)
        return error


@frozen
class _Opened:
    """State of an opened provider."""

    provider: Provider
    call_limits: CallLimits
    http: LazyTransport
    gate: ConcurrencyLimiter
    breakers: CircuitBreakers
