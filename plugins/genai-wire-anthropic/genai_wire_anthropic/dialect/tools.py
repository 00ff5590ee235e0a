"""Tools of Anthropic's messages, and what services of the format receive of tools and parts.

Source: Claude API reference, "Create a Message"; the guides to tool use and prompt caching.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import evolve

from genai_host.api import (
    Part,
    ToolCall,
    ToolResult,
    ToolSchema,
    VendorPart,
    VendorTool,
    extra_of,
    with_extra,
    write_json,
)
from genai_wire_anthropic.dialect.replies import NAME, WEB_PAGE

MARK = "cache_control"
"""Field that marks the end of what the service caches."""

_Known = TypeVar("_Known", bound=Part | ToolSchema)


def wire_tool(tool: ToolSchema) -> dict[str, Any]:
    if isinstance(tool, VendorTool):
        return with_extra({}, tool, NAME)
    described = {"description": tool.description} if tool.description else {}
    schema = {"type": "object", **tool.parameters}
    return with_extra({"name": tool.name, **described, "input_schema": schema}, tool, NAME)


MALFORMED = "INVALID_JSON"
"""The only argument of a call whose arguments are not an object; its value is their text."""


def wire_call(call: ToolCall, id: str) -> dict[str, Any]:
    given = {MALFORMED: call.malformed} if call.malformed else dict(call.arguments)
    return {"type": "tool_use", "id": id, "name": call.name, "input": given}


def tool_of(given: VendorTool | VendorPart) -> str:
    """Type of the tool of the service that a tool or a block belongs to, maybe without its end;
    empty for other blocks."""
    data = wire_tool(given) if isinstance(given, VendorTool) else given.data
    if not isinstance(data, Mapping):
        return ""
    kind = str(data.get("type", ""))
    if isinstance(given, VendorTool):
        return kind
    if kind == "server_tool_use":
        kind = f"{data.get('name')}_"
    elif "type" not in data and WEB_PAGE.encode() in write_json(data.get("citations")):
        return "web_search_"
    elif not kind.endswith("_tool_result") and not kind.startswith("mcp_"):
        return ""
    return "code_execution_" if "code_execution" in kind else kind


def wire_choice(choice: str | None, parallel: bool | None) -> dict[str, Any] | None:
    """The field `tool_choice`, with the limit on parallel tool calls; None for the default."""
    if choice is None and parallel is None:
        return None
    kinds = {"auto": "auto", "none": "none", "required": "any"}
    kind = kinds.get(choice or "auto")
    wire: dict[str, Any] = {"type": kind} if kind else {"type": "tool", "name": choice}
    if parallel is not None and kind != "none":
        wire["disable_parallel_tool_use"] = not parallel
    return wire


def without_unknown(given: _Known) -> _Known:
    """A part or a tool without the fields that the host does not know, apart from its mark for the
    cache."""
    if isinstance(given, ToolResult):
        given = evolve(given, content=[*map(without_unknown, given.content)])
    if given.extra is None or isinstance(given, VendorTool):
        return given
    mark = given.extra.get(NAME, {}).get(MARK, {})
    mark = {name: mark[name] for name in ("type", "ttl") if name in mark}
    return evolve(given, extra=extra_of(NAME, {MARK: mark} if mark else {}))
