"""The tools of a request, which the client runs itself.

    read_tools → Tools.offered, for the model
               → Tools.clients, to convert a call to an item of the client's form

Models know functions with a name and a JSON Schema. Other forms become functions:

- A function in a namespace is named `NAMESPACE__NAME`.
- A custom tool, whose input is a text, has the parameter `input`. Its grammar is described to the
  model, and not enforced.
- `tool_search` with `execution: client`; the tools that the client finds are offered, too.

The tools `web_search` and `image_generation`, which only OpenAI runs, are ignored and reported;
other types of tools are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from attrs import evolve, frozen

from genai_host.api import ToolCall, ToolSchema
from genai_host.api.json_text import write_json
from genai_host.errors import ValidationError
from genai_host.server.responses.fields import Fields, UnsupportedParameter
from genai_host.serving.client_tools import CHOICES, each_once, offered_tool

Item = dict[str, Any]
MakeItemId = Callable[[str], str]
"""Returns a new item id with the given prefix."""
RepeatedTool = Mapping[str, Any]
"""A tool or a tool choice, as repeated in the response and stored in items."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
_LEFT_OUT = ("image_generation", "web_search")
"""Prefixes of the types of tools that are ignored."""
_SEARCH = "tool_search"
_INPUT = "input"


@frozen
class ClientTool:
    """A tool as the client knows it.

    Attributes:
        kind: `function`, `custom` or `tool_search`.
        name: Its name.
        namespace: Name of its namespace; empty for none.
    """

    kind: str
    name: str
    namespace: str = ""

    @property
    def function(self) -> str:
        """Its name for the model."""
        return function_name(self.name, self.namespace)

    def item(self, call: ToolCall, new_id: MakeItemId) -> Item:
        """The item of a call."""
        item: Item = {"status": "completed", "call_id": call.id}
        if self.kind == "function":
            arguments = call.malformed or write_json(call.arguments).decode()
            item |= {"id": new_id("fc"), "type": "function_call", "arguments": arguments}
        elif self.kind == "custom":
            item |= {"id": new_id("ctc"), "type": "custom_tool_call", "input": _input_of(call)}
        else:
            item |= {"id": new_id("tsc"), "type": "tool_search_call", "execution": "client"}
            return {**item, "arguments": dict(call.arguments)}
        item["name"] = self.name
        return {**item, "namespace": self.namespace} if self.namespace else item


def function_name(name: str, namespace: str = "") -> str:
    """The name of a tool for the model."""
    return f"{namespace}__{name}" if namespace else name


def _input_of(call: ToolCall) -> str:
    """The input of a custom tool; a model may have written it without the JSON around it."""
    text = call.arguments.get(_INPUT)
    if isinstance(text, str):
        return text
    return call.malformed or write_json(call.arguments).decode()


def call_of(item: Item, read: Callable[[str, str, str], ToolCall]) -> ToolCall | None:
    """The call in an item; None if it is not a call.

    Args:
        item: The item.
        read: Reads a call from its id, its name and its arguments as JSON.
    """
    kind = item["type"]
    name = function_name(item.get("name", _SEARCH), item.get("namespace", ""))
    if kind == "function_call":
        return read(item["call_id"], name, item["arguments"])
    if kind == "custom_tool_call":
        return ToolCall(item["call_id"], name, {_INPUT: item["input"]})
    if kind == "tool_search_call":
        return ToolCall(item["call_id"], name, item["arguments"])
    return None


@frozen
class Tools:
    """The tools of a request.

    Attributes:
        offered: Tools that the model may call.
        choice: `auto`, `none`, `required` or the name of a tool; None leaves it to the model.
        clients: The tools as the client knows them, by their names for the model.
        repeated: All given tools, for the response.
        chosen: The given choice, for the response.
    """

    offered: Sequence[ToolSchema]
    choice: str | None
    clients: Mapping[str, ClientTool]
    repeated: Sequence[RepeatedTool]
    chosen: str | RepeatedTool


def read_tools(request: Fields, input: Sequence[Item] = (), before: Iterable[Item] = ()) -> Tools:
    """Read the tools and the tool choice.

    Args:
        request: The request.
        input: The items of the request, which may have further tools.
        before: The items of previous requests.

    Raises:
        ValidationError: A tool is invalid, or the chosen tool does not exist.
    """
    path = request.at("tools")
    read = read_tool_list(request, "tools")
    clients: dict[str, ClientTool] = {}
    schemas = each_once(chain.from_iterable(_functions(*each, clients) for each in read), path)
    schemas += _in_items(input, request.at("input"), clients)
    schemas += _in_items(before, request.path, clients)
    schemas = each_once(schemas, path)
    chosen: str | RepeatedTool = "auto"
    allowed, choice = frozenset(clients), None
    if isinstance(request.raw("tool_choice"), dict):
        given = request.object("tool_choice")
        assert given is not None
        allowed, choice, chosen = _read_choice(given, clients)
    else:
        choice = request.choice("tool_choice", CHOICES) or None
        chosen = choice or "auto"
    if choice == "required" and not allowed:
        raise ValidationError("no tools to choose from", path=request.at("tool_choice"))
    offered = [schema for schema in schemas if schema.name in allowed]
    repeated = [tool for tool, _ in read]
    return Tools(offered, choice if offered else None, clients, repeated, chosen)


def read_tool_list(given: Fields, name: str) -> list[tuple[RepeatedTool, str]]:
    """Read a list of tools. Returns each with its path, except those that are left out."""
    found = []
    for tool in given.objects(name):
        kind = tool.needed("type")
        is_searched = (
            kind == _SEARCH and tool.text("execution") != "client"
        )  # not needed: the model gets all tools
        if kind.startswith(_LEFT_OUT) or is_searched:
            tool.dropped.append(f"{tool.path.removeprefix('$.')}.{kind}")
            continue
        reader = _READERS.get(kind)
        if reader is None:
            raise UnsupportedParameter(
                f"unsupported tool type {kind!r}: choose from {', '.join(_READERS)}",
                path=tool.at("type"),
            )
        found.append((reader(tool), tool.path))
    return found


def _read_name(tool: Fields) -> str:
    name = tool.needed("name")
    if not _NAME.fullmatch(name):
        raise tool.must_be("name", "of letters, digits, _ and -, and at most 128 characters long")
    return name


def _read_function(tool: Fields) -> RepeatedTool:
    if tool.flag("defer_loading"):  # it is offered at once
        tool.drop("defer_loading")
    return {
        "type": "function",
        "name": _read_name(tool),
        "description": tool.text_or_none("description"),
        "parameters": tool.mapping("parameters"),
        "strict": tool.flag("strict") is not False,
    }


def _read_custom(tool: Fields) -> RepeatedTool:
    form = tool.object("format")
    read = {"type": "text"}
    if form is not None and form.choice("type", ("text", "grammar")) == "grammar":
        read = {name: form.needed(name) for name in ("type", "syntax", "definition")}
    return {
        "type": "custom",
        "name": _read_name(tool),
        "description": tool.text_or_none("description"),
        "format": read,
    }


def _read_namespace(tool: Fields) -> RepeatedTool:
    inner = read_tool_list(tool, "tools")
    for each, path in inner:
        if each["type"] not in ("function", "custom"):
            raise UnsupportedParameter(
                f"unsupported tool type {each['type']!r} in a namespace", path=f"{path}.type"
            )
    return {
        "type": "namespace",
        "name": _read_name(tool),
        "description": tool.text_or_none("description"),
        "tools": [each for each, _ in inner],
    }


def _read_search(tool: Fields) -> RepeatedTool:
    return {
        "type": _SEARCH,
        "execution": "client",
        "description": tool.text_or_none("description"),
        "parameters": tool.mapping("parameters"),
    }


_READERS: Mapping[str, Callable[[Fields], RepeatedTool]] = {
    "function": _read_function,
    "custom": _read_custom,
    "namespace": _read_namespace,
    _SEARCH: _read_search,
}


def _functions(
    tool: RepeatedTool, path: str, clients: dict[str, ClientTool], namespace: str = ""
) -> Iterator[ToolSchema]:
    """The functions of a tool for the model, which are added to `clients`."""
    kind = tool["type"]
    if kind == "namespace":
        about = tool["description"] or ""
        for at, each in enumerate(tool["tools"]):
            for schema in _functions(each, f"{path}.tools[{at}]", clients, tool["name"]):
                described = f"{schema.description}\n\n({tool['name']}: {about})" if about else ""
                yield evolve(schema, description=described or schema.description)
                about = ""  # the model reads all of them
        return
    client = ClientTool(kind, tool.get("name", _SEARCH), namespace)
    description, parameters = tool["description"] or "", tool.get("parameters")
    if kind == "custom":
        parameters = {
            "type": "object",
            "properties": {_INPUT: {"type": "string", "description": "the whole input, as text"}},
            "required": [_INPUT],
            "additionalProperties": False,
        }
        form = tool["format"]
        if form["type"] == "grammar":
            description += f"\n\nThe input follows this {form['syntax']} grammar:\n"
            description += form["definition"]
    schema = offered_tool(client.function, description, parameters, f"{path}.parameters")
    clients[client.function] = client
    yield schema


def _in_items(items: Iterable[Item], path: str, clients: dict[str, ClientTool]) -> list[ToolSchema]:
    """The functions of the tools in items. Clients send the same tools repeatedly: those that are
    in `clients` already are skipped, and others are added to it."""
    found: list[ToolSchema] = []
    for number, item in enumerate(items):
        for at, tool in enumerate(item.get("tools", ())):
            further: dict[str, ClientTool] = {}
            functions = [*_functions(tool, f"{path}[{number}].tools[{at}]", further)]
            found += [each for each in functions if each.name not in clients]
            clients.update({**further, **clients})
    return found


def names_in(item: Item) -> list[str]:
    """The names of the tools in an item, for the model."""
    clients: dict[str, ClientTool] = {}
    _in_items([item], "$", clients)
    return list(clients)


def _read_choice(
    chosen: Fields, clients: Mapping[str, ClientTool]
) -> tuple[frozenset[str], str | None, RepeatedTool]:
    """The names of the allowed tools, the choice among them, and the choice for the response."""
    kind = chosen.needed("type")
    if kind in _CHOSEN:
        name, repeated = _named(chosen, clients)
        if name in CHOICES:  # as a choice, it would mean `auto`, `none` or `required`
            return frozenset({name}), "required", repeated
        return frozenset(clients), name, repeated
    if kind != "allowed_tools":
        raise UnsupportedParameter(f"unsupported tool type {kind!r}", path=chosen.at("type"))
    allowed = [
        _named(tool, clients)
        for tool in chosen.objects("tools")
        if not tool.text("type").startswith(_LEFT_OUT)
    ]
    mode = chosen.choice("mode", ("auto", "required")) or "auto"
    tools = [repeated for _, repeated in allowed]
    return frozenset(n for n, _ in allowed), mode, {"type": kind, "mode": mode, "tools": tools}


_CHOSEN = ("function", "custom")


def _named(where: Fields, clients: Mapping[str, ClientTool]) -> tuple[str, RepeatedTool]:
    """The name of a chosen tool for the model, and the choice for the response."""
    name, namespace = where.needed("name"), where.text("namespace")
    function = function_name(name, namespace)
    client = clients.get(function)
    kind = where.choice("type", _CHOSEN)  # in `allowed_tools` it may be missing
    if client is None or kind not in ("", client.kind):
        raise ValidationError(f"unknown tool {name!r} among the tools", path=where.at("name"))
    repeated = {"type": client.kind, "name": name}
    return function, {**repeated, "namespace": namespace} if namespace else repeated
