"""Dialects: codecs of API formats.

A `Dialect` writes and reads one API format. A `DialectEndpoint` describes how a provider serves
that format. A `CountDialect` requests a token count with the request that would otherwise be sent
for an answer. `reply_values` has helpers to write dialects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from re import Pattern
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from attrs import field, frozen

from genai_host.api.calls import Call, ChatCall, Operation, VendorTool
from genai_host.api.messages import VendorPart
from genai_host.api.provider_requests import ProviderReply, ProviderRequest, StreamEvent
from genai_host.api.reply_values import malformed, read_object
from genai_host.api.results import Completion, Delta, TokenCount
from genai_host.api.validators import (
    ANY_BY_NAME,
    SCHEMAS,
    TEXT,
    TEXT_BY_NAME,
    TEXT_OR_NONE,
    string_set,
    strings,
)
from genai_host.errors import GenaiError

C = TypeVar("C", bound=Call)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

CAPABILITIES: Mapping[str, str] = {
    "stream": "streams the answer",
    "tools": "requests tool calls",
    "schema": "the service enforces a JSON Schema",
    "images": "accepts images",
    "files": "accepts documents",
    "reasoning": "returns its reasoning",
}
"""Capabilities of routes. A route has those of both its model and its dialect, without those that
the provider or the offering lacks."""


@frozen
class DialectEndpoint:
    """How a provider serves a dialect, where it differs from the dialect's defaults.

    Attributes:
        path: Path, with `{model}` for the model id.
        stream_path: Path for streamed replies; None for the same.
        query: Query parameters to add.
        extra_fields: Body fields to add.
        omit_fields: Body fields to remove.
        header_to_body: Headers to move into the body, with the field names.
        unsupported: Capabilities that are missing; see `CAPABILITIES`.
        parameters: JSON Schema of further model parameters by name; `False` for a parameter of the
            dialect that is refused.
        variant: Options of the dialect; see `Dialect.variant`.
        model_ids: Pattern of the model ids that use this dialect, for undeclared models, such as
            `some-family.*`.
        install: Distribution that contains the dialect, if it is not built in.
    """

    path: str = field(default="", validator=TEXT)
    stream_path: str | None = field(default=None, validator=TEXT_OR_NONE)
    query: Mapping[str, str] = field(factory=dict, validator=TEXT_BY_NAME)
    extra_fields: Mapping[str, Any] = field(factory=dict, validator=ANY_BY_NAME)
    omit_fields: tuple[str, ...] = field(default=(), converter=strings)
    header_to_body: Mapping[str, str] = field(factory=dict, validator=TEXT_BY_NAME)
    unsupported: frozenset[str] = field(default=frozenset(), converter=string_set)
    parameters: Mapping[str, Any] = field(factory=dict, validator=SCHEMAS)
    variant: Mapping[str, Any] = field(factory=dict, validator=ANY_BY_NAME)
    model_ids: str = field(default="*", validator=TEXT)
    install: str | None = field(default=None, validator=TEXT_OR_NONE)


class StreamDecoder(Protocol[R_co]):
    """Decodes the events of one streamed reply.

    Attributes:
        done: Whether the end marker of the format was received: the reply is complete even if the
            connection fails afterwards.
    """

    @property
    def done(self) -> bool: ...

    def feed(self, event: StreamEvent) -> Sequence[Delta]:
        """Decode an event to chunks of the answer, if any.

        Raises:
            MalformedReply: The event is invalid.
        """

    def finish(self) -> R_co:
        """The complete answer, after the last event.

        Raises:
            IncompleteReply: The end marker of the format is missing; the error has the text so far.
        """


class Dialect(ABC, Generic[C, R]):
    """The codec of an API format: no I/O, no clock, no randomness, no state.

    C is the type of call, R the type of result: `ChatCall` and `Completion` for the operation
    `chat`, `CompleteCall` and `Completion` for `complete`, `EmbedCall` and `Embeddings` for
    `embed`, `ModerateCall` and `ModerationResult` for `moderate`, `TranscribeCall` and
    `Transcription` for `transcribe`, `ChatCall` and `TokenCount` for `count` (see `CountDialect`).

    Attributes:
        name: Unique name, for example `openai-chat`.
        operation: Kind of call.
        endpoint: Default endpoint.
        capabilities: Capabilities that the format can express; see `CAPABILITIES`.
        parameters: JSON Schemas of the supported model parameters, by name.
        price_parameters: Parameters that change the price, so that the list price does not apply.
        reserved: Body fields that only the host writes; the parameter `extra_body` cannot set them.
        extensible: Reserved objects to which `extra_body` can add fields. If a request does not
            have the object, the fields are not sent.
        variant: Options of the format with their defaults; models, providers and offerings override
            them.
        service_tools: Definitions of the tools that services of the format run themselves, by kind;
            see `VendorTool`.
        tool_names: Names of tools that services of the format accept; the host replaces others.
            None for any.
        images_in_answers: Whether messages of the model can contain images. If not, or if the model
            accepts no images, the host replaces them by text.
        accepts_tokens: Whether the texts of an `EmbedCall` or `CompleteCall` may be token IDs.
        max_texts: Maximum number of texts of an `EmbedCall`; the host makes several calls for
            more. 0 for no maximum.
    """

    name: ClassVar[str]
    operation: ClassVar[Operation] = "chat"
    endpoint: ClassVar[DialectEndpoint] = DialectEndpoint()
    capabilities: ClassVar[frozenset[str]] = frozenset()
    parameters: ClassVar[Mapping[str, Any]] = {}
    price_parameters: ClassVar[frozenset[str]] = frozenset()
    reserved: ClassVar[frozenset[str]] = frozenset({"messages", "model", "stream", "tools"})
    extensible: ClassVar[frozenset[str]] = frozenset()
    variant: ClassVar[Mapping[str, Any]] = {}
    service_tools: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    tool_names: ClassVar[Pattern[str] | None] = None
    images_in_answers: ClassVar[bool] = False
    accepts_tokens: ClassVar[bool] = False
    max_texts: ClassVar[int] = 0

    @property
    def models_of(self) -> str:
        """Name of a chat dialect. Its models can also be called in this dialect without declaring
        it. Required for the operations `complete`, `count` and `transcribe`; empty for others."""
        return ""

    @abstractmethod
    def prepare_request(self, call: C) -> ProviderRequest:
        """Write a call as a request.

        Raises:
            UnsupportedPart: The format cannot represent a part of a message.
        """

    @abstractmethod
    def extract_result(self, call: C, reply: ProviderReply) -> R:
        """Read a complete reply with a status below 400.

        Raises:
            MalformedReply: The reply is not valid in this format.
        """

    def decoder(self, call: C) -> StreamDecoder[R] | None:
        """A new decoder of a streamed reply; None if the format does not stream."""
        return None

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        """The error of a reply of status 400 or more; None leaves it to the status."""
        return None

    def sends(self, given: VendorTool | VendorPart | None, variant: Mapping[str, Any]) -> bool:
        """Whether a service receives what only some services have.

        Args:
            given: A tool or a part; None for fields that the host does not know.
            variant: Options of the dialect, see `variant`.
        """
        if isinstance(given, VendorPart):
            return given.dialect == self.name
        return given is None or self.name in (given.extra or ())


class CountDialect(Dialect[ChatCall, TokenCount]):
    """Counts the tokens of calls of another dialect, by sending a part of its request.

        class MyCount(CountDialect):
            name = "my-count"
            of = MyMessages
            endpoint = DialectEndpoint(path="/count")
            fields = frozenset({"model", "messages", "tools"})
            tokens = "input_tokens"

    Attributes:
        of: Dialect whose calls it counts.
        fields: Fields of the request body to send.
        tokens: Field of the reply with the number.
    """

    operation = "count"
    of: ClassVar[type[Dialect[ChatCall, Completion]]]
    fields: ClassVar[frozenset[str]]
    tokens: ClassVar[str]

    @property
    def models_of(self) -> str:
        return self.of.name

    @property
    def service_tools(self) -> Mapping[str, Mapping[str, Any]]:  # type: ignore[override]  # of `of`
        return self.of.service_tools

    @property
    def tool_names(self) -> Pattern[str] | None:  # type: ignore[override]  # of `of`
        return self.of.tool_names

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

    def sends(self, given: VendorTool | VendorPart | None, variant: Mapping[str, Any]) -> bool:
        return self._chat.sends(given, variant)
