"""Complete and streamed replies of `generateContent`, and objects and errors of all replies.

Source: Gemini API reference, "GenerateContentResponse", and the guides to thinking, thought
signatures and function calling; google-genai 3.4 for Vertex AI; all as of November 2026.

The events of a streamed reply have the format of whole replies. A finish reason marks the end,
unless the first event has one: some services send one in each event.

A signed part is sent back with its signature. The signature is stored as an opaque part after it,
which contains the whole part if it has no other representation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from attrs import evolve

from genai_host.api import (
    ChatCall,
    Citation,
    Completion,
    Delta,
    File,
    FinishReason,
    Image,
    Message,
    Part,
    ProviderReply,
    Reasoning,
    StreamEvent,
    Text,
    ToolCall,
    Usage,
    VendorPart,
    count_in,
    decode_base64,
    details_in,
    error_object,
    explain_reply,
    extra_of,
    finish_word,
    id_in,
    interrupted,
    malformed,
    message_in,
    object_in,
    objects_in,
    read_event,
    read_finish,
    read_json,
    read_reply,
    read_tool_call,
    service_error,
    string_in,
    unknown_fields,
    weightier,
    write_json,
)
from genai_host.errors import AuthenticationFailed, GenaiError, UnexpectedFinish
from genai_wire_gemini.grounding import METADATA, citations_in, with_citations

ANSWER = ("candidates", "embeddings", "promptFeedback", "totalTokens", "usageMetadata")
"""Fields of replies that are no errors."""

_NO_STATUS = 500
_BAD_KEYS = frozenset({"API_KEY_INVALID", "API_KEY_EXPIRED"})  # sent with status 400
STATUS_OF_NAME: dict[str, int] = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ABORTED": 409,
    "ALREADY_EXISTS": 409,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNKNOWN": 500,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}


def read_object(data: bytes) -> dict[str, Any]:
    """Parse a reply or an event. Raises the error that it contains, and `MalformedReply`."""
    return read_reply(data, error_in, ANSWER)


def read_objects(data: bytes) -> list[dict[str, Any]]:
    """Parse a stream that is a JSON array, the format of the service without server-sent events."""
    try:
        values = read_json(data)
    except ValueError as error:
        raise malformed(f"it is not JSON: {error}") from error
    return [read_object(write_json(value)) for value in values]


class WithErrors:
    """Base class of the dialects, whose errors have one form."""

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        return explain_reply(reply, error_in)


def error_in(data: Mapping[str, Any], status: int | None = None) -> GenaiError | None:
    """The error in an object; see `ErrorIn`."""
    error = error_object(data)
    if error is None:
        return None
    message = message_in(error.get("message") or error.get("status") or error)
    details = error.get("details")
    details = [each for each in details if isinstance(each, dict)] if type(details) is list else []
    status = status or _status_of(error)
    if any(str(each.get("reason")) in _BAD_KEYS for each in details):
        return AuthenticationFailed(message, status=status)
    return service_error(status, message, retry_after=_retry_after(details))


def _status_of(error: Mapping[str, Any]) -> int:
    code, name = error.get("code"), error.get("status")
    if type(code) is int and 400 <= code < 600:
        return code
    return STATUS_OF_NAME.get(name, _NO_STATUS) if isinstance(name, str) else _NO_STATUS


def _retry_after(details: list[dict[str, Any]]) -> float | None:
    """Return the seconds in `{"@type": ".../google.rpc.RetryInfo", "retryDelay": "37.5s"}`."""
    for each in details:
        delay = each.get("retryDelay")
        if isinstance(delay, str) and delay.endswith("s"):
            try:
                seconds = float(delay[:-1])
            except ValueError:
                continue
            if math.isfinite(seconds) and seconds >= 0:
                return seconds
    return None


NAME = "gemini"
SIGNATURE = "thoughtSignature"

_KNOWN: Mapping[str, frozenset[str]] = {
    "reply": frozenset(
        {"candidates", "createTime", "error", "modelVersion", "promptFeedback", "responseId",
         "usageMetadata"}
    ),
    "candidate": frozenset({"content", "finishMessage", "finishReason", "index"}),
    "content": frozenset({"parts", "role"}),
    "usage": frozenset(
        {"cachedContentTokenCount", "candidatesTokenCount", "promptTokenCount",
         "thoughtsTokenCount", "toolUsePromptTokenCount", "totalTokenCount"}
    ),
}  # fmt: skip
"""Fields of objects in replies. Others are passed on to clients, in `extra`."""
_IN_PART = frozenset({"functionCall", "inlineData", "text", "thought", SIGNATURE})
_IN_CALL = frozenset({"args", "id", "name"})
_IN_DATA = frozenset({"data", "displayName", "mimeType"})

_UNNAMED = "call_without_id_"


def has_own_id(id: str) -> bool:
    """Whether the id of a tool call is from a service, rather than generated here."""
    return not id.startswith(_UNNAMED)


def read_completion(call: ChatCall, body: bytes) -> Completion:
    """Parse a complete reply. Raises `MalformedReply`, or `UnexpectedFinish` without an answer."""
    reading = _Reading(call)
    if body.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):  # a stream without server-sent events
        for data in read_objects(body):
            reading.add(data)
        if not reading.finish:
            raise interrupted(reading.text)
    else:
        reading.add(read_object(body))
    if not reading.answered:
        raise UnexpectedFinish("the model gave no answer", reason="no candidates")
    return reading.completion()


class ReplyDecoder:
    """Assembles a streamed reply."""

    def __init__(self, call: ChatCall) -> None:
        self._reading = _Reading(call)
        self._is_marked = False

    @property
    def done(self) -> bool:
        return self._is_marked or self._reading.ended

    def feed(self, event: StreamEvent) -> Sequence[Delta]:
        if event.is_done:  # some proxies end every stream with it
            self._is_marked = True
            return ()
        return self._reading.add(read_event(event, error_in, ANSWER))

    def finish(self) -> Completion:
        if not self._is_marked and not self._reading.finish:
            raise interrupted(self._reading.text)
        return self._reading.completion()


class _Reading:
    """State of reading a reply.

    Attributes:
        answered: Whether the answer has begun.
        finish: Finish reason; empty before the end.
        ended: Whether the last event has a finish reason, and an earlier one has none.
    """

    def __init__(self, call: ChatCall) -> None:
        self.answered = False
        self.finish = ""
        self.ended = False
        self._is_blocked = False
        self._is_continued = False
        self._usage = Usage()
        self._parts: list[Part] = []
        self._texts: list[str] = []  # chunks of the current part
        self._kind: type[Text] | type[Reasoning] | None = None  # type of the current part
        self._ids = {each.id for message in call.messages for each in message.tool_calls}
        self._calls: dict[str, ToolCall] = {}
        self._unknown: dict[str, Any] = {}  # fields, by the name of the object
        self._citations: Sequence[Citation] = ()

    @property
    def text(self) -> str:
        texts = [part.text for part in self._parts if isinstance(part, Text)]
        return "".join([*texts, *(self._texts if self._kind is Text else ())])

    def add(self, data: Mapping[str, Any]) -> list[Delta]:
        """Read a response."""
        if data.get("usageMetadata") is not None:  # cumulative
            self._usage = read_usage(data["usageMetadata"])
        candidates = objects_in(data, "candidates")
        self._add_unknown("reply", data)
        self._add_unknown("usage", details_in(data, "usageMetadata"))
        if not candidates:
            self._add_block(data)
            return []
        self.answered = True
        content = object_in(candidates[0], "content")
        parts = objects_in(content, "parts")
        self._add_unknown("candidate", candidates[0])
        self._add_unknown("content", content)
        pieces = [piece for part in parts for piece in self._add_part(part)]
        if METADATA in candidates[0]:
            self._set_citations(candidates[0], parts)
        reason = finish_word(candidates[0].get("finishReason"))
        self._is_continued = self._is_continued or not reason
        self.ended = self._is_continued and bool(reason)
        self.finish = weightier(self.finish, reason)
        return pieces

    def _add_block(self, data: Mapping[str, Any]) -> None:
        """Read the reason why a prompt has no answer. It is charged and not to be repeated, so that
        it is no error."""
        reason = string_in(details_in(data, "promptFeedback"), "blockReason")
        if reason:
            self.answered = self._is_blocked = True
            self.finish = reason
            self._unknown["reply"] = {
                **self._unknown.get("reply", {}),
                "promptFeedback": data["promptFeedback"],
            }

    def completion(self) -> Completion:
        self._close()
        finish: FinishReason = "content_filter"
        if not self._is_blocked:
            finish = read_finish(
                self.finish, calls=bool(self._calls), text=self.text, unknown="other"
            )  # the only finish reason of a complete answer
        message = Message("assistant", with_citations(self._parts, self._citations))
        extra = extra_of(NAME, self._unknown) or {}
        return Completion(message, finish, self._usage, vendor_finish=self.finish, extra=extra)

    def _set_citations(
        self, candidate: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]
    ) -> None:
        """Set the citations, with positions in parts of a whole reply or in a streamed text."""
        texts = ["" if each.get("thought") is True else string_in(each, "text") for each in parts]
        is_whole = "".join(texts) == self.text
        self._citations = citations_in(candidate, texts if is_whole else [self.text])

    def _add_unknown(self, name: str, data: Mapping[str, Any]) -> None:
        if fields := unknown_fields(data, _KNOWN[name]):
            self._unknown[name] = {**self._unknown.get(name, {}), **fields}

    def _add_part(self, part: Mapping[str, Any]) -> Iterator[Delta]:
        signature = string_in(part, SIGNATURE)
        unknown = unknown_fields(part, _IN_PART)
        extra = extra_of(NAME, unknown)
        if part.get("text") is not None:
            text = string_in(part, "text")
            further = {NAME: {"part": unknown}} if unknown else None
            if part.get("thought") is True:
                self._add_text(Reasoning, text, extra)
                if signature:
                    self._add(VendorPart(NAME, dict(part)))
                yield from [Delta(reasoning=text, extra=further)] if text else []
                return
            if signature:
                self._close()  # signed and unsigned text must not be joined
            self._add_text(Text, text, extra)
            yield from [Delta(text, extra=further)] if text else []
        elif part.get("functionCall") is not None:
            data = object_in(part, "functionCall")
            if inner := unknown_fields(data, _IN_CALL):
                extra = {NAME: {**unknown, "functionCall": inner}}
            call = self._read_call(data, extra)
            if self._calls.get(call.id) == call:  # a repeated call
                return
            self._calls[call.id] = call
            self._add(call)
            yield Delta(tool_call=call)
        elif part.get("inlineData") is not None:
            data = object_in(part, "inlineData")
            if inner := unknown_fields(data, _IN_DATA):
                extra = {NAME: {**unknown, "inlineData": inner}}
            self._add(evolve(_read_data(data), extra=extra))
            yield Delta(opaque=VendorPart(NAME, dict(part)))
        elif part.keys() - {SIGNATURE, "thought"}:
            opaque = VendorPart(NAME, dict(part))
            self._add(opaque)
            yield Delta(opaque=opaque)
            return
        if signature:
            shows = bool(part.keys() - {SIGNATURE, "thought"}) and part.get("text") != ""
            self._add(VendorPart(NAME, {**({} if shows else {"text": ""}), SIGNATURE: signature}))

    def _add_text(
        self, kind: type[Text] | type[Reasoning], text: str, extra: Mapping[str, Any] | None = None
    ) -> None:
        if not text:
            return
        if extra is not None:
            self._add(kind(text, extra=extra))  # its fields are of this text alone
            return
        if self._kind is not kind:
            self._close()
            self._kind = kind
        self._texts.append(text)

    def _add(self, part: Part) -> None:
        self._close()
        self._parts.append(part)

    def _close(self) -> None:
        """Finish the current text."""
        if self._kind is not None:
            self._parts.append(self._kind("".join(self._texts)))
            self._texts, self._kind = [], None

    def _read_call(self, data: Mapping[str, Any], extra: Mapping[str, Any] | None) -> ToolCall:
        call = read_tool_call(id_in(data, "id"), string_in(data, "name"), data.get("args"), extra)
        if not call.id or self._calls.get(call.id, call) != call:
            call = evolve(call, id=self._free_id())
        self._ids.add(call.id)
        return call

    def _free_id(self) -> str:
        """Return a new id for a call from a service without ids, unique in the conversation."""
        numbered = (f"{_UNNAMED}{number}" for number in count(len(self._ids)))
        return next(id for id in numbered if id not in self._ids)


def _read_data(data: Mapping[str, Any]) -> Image | File:
    try:
        content = decode_base64(string_in(data, "data"))
    except ValueError as error:
        raise malformed("inlineData is not base64") from error
    if not content:
        raise malformed("inlineData is empty")
    media_type = string_in(data, "mimeType")
    kind = Image if media_type.startswith("image/") else File
    return kind(content, media_type)


def read_usage(data: Any) -> Usage:
    """Return the tokens used; output includes the reasoning, which Gemini counts separately."""
    if not isinstance(data, dict):
        return Usage()
    thoughts = count_in(data, "thoughtsTokenCount")
    return Usage(
        input_tokens=count_in(data, "promptTokenCount") + count_in(data, "toolUsePromptTokenCount"),
        output_tokens=count_in(data, "candidatesTokenCount") + thoughts,
        cached_tokens=count_in(data, "cachedContentTokenCount"),
        reasoning_tokens=thoughts,
    )
