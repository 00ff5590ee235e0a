"""Tools that a client offers to a model, and runs itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from genai_host.api import Checker, ToolSchema
from genai_host.errors import InvalidData


def offered_tool(
    name: str, description: str, parameters: Mapping[str, Any] | None, path: str
) -> ToolSchema:
    """A tool, if its parameters are a JSON Schema of an object: services take that on trust,
    or refuse it in words of their own.

    path   where it stands in the request

    Raises `InvalidData`.
    """
    if not name:
        raise InvalidData("a tool has no name", path=path)
    parameters = parameters or {}
    if parameters.get("type", "object") != "object":
        raise InvalidData(f"the parameters of {name} are no object", path=path)
    check_schema(parameters, path)
    return ToolSchema(name, description, parameters)


def check_schema(schema: Mapping[str, Any], path: str) -> None:
    """Raises `InvalidData` if it is no JSON Schema."""
    try:
        Checker(schema)
    except InvalidData as error:
        raise InvalidData(error.message, path=path + error.path.removeprefix("$")) from error


CHOICES = ("auto", "none", "required")
"""What may be said of all tools."""


def one_of(tools: Sequence[ToolSchema], name: str) -> tuple[Sequence[ToolSchema], str]:
    """The tools and the choice, where that of a name is to be taken. One that is called as a
    choice is offered alone, which says the same."""
    if name not in CHOICES:
        return tools, name
    return [tool for tool in tools if tool.name == name], "required"


_MOST = 512
"""Tools of one request: checking each takes its time."""


def each_once(tools: Iterable[ToolSchema], path: str) -> list[ToolSchema]:
    """Raises `InvalidData` if two have one name, or there are too many."""
    by_name: dict[str, ToolSchema] = {}
    for tool in tools:
        if len(by_name) == _MOST:
            raise InvalidData(f"there are more than {_MOST} tools", path=path)
        if tool.name in by_name:
            raise InvalidData(f"two tools are called {tool.name}", path=path)
        by_name[tool.name] = tool
    return list(by_name.values())
