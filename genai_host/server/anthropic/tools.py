"""The tools of a request, and which of them is to be taken.

Source: Claude API reference, "ToolParam", "ToolChoiceParam".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from genai_host.api import ToolSchema
from genai_host.api.given import Given
from genai_host.errors import InvalidData
from genai_host.server.anthropic.marks import ttl_in
from genai_host.server.offered import each_once, offered_tool, one_of

_CHOICES: Mapping[str, str] = {"auto": "auto", "any": "required", "none": "none"}
_NEUTRAL = ("eager_input_streaming", "strict")
_DIRECT = "direct"


def tools_in(body: Given) -> tuple[list[ToolSchema], set[str]]:
    """With how long they are to be kept in a cache. Raises `InvalidData`, also for tools
    that Anthropic's service runs itself, or describes to its models."""
    ttls: set[str] = set()
    tools = each_once((_tool(each, ttls) for each in body.objects("tools")), body.at("tools"))
    return tools, ttls


def chosen(
    body: Given, tools: Sequence[ToolSchema]
) -> tuple[Sequence[ToolSchema], str | None, bool | None]:
    """The tools that may be taken, the choice among them, and whether the model may ask for
    several at once. Raises `InvalidData`."""
    given = body.object("tool_choice")
    if given is None:
        return tools, None, None
    kind, name = given.choice("type", (*_CHOICES, "tool")), given.text("name")
    alone = given.flag("disable_parallel_tool_use")
    given.nothing_else()
    at_once = None if alone is None or kind == "none" else not alone
    if kind == "tool":
        if name not in {tool.name for tool in tools}:
            raise InvalidData("no tool of the request has this name", path=given.at("name"))
        return *one_of(tools, name), at_once
    if not kind:
        raise InvalidData("it is needed", path=given.at("type"))
    if kind == "any" and not tools:
        raise InvalidData("there are no tools to take", path=given.path)
    return tools, _CHOICES[kind] if tools else None, at_once if tools else None


def _tool(given: Given, ttls: set[str]) -> ToolSchema:
    kind, name = given.text("type", "custom"), given.text("name")
    if kind != "custom":
        raise InvalidData(
            f"tools of type {kind} are Anthropic's own, and not had here: only custom is",
            path=given.at("type"),
        )
    ttls.update(ttl_in(given))
    given.refuse("defer_loading", "input_examples")
    for caller in given.texts("allowed_callers"):
        if caller != _DIRECT:
            raise given.wrong("allowed_callers", f"not supported here: only {_DIRECT} is")
    for neutral in _NEUTRAL:
        given.raw(neutral)
    schema, description = given.mapping("input_schema"), given.text("description")
    given.nothing_else()
    if schema is None:
        raise InvalidData("a tool has a schema", path=given.at("input_schema"))
    return offered_tool(name, description, schema, given.at("input_schema"))
