"""The functions that a client has, and which of them a model may call.

Source: Gemini API reference, "Tool", "FunctionDeclaration", "FunctionCallingConfig".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from genai_host.api import ToolSchema
from genai_host.api.given import Given
from genai_host.errors import InvalidData
from genai_host.server.gemini.schemas import json_schema
from genai_host.server.offered import each_once, offered_tool, one_of

_DECLARATIONS = "functionDeclarations"
_MODES: Mapping[str, str | None] = {
    "MODE_UNSPECIFIED": None,
    "AUTO": "auto",
    "ANY": "required",
    "NONE": "none",
    "VALIDATED": "auto",
}


def tools_in(body: Given) -> list[ToolSchema]:
    """Raises `InvalidData`, also for tools that Google's services run themselves."""
    return each_once(_declared(body), body.at("tools"))


def _declared(body: Given) -> Iterator[ToolSchema]:
    for tool in body.objects("tools"):
        for name, _ in tool.names():
            if name != _DECLARATIONS:
                raise InvalidData(
                    f"the tool {name} is not supported here: only {_DECLARATIONS} are",
                    path=tool.at(name),
                )
        yield from map(_tool, tool.objects(_DECLARATIONS))


def chosen(body: Given, tools: Sequence[ToolSchema]) -> tuple[Sequence[ToolSchema], str | None]:
    """The tools that may be called, and the choice among them. Raises `InvalidData`."""
    config = body.object("toolConfig")
    if config is None:
        return tools, None
    config.refuse("retrievalConfig", "includeServerSideToolInvocations")
    calling = config.object("functionCallingConfig")
    config.nothing_else()
    if calling is None:
        return tools, None
    choice = _MODES[calling.choice("mode", tuple(_MODES), "MODE_UNSPECIFIED")]
    names = calling.texts("allowedFunctionNames")
    calling.refuse("streamFunctionCallArguments")
    calling.nothing_else()
    wanted, there = frozenset(names), {tool.name for tool in tools}
    allowed = [tool for tool in tools if tool.name in wanted] if names else tools
    for number, name in enumerate(names):
        if name not in there:
            path = f"{calling.at('allowedFunctionNames')}[{number}]"
            raise InvalidData(f"there is no function {name}", path=path)
    if choice == "required" and not tools:
        raise InvalidData("there is no function to call", path=calling.at("mode"))
    if choice == "required" and len(allowed) == 1:
        return one_of(allowed, allowed[0].name)
    return allowed, choice if tools else None


def _tool(given: Given) -> ToolSchema:
    name, description = given.text("name"), given.text("description")
    schema, parameters = given.mapping("parametersJsonSchema"), given.object("parameters")
    if schema is not None and parameters is not None:
        raise InvalidData("there are two schemas", path=given.at("parametersJsonSchema"))
    given.raw("response")  # says nothing to a model that is not told it
    given.raw("responseJsonSchema")
    given.choice("behavior", ("UNSPECIFIED", "BLOCKING"))
    given.nothing_else()
    if parameters is not None:
        schema = json_schema(parameters)
        path = parameters.path
    else:
        path = given.at("parametersJsonSchema") if schema is not None else given.path
    return offered_tool(name, description, _of_object(schema), path)


def _of_object(schema: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """A function without parameters may have a schema of no type."""
    return schema if schema else None
