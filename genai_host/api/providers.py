"""Providers, which send requests; HTTP and expiring tokens.

A provider sends requests to the service that runs a model. Over HTTP it uses the transport of the
host, `Services.http`. Retries, limits and cancellation are up to the host.
"""

from __future__ import annotations

import copy
import datetime
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from attrs import field, frozen

from genai_host.api.calls import CancelHandle, CancelToken, Operation
from genai_host.api.dialects import DialectEndpoint
from genai_host.api.provider_requests import (
    HttpRequest,
    ProviderReply,
    ProviderRequest,
    ReplyStream,
    StreamEvent,
)
from genai_host.api.settings import SETTINGS, Secret
from genai_host.api.validators import BOOLEAN, CALLABLE, TEXT, string_set_or_none, strings_or_none
from genai_host.errors import GenaiError

StreamParser = Callable[[Iterable[bytes]], Iterator[StreamEvent]]
"""Parses the blocks of bytes of a streamed reply into events."""


class HttpTransport(Protocol):
    """The HTTP transport of the host, in `Services.http`.

    Each call is one attempt. Redirects are not followed, and keys come only from the headers of the
    request. A reply of status 400 or more is returned, not raised.
    """

    def send(self, request: HttpRequest, limits: CancelToken) -> ProviderReply:
        """Send a request and wait for the complete reply.

        Raises:
            ServiceUnavailable: The service cannot be reached.
            IncompleteReply: The connection closed before the end of the reply.
            MalformedReply: The reply is too large or not valid HTTP.
            GenaiError: The error of `limits`.
        """

    def stream(
        self,
        request: HttpRequest,
        limits: CancelToken,
        framings: Mapping[str, StreamParser] | None = None,
    ) -> ReplyStream | ProviderReply:
        """Send a request for a stream of server-sent events or JSON lines.

        Args:
            request: The request.
            limits: Cancels the attempt.
            framings: Parsers for further content types, by type.

        Returns:
            The stream, or the complete reply if it is not a stream.

        Raises:
            ServiceUnavailable: The service cannot be reached.
            MalformedReply: The reply is not valid HTTP.
            GenaiError: The error of `limits`.
        """


S = TypeVar("S")

FREE = "free"
"""Value of `Provider.price_provider` if calls are free."""


@frozen
class ListedModel:
    """A model from the model list of a service.

    Attributes:
        id: Id of the model.
        dialects: Dialects it supports; None if the service does not report them.
        capabilities: Capabilities; None if the service does not report them.
        window: Context window in tokens; None if the service does not report it.
    """

    id: str = field(validator=TEXT)
    dialects: tuple[str, ...] | None = field(default=None, converter=strings_or_none)
    capabilities: frozenset[str] | None = field(default=None, converter=string_set_or_none)
    window: int | None = None


@frozen
class PreparationProgress:
    """Progress of a preparation.

    Attributes:
        text: Current activity, in one line.
        done: Bytes completed; None if unknown.
        total: Bytes in total; None if unknown.
    """

    text: str = field(validator=TEXT)
    done: int | None = None
    total: int | None = None


@frozen
class Preparation:
    """A step that makes a model available, for example a download of weights.

    Attributes:
        label: What it does and its size, in one line, for a button or a question, for example
            `Download the weights of smollm2-135m (98 MB)`.
        run: Runs the step and reports progress from the same thread. A second run does not repeat
            completed work. Raises the error of `limits`, or another `GenaiError` if it fails.
    """

    label: str = field(validator=TEXT)
    run: Callable[[Callable[[PreparationProgress], None], CancelToken], None] = field(
        validator=CALLABLE
    )


class Provider(ABC):
    """A configured connection to a service, or to a model in this process.

    Creating one needs no key, no network and no large import; these come with the first request.
    `send` and `stream` make one attempt each and must be thread-safe: the host does retries, limits
    and cancellation. A reply of status 400 or more is returned, and the host turns it into an
    error.

    Attributes:
        serves: Supported dialects by name, with their endpoints; the first is preferred.
        default_models: Default model of an operation.
        call_limits: Limits of a call that differ from the defaults, for example
            `{"first_token_timeout": 600}`; the user's configuration overrides them.
        window: Context window in tokens, if it is smaller than the model's.
        extra_body: Default fields of the request body, overridden by the parameter `extra_body`;
            None if the service has no further fields.
    """

    serves: Mapping[str, DialectEndpoint]
    default_models: Mapping[Operation, str] = {}
    call_limits: Mapping[str, float] = {}
    window: int | None = None
    extra_body: Mapping[str, Any] | None = None

    def unavailable_reason(self) -> str | None:
        """Why the provider is not ready, for example `Services.no_key`; None if it is ready.

        It may read files and the environment, and does no other I/O.
        """
        return None

    def unavailable_models(self) -> Mapping[str, str]:
        """Ids of offered models that are not available, with the reason, for example
        `the weights are missing: run ...`.

        It may read files, and does no other I/O.
        """
        return {}

    def probe(self, limits: CancelToken) -> Mapping[str, str]:
        """Check, at no cost to the user, whether the provider can answer now.

        For example, whether the service accepts the key, or whether a library can be loaded. The
        host calls it when it lists models, not before calls: at most once every few seconds, with a
        timeout of a few seconds. By default nothing is checked.

        Returns:
            The ids of models that cannot run, each with the reason, as in `unavailable_models`.

        Raises:
            ServiceUnavailable: The service cannot be reached.
            GenaiError: Another condition is not met, for example the key is invalid.
        """
        return {}

    def preparation(self, model_id: str = "") -> Preparation | None:
        """The step that makes a model available, if this provider can perform it.

        It may read files, and does no other I/O.

        Args:
            model_id: Id of the model at this provider; empty for its default model.

        Returns:
            The step; None if there is none or if nothing is missing.
        """
        return None

    def provider_model_id(self, model_id: str) -> str:
        """The model id to send, given the id of the offering."""
        return model_id

    def price_provider(self, model_id: str) -> str:
        """Whose list prices apply to a model.

        Returns:
            A provider id of the package genai-prices, for example `openai`, or the address of a
                service; `FREE` if calls are free; empty if unknown.
        """
        return ""

    @abstractmethod
    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        """Send a request and wait for the complete reply.

        Raises:
            ServiceUnavailable: The service cannot be reached.
            GenaiError: Another failure, or the error of `limits`.
        """

    @abstractmethod
    def stream(self, request: ProviderRequest, limits: CancelToken) -> ReplyStream | ProviderReply:
        """Send a request for a streamed reply.

        Args:
            request: The request.
            limits: Cancels the attempt.

        Returns:
            The stream, or the complete reply if the service does not stream, for example an error.

        Raises:
            ServiceUnavailable: The service cannot be reached.
            GenaiError: Another failure, or the error of `limits`.
        """

    def list_models(self, limits: CancelToken) -> Iterable[ListedModel]:
        """The models that the service lists."""
        return ()

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        """The error of a reply of status 400 or more; None leaves it to dialect and status."""
        return None

    def close(self) -> None:
        """Release all resources. The host cancels calls in progress before."""


class Clock(Protocol):
    """Source of time, which tests can replace."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment; never decreases."""

    def now(self) -> datetime.datetime:
        """The current time, with the local UTC offset."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> CancelHandle:
        """Call a function once, from another thread.

        Args:
            seconds: Delay.
            callback: The function; it must not block or raise.

        Returns:
            A handle that cancels the call.
        """


@frozen
class Services:
    """Services of the host for a provider.

    Attributes:
        instance: Name of the provider.
        clock: Use it instead of `time`.
        data_dir: Directory for large files, such as weights; it may not exist yet.
        http: HTTP transport.
        type: Name of the provider type. Only the provider of that name reads the usual environment
            variable of the key.
    """

    instance: str
    clock: Clock
    data_dir: Path
    http: HttpTransport
    type: str = ""

    def no_key(self, variable: str) -> str:
        """Reason for `Provider.unavailable_reason` when the key is missing.

        Args:
            variable: Environment variable with the key of this type.
        """
        if self.type in ("", self.instance):
            return f"no key: set {variable}"
        return f"no key: genai-host keys set {self.instance}"


@frozen
class ProviderType(Generic[S]):
    """A declaration of a provider type.

    Attributes:
        name: Unique among all plugins; `[a-z0-9-]+`.
        settings: Attrs class of its settings; see `genai_host.api.settings`.
        open: Creates a provider; does no I/O.
        automatic: Whether the host may choose it if the user names neither a model nor a provider;
            False for a mock, for example.
    """

    name: str = field(validator=TEXT)
    settings: type[S] = field(validator=SETTINGS)
    open: Callable[[S, Services], Provider] = field(validator=CALLABLE)
    automatic: bool = field(default=True, validator=BOOLEAN)


@frozen
class AccessToken:
    """An access token.

    Attributes:
        value: The token.
        seconds: Validity from now on; None if unknown: it is used until the service refuses it.
    """

    value: Secret = field(repr=False)
    seconds: float | None = None


class CachedToken:
    """Cache of an access token, which is renewed shortly before it expires.

    Concurrent calls share one renewal. A `HttpProvider` sends the token and renews it once if the
    service refuses it.

        self._token = CachedToken(self._get_token, services.clock)
        ...
        headers = key_header("Authorization: Bearer {key}", self._token.get(limits))

    Args:
        source: Gets a token, under the limits of the call that needs it first; other calls wait.
        clock: `Services.clock`.
        early: Seconds before expiry at which the token is renewed, at most half of its validity.
    """

    def __init__(
        self, source: Callable[[CancelToken], AccessToken], clock: Clock, *, early: float = 60.0
    ) -> None:
        self._source = source
        self._clock = clock
        self._early = early
        self._changed = threading.Condition()
        self._held: Secret | None = None
        self._renew_at: float | None = None
        self._busy = False
        self._failure: tuple[int, GenaiError] | None = None  # and the number of the attempt
        self._tries = 0

    def get(self, limits: CancelToken) -> Secret:
        """The token, renewed if necessary.

        Raises:
            GenaiError: The error of `source`, for all calls that waited for it, or the error of
                `limits`. Later calls try again.
        """
        with limits.on_cancel(self._wake), self._changed:
            while self._busy:
                limits.check()
                awaited = self._tries
                self._changed.wait()
                if self._failure is not None and self._failure[0] == awaited:
                    raise copy.copy(self._failure[1])
            limits.check()
            if self._held is not None and not self._is_due():
                return self._held
            self._busy = True
            self._tries += 1
        return self._renew(limits)

    def drop(self, value: Secret) -> None:
        """Discard a token that the service refused, unless it was renewed meanwhile."""
        with self._changed:
            if self._held == value:
                self._held = None

    def _is_due(self) -> bool:
        return self._renew_at is not None and self._clock.monotonic() >= self._renew_at

    def _renew(self, limits: CancelToken) -> Secret:
        found: AccessToken | None = None
        failure: GenaiError | None = None
        try:
            found = self._source(limits)
            return found.value
        except GenaiError as error:
            failure = None if _has_ended(limits) else error
            raise
        finally:
            with self._changed:
                self._busy = False
                self._failure = None if failure is None else (self._tries, failure)
                if found is not None:
                    self._keep(found)
                self._changed.notify_all()

    def _keep(self, token: AccessToken) -> None:
        self._held, self._renew_at = token.value, None
        if token.seconds is not None:
            early = min(self._early, token.seconds / 2)
            self._renew_at = self._clock.monotonic() + token.seconds - early

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


def _has_ended(limits: CancelToken) -> bool:
    """Whether a call was cancelled: that is no failure of the token source, so others try again."""
    try:
        limits.check()
    except GenaiError:
        return True
    return False
