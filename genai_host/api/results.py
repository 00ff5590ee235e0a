"""Results of calls of a model, independent of API formats: answers, chunks of answers, embeddings,
token counts, moderation, and what a call cost.

Each format defines a few finish reasons, but services that share a format use others. So there is
one table for all dialects. An unknown reason is only a hint: words in it can mean that the answer
was truncated, refused or interrupted; otherwise `read_finish` returns the default of the dialect,
and the answer is accepted.
"""

from __future__ import annotations

import base64
import math
import re
import sys
from array import array
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from attrs import field, frozen

from genai_host.api.messages import NO_USAGE, Citation, Message, ToolCall, Usage, VendorPart
from genai_host.errors import (
    ErrorPlace,
    GenerationError,
    IncompleteReply,
    MalformedReply,
    UnexpectedFinish,
)

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
        citations: Pages that support passages of the text so far, with positions in it.
    """

    text: str = ""
    reasoning: str = ""
    tool_call: ToolCall | None = None
    opaque: VendorPart | None = None
    extra: Mapping[str, Any] | None = None
    citations: tuple[Citation, ...] = ()


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
            self.dollars + other.dollars, self.known + other.known, self.unknown + other.unknown
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

    def in_one_piece(self) -> Delta:
        """Its text as one chunk, with `extra` and the citations."""
        return Delta(self.text, extra=self.extra or None, citations=self.message.citations)

    @property
    def place(self) -> ErrorPlace:
        """Provider and model, for error messages."""
        route = self.route
        return {
            "provider": route.provider if route else "",
            "model": route.model if route else "",
            "raw_reply": self.raw_reply,
        }

    def check_finish(self, *expected: FinishReason) -> None:
        """Raise `UnexpectedFinish` if the model stopped for a reason that is not expected."""
        if self.finish not in expected:
            raise UnexpectedFinish(
                f"the model stopped because of {self.reason}",
                reason=self.reason,
                detail=self.text,
                **self.place,
            )

    def check_text(self) -> None:
        """Raise `GenerationError` if the answer has no text."""
        if not self.text.strip():
            raise GenerationError(
                "the model returned an empty answer", reason=self.reason, **self.place
            )

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


_MAX_WORD = 100

_WORDS: Mapping[FinishReason, str] = {
    "stop": """
        complete completed done end end_of_text end_of_turn end_token end_turn eos eos_token eot
        finish finished normal ok stop stop_sequence stop_str stop_token stopped success
    """,
    "length": """
        cache_full context_full continuation error_limit length limit max_length max_tokens
        model_context_window_exceeded model_length token_limit truncated
    """,
    "tool_calls": "function_call function_calls tool tool_call tool_calls tool_use tools",
    "content_filter": """
        blocklist content_filter content_filtered error_toxic escalation guardrail_intervened
        image_prohibited_content image_recitation image_safety model_armor prohibited_content
        recitation refusal safety sensitive spii
    """,
    "other": """
        image_other language load malformed_function_call malformed_model_output
        malformed_response malformed_tool_use missing_thought_signature no_image other pause
        pause_turn too_many_tool_calls unexpected_tool_call unload
    """,
}
_MEANINGS: Mapping[str, FinishReason] = {
    word: meaning for meaning, words in _WORDS.items() for word in words.split()
}
_NONE = frozenset({"", "in_progress", "none", "not_finished", "null", "unspecified"})
"""Values of services for an answer that is not finished."""
_INNER_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_BETWEEN = re.compile(r"[^a-z0-9]+")
_BROKEN_OFF = re.compile(r"abort|cancel|error|fail|insufficient|interrupt|timeout|unavailable")
_PARTS: tuple[tuple[re.Pattern[str], FinishReason], ...] = (
    (re.compile(r"budget|exceeded|length|limit|max_|token|truncat|window"), "length"),
    (re.compile(r"block|filter|moderat|polic|prohibit|refus|safety"), "content_filter"),
    (re.compile(r"invalid|malformed|unexpected"), "other"),
)
"""Meaning of words in unknown reasons; the first match counts."""
_WEIGHTS: Mapping[FinishReason, int] = {
    "stop": 0, "tool_calls": 1, "other": 2, "length": 3, "content_filter": 4,
}  # fmt: skip
_HEAVIEST = 5  # interrupted


def finish_word(value: object) -> str:
    """A finish reason in the service's words; empty if it is missing or means that the answer is
    not finished."""
    if not isinstance(value, str) or _plain(value) in _NONE:
        return ""
    return value[:_MAX_WORD]


def weightier(first: str, second: str) -> str:
    """The more specific of two finish reasons of one answer: `stop` does not override a
    truncation."""
    if not first or not second:
        return first or second
    return second if _weight(second) >= _weight(first) else first


def read_finish(
    word: str, *, calls: bool = False, text: str = "", unknown: FinishReason = "stop"
) -> FinishReason:
    """The meaning of a finish reason.

    Args:
        word: From `finish_word`; empty if the service gave no reason.
        calls: Whether the model requested tool calls; some services then report `stop`.
        text: Text of the answer.
        unknown: Meaning of an unknown reason.

    Raises:
        IncompleteReply: The reason means that the service interrupted the answer.
    """
    plain = _plain(word)
    if plain not in _MEANINGS and _BROKEN_OFF.search(plain):
        raise IncompleteReply(f"the service interrupted the reply: {word}", text=text)
    meaning = _meaning(plain) or unknown
    return "tool_calls" if calls and meaning == "stop" else meaning


def _meaning(plain: str) -> FinishReason | None:
    """None for an unknown word."""
    if plain in _MEANINGS or not plain:
        return _MEANINGS.get(plain, "stop")
    return next((meaning for part, meaning in _PARTS if part.search(plain)), None)


def _weight(word: str) -> int:
    plain = _plain(word)
    if plain not in _MEANINGS and _BROKEN_OFF.search(plain):
        return _HEAVIEST
    return _WEIGHTS[_meaning(plain) or "stop"]


def _plain(word: str) -> str:
    """Normalize case and separators: `MaxTokens`, `MAX_TOKENS` and `max-tokens` are one word."""
    if word in _MEANINGS:
        return word
    parted = _INNER_CAPITAL.sub("_", word[:_MAX_WORD]).lower()
    return _BETWEEN.sub("_", parted).strip("_").removeprefix("finish_reason_")


def must_be_vectors(vectors: Sequence[Any], texts: int) -> None:
    """Check that there is one vector per text, all of one size, and none of them empty.

    Raises:
        MalformedReply: The numbers or the sizes differ, or a vector is empty.
    """
    sizes = {len(vector) for vector in vectors}
    if len(vectors) != texts:
        raise MalformedReply(f"expected {texts} vectors, one per text, received {len(vectors)}")
    if 0 in sizes:
        raise MalformedReply("a vector is empty")
    if len(sizes) > 1:
        shown = ", ".join(map(str, sorted(sizes)[:3]))
        raise MalformedReply(f"the vectors have different sizes: {shown}")


def read_vector(numbers: Any) -> list[float]:
    """Read a vector from a JSON value.

    Raises:
        MalformedReply: It is empty, or not a list of finite numbers.
    """
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
    """Read a vector from base64 of 4-byte floats, little-endian.

    Raises:
        MalformedReply: It is not valid.
    """
    try:
        numbers = array("f", base64.b64decode(text, validate=True))
    except ValueError as error:
        raise MalformedReply("an embedding is not base64 of numbers") from error
    if sys.byteorder == "big":
        numbers.byteswap()
    return read_vector(numbers.tolist())
