"""Shared parts of OpenAI's dialects: forms of messages, and schemas in its subset.

Source: OpenAI API reference, OpenAPI document 2.3.0, and OpenAI's guide "Structured model
outputs", section "Supported schemas". The error forms of other services and servers are read too.

Schemas have two restrictions, each of them a variant: a model follows a schema strictly only in a
subset of JSON Schema (`strict`), and the outermost value must be an object (`object_root`).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from attrs import evolve

from genai_host.api import (
    ChatCall,
    Completion,
    Delta,
    File,
    Image,
    Message,
    Part,
    ProviderReply,
    StreamDecoder,
    StreamEvent,
    Text,
    ToolSchema,
    error_object,
    explain_reply,
    is_deep,
    message_in,
    one_line,
    parameter,
    read_event,
    read_json,
    read_reply,
    service_error,
    with_server_setting,
    write_json,
)
from genai_host.errors import BadRequest, GenaiError, ProviderError, RateLimited, UnsupportedPart
from genai_wire_openai.shared import MARKED, is_refusal

_VALUE = "whole_answer"  # unused by other schemas
_KNOWN = frozenset(
    {
        "$defs", "$ref", "additionalProperties", "anyOf", "const", "description", "enum",
        "exclusiveMaximum", "exclusiveMinimum", "format", "items", "maxItems", "maximum",
        "minItems", "minimum", "multipleOf", "pattern", "properties", "required", "title",
        "type",
    }
)  # fmt: skip
_FORMATS = frozenset(
    {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"}
)


class Fitted(NamedTuple):
    """A schema in the form of the service, and whether the service enforces it."""

    schema: Mapping[str, Any]
    strict: bool


def fit(schema: Mapping[str, Any], strict: bool, object_root: bool = False) -> Fitted:
    """A schema in the form of the service: enforced if it is `strict` and in the subset, and with
    an object as the outermost value if `object_root`."""
    if object_root and schema.get("type") != "object":
        schema = _in_object(schema) or schema
    narrowed = strict_form(schema) if strict else None
    return Fitted(narrowed or schema, narrowed is not None)


_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_UNNAMED = "answer"  # the name of a format that has none, as it is required
_ANY_OBJECT = {"type": "object"}


def answer_format(call: ChatCall, variant: Mapping[str, Any]) -> dict[str, Any]:
    """The format of an answer: that of its schema, or any object. The title of a schema is its
    name."""
    schema = call.schema or {}
    # a strict schema would be that of an empty object
    if schema == _ANY_OBJECT and (variant["json_object"] or variant["strict"]):
        return {"type": "json_object"}
    title = schema.get("title")
    name = title if isinstance(title, str) and _NAME.fullmatch(title) else _UNNAMED
    fitted = fit(schema, variant["strict"] or call.strict, variant["object_root"])
    return {"type": "json_schema", "name": name, **fitted._asdict()}


def named_schema(name: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a format, with its name as its title; see `answer_format`."""
    return {**schema, "title": name} if name not in ("", _UNNAMED) else schema


def with_json_instruction(call: ChatCall, variant: Mapping[str, Any]) -> ChatCall:
    """The call with an instruction, if it wants any object and no message mentions JSON: OpenAI's
    services, which are strict, refuse that."""
    if call.schema != _ANY_OBJECT or not variant["strict"]:
        return call
    if any(message.remember("mentions_json", _mentions_json) for message in call.messages):
        return call
    instruction = Message("system", "Answer with a JSON object.")
    return evolve(call, messages=[*call.messages, instruction])


def _mentions_json(message: Message) -> bool:
    return "json" in message.text.lower()


def may_be_wrapped(call: ChatCall, usual: Mapping[str, Any]) -> bool:
    """Whether the answer to a call may be wrapped in an object."""
    if call.schema is None or call.schema.get("type") == "object":
        return False
    return bool({**usual, **call.variant}["object_root"])


def strict_form(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """A schema in the strict subset, in which objects are closed; None if it cannot be converted.
    Values of the result are valid for the original schema."""
    plain = {key: value for key, value in schema.items() if key != "$schema"}
    if plain.get("type") != "object" or "anyOf" in plain:
        return None
    try:
        return _strict(plain)
    except (_Unfit, RecursionError, TypeError):  # the last if it is not a schema
        return None


class _Unfit(Exception):
    """The schema is not in the strict subset."""


def _strict(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or not _KNOWN.issuperset(schema):
        raise _Unfit
    if "$ref" in schema:
        if len(schema) > 1:
            raise _Unfit
        return dict(schema)
    if not schema.keys() & {"type", "anyOf", "enum", "const"}:
        raise _Unfit
    if schema.get("format", "uuid") not in _FORMATS or "(?" in str(schema.get("pattern")):
        raise _Unfit
    found = dict(schema)
    for key in ("$defs", "properties"):
        if key in schema:
            found[key] = {name: _strict(inner) for name, inner in _mapping(schema[key]).items()}
    if "anyOf" in schema:
        found["anyOf"] = [_strict(inner) for inner in schema["anyOf"]]
    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, (list, tuple)) else [kinds]
    if "array" in kinds or "items" in schema:
        found["items"] = _strict(schema.get("items"))
    if "object" in kinds or "properties" in schema:
        if schema.get("additionalProperties", False) is not False or "properties" not in schema:
            raise _Unfit
        if set(schema.get("required", ())) != set(found["properties"]):
            raise _Unfit
        found["required"] = list(schema.get("required", ()))
        found["additionalProperties"] = False
    return found


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _Unfit
    return value


def _in_object(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """An object with the value as a field; None if references would be wrong."""
    if not all(each.startswith("#/$defs/") for each in _references(schema)):
        return None
    inner = {key: value for key, value in schema.items() if key not in ("$defs", "$schema")}
    outer = {
        "type": "object",
        "properties": {_VALUE: inner},
        "required": [_VALUE],
        "additionalProperties": False,
    }
    return {**outer, "$defs": schema["$defs"]} if "$defs" in schema else outer


def _references(schema: Any) -> list[str]:
    if isinstance(schema, Mapping):
        inner = [each for value in schema.values() for each in _references(value)]
        return [*inner, str(schema["$ref"])] if "$ref" in schema else inner
    if isinstance(schema, (list, tuple)):
        return [each for value in schema for each in _references(value)]
    return []


def unwrapped(completion: Completion) -> Completion:
    """The completion without the object around its value; unchanged if there is none."""
    try:
        value = read_json(completion.text)
    except ValueError:
        return completion
    if not isinstance(value, dict) or set(value) != {_VALUE}:
        return completion
    parts: list[Part] = []
    whole = Text(write_json(value[_VALUE]).decode())
    for part in completion.message.content:
        if not isinstance(part, Text):
            parts.append(part)
        elif whole not in parts:
            parts.append(whole)
    return evolve(completion, message=Message("assistant", parts))


class _Decoder(StreamDecoder[Completion], Protocol):
    """A decoder that knows whether the answer has ended, even if the end marker is missing."""

    @property
    def ended(self) -> bool: ...


class UnwrappingDecoder:
    """Decodes a streamed answer that is wrapped in an object: its text is buffered until it is
    complete, so that it is streamed without the object."""

    def __init__(self, inner: _Decoder) -> None:
        self._inner = inner
        self._shown = False

    @property
    def done(self) -> bool:
        return self._inner.done

    def feed(self, event: StreamEvent) -> Sequence[Delta]:
        pieces = [
            evolve(piece, text="", citations=())
            for piece in self._inner.feed(event)
            if piece.reasoning or piece.tool_call or piece.extra
        ]
        if self._inner.ended and not self._shown:
            self._shown = True
            answer = self.finish()
            pieces.append(Delta(answer.text, extra=MARKED if is_refusal(answer) else None))
        return pieces

    def finish(self) -> Completion:
        return unwrapped(self._inner.finish())


PARAMETERS: Mapping[str, Any] = {
    "parallel_tool_calls": parameter(
        "boolean", "whether the model may request several tool calls at once"
    ),
    "reasoning_effort": parameter(
        "string",
        "effort of the model in reasoning",
        enum=["none", "minimal", "low", "medium", "high", "xhigh", "max"],
    ),
}
"""Parameters of these formats, in addition to the standard ones."""

TOOL_NAMES = re.compile(r"[a-zA-Z0-9_-]{1,64}")

DEFAULT_TIERS = ("auto", "default")
"""Values of `service_tier` at which the list price applies."""

_NO_STATUS = 500
_STATUS_BY_CODE: Mapping[str, int] = {
    **dict.fromkeys(("insufficient_quota", "rate_limit_exceeded"), 429),
    "invalid_api_key": 401,
    **dict.fromkeys(
        (
            "bio_policy", "data_residency_mismatch", "empty_image_file",
            "failed_to_download_image", "image_content_policy_violation", "image_file_not_found",
            "image_file_too_large", "image_parse_error", "image_too_large", "image_too_small",
            "invalid_base64_image", "invalid_image", "invalid_image_format", "invalid_image_mode",
            "invalid_image_url", "invalid_prompt", "invalid_request_error",
            "unsupported_image_media_type",
        ),
        400,
    ),
}  # fmt: skip
"""Status of an error in a reply with status 200, or in a stream."""


def read_object(data: bytes, *answer: str) -> dict[str, Any]:
    """Parse an object; raises the error of a reply with status 200, or in a stream. `answer` names
    the fields of an answer; see `raise_error_in`."""
    return read_reply(data, error_in, answer)


def read_event_object(event: StreamEvent, *answer: str) -> dict[str, Any]:
    """Parse an event of a stream; raises the error in it. `answer` as for `read_object`."""
    return read_event(event, error_in, answer)


class WithErrors:
    """Base class of the dialects, whose errors have one form."""

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        return explain_reply(reply, error_in)


def error_in(data: Mapping[str, Any], status: int | None = None) -> GenaiError | None:
    """The error in an object; see `ErrorIn`."""
    error = error_object(data)
    if error is None:
        return None
    message = message_in(error)
    code = error.get("code")
    codes = {each for each in (code, error.get("type")) if isinstance(each, str)}
    status = _status_of_code(code) or status or _status_of(codes)
    if "insufficient_quota" in codes:
        found: ProviderError = RateLimited(message, status=status, retryable=False)
    else:
        found = service_error(status, message, " ".join(codes))
    if isinstance(found, (BadRequest, RateLimited)):  # others are no errors of the client
        found.with_extra(FORMAT, _fields_of(error))
    return with_server_setting(found)


FORMAT = "openai"
"""Name of the format of errors; see `ProviderError.extra`."""
_MAX_LENGTH = 200
_MAX_SIZE = 4000  # bytes


def _fields_of(error: Mapping[str, Any]) -> dict[str, Any]:
    """The short fields of an error for clients of the format; `innererror` is that of Azure."""
    texts = {name: error.get(name) for name in ("type", "param", "code")}
    fields: dict[str, Any] = {
        name: one_line(text)[:_MAX_LENGTH]
        for name, text in texts.items()
        if text and isinstance(text, str) and text != "error"  # the type of an event
    }
    inner = error.get("innererror")
    if isinstance(inner, dict) and not is_deep(inner) and len(write_json(inner)) <= _MAX_SIZE:
        fields["innererror"] = inner
    return fields


def _status_of_code(code: object) -> int | None:
    if isinstance(code, str) and len(code) == 3 and code.isascii() and code.isdigit():
        code = int(code)
    return code if isinstance(code, int) and 400 <= code < 600 else None


def _status_of(codes: set[str]) -> int:
    return next((_STATUS_BY_CODE[code] for code in codes if code in _STATUS_BY_CODE), _NO_STATUS)


def add_tools(
    body: dict[str, Any],
    call: ChatCall,
    wire_tool: Callable[[ToolSchema], Mapping[str, Any]],
    wire_choice: Callable[[str], Mapping[str, Any]],
) -> None:
    """Add the tools of a call to a request, and the tool choice."""
    if not call.tools:
        body.pop("parallel_tool_calls", None)  # refused without tools
        return
    body["tools"] = [wire_tool(tool) for tool in call.tools]
    choice = call.tool_choice
    if choice is not None:
        plain = choice in ("auto", "none", "required")
        body["tool_choice"] = choice if plain else wire_choice(choice)


def fit_tool(tool: ToolSchema, strict: bool) -> Fitted:
    """The parameters of a tool in the form of the service, enforced if `strict`, unless the tool
    says it. An object without properties needs an empty `properties`."""
    given = tool.parameters
    # the strict form of an object of any properties would allow none
    is_open = given and "properties" not in given and given.get("additionalProperties", True)
    strict = strict if tool.strict is None else tool.strict
    return fit({"type": "object", "properties": {}, **given}, strict and not is_open)


def data_url(part: Image | File, usual_type: str) -> str:
    """The content of a part as a URL."""
    data = base64.b64encode(part.data).decode()
    return f"data:{part.media_type or usual_type};base64,{data}"


def inline_file(part: File, dialect: str) -> dict[str, str]:
    """The content of a document with its name, which is required and which the model sees. Raises
    `UnsupportedPart` for recordings."""
    kind = part.media_type
    if kind.startswith(("audio/", "video/")):
        raise UnsupportedPart(
            f"{dialect} does not support a file of type {kind}", part=part.type, dialect=dialect
        )
    usual = "document.pdf" if kind in ("", "application/pdf") else "document"
    return {"filename": part.name or usual, "file_data": data_url(part, "application/pdf")}
