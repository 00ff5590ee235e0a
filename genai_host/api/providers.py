"""Providers: what carries a request; HTTP and expiring tokens for them.

A provider is transport: it carries a request to the service that runs a model. Over HTTP it uses
the transport of the host, `Services.http`. Retries, limits and cancellation are up to the host.
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

from genai_host.api.calls import (
    CancelHandle,
    CancelToken,
    Operation,
    ProviderReply,
    ProviderRequest,
    ReplyStream,
    StreamEvent,
)
from genai_host.api.dialects import DialectEndpoint
from genai_host.api.settings import SETTINGS, Secret
from genai_host.api.validators import BOOLEAN, CALLABLE, TEXT, string_set_or_none, strings_or_none
from genai_host.errors import GenaiError

StreamParser = Callable[[Iterable[bytes]], Iterator[StreamEvent]]
"""Reads the events of a streamed reply from its bytes, as they come in blocks."""


@frozen
class HttpRequest:
    """One HTTP request. Headers and body are not in its repr: they hold keys."""

    method: str
    url: str
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)


class HttpTransport(Protocol):
    """The host's transport, as `Services.http`: one attempt each, never a redirect,
    never a key from anywhere but the request's own headers.

    Both raise `ServiceUnavailable` if the service cannot be reached, `IncompleteReply` if the
    reply is cut, `MalformedReply` if it is too large or is no HTTP, and whatever ends
    `limits`. A reply of status 400 or more is returned as it came.
    """

    def send(self, request: HttpRequest, limits: CancelToken) -> ProviderReply:
        """Send a request and wait for the whole reply."""

    def stream(
        self,
        request: HttpRequest,
        limits: CancelToken,
        framings: Mapping[str, StreamParser] | None = None,
    ) -> ReplyStream | ProviderReply:
        """Send a request whose reply comes as events: server-sent ones or lines of
        JSON, by the reply's content type; the whole reply if it is of another type.

        Args:
            framings: For further content types, by their name.
        """


S = TypeVar("S")

FREE = "free"
"""Whose prices hold where calls cost nothing; see `Provider.priced_as`."""


@frozen
class ListedModel:
    """A model that a service says it has.

    Attributes:
        dialects: Those it can be spoken to in; None if the service does not say.
        capabilities: What it can do; None if the service does not say.
        window: Tokens that prompt and answer share; None if it does not say.
    """

    id: str = field(validator=TEXT)
    dialects: tuple[str, ...] | None = field(default=None, converter=strings_or_none)
    capabilities: frozenset[str] | None = field(default=None, converter=string_set_or_none)
    window: int | None = None


@frozen
class PreparationProgress:
    """How far a preparation has come.

    Attributes:
        text: What is being done, in one line.
        done: Bytes that are done; None if that is not known.
        total: Bytes in all; None if that is not known.
    """

    text: str = field(validator=TEXT)
    done: int | None = None
    total: int | None = None


@frozen
class Preparation:
    """The step that makes a provider able to run a model, such as a download of weights.

    Attributes:
        label: What it does and what it costs, in one line, for a button or a question: `Download
            the weights of smollm2-135m (98 MB)`.
        run: Does it, and reports its progress from the same thread. May be called again: what is
            done already is not done twice. Raises what ends the limits, and a `GenaiError` if it
            fails.
    """

    label: str = field(validator=TEXT)
    run: Callable[[Callable[[PreparationProgress], None], CancelToken], None] = field(
        validator=CALLABLE
    )


class Provider(ABC):
    """A configured instance of a provider type. Making one needs no key, no network
    and no heavy import; those come with the first request.

    `send` and `stream` are one attempt each and may be called from many threads
    at once: retries, limits and cancelling are the host's. A failure to reach the
    service is raised as `ServiceUnavailable`; a reply of status 400 or more is returned
    as it came, for the host to explain.

    Attributes:
        serves: The dialects that it serves, by name, and how; the order breaks ties between
            dialects.
        default_models: For an operation, the model to use where the user names none.
        bounds: Where the usual ones of calls do not suit it, its own, by name: `{"first_token":
            600}`; a user's configuration comes first.
        window: Tokens that prompt and answer share here, where that is less than what the model
            can.
        extra_body: Fields that are added to the body of each request, as the parameter `extra_body`
            of a call; None where fields that the dialect does not write say nothing.
    """

    serves: Mapping[str, DialectEndpoint]
    default_models: Mapping[Operation, str] = {}
    bounds: Mapping[str, float] = {}
    window: int | None = None
    extra_body: Mapping[str, Any] | None = None

    def missing(self) -> str | None:
        """What it lacks to run, as `no key: set X_API_KEY` (`Services.no_key` says that);
        None if nothing. No I/O but a look at files and the environment."""
        return None

    def missing_models(self) -> Mapping[str, str]:
        """Of the models that are offered here, the ids of those that cannot run for
        now, each with why, as `the weights are missing: run ...`. No I/O but a look
        at files."""
        return {}

    def probe(self, limits: CancelToken) -> Mapping[str, str]:
        """Try, cheaply and without cost to the user, whether calls can be answered now: whether
        the service answers and takes the key, whether a library can be loaded.

        The host asks where it shows what runs, not before calls: at most once in some seconds,
        and for a few seconds. Nothing is tried by default.

        Args:
            limits: End the attempt when they end.

        Returns:
            The IDs of models that cannot run, each with why, as `missing_models` has them.

        Raises:
            ServiceUnavailable: Nobody answers.
            GenaiError: Something else is needed, such as another key.
        """
        return {}

    def preparation(self, model_id: str = "") -> Preparation | None:
        """The step that makes a model run here that cannot run yet, where this provider can
        take that step itself; None if there is none, or if nothing is missing. No I/O but a
        look at files.

        Args:
            model_id: Id that it is offered under; empty for the model that is used by default.
        """
        return None

    def wire_id(self, model_id: str) -> str:
        """The id to send for a model, given the id that it is offered under."""
        return model_id

    def priced_as(self, model_id: str) -> str:
        """Whose prices hold for a model: a provider's id in the table of the package
        genai-prices, as `openai`, or the address of a service, by which that finds it;
        `FREE` if calls cost nothing; empty if it is not known.

        Args:
            model_id: As it is sent.
        """
        return ""

    @abstractmethod
    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        """Send a request and wait for the whole reply."""

    @abstractmethod
    def stream(self, request: ProviderRequest, limits: CancelToken) -> ReplyStream | ProviderReply:
        """Send a request whose reply is to come as events; a `ProviderReply` if the
        service answers with none, as it does when it refuses."""

    def list_models(self, limits: CancelToken) -> Iterable[ListedModel]:
        """The models that the service says it has."""
        return ()

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        """The error that a reply of status 400 or more tells of, where only this
        provider knows; None leaves it to the dialect and the status."""
        return None

    def close(self) -> None:
        """Give back all that it holds. The host ends the calls under way before."""


class Clock(Protocol):
    """Time as the host tells it, so that tests may tell another."""

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back."""

    def now(self) -> datetime.datetime:
        """The time of day, with the local offset."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> CancelHandle:
        """Call back once from another thread, unless released before; the callback
        must neither block nor raise."""


@frozen
class Services:
    """What the host hands to a provider when it opens it.

    Attributes:
        instance: The name it is opened under.
        clock: Use it rather than `time`.
        data_dir: Folder for large files of its own, such as weights; it may not exist.
        http: How to send requests over HTTP.
        type: Name of its type; the environment has keys for the instance of that name alone.
    """

    instance: str
    clock: Clock
    data_dir: Path
    http: HttpTransport
    type: str = ""

    def no_key(self, variable: str) -> str:
        """What an instance lacks that has no key, for `Provider.missing`.

        Args:
            variable: Environment variable that usually has the key of this type.
        """
        if self.type in ("", self.instance):
            return f"no key: set {variable}"
        return f"no key: genai-host keys set {self.instance}"


@frozen
class ProviderType(Generic[S]):
    """What a plugin registers: how to open instances of a provider.

    Attributes:
        name: Unique among all plugins; `[a-z0-9-]+`.
        settings: Attrs class of its settings; see `genai_host.api.settings`.
        open: Makes an instance; does no I/O.
        automatic: Whether the host may choose it when the user names neither model nor provider;
            False for stand-ins such as a mock.
    """

    name: str = field(validator=TEXT)
    settings: type[S] = field(validator=SETTINGS)
    open: Callable[[S, Services], Provider] = field(validator=CALLABLE)
    automatic: bool = field(default=True, validator=BOOLEAN)


@frozen
class AccessToken:
    """A token as it was got.

    Attributes:
        seconds: For how long it is valid from now; None if that is not known: it is used until it
            is refused.
    """

    value: Secret = field(repr=False)
    seconds: float | None = None


class CachedToken:
    """An access token, got when it is first needed and again shortly before it expires:
    once, whoever asks at the same time.

        self._token = CachedToken(self._get_token, services.clock)
        ...
        headers = key_header("Authorization: Bearer {key}", self._token.get(limits))

    Args:
        source: Gets a token; under the limits of the call that needs it first, while the others
            wait.
        clock: `Services.clock`.
        early: Seconds before its end from which it is got again; of a token that is valid for less
            than twice as long, half of that.

    A `HttpProvider` that is given one sends it, and gets another once when it is refused.
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
        self._failure: tuple[int, GenaiError] | None = None  # and which try it was
        self._tries = 0

    def get(self, limits: CancelToken) -> Secret:
        """The token. Raises what `source` raises, and what ends `limits`; whoever waits
        for a token that cannot be got is told the same, and later calls try again."""
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
        """A service has refused this token: get another for the next call, unless that was
        done meanwhile."""
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
    """What ended one call is no reason for the others to fail."""
    try:
        limits.check()
    except GenaiError:
        return True
    return False
