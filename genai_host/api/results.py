"""Results of calls of a model, independent of API formats: answers, chunks of answers, embeddings,
token counts, moderation, and what a call cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from attrs import field, frozen

from genai_host.api.messages import NO_USAGE, Message, ToolCall, Usage, VendorPart
from genai_host.errors import ErrorPlace

FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "other"]

"""Why a model stopped; the same values for all dialects.

- `stop`: the answer is complete, a stop sequence was met, or the reason is unknown
- `length`: the token limit was reached
- `tool_calls`: the model requests tool calls
- `content_filter`: the model or its service refused or truncated the answer
- `other`: the answer is not usable; `Completion.vendor_finish` has the reason of the service
"""


_NO_EXTRA: Mapping[str, Any] = MappingProxyType({})


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
