"""Messages as the semantic conventions define them (`gen-ai-input-messages.json` and
`gen-ai-output-messages.json`). They are JSON, because attributes have no structure. Images and
files are named, not copied.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from genai_host.api import ChatCall, Message, Part, Reasoning, Text, ToolCall, ToolResult


def heard_of(call: ChatCall) -> dict[str, str]:
    """Return the attributes with the input of a model."""
    system = [part for each in call.messages if each.role == "system" for part in each.content]
    others = [each for each in call.messages if each.role != "system"]
    attributes = {"gen_ai.input.messages": said_in(others)}
    if system:
        attributes["gen_ai.system_instructions"] = _json([_part(part) for part in system])
    if call.tools:
        tools = [{"type": "function", "name": each.name} for each in call.tools]
        attributes["gen_ai.tool.definitions"] = _json(tools)
    return attributes


def said_in(messages: Iterable[Message], finish: str = "") -> str:
    """Messages as JSON in the form of the semantic conventions. `finish` is empty for messages
    that are not the model's."""
    ended = {"finish_reason": finish.removesuffix("s") if finish == "tool_calls" else finish}
    return _json(
        [
            {
                "role": each.role,
                "parts": [_part(part) for part in each.content],
                **(ended if finish else {}),
            }
            for each in messages
        ]
    )


def text_of(content: Iterable[Part]) -> str:
    return "\n".join(part.text for part in content if isinstance(part, Text))


def _part(part: Part) -> Mapping[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "content": part.text}
    if isinstance(part, Reasoning):
        return {"type": "reasoning", "content": part.text}
    if isinstance(part, ToolCall):
        return {
            "type": "tool_call",
            "id": part.id,
            "name": part.name,
            "arguments": dict(part.arguments),
        }
    if isinstance(part, ToolResult):
        response = text_of(part.content)
        return {"type": "tool_call_response", "id": part.id, "response": response}
    return {"type": part.type}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
