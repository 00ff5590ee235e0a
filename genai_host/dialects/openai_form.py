"""What OpenAI's formats have in common: objects, errors, tool calls, tools, parameters.

Source: OpenAI API reference, OpenAPI document 2.3.0; where other services and servers
have their own form of errors, theirs is read as well.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

from genai_host.api import ChatCall, File, Image, ProviderReply, ToolCall, ToolSchema
from genai_host.api.json_text import write_json
from genai_host.api.reply_fields import explain_reply, one_line, read_reply
from genai_host.errors import (
    ContextOverflow,
    GenaiError,
    RateLimited,
    error_of_status,
)

PARAMETERS: Mapping[str, Any] = {
    "parallel_tool_calls": {
        "type": "boolean",
        "description": "whether the model may ask for several tools at once",
    },
    "reasoning_effort": {
        "type": "string",
        "enum": ["none", "minimal", "low", "medium", "high", "xhigh", "max"],
        "description": "how much the model thinks before it answers",
    },
}
"""Parameters that these formats have beside the standard ones."""

_NO_STATUS = 500
_OVERFLOWS = frozenset({"context_length_exceeded", "exceed_context_size_error"})
_STATUS_OF_WORD: Mapping[str, int] = {
    "insufficient_quota": 429,
    "rate_limit_exceeded": 429,
    "invalid_api_key": 401,
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "bio_policy": 400,
    "data_residency_mismatch": 400,
    "invalid_image": 400,
    "invalid_image_format": 400,
    "invalid_base64_image": 400,
    "invalid_image_url": 400,
    "image_too_large": 400,
    "image_too_small": 400,
    "image_parse_error": 400,
    "image_content_policy_violation": 400,
    "invalid_image_mode": 400,
    "image_file_too_large": 400,
    "unsupported_image_media_type": 400,
    "empty_image_file": 400,
    "failed_to_download_image": 400,
    "image_file_not_found": 400,
}
"""What an error means that comes with status 200, or amid a stream."""


def read_object(data: bytes) -> dict[str, Any]:
    """An object; an error that comes with status 200, or amid a stream, is raised."""
    return read_reply(data, error_in)


def explain_error(reply: ProviderReply) -> GenaiError | None:
    """The error that a reply of status 400 or more tells of."""
    return explain_reply(reply, _error_said)


def _error_said(data: Mapping[str, Any], status: int | None) -> GenaiError | None:
    if not data.get("error"):  # as servers have it that know no object for errors
        message = data.get("message") or data.get("detail")
        if isinstance(message, str):
            data = {"error": {**data, "message": message}}
    return error_in(data, status)


def error_in(data: Mapping[str, Any], status: int | None = None) -> GenaiError | None:
    """The error that an object tells of; None if it tells of none.

    status   of the reply; None if it came as a success
    """
    error = data.get("error")
    if not error:
        return None
    if not isinstance(error, dict):
        return error_of_status(status or _NO_STATUS, one_line(str(error)))
    message = one_line(str(error.get("message") or error))
    code = error.get("code")
    words = {word for word in (code, error.get("type")) if isinstance(word, str)}
    status = _status_of_code(code) or status or _status_of(words)
    if words & _OVERFLOWS:
        return ContextOverflow(message, status=status)
    if "insufficient_quota" in words:
        return RateLimited(message, status=status, retryable=False)
    return error_of_status(status, message)


def _status_of_code(code: object) -> int | None:
    if isinstance(code, str) and len(code) == 3 and code.isascii() and code.isdigit():
        code = int(code)
    return code if isinstance(code, int) and 400 <= code < 600 else None


def _status_of(words: set[str]) -> int:
    return next((_STATUS_OF_WORD[word] for word in words if word in _STATUS_OF_WORD), _NO_STATUS)


def arguments_text(call: ToolCall) -> str:
    """Its arguments as the model wrote them, or would have."""
    return call.malformed or write_json(call.arguments).decode()


def add_tools(
    body: dict[str, Any],
    call: ChatCall,
    wire_tool: Callable[[ToolSchema], Mapping[str, Any]],
    wire_choice: Callable[[str], Mapping[str, Any]],
) -> None:
    """Add the tools of a call to a request, and which of them the model is to take.

    wire_choice   how a tool is chosen by its name
    """
    if not call.tools:
        body.pop("parallel_tool_calls", None)  # refused where there are no tools
        return
    body["tools"] = [wire_tool(tool) for tool in call.tools]
    choice = call.tool_choice
    if choice is not None:
        plain = choice in ("auto", "none", "required")
        body["tool_choice"] = choice if plain else wire_choice(choice)


def wire_parameters(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a tool. An object without properties has to say so."""
    return {"type": "object", "properties": {}, **schema}


def data_url(part: Image | File, usual_type: str) -> str:
    """The content of a part as an address."""
    data = base64.b64encode(part.data).decode()
    return f"data:{part.media_type or usual_type};base64,{data}"


def file_name(part: File) -> str:
    """A name is asked for, and shown to the model."""
    usual = "document.pdf" if part.media_type in ("", "application/pdf") else "document"
    return part.name or usual
