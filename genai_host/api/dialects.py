"""Dialects: codecs of wire formats, and the helpers they are written with.

A `Dialect` writes and reads one wire format. A `DialectEndpoint` describes, as data, how a
provider serves that format. A `CountDialect` requests a token count with the request that would
otherwise be sent for an answer.

The helpers cover what formats have in common that are otherwise different: fields of JSON
replies, each checked for its type, embedding vectors, and parts of messages.
"""

from __future__ import annotations

import base64
import hashlib
import math
import sys
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from re import Pattern
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from attrs import field, frozen

from genai_host.api.calls import (
    Call,
    ChatCall,
    Completion,
    Delta,
    Operation,
    ProviderReply,
    ProviderRequest,
    StreamEvent,
    TokenCount,
)
from genai_host.api.error_replies import ErrorIn, one_line
from genai_host.api.json_text import read_json
from genai_host.api.messages import Image, Message, Part, Reasoning, Text, VendorPart, count
from genai_host.api.validators import (
    ANY_BY_NAME,
    SCHEMAS,
    TEXT,
    TEXT_BY_NAME,
    TEXT_OR_NONE,
    string_set,
    strings,
)
from genai_host.errors import GenaiError, MalformedReply, ServiceUnavailable, UnsupportedPart


def read_object(data: bytes) -> dict[str, Any]:
    """The object that a reply is, or an event of it. Raises `MalformedReply`."""
    try:
        value = read_json(data)
    except ValueError as error:
        raise malformed(f"it is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise malformed(f"it is a {type(value).__name__}")
    return value


def read_reply(data: bytes, error_in: ErrorIn) -> dict[str, Any]:
    """The same, where an error may come with status 200, or amid a stream: it is raised."""
    value = read_object(data)
    found = error_in(value, None)
    if found is None and "error" in (value.get("object"), value.get("type")):
        found = error_in({"error": value}, None)
    if found is not None:
        raise found
    return value


def read_event(event: StreamEvent, error_in: ErrorIn) -> dict[str, Any]:
    """The same for an event of a stream. One that is named `error` is an error in any form."""
    if event.name != "error":
        return read_reply(event.data, error_in)
    try:
        value = read_json(event.data)
    except ValueError:
        value = event.data.decode(errors="replace")
    error = value if isinstance(value, dict) and value.get("error") else {"error": value}
    raise error_in(error, None) or ServiceUnavailable("the service failed and gave no reason")


def object_in(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A field; empty if it is not there or null. Raises `MalformedReply`."""
    value = data.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise malformed(f"{name} is not an object")
    return value


def details_in(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The same for data that is not part of the answer, such as usage: other types are empty."""
    value = data.get(name)
    return value if isinstance(value, dict) else {}


def list_in(data: Mapping[str, Any], name: str) -> list[Any]:
    """The same for a list."""
    value = data.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise malformed(f"{name} is not a list")
    return value


def string_in(data: Mapping[str, Any], name: str) -> str:
    """The same for a string."""
    value = data.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise malformed(f"{name} is not a string")
    return value


def text_in(data: Mapping[str, Any], name: str) -> str:
    """The same for a text that may be a string or a list of parts: `{"text": ...}`, or strings.
    Parts of other types have no text."""
    value = data.get(name)
    if not isinstance(value, list):
        return string_in(data, name)
    parts = [{"text": each} if isinstance(each, str) else each for each in value]
    if not all(isinstance(each, dict) for each in parts):
        raise malformed(f"{name} is not a list of parts")
    return "".join(string_in(each, "text") for each in parts)


def count_in(data: Mapping[str, Any], name: str) -> int:
    """A number of tokens; 0 for whatever is none: see `count`."""
    value: Any = data.get(name)
    return count(value)


def malformed(why: str) -> MalformedReply:
    return MalformedReply(f"the reply is malformed: {why}")


def must_be_vectors(vectors: Sequence[Any], texts: int) -> None:
    """Raises `MalformedReply` unless there is a list of numbers for each text, all of
    one size."""
    if len(vectors) != texts or len({len(vector) for vector in vectors}) > 1:
        raise MalformedReply(
            f"{texts} texts came back as {len(vectors)} vectors, or as some of several sizes"
        )


def read_vector(numbers: Any) -> list[float]:
    """Raises `MalformedReply` for what is no list of finite numbers, and for none."""
    if not isinstance(numbers, list) or not all(type(each) in (int, float) for each in numbers):
        raise MalformedReply("an embedding is not a list of numbers")
    try:
        vector = [float(each) for each in numbers]
    except OverflowError:
        vector = [math.inf]
    if not vector or not all(map(math.isfinite, vector)):
        raise MalformedReply("an embedding is empty, or has a number that is too large")
    return vector


def decode_vector(text: str) -> list[float]:
    """The same from base64 of 4-byte floats, little end first."""
    try:
        numbers = array("f", base64.b64decode(text, validate=True))
    except ValueError as error:
        raise MalformedReply("an embedding is not base64 of numbers") from error
    if sys.byteorder == "big":
        numbers.byteswap()
    return read_vector(numbers.tolist())


def unsupported(part: Part, where: str, dialect: str) -> UnsupportedPart:
    """The error for a part that a format has no place for.

    Args:
        where: In words, for example `in a message of role system`.
    """
    return UnsupportedPart(
        f"{dialect} has no place for a part of type {part.type} {where}",
        part=part.type,
        dialect=dialect,
    )


def picture_in_words(image: Image) -> Text:
    """What stands in the result of a tool for a picture that cannot be sent there: the turn goes
    on without it."""
    kind = one_line(image.media_type or image.url)
    return Text(f"(a picture{f', {kind},' if kind else ''} was left out: it cannot be shown here)")


def system_texts(messages: Iterable[Message], dialect: str) -> list[str]:
    """What the system says, wherever in a conversation, for formats in which that stands
    apart. Raises `UnsupportedPart` for what is no text."""
    texts: list[str] = []
    for message in messages:
        if message.role != "system":
            continue
        for part in message.content:
            if isinstance(part, Text):
                texts.append(part.text)
            elif not isinstance(part, (Reasoning, VendorPart)):
                raise unsupported(part, "in a message of role system", dialect)
    return texts


def fitting_id(id: str, form: Pattern[str]) -> str:
    """The id of a call, as a service takes it: one of another vendor may have characters
    that are refused there, and then becomes another, always the same."""
    if form.fullmatch(id):
        return id
    return f"call_{hashlib.sha256(id.encode(errors='surrogatepass')).hexdigest()[:24]}"


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
class DialectEndpoint:
    """How a provider serves a dialect, where that differs from the dialect's own way.

    Attributes:
        path: Path of the address; `{model}` stands for the model's id.
        stream_path: The same for a streamed reply, if another.
        query: Added to the address.
        add: Fields added to the body.
        drop: Fields left out of the body.
        header_to_body: Headers that go into the body instead, and under which name.
        lacks: Capabilities (see `CAPABILITIES`) that are missing here.
        parameters: Model parameters that exist here only: name to JSON Schema; `False` for one of
            the dialect's own that is refused here.
        variant: Which of its variants the dialect is to write.
        ids: Pattern of the model ids that the dialect is right for, for example `some-family.*`:
            decides for models that nobody declared.
        install: The distribution to install where the dialect is missing.
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


class StreamDecoder(Protocol[R_co]):
    """Reads the events of one streamed reply.

    Attributes:
        done: Whether the format's own mark of the end has come: the reply is whole then, whatever
            the transport still does.
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
    `Completion` for the operation `chat`, `EmbedCall` and `Embeddings` for `embed`,
    `ModerateCall` and `ModerationResult` for `moderate`, `ChatCall` and `TokenCount` for `count`
    (see `CountDialect`).

    Attributes:
        name: What models and providers call it by, for example `openai-chat`.
        operation: What it is for.
        endpoint: Where it is served, unless a provider says otherwise.
        capabilities: What the format can express; see `CAPABILITIES`.
        parameters: The model parameters it can write: name to JSON Schema.
        price_parameters: Those with which a call has not the list price.
        reserved: Fields of the body that are the host's to write, also where it writes none: the
            parameter `extra_body` cannot set them.
        variant: Its small differences and their defaults; models, providers, offerings and
            instances choose among them by name.
    """

    name: ClassVar[str]
    operation: ClassVar[Operation] = "chat"
    endpoint: ClassVar[DialectEndpoint] = DialectEndpoint()
    capabilities: ClassVar[frozenset[str]] = frozenset()
    parameters: ClassVar[Mapping[str, Any]] = {}
    price_parameters: ClassVar[frozenset[str]] = frozenset()
    reserved: ClassVar[frozenset[str]] = frozenset({"messages", "model", "stream", "tools"})
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

    def decoder(self, call: C) -> StreamDecoder[R] | None:
        """A new reader of a streamed reply; None if the format has no streams."""
        return None

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        """The error that a reply of status 400 or more tells of; None leaves it to
        the status."""
        return None


class CountDialect(Dialect[ChatCall, TokenCount]):
    """Counts the tokens of calls of another dialect, whose request it sends in part.

        class MyCount(CountDialect):
            name = "my-count"
            of = MyMessages
            endpoint = DialectEndpoint(path="/count")
            fields = frozenset({"model", "messages", "tools"})
            tokens = "input_tokens"

    Attributes:
        of: The dialect whose calls it counts.
        fields: Fields of the request's body that the service wants for a count.
        tokens: Field of the reply that has the number.
    """

    operation = "count"
    of: ClassVar[type[Dialect[ChatCall, Completion]]]
    fields: ClassVar[frozenset[str]]
    tokens: ClassVar[str]

    @property
    def counts(self) -> str:
        return self.of.name

    @cached_property
    def _chat(self) -> Dialect[ChatCall, Completion]:
        return self.of()

    def prepare_request(self, call: ChatCall) -> ProviderRequest:
        asked = self._chat.prepare_request(call)
        body = {name: value for name, value in asked.body.items() if name in self.fields}
        return ProviderRequest("count", self.name, asked.model_id, body, headers=asked.headers)

    def extract_result(self, call: ChatCall, reply: ProviderReply) -> TokenCount:
        tokens: Any = read_object(reply.body).get(self.tokens)
        if type(tokens) is not int or tokens < 0:
            raise malformed(f"{self.tokens} is not a number of tokens")
        return TokenCount(tokens)

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        return self._chat.map_error(reply)
