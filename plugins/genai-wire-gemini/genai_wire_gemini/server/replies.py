"""Replies, streams and errors of the Gemini API.

Source: Gemini API reference, "GenerateContentResponse", "Candidate", "FinishReason",
"UsageMetadata"; the guide to thought signatures; Google's API design guide, "Errors" (AIP-193),
`google/rpc/code.proto`, `google/rpc/error_details.proto`.

A signature is in the part that was signed. Function calls are therefore sent at the end, when all
of their data is known, and so are other parts after them, except text. The signature of a text that
was already sent is in an empty part.
"""

from __future__ import annotations

import base64
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

from genai_host.api import (
    Completion,
    File,
    FinishReason,
    HttpProblem,
    Image,
    Part,
    Reasoning,
    RouteResponse,
    Text,
    ToolCall,
    Usage,
    VendorPart,
    decode_base64,
    json_response,
    with_extra,
    write_json,
)
from genai_host.errors import GenaiError
from genai_host.serving import CompletionStream, status_of, with_retry_after
from genai_wire_gemini.dialect.replies import NAME, SIGNATURE, STATUS_OF_NAME
from genai_wire_gemini.grounding import metadata_of

_STATUS_NAMES = {
    **{status: name for name, status in reversed(STATUS_OF_NAME.items())},  # the first of each
    405: "UNIMPLEMENTED",
    422: "FAILED_PRECONDITION",
    502: "UNAVAILABLE",
}


def problem_reply(problem: HttpProblem) -> RouteResponse:
    """Return an error as
    `{"error": {"code": 400, "message": "...", "status": "INVALID_ARGUMENT"}}`."""
    return json_response(error_object(problem), status_of(problem), with_retry_after(problem))


def error_object(problem: HttpProblem) -> dict[str, Any]:
    """Return the body of an error, which is also used in streams."""
    status = status_of(problem)
    message = f"{problem.message}; {problem.hint}" if problem.hint else problem.message
    error: dict[str, Any] = {
        "code": status,
        "message": message,
        "status": _STATUS_NAMES.get(status, "INVALID_ARGUMENT" if status < 500 else "INTERNAL"),
        "details": _details(problem),
    }
    return {"error": error}


def _details(problem: HttpProblem) -> list[dict[str, Any]]:
    details: list[dict[str, Any]] = [
        {**_kind("ErrorInfo"), "reason": problem.code.upper(), "domain": "genai-host"}
    ]
    if problem.path:
        violation = {"field": problem.path.removeprefix("$").removeprefix(".")}
        violation["description"] = problem.message
        details.append({**_kind("BadRequest"), "fieldViolations": [violation]})
    if problem.retry_after is not None:
        details.append({**_kind("RetryInfo"), "retryDelay": f"{problem.retry_after:.10g}s"})
    return details


def _kind(name: str) -> dict[str, str]:
    return {"@type": f"type.googleapis.com/google.rpc.{name}"}


_FINISHES: Mapping[FinishReason, str] = {
    "stop": "STOP",
    "length": "MAX_TOKENS",
    "tool_calls": "STOP",
    "content_filter": "SAFETY",
    "other": "OTHER",
}
_MORE_EXACT = frozenset(
    {
        "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS", "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE",
        "MISSING_THOUGHT_SIGNATURE", "MODEL_ARMOR", "ESCALATION",
    }
)  # fmt: skip
"""Finish reasons that a service may have reported itself."""

_Wire = dict[str, Any]


@frozen
class ContentWriter:
    """Writer of one answer.

    Attributes:
        model: Model name as requested.
        thoughts: Whether to include reasoning.
        enum: Whether the answer is a value of an enum, without the quotes of JSON.
    """

    model: str
    thoughts: bool
    enum: bool = False
    id: str = field(factory=lambda: secrets.token_urlsafe(16))

    def whole(self, completion: Completion) -> _Wire:
        completion = self._bare(completion)
        parts = wire_parts(completion.message.content, thoughts=self.thoughts)
        return self._last(completion, parts)

    def events(self, answering: CompletionStream) -> Iterator[bytes]:
        """Yield the chunks as server-sent events."""
        for piece in self._pieces(answering):
            yield _error(piece) if "error" in piece else _event(piece)

    def array(self, answering: CompletionStream) -> Iterator[bytes]:
        """Yield the chunks as a JSON array."""
        before = b"["
        for each in self._pieces(answering):
            yield before + write_json(each)
            before = b",\r\n"
        yield b"]"

    def _pieces(self, answering: CompletionStream) -> Iterator[_Wire]:
        """Yield the chunks. An error is the last chunk, without a finish reason."""
        thought = False
        streamed: Counter[bytes] = Counter()
        has_call = False
        try:
            for delta in answering:
                own = delta.extra.get(NAME, {}) if delta.extra else {}
                further = own.get("part", {})
                if delta.reasoning and self.thoughts:
                    thought = True
                    yield self._piece([{**further, "text": delta.reasoning, "thought": True}])
                if delta.text and not self.enum:
                    yield self._piece([{"text": delta.text, **further}])
                has_call = has_call or delta.tool_call is not None
                opaque = [] if delta.opaque is None or has_call else [delta.opaque]
                if parts := wire_parts(opaque, thoughts=self.thoughts):
                    streamed.update(map(_key, parts))
                    yield self._piece(parts)
            completion = self._bare(answering.completion)
        except GenaiError as error:
            yield error_object(HttpProblem.of(error))
            return
        sent: tuple[type[Part], ...] = (() if self.enum else (Text,)) + (
            (Reasoning,) if thought else ()
        )
        parts = wire_parts(completion.message.content, thoughts=self.thoughts, sent=sent)
        yield self._last(completion, _without(streamed, parts) or [{"text": ""}])

    def _bare(self, completion: Completion) -> Completion:
        if not self.enum or completion.value is None:
            return completion
        value = completion.value
        text = Text(value if isinstance(value, str) else write_json(value).decode())
        others = [part for part in completion.message.content if not isinstance(part, Text)]
        return evolve(completion, message=evolve(completion.message, content=[*others, text]))

    def _piece(self, parts: Sequence[_Wire]) -> _Wire:
        content = {"parts": parts, "role": "model"}
        return {"candidates": [{"content": content, "index": 0}], **self._about()}

    def _last(self, completion: Completion, parts: Sequence[_Wire]) -> _Wire:
        extra = completion.extra.get(NAME, {})
        content = {**({"parts": parts} if parts else {}), "role": "model"}
        candidate = {
            "content": {**content, **extra.get("content", {})},
            **_finish(completion),
            "index": 0,
            **metadata_of(completion.message, parts),
            **extra.get("candidate", {}),
        }
        further = extra.get("reply", {})
        return {
            **({} if "promptFeedback" in further else {"candidates": [candidate]}),
            "usageMetadata": {**_usage(completion.usage), **extra.get("usage", {})},
            **self._about(),
            **further,
        }

    def _about(self) -> _Wire:
        return {"modelVersion": self.model, "responseId": self.id}


def _without(streamed: Counter[bytes], parts: Sequence[_Wire]) -> list[_Wire]:
    left = []
    for part in parts:
        streamed[key := _key(part)] -= 1
        if streamed[key] < 0:
            left.append(part)
    return left


def _key(part: _Wire) -> bytes:
    """What a streamed part and that of the complete answer have in common: data is encoded anew."""
    data = part.get("inlineData")
    return decode_base64(data["data"]) if data else write_json(part)


def error_event(error: GenaiError) -> bytes:
    """Return an error as the end of a stream."""
    return _error(error_object(HttpProblem.of(error)))


def _error(value: _Wire) -> bytes:
    """An error within a stream: Google's clients expect it as JSON without `data:`. That for
    JavaScript ignores others, and takes the answer for complete."""
    return b"%b\r\n\r\n" % write_json(value)


def _event(value: _Wire) -> bytes:
    return b"data: %b\r\n\r\n" % write_json(value)


def wire_parts(
    parts: Sequence[Part], *, thoughts: bool, sent: tuple[type[Part], ...] = ()
) -> list[_Wire]:
    """Return the parts of an answer, with reasoning only if `thoughts`, and without the types of
    parts that were already `sent`."""
    wire: list[_Wire] = []
    last: _Wire | None = None  # can take a signature
    for part in parts:
        if isinstance(part, VendorPart):
            if part.dialect == NAME and isinstance(part.data, Mapping):
                wire += _opaque(part.data, last, thoughts)
            last = None
            continue
        last = None if isinstance(part, sent) else _wire_part(part, thoughts)
        last = None if last is None else with_extra(last, part, NAME)
        wire += [] if last is None else [last]
    return wire


def _opaque(data: Mapping[str, Any], last: _Wire | None, thoughts: bool) -> list[_Wire]:
    """The parts of a signature; none if it was added to the previous part."""
    if data.get("thought") is True and not thoughts:
        return []
    if data.keys() <= {SIGNATURE, "text", "thought"}:
        if last is not None and ("text" not in data or data["text"] == last.get("text")):
            last.update({SIGNATURE: data.get(SIGNATURE, "")})
            return []
        kept = {"thought": True} if data.get("thought") is True else {}
        return [{"text": "", **kept, SIGNATURE: data.get(SIGNATURE, "")}]
    return [dict(data)]


def _wire_part(part: Part, thoughts: bool) -> _Wire | None:
    if isinstance(part, Text):
        return {"text": part.text}
    if isinstance(part, Reasoning):
        return {"text": part.text, "thought": True} if thoughts else None
    if isinstance(part, ToolCall) and not part.malformed:
        return {"functionCall": {"id": part.id, "name": part.name, "args": part.arguments}}
    if isinstance(part, (Image, File)):
        if part.url:
            return {"fileData": {"mimeType": part.media_type, "fileUri": part.url}}
        data = base64.b64encode(part.data).decode()
        usual = "image/png" if isinstance(part, Image) else "application/octet-stream"
        return {"inlineData": {"mimeType": part.media_type or usual, "data": data}}
    return None


def _finish(completion: Completion) -> _Wire:
    malformed = [call for call in completion.tool_calls if call.malformed]
    if malformed:
        message = f"Malformed function call: {malformed[0].name} {malformed[0].malformed}"
        return {"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": message}
    reason = completion.vendor_finish
    exact = completion.finish in ("content_filter", "other") and reason in _MORE_EXACT
    return {"finishReason": reason if exact else _FINISHES[completion.finish]}


def _usage(usage: Usage) -> _Wire:
    wire = {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": max(usage.output_tokens - usage.reasoning_tokens, 0),
        "totalTokenCount": usage.total,
    }
    if usage.reasoning_tokens:
        wire["thoughtsTokenCount"] = usage.reasoning_tokens
    if usage.cached_tokens:
        wire["cachedContentTokenCount"] = usage.cached_tokens
    return wire
