"""Calls of a model, independent of API formats: requests, replies, results, cost.

A dialect and a provider exchange `ProviderRequest`, `ProviderReply` and `StreamEvent`. A dialect
writes a request from a `Call` and reads a result, for example a `Completion`, from the reply.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, Protocol

from attrs import field, frozen

from genai_host.api.json_text import write_json, write_long_json
from genai_host.api.messages import NO_USAGE, File, Message, ToolCall, Usage, VendorPart
from genai_host.errors import ErrorPlace

Operation = Literal["chat", "complete", "embed", "moderate", "transcribe", "count"]
"""Kind of call. Each dialect and each model is for one of them. `complete` continues a text, and
`count` counts the tokens of a chat call; both use models of the operation `chat`. `transcribe`
converts speech to text, also with models of the operation `chat`."""

_NO_EXTRA: Mapping[str, Any] = MappingProxyType({})


@frozen
class EncodedJson:
    """Encoded JSON (UTF-8) that is copied into a request body.

    It can be a value of the body or an item of a list there. Several JSON values joined by commas
    are several items of that list.
    """

    data: bytes


@frozen
class ProviderRequest:
    """A request, written by a dialect and sent by a provider.

    Attributes:
        operation: Kind of call.
        dialect: Name of the dialect of the body.
        model_id: Id of the model at this provider.
        body: JSON values by field name; they may contain `EncodedJson`.
        stream: Whether to request a streamed reply.
        headers: Headers that the provider adds to its own.
        path: Path of the endpoint; the host sets it from `DialectEndpoint`.
        query: Query parameters; the host sets them from `DialectEndpoint`.
        file: File to upload: the request is a form (multipart/form-data) with the fields of the
            body and the file, in the field `file`. None for a request in JSON.
    """

    operation: Operation
    dialect: str
    model_id: str
    body: Mapping[str, Any]
    stream: bool = False
    headers: Mapping[str, str] = field(factory=dict)
    path: str = ""
    query: Mapping[str, str] = field(factory=dict)
    file: File | None = None

    def at_endpoint(self, path: str, query: Mapping[str, str]) -> ProviderRequest:
        """The request, sent to an endpoint.

        Args:
            path: Path of the endpoint.
            query: Query parameters.
        """
        # each call does this, and `evolve` takes three times as long
        return ProviderRequest(
            self.operation,
            self.dialect,
            self.model_id,
            self.body,
            self.stream,
            self.headers,
            path,
            query,
            self.file,
        )

    def data(self) -> bytes:
        """The body as JSON in UTF-8."""
        pieces: list[bytes] = []
        for name, value in self.body.items():
            pieces += (b"," if pieces else b"{", write_json(name), b":")
            _write(value, pieces)
        return b"".join([*(pieces or [b"{"]), b"}"])


def _write(value: Any, pieces: list[bytes]) -> None:
    """Append a value in chunks, without copying encoded JSON, which can be large."""
    if isinstance(value, EncodedJson):
        pieces.append(value.data)
    elif isinstance(value, (list, tuple)) and any(isinstance(item, EncodedJson) for item in value):
        items = [
            item.data if isinstance(item, EncodedJson) else write_long_json(item) for item in value
        ]
        between = b"["
        for item in filter(None, items):
            pieces += (between, item)
            between = b","
        pieces.append(b"]" if between == b"," else b"[]")
    else:
        pieces.append(write_long_json(value))


@frozen
class ProviderReply:
    """A complete reply.

    Attributes:
        body: The body.
        status: HTTP status; 400 or more is an error.
        headers: Headers, with names in lower case.
    """

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(factory=dict)


@frozen
class StreamEvent:
    """One event of a streamed reply.

    Attributes:
        data: Data of the event.
        name: Name of the event, if it has one. Dialects rely on it only for `error`.
    """

    data: bytes
    name: str | None = None

    @property
    def is_done(self) -> bool:
        """Whether the data is `[DONE]`, with which many services end a stream."""
        size = len(self.data)
        return size < _LONGEST_MARK and self.data.strip(b' \t\r\n"').upper() == b"[DONE]"

    @property
    def is_keepalive(self) -> bool:
        """Whether the event only keeps the connection open."""
        if self.name in _KEEPALIVES and not self.data.lstrip().startswith(b"{"):
            return True
        return not self.data or self.data == b"null" or self.data.isspace()


_LONGEST_MARK = 16
_KEEPALIVES = frozenset({"heartbeat", "keep-alive", "keep_alive", "keepalive", "ping"})
"""Names of events that some services send between the others, with a text or nothing."""


class ReplyStream(Protocol):
    """A streamed reply, which can be iterated once.

    `close` can be called from any thread, more than once. It ends a blocked iteration immediately.
    """

    def __iter__(self) -> Iterator[StreamEvent]: ...

    def close(self) -> None:
        """Stop reading and release the connection."""


class CancelToken(Protocol):
    """Signals the cancellation of one attempt; a provider receives it with each request.

    A provider that waits registers a callback that wakes it, then calls `check`:

        woken = threading.Event()
        with limits.on_cancel(woken.set):
            woken.wait(seconds)
            limits.check()
    """

    def check(self) -> None:
        """Raise the error that ends this attempt, if it was cancelled.

        Raises:
            GenaiError: The reason, for example `ProviderTimeout` or `Cancelled`.
        """

    def on_cancel(self, wake: Callable[[], None]) -> CancelHandle:
        """Call a function once when the attempt is cancelled.

        Args:
            wake: Called in the thread that cancels, or immediately if the attempt is already
                cancelled. It must not block or raise.

        Returns:
            A handle that removes the callback.
        """


class CancelHandle(Protocol):
    """A registered callback; a context manager that removes it on exit."""

    def release(self) -> None:
        """Remove the callback."""

    def __enter__(self) -> CancelHandle: ...

    def __exit__(self, *exc: object) -> None: ...


@frozen
class Cost:
    """Cost of model calls in US dollars; supports `+`.

    Calls count with the list price at the time of the call.

    Attributes:
        dollars: Cost of the calls with a known cost.
        known: Number of calls with a known cost.
        unknown: Number of calls with an unknown cost. If it is not 0, the total is at least
            `dollars`.
    """

    dollars: float = 0.0
    known: int = 0
    unknown: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.dollars + other.dollars,
            self.known + other.known,
            self.unknown + other.unknown,
        )


def cost_of_call(dollars: float | None) -> Cost:
    """The cost of one call, from US dollars; None if unknown."""
    return Cost(unknown=1) if dollars is None else Cost(dollars, known=1)


FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "other"]
"""Why a model stopped; the same values for all dialects.

- `stop`: the answer is complete, a stop sequence was met, or the reason is unknown
- `length`: the token limit was reached
- `tool_calls`: the model requests tool calls
- `content_filter`: the model or its service refused or truncated the answer
- `other`: the answer is not usable; `Completion.vendor_finish` has the reason of the service
"""


@frozen
class ToolSchema:
    """A tool as sent to the model.

    Attributes:
        name: Name of the tool.
        description: Description for the model.
        parameters: JSON Schema of an object.
        strict: Whether the service must enforce the schema, if it can.
    """

    name: str
    description: str
    parameters: Mapping[str, Any] = field(factory=dict)
    strict: bool = False


@frozen(kw_only=True)
class Call:
    """Base of all calls.

    Attributes:
        model_id: Id of the model at the provider.
        parameters: Validated model parameters by the host's names, for example `temperature`.
        variant: Options of the dialect; see `Dialect.variant`.
        stream: Whether to request a streamed reply.
    """

    model_id: str
    parameters: Mapping[str, Any] = field(factory=dict)
    variant: Mapping[str, Any] = field(factory=dict)
    stream: bool = False


@frozen(kw_only=True)
class ChatCall(Call):
    """A call that continues a conversation.

    Attributes:
        messages: The conversation, oldest message first.
        tools: Tools that the model may call.
        tool_choice: `auto`, `none`, `required` or a tool name; None for the model's default.
        schema: JSON Schema of the answer; None for free text.
        strict: Whether the service must enforce the schema, if it can.
        draft: Cache of encoded messages; set by the host.
    """

    messages: Sequence[Message]
    tools: Sequence[ToolSchema] = ()
    tool_choice: str | None = None
    schema: Mapping[str, Any] | None = None
    strict: bool = False
    _draft: Draft = field(factory=lambda: Draft(), eq=False, repr=False)

    def written(self, key: Hashable, write: Callable[[Message], bytes]) -> list[EncodedJson]:
        """Encode the messages, each at most once.

        Args:
            key: Cache key of the form: the dialect, and everything else that the form depends on.
            write: Encodes one message as JSON: one value, several values joined by commas, or
                nothing.

        Returns:
            The encoded messages, for the request body.
        """
        return [EncodedJson(self._draft.written(tuple(self.messages), key, write))]


class Draft:
    """Cache of the encoded messages of a conversation.

    The messages of a call usually begin with those of the call before; only new ones are encoded.
    """

    def __init__(self) -> None:
        self._last: dict[Hashable, tuple[tuple[Message, ...], bytes]] = {}

    def written(
        self, messages: tuple[Message, ...], key: Hashable, write: Callable[[Message], bytes]
    ) -> bytes:
        """The messages as JSON, joined by commas; see `ChatCall.written`."""
        before, data = self._last.get(key, ((), b""))
        if messages[: len(before)] != before:  # fast if they are the same objects
            before, data = (), b""
        new = [message.remember(key, write) for message in messages[len(before) :]]
        data = b",".join(filter(None, [data, *new]))
        self._last[key] = messages, data
        return data


@frozen(kw_only=True)
class CompleteCall(Call):
    """A call that continues texts. They are not messages: no template of a chat is applied.

    Attributes:
        prompts: The texts, each of them a string or its token IDs; see `Dialect.accepts_tokens`.
        suffix: Text after the answer, which fills the gap between the two; empty for none.
    """

    prompts: Sequence[str | Sequence[int]]
    suffix: str = ""


@frozen(kw_only=True)
class EmbedCall(Call):
    """A call that computes one embedding vector per text.

    Attributes:
        texts: The texts; see `Embed`.
        purpose: Use of the vectors. Some models embed queries and documents differently.
    """

    texts: Sequence[str | Sequence[int]]
    purpose: Literal["query", "document"] = "document"


@frozen(kw_only=True)
class ModerateCall(Call):
    """A call that checks a text against the rules of a service.

    Attributes:
        text: The text.
    """

    text: str


@frozen(kw_only=True)
class TranscribeCall(Call):
    """A call that converts speech to text.

    Attributes:
        audio: The recording; services detect its format by the extension of its name.
    """

    audio: File


@frozen
class Delta:
    """A chunk of a streamed answer.

    Attributes:
        text: Text of the answer.
        reasoning: Text of the model's reasoning.
        tool_call: A complete tool call.
        opaque: A complete part of the vendor, for example signed reasoning. It is passed on, not
            displayed.
        extra: Fields of the chunk that the host does not interpret, such as `logprobs`; None for
            none. For the operation `complete`, `choices` has all answers in the chunk.
    """

    text: str = ""
    reasoning: str = ""
    tool_call: ToolCall | None = None
    opaque: VendorPart | None = None
    extra: Mapping[str, Any] | None = None


@frozen
class RouteInfo:
    """The model, provider and dialect of a call.

    Attributes:
        model: Name of the model.
        provider: Name of the provider.
        dialect: Name of the dialect.
        configuration: Name of the model configuration that selected the model; empty if none.
    """

    model: str
    provider: str
    dialect: str
    configuration: str = ""


@frozen
class Completion:
    """A model's complete answer to a prompt.

    Attributes:
        message: The answer; its role is `assistant`.
        finish: Why the model stopped.
        usage: Tokens used.
        value: JSON value of the answer, if a schema was given.
        vendor_finish: Finish reason in the service's words.
        route: Model, provider and dialect; set by the host.
        seconds: Duration of the call; set by the host.
        cost: US dollars at list price, None if unknown; set by the host.
        raw_reply: File that the raw reply was added to, if the prompt requested it; set by the
            host.
        extra: Fields of the reply that the host does not interpret, such as `logprobs`. For the
            operation `complete`, `choices` has all answers of a whole reply.
    """

    message: Message
    finish: FinishReason = "stop"
    usage: Usage = NO_USAGE
    value: Any = None
    vendor_finish: str = ""
    route: RouteInfo | None = None
    seconds: float = 0.0
    cost: float | None = None
    raw_reply: str = ""
    extra: Mapping[str, Any] = _NO_EXTRA

    @property
    def reason(self) -> str:
        """Why the model stopped, in the service's words if known."""
        return self.vendor_finish or self.finish

    @property
    def place(self) -> ErrorPlace:
        """Provider and model, for error messages."""
        route = self.route
        return {
            "provider": route.provider if route else "",
            "model": route.model if route else "",
            "raw_reply": self.raw_reply,
        }

    @property
    def text(self) -> str:
        """Text of the message."""
        return self.message.text

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Tool calls of the message."""
        return self.message.tool_calls


@frozen
class Embeddings:
    """Embedding vectors, one per text, in order, all of one size.

    Attributes:
        vectors: The vectors.
        model: Name of the model, as reported by the service.
        usage: Tokens used.
        route: Model, provider and dialect; set by the host.
        seconds: Duration of the call; set by the host.
        cost: US dollars at list price, None if unknown; set by the host.
    """

    vectors: Sequence[Sequence[float]]
    model: str = ""
    usage: Usage = NO_USAGE
    route: RouteInfo | None = None
    seconds: float = 0.0
    cost: float | None = None


@frozen
class TokenCount:
    """Number of input tokens of a call, as counted by the service.

    Attributes:
        tokens: Number of tokens.
        route: Model, provider and dialect; set by the host.
        seconds: Duration of the call; set by the host.
        cost: US dollars; services count tokens for free.
    """

    tokens: int
    route: RouteInfo | None = None
    seconds: float = 0.0
    cost: float = 0.0


@frozen
class ModerationResult:
    """Result of a moderation call.

    Attributes:
        flagged: Whether the text violates the rules.
        categories: Score of each category, from 0 to 1.
        model: Name of the model, as reported by the service.
        route: Model, provider and dialect; set by the host.
        seconds: Duration of the call; set by the host.
        cost: US dollars at list price, None if unknown; set by the host.
    """

    flagged: bool
    categories: Mapping[str, float] = field(factory=dict)
    model: str = ""
    route: RouteInfo | None = None
    seconds: float = 0.0
    cost: float | None = None


@frozen
class Transcription:
    """Text of a recording.

    Attributes:
        text: The text, or subtitles if these were requested.
        extra: Fields of the reply, for example `segments`; empty if the reply is not JSON.
        usage: Tokens used, if reported.
        route: Model, provider and dialect; set by the host.
        seconds: Duration of the call; set by the host.
        cost: US dollars at list price, None if unknown; set by the host.
    """

    text: str
    extra: Mapping[str, Any] = _NO_EXTRA
    usage: Usage = NO_USAGE
    route: RouteInfo | None = None
    seconds: float = 0.0
    cost: float | None = None
