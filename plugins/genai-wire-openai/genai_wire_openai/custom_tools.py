"""Custom tools take plain text as input. The host offers each to the model as a function with a
single parameter, `input`. A grammar is added to the description, but is not enforced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genai_host.api import ToolCall, well_formed, write_json

INPUT = "input"

PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {INPUT: {"type": "string", "description": "the whole input, as text"}},
    "required": [INPUT],
    "additionalProperties": False,
}
"""Parameters of the function."""


def with_grammar(description: str, syntax: str, definition: str) -> str:
    """Return the description of a tool with the grammar of its input."""
    return f"{description}\n\nThe input follows this {syntax} grammar:\n{definition}"


def input_of(call: ToolCall) -> str:
    """Return the input of a call; a model may have written it without JSON."""
    text = call.arguments.get(INPUT)
    if isinstance(text, str):
        return text
    return call.malformed or write_json(call.arguments).decode()


def names_in(tools: object) -> frozenset[str]:
    """Return the names of the custom tools in the field `tools` of a chat completion, which may be
    invalid, as calls have them."""
    given = [each for each in tools if isinstance(each, dict)] if isinstance(tools, list) else []
    custom = [each.get("custom") for each in given if each.get("type") == "custom"]
    names = [each.get("name") for each in custom if isinstance(each, dict)]
    return frozenset(well_formed(name) for name in names if isinstance(name, str))
