"""A dialect: the codec of one wire format. A serve: how a provider serves it, as data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from attrs import field, frozen

from genai_host.api.calls import Call, Delta
from genai_host.api.converters import string_set, strings
from genai_host.api.exchange import Operation, ProviderReply, ProviderRequest, StreamEvent
from genai_host.api.validators import ANY_BY_NAME, SCHEMAS, TEXT, TEXT_BY_NAME, TEXT_OR_NONE
from genai_host.errors import GenaiError

C = TypeVar("C", bound=Call)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

CAPABILITIES: Mapping[str, str] = {
    "stream": "answers in pieces, as it writes",
    "tools": "asks for tools to be run",
    "schema": "is held to a JSON Schema by the service itself",
    "images": "takes pictures",
    "files": "takes documents",
    "reasoning": "shows what it thinks before it answers",
}
"""What a route may be able to do. A route can do what its model and its dialect
both can, less what the provider and the offering lack."""


@frozen
class Serve:
    """How a provider serves a dialect, where that differs from the dialect's own way.

    path             path of the address; `{model}` stands for the model's id
    stream_path      the same for a streamed reply, if another
    query            added to the address
    add              fields added to the body
    drop             fields left out of the body
    header_to_body   headers that go into the body instead, and under which name
    lacks            capabilities (see `CAPABILITIES`) that are missing here
    parameters       model parameters that exist here only: name to JSON Schema;
                     `False` for one of the dialect's own that is refused here
    variant          which of its variants the dialect is to write
    ids              pattern of the model ids that the dialect is right for, as
                     `some-family.*`: decides for models that nobody declared
    install          the distribution to install where the dialect is missing
    """

    path: str = field(default="", validator=TEXT)
    stream_path: str | None = field(default=None, validator=TEXT_OR_NONE)
    query: Mapping[str, str] = field(factory=dict, validator=TEXT_BY_NAME)
    add: Mapping[str, Any] = field(factory=dict, validator=ANY_BY_NAME)
    drop: tuple[str, ...] = field(default=(), converter=strings)
    header_to_body: Mapping[str, str] = field(factory=dict, validator=TEXT_BY_NAME)
    lacks: frozenset[str] = field(default=frozenset(), converter=string_set)
    parameters: Mapping[str, Any] = field(factory=dict, validator=SCHEMAS)
    variant: Mapping[str, Any] = field(factory=dict, validator=ANY_BY_NAME)
    ids: str = field(default="*", validator=TEXT)
    install: str | None = field(default=None, validator=TEXT_OR_NONE)


class Decoder(Protocol[R_co]):
    """Reads the events of one streamed reply.

    done   whether the format's own mark of the end has come: the reply is whole then,
           whatever the transport still does
    """

    @property
    def done(self) -> bool: ...

    def feed(self, event: StreamEvent) -> Sequence[Delta]:
        """The pieces that an event brings, if any. Raises `MalformedReply`."""

    def finish(self) -> R_co:
        """The whole answer, once the events have ended.

        Raises `IncompleteReply`, with the text so far, if the format's own mark of
        the end has not come.
        """


class Dialect(ABC, Generic[C, R]):
    """The codec of one wire format: no I/O, no clock, no randomness, no state.

    C is the kind of call that it writes, R what a reply becomes: `ChatCall` and
    `Completion` for the operation `chat`, `EmbedCall` and `Vectors` for `embed`,
    `ModerateCall` and `Verdict` for `moderate`, `ChatCall` and `TokenCount` for `count`
    (see `CountDialect`).

    name           what models and providers call it by, as `openai-chat`
    operation      what it is for
    endpoint       where it is served, unless a provider says otherwise
    capabilities   what the format can express; see `CAPABILITIES`
    parameters     the model parameters it can write: name to JSON Schema
    price_parameters   those with which a call has not the list price
    variant        its small differences and their defaults; models, providers,
                   offerings and instances choose among them by name
    """

    name: ClassVar[str]
    operation: ClassVar[Operation] = "chat"
    endpoint: ClassVar[Serve] = Serve()
    capabilities: ClassVar[frozenset[str]] = frozenset()
    parameters: ClassVar[Mapping[str, Any]] = {}
    price_parameters: ClassVar[frozenset[str]] = frozenset()
    variant: ClassVar[Mapping[str, Any]] = {}

    @property
    def counts(self) -> str:
        """For the operation `count`, the dialect whose calls it counts the tokens of."""
        return ""

    @abstractmethod
    def prepare_request(self, call: C) -> ProviderRequest:
        """Write a call. Raises `UnsupportedPart` for what the format has no place for."""

    @abstractmethod
    def extract_result(self, call: C, reply: ProviderReply) -> R:
        """Read a whole reply of a status under 400. Raises `MalformedReply`."""

    def decoder(self, call: C) -> Decoder[R] | None:
        """A new reader of a streamed reply; None if the format has no streams."""
        return None

    def explain_error(self, reply: ProviderReply) -> GenaiError | None:
        """The error that a reply of status 400 or more tells of; None leaves it to
        the status."""
        return None
