"""The tools of a request, which the client runs itself, and which of them the model is to take."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from attrs import frozen

from genai_host.api import ToolSchema
from genai_host.errors import InvalidData
from genai_host.server.offered import CHOICES, each_once, offered_tool
from genai_host.server.responses.fields import Fields, UnsupportedParameter, fields_of

_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")

Told = Mapping[str, Any]
"""A tool, or a choice, as the response tells of it."""


@frozen
class Tools:
    """
    offered   those that the model may ask for
    choice    `auto`, `none`, `required` or the name of one; None leaves it to the model
    told      all that were given
    chosen    what was said of the choice
    """

    offered: Sequence[ToolSchema]
    choice: str | None
    told: Sequence[Told]
    chosen: str | Told


def read_tools(request: Fields) -> Tools:
    """Raises `InvalidData`."""
    path = request.at("tools")
    told = [
        _read_tool(fields_of(each, f"{path}[{at}]"))
        for at, each in enumerate(request.list("tools") or ())
    ]
    schemas = each_once((_schema(tool, f"{path}[{at}]") for at, tool in enumerate(told)), path)
    names = frozenset(schema.name for schema in schemas)
    chosen: str | Told = "auto"
    allowed, choice = names, None
    if isinstance(request.value.get("tool_choice"), dict):
        given = Fields(request.value["tool_choice"], request.at("tool_choice"))
        allowed, choice, chosen = _read_choice(given, names)
    else:
        choice = request.choice("tool_choice", CHOICES)
        chosen = choice or "auto"
    if choice == "required" and not allowed:
        raise InvalidData("there is no tool to choose", path=request.at("tool_choice"))
    offered = [schema for schema in schemas if schema.name in allowed]
    return Tools(offered, choice if offered else None, told, chosen)


def _read_tool(tool: Fields) -> Told:
    kind = tool.needed("type")
    if kind != "function":
        raise UnsupportedParameter(
            f"this server runs no tools of type {kind!r}: there are functions only, "
            "which you run yourself",
            path=tool.at("type"),
        )
    name = tool.needed("name")
    if not _NAME.fullmatch(name):
        raise tool.wrong("name", "of letters, digits, _ and -, and at most 128 characters long")
    if tool.boolean("defer_loading"):
        raise UnsupportedParameter("tools are not looked for here", path=tool.at("defer_loading"))
    parameters = tool.object("parameters")
    return {
        "type": kind,
        "name": name,
        "description": tool.text("description"),
        "parameters": None if parameters is None else parameters.value,
        "strict": tool.boolean("strict") is not False,
    }


def _schema(tool: Told, path: str) -> ToolSchema:
    description, parameters = tool["description"] or "", tool["parameters"]
    return offered_tool(tool["name"], description, parameters, f"{path}.parameters")


def _read_choice(chosen: Fields, names: frozenset[str]) -> tuple[frozenset[str], str | None, Told]:
    """The names of the tools that may be taken, the choice among them, and what is told."""
    kind = chosen.needed("type")
    if kind == "function":
        name = _named(chosen, names)
        told = {"type": kind, "name": name}
        if name in CHOICES:  # which would say something else
            return frozenset({name}), "required", told
        return names, name, told
    if kind != "allowed_tools":
        raise UnsupportedParameter(
            f"there are no tools of type {kind!r} here", path=chosen.at("type")
        )
    tools = [
        fields_of(each, f"{chosen.at('tools')}[{at}]")
        for at, each in enumerate(chosen.list("tools") or ())
    ]
    allowed = [_named(tool, names) for tool in tools]
    mode = chosen.choice("mode", ("auto", "required")) or "auto"
    told_tools = [{"type": "function", "name": name} for name in allowed]
    return frozenset(allowed), mode, {"type": kind, "mode": mode, "tools": told_tools}


def _named(where: Fields, names: Collection[str]) -> str:
    name = where.needed("name")
    if name not in names:
        raise InvalidData(f"there is no tool {name!r} among the tools", path=where.at("name"))
    return name
