"""The tools of a request, and which of them is to be taken.

Source: OpenAI API reference, "ChatCompletionTool", "ChatCompletionToolChoiceOption".
"""

from __future__ import annotations

from collections.abc import Sequence

from genai_host.api import ToolSchema
from genai_host.api.given import Given
from genai_host.errors import InvalidData
from genai_host.server.offered import CHOICES, each_once, offered_tool, one_of


def tools_in(body: Given) -> list[ToolSchema]:
    """Raises `InvalidData`."""
    return each_once(map(_tool, body.objects("tools")), body.at("tools"))


def chosen(body: Given, tools: Sequence[ToolSchema]) -> tuple[Sequence[ToolSchema], str | None]:
    """The tools that may be taken, and the choice among them. Raises `InvalidData`."""
    choice = body.raw("tool_choice")
    if choice is None:
        return tools, None
    if isinstance(choice, str):
        return tools, body.choice("tool_choice", CHOICES)
    given = body.object("tool_choice")
    function = None if given is None else given.object("function")
    name = "" if function is None else function.text("name")
    if name not in {tool.name for tool in tools}:
        raise InvalidData("no tool of the request is chosen here", path=body.at("tool_choice"))
    return one_of(tools, name)


def _tool(given: Given) -> ToolSchema:
    if given.text("type") != "function":
        raise InvalidData(
            f"tools of type {given.text('type') or '(none)'} are not run here: only function is",
            path=given.at("type"),
        )
    function = given.object("function")
    if function is None:
        raise InvalidData("a tool has a function", path=given.path)
    return offered_tool(
        function.text("name"),
        function.text("description"),
        function.mapping("parameters"),
        function.at("parameters"),
    )
