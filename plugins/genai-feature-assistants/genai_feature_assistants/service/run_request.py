"""A request for a run, read; what it does not say, its assistant and its thread do.

Source: OpenAPI document 2.3.0, "CreateRunRequest", "RunObject".
"""

from __future__ import annotations

from typing import Any

from genai_feature_assistants.service.fields import (
    choice_in,
    count_in,
    format_in,
    metadata_in,
    number_within,
    text_in,
    tools_in,
    truncation_in,
)
from genai_feature_assistants.service.shelf import Object, new_id
from genai_host.api.http_routes import JsonReader
from genai_host.errors import ValidationError

_LIFE = 600
"""Seconds in which a run has to end, as OpenAI has it."""

_LEAST_TOKENS = 256
_MOST_TOOLS = 128
_INSTRUCTIONS = 256_000
_OWN = ("assistant_id", "stream", "additional_messages", "thread", "tool_resources")


def read_run(given: JsonReader, assistant: Object, now: int, *, content: bool) -> dict[str, Any]:
    """The run that a request asks for, queued, without its thread. Raises `ValidationError`.

    content   whether its events show the texts that were found
    """
    tools = tools_in(given, _MOST_TOOLS) if "tools" in given else list(assistant["tools"])
    given.raw("tools")
    instructions = text_in(given, "instructions", _INSTRUCTIONS)
    if instructions is None:
        instructions = assistant["instructions"] or ""
    more = text_in(given, "additional_instructions", _INSTRUCTIONS)
    run: dict[str, Any] = {
        "id": new_id("run"),
        "object": "thread.run",
        "created_at": now,
        "assistant_id": assistant["id"],
        "status": "queued",
        "required_action": None,
        "last_error": None,
        "expires_at": now + _LIFE,
        "started_at": None,
        "cancelled_at": None,
        "failed_at": None,
        "completed_at": None,
        "incomplete_details": None,
        "model": given.text("model") or assistant["model"],
        "instructions": "\n".join(filter(None, [instructions, more])),
        "tools": tools,
        "metadata": metadata_in(given),
        "usage": None,
        "temperature": _or(number_within(given, "temperature", 0, 2), assistant["temperature"]),
        "top_p": _or(number_within(given, "top_p", 0, 1), assistant["top_p"]),
        "max_prompt_tokens": count_in(given, "max_prompt_tokens", _LEAST_TOKENS),
        "max_completion_tokens": count_in(given, "max_completion_tokens", _LEAST_TOKENS),
        "truncation_strategy": truncation_in(given),
        "tool_choice": choice_in(given, tools),
        "parallel_tool_calls": given.flag("parallel_tool_calls") is not False,
        "response_format": (
            format_in(given) if "response_format" in given else assistant["response_format"]
        ),
        "_until": now + _LIFE,
        "_part": 0,
        "_conversation": "",
        "_content": content,
        "_submitted": {},
        "_resources": {"files": [], "stores": []},
        "_effort": text_in(given, "reasoning_effort", 20) or assistant.get("reasoning_effort"),
    }
    given.raw("response_format")
    for name in _OWN:
        given.raw(name)
    given.nothing_else()
    if run["tool_choice"] == "required" and not tools:
        raise ValidationError("there is no tool to choose", path="$.tool_choice")
    return run


def _or(value: Any, other: Any) -> Any:
    return other if value is None else value


def resources_of(assistant: Object, thread: Object) -> dict[str, Any]:
    """The files for code, and the vector stores, that the tools of a run have: those of the
    assistant and those of the thread."""
    given = [each.get("tool_resources") or {} for each in (assistant, thread)]
    files = [id for each in given for id in each.get("code_interpreter", {}).get("file_ids", ())]
    stores = [
        id for each in given for id in each.get("file_search", {}).get("vector_store_ids", ())
    ]
    return {"files": list(dict.fromkeys(files)), "stores": list(dict.fromkeys(stores))}
