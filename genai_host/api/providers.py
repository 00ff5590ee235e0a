"""A provider is transport: it carries a request to where a model runs."""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from attrs import field, frozen

from genai_host.api.converters import string_set_or_none, strings_or_none
from genai_host.api.dialects import Serve
from genai_host.api.exchange import (
    Limits,
    Operation,
    ProviderReply,
    ProviderRequest,
    Registration,
    ReplyStream,
)
from genai_host.api.http import Http
from genai_host.api.settings import SETTINGS
from genai_host.api.validators import BOOLEAN, CALLABLE, TEXT
from genai_host.errors import GenaiError

S = TypeVar("S")

FREE = "free"
"""Whose prices hold where calls cost nothing; see `Provider.priced_as`."""


@frozen
class Listed:
    """A model that a service says it has.

    dialects       those it can be spoken to in; None if the service does not say
    capabilities   what it can do; None if the service does not say
    window         tokens that prompt and answer share; None if it does not say
    """

    id: str = field(validator=TEXT)
    dialects: tuple[str, ...] | None = field(default=None, converter=strings_or_none)
    capabilities: frozenset[str] | None = field(default=None, converter=string_set_or_none)
    window: int | None = None


class Provider(ABC):
    """A configured instance of a provider type. Making one needs no key, no network
    and no heavy import; those come with the first request.

    `send` and `stream` are one attempt each and may be called from many threads
    at once: retries, limits and cancelling are the host's. A failure to reach the
    service is raised as `Unavailable`; a reply of status 400 or more is returned
    as it came, for the host to explain.

    serves           the dialects that it serves, by name, and how; the order
                     breaks ties between dialects
    default_models   for an operation, the model to use where the user names none
    bounds           where the usual ones of calls do not suit it, its own, by name:
                     `{"first_token": 600}`; a user's configuration comes first
    window           tokens that prompt and answer share here, where that is less than
                     what the model can
    """

    serves: Mapping[str, Serve]
    default_models: Mapping[Operation, str] = {}
    bounds: Mapping[str, float] = {}
    window: int | None = None

    def missing(self) -> str | None:
        """What it lacks to run, as `no key: set X_API_KEY` (`Services.no_key` says that);
        None if nothing. No I/O but a look at files and the environment."""
        return None

    def missing_models(self) -> Mapping[str, str]:
        """Of the models that are offered here, the ids of those that cannot run for
        now, each with why, as `the weights are missing: run ...`. No I/O but a look
        at files."""
        return {}

    def wire_id(self, model_id: str) -> str:
        """The id to send for a model, given the id that it is offered under."""
        return model_id

    def priced_as(self, model_id: str) -> str:
        """Whose prices hold for a model: a provider's id in the table of the package
        genai-prices, as `openai`, or the address of a service, by which that finds it;
        `FREE` if calls cost nothing; empty if it is not known.

        model_id   as it is sent
        """
        return ""

    @abstractmethod
    def send(self, request: ProviderRequest, limits: Limits) -> ProviderReply:
        """Send a request and wait for the whole reply."""

    @abstractmethod
    def stream(self, request: ProviderRequest, limits: Limits) -> ReplyStream | ProviderReply:
        """Send a request whose reply is to come as events; a `ProviderReply` if the
        service answers with none, as it does when it refuses."""

    def list_models(self, limits: Limits) -> Iterable[Listed]:
        """The models that the service says it has."""
        return ()

    def explain_error(self, reply: ProviderReply) -> GenaiError | None:
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

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Registration:
        """Call back once from another thread, unless released before; the callback
        must neither block nor raise."""


@frozen
class Services:
    """What the host hands to a provider when it opens it.

    instance   the name it is opened under
    clock      use it rather than `time`
    data_dir   folder for large files of its own, such as weights; it may not exist
    http       how to send requests over HTTP
    type       name of its type; the environment has keys for the instance of that name
               alone
    """

    instance: str
    clock: Clock
    data_dir: Path
    http: Http
    type: str = ""

    def no_key(self, variable: str) -> str:
        """What an instance lacks that has no key, for `Provider.missing`.

        variable   environment variable that usually has the key of this type
        """
        if self.type in ("", self.instance):
            return f"no key: set {variable}"
        return f"no key: genai-host keys set {self.instance}"


@frozen
class ProviderType(Generic[S]):
    """What a plugin registers: how to open instances of a provider.

    name        unique among all plugins; `[a-z0-9-]+`
    settings    attrs class of its settings; see `genai_host.api.settings`
    open        makes an instance; does no I/O
    automatic   whether the host may choose it when the user names neither model
                nor provider; False for stand-ins such as a mock
    """

    name: str = field(validator=TEXT)
    settings: type[S] = field(validator=SETTINGS)
    open: Callable[[S, Services], Provider] = field(validator=CALLABLE)
    automatic: bool = field(default=True, validator=BOOLEAN)
