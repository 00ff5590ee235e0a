"""Calls of a model, independent of wire formats: requests, replies, results, cost.

`ProviderRequest`, `ProviderReply` and `StreamEvent` pass between a dialect and a provider. A
`Call` is what a dialect writes a request from; a result, such as `Completion`, is what it reads
from the reply.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

from attrs import field, frozen

from genai_host.api.json_text import write_json
from genai_host.api.messages import Message, ToolCall, Usage, VendorPart
from genai_host.errors import ErrorPlace

Operation = Literal["chat", "embed", "moderate", "count"]
"""What a model is asked to do; each dialect and each model is for one of them. A model for
`chat` is the one to `count` for: how many tokens a call of it would take."""


@frozen
class EncodedJson:
    """JSON that is written already, in UTF-8, to be pasted into a request body.

    It may stand as a value of the body, or in a list that is one; several JSON
    values joined by commas stand for as many items of that list.
    """

    data: bytes


@frozen
class ProviderRequest:
    """One request, as a dialect writes it and a provider sends it.

    Attributes:
        operation: What is asked.
        dialect: Name of the dialect that the body is written in.
        model_id: The model's id at this provider.
        body: JSON by field name, values may be `EncodedJson`.
        stream: Whether the reply is to come as events.
        headers: Sent with it, beside the provider's own.
        path: Where the provider serves it, from `DialectEndpoint`; filled in by the host.
        query: The same, for the address's query.
    """

    operation: Operation
    dialect: str
    model_id: str
    body: Mapping[str, Any]
    stream: bool = False
    headers: Mapping[str, str] = field(factory=dict)
    path: str = ""
    query: Mapping[str, str] = field(factory=dict)

    def data(self) -> bytes:
        """The body as JSON in UTF-8."""
        pieces: list[bytes] = []
        for name, value in self.body.items():
            pieces += (b"," if pieces else b"{", write_json(name), b":")
            _write(value, pieces)
        return b"".join(pieces or [b"{"]) + b"}"


def _write(value: Any, pieces: list[bytes]) -> None:
    """A value in pieces: what is written already may be large, and is not copied."""
    if isinstance(value, EncodedJson):
        pieces.append(value.data)
    elif isinstance(value, (list, tuple)) and any(isinstance(item, EncodedJson) for item in value):
        items = [item.data if isinstance(item, EncodedJson) else write_json(item) for item in value]
        between = b"["
        for item in filter(None, items):
            pieces += (between, item)
            between = b","
        pieces.append(b"]" if between == b"," else b"[]")
    else:
        pieces.append(write_json(value))


@frozen
class ProviderReply:
    """A whole reply. A status of 400 or more tells of a failure, as over HTTP; names of
    headers are in lower case."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(factory=dict)


@frozen
class StreamEvent:
    """One event of a streamed reply. The name is a hint; codecs do not rely on it, but for
    `error`."""

    data: bytes
    name: str | None = None


class ReplyStream(Protocol):
    """A streamed reply: iterate once.

    `close` may come from any thread, any number of times; an iteration that it
    finds blocked ends at once.
    """

    def __iter__(self) -> Iterator[StreamEvent]: ...

    def close(self) -> None: ...


class CancelToken(Protocol):
    """What bounds one attempt: handed to a provider with each request.

    A provider that waits registers how to be woken, and asks `check` then:

        woken = threading.Event()
        with limits.on_cancel(woken.set):
            woken.wait(seconds)
            limits.check()
    """

    def check(self) -> None:
        """Raise the error that ends this attempt, if it is to end."""

    def on_cancel(self, wake: Callable[[], None]) -> CancelHandle:
        """Call `wake` once when the attempt is to end: at once if it is already.

        `wake` runs in the thread that cancels, and must neither block nor raise.
        """


class CancelHandle(Protocol):
    """A registered callback; leaving it as a context, or `release`, takes it back."""

    def release(self) -> None: ...

    def __enter__(self) -> CancelHandle: ...

    def __exit__(self, *exc: object) -> None: ...


@frozen
class Cost:
    """What calls of models cost, in US dollars; `+` adds.

    Each call counts with what the list price at the time of the call comes to.

    Attributes:
        dollars: Of the calls whose cost is known.
        known: How many calls these are.
        unknown: How many further calls there were: all of them cost at least `dollars`.
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
    """The cost of one call; None if it is not known."""
    return Cost(unknown=1) if dollars is None else Cost(dollars, known=1)


FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "other"]
"""Why a model stopped, in the words that every dialect is brought to.

stop             it was done, met a stop sequence, or gave a reason that is not known
length           it reached its token limit
tool_calls       it wants tools to be run
content_filter   it, or its service, refused or cut the answer
other            a reason that leaves no usable answer; `Completion.vendor_finish` has the
                 vendor's word
"""


@frozen
class ToolSchema:
    """A tool as the model sees it; `parameters` is a JSON Schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any] = field(factory=dict)


@frozen(kw_only=True)
class Call:
    """What every operation shares.

    Attributes:
        model_id: The model's id at the provider.
        parameters: By the host's names (`temperature`, `max_tokens` ...), validated.
        variant: Which of its variants the dialect is to write.
        stream: Whether the reply is to come in pieces.
    """

    model_id: str
    parameters: Mapping[str, Any] = field(factory=dict)
    variant: Mapping[str, Any] = field(factory=dict)
    stream: bool = False


@frozen(kw_only=True)
class ChatCall(Call):
    """Continue a conversation.

    Attributes:
        messages: What was said, oldest first.
        tools: The tools that the model may ask for.
        tool_choice: `auto`, `none`, `required` or the name of a tool; None leaves it to the model.
        schema: JSON Schema that the answer must satisfy; None for free text.
        draft: What was written for the calls before it; the host's.
    """

    messages: Sequence[Message]
    tools: Sequence[ToolSchema] = ()
    tool_choice: str | None = None
    schema: Mapping[str, Any] | None = None
    _draft: Draft = field(factory=lambda: Draft(), eq=False, repr=False)

    def written(self, key: Hashable, write: Callable[[Message], bytes]) -> list[EncodedJson]:
        """The messages as a dialect writes them, each of them written once.

        Args:
            key: Names the form: the dialect, and what else of the call the form depends on.
            write: One message as JSON: a value, several joined by commas, or nothing.
        """
        return [EncodedJson(self._draft.written(tuple(self.messages), key, write))]


class Draft:
    """What was written for the last call of a conversation. The next one begins alike, and
    only what is new of it is written."""

    def __init__(self) -> None:
        self._last: dict[Hashable, tuple[tuple[Message, ...], bytes]] = {}

    def written(
        self, messages: tuple[Message, ...], key: Hashable, write: Callable[[Message], bytes]
    ) -> bytes:
        """The messages as JSON, joined by commas; see `ChatCall.written`."""
        before, data = self._last.get(key, ((), b""))
        if messages[: len(before)] != before:  # which is quick where they are the same objects
            before, data = (), b""
        new = [message.remember(key, write) for message in messages[len(before) :]]
        data = b",".join(filter(None, [data, *new]))
        self._last[key] = messages, data
        return data


@frozen(kw_only=True)
class EmbedCall(Call):
    """Turn texts into vectors, one each, in order.

    Attributes:
        purpose: What the vectors are for: some models embed a search query otherwise than the
            documents that it is to find.
    """

    texts: Sequence[str]
    purpose: Literal["query", "document"] = "document"


@frozen(kw_only=True)
class ModerateCall(Call):
    """Judge a text by the rules of a service."""

    text: str


@frozen
class Delta:
    """A piece of an answer that is still being written.

    Attributes:
        opaque: A vendor's own part that is whole, as thoughts that are signed: for who passes the
            answer on in pieces; it shows nothing.
    """

    text: str = ""
    reasoning: str = ""
    tool_call: ToolCall | None = None
    opaque: VendorPart | None = None


@frozen
class RouteInfo:
    """Which model answered, at which provider instance, in which dialect.

    Attributes:
        configuration: The model configuration by whose name it was asked; empty if by none.
    """

    model: str
    provider: str
    dialect: str
    configuration: str = ""


@frozen
class Completion:
    """A model's whole answer to one prompt.

    Attributes:
        message: What it said, role `assistant`.
        finish: Why it stopped.
        usage: Tokens used.
        value: The JSON value of the answer, where a schema was given.
        vendor_finish: Why it stopped, in the vendor's word.
        route: Which way it was called; filled in by the host.
        seconds: How long it took; filled in by the host.
        cost: US dollars, by the list price of that time; None if it is not known; filled in by the
            host.
        raw_reply: The file that the service's reply was added to as it came, where a prompt says
            that; filled in by the host.
    """

    message: Message
    finish: FinishReason = "stop"
    usage: Usage = field(factory=Usage)
    value: Any = None
    vendor_finish: str = ""
    route: RouteInfo | None = None
    seconds: float = 0.0
    cost: float | None = None
    raw_reply: str = ""

    @property
    def reason(self) -> str:
        """Why it stopped, in the vendor's word where it has one."""
        return self.vendor_finish or self.finish

    @property
    def place(self) -> ErrorPlace:
        """Where it comes from, for an error about it."""
        route = self.route
        return {
            "provider": route.provider if route else "",
            "model": route.model if route else "",
            "raw_reply": self.raw_reply,
        }

    @property
    def text(self) -> str:
        return self.message.text

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return self.message.tool_calls


@frozen
class Embeddings:
    """Embeddings: one vector for each text, in order, all of one size."""

    vectors: Sequence[Sequence[float]]
    model: str = ""
    usage: Usage = field(factory=Usage)
    route: RouteInfo | None = None
    seconds: float = 0.0
    cost: float | None = None


@frozen
class TokenCount:
    """How many tokens a call would take, by the service that would answer it.

    Attributes:
        tokens: Of all that the model would be given.
        route: Which way it was asked; filled in by the host.
        seconds: How long it took; filled in by the host.
        cost: US dollars: no service takes any for it.
    """

    tokens: int
    route: RouteInfo | None = None
    seconds: float = 0.0
    cost: float = 0.0


@frozen
class ModerationResult:
    """What a service thinks of a text.

    Attributes:
        flagged: Whether it breaks the service's rules.
        categories: Name to how sure it is, 0 to 1.
        model: The model that judged, as the service names it.
        route: Which way it was called; filled in by the host.
        seconds: How long it took; filled in by the host.
        cost: As that of a `Completion`.
    """

    flagged: bool
    categories: Mapping[str, float] = field(factory=dict)
    model: str = ""
    route: RouteInfo | None = None
    seconds: float = 0.0
    cost: float | None = None
