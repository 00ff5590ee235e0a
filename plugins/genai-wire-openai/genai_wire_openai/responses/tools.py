"""The tools of a request. Most of them are run by the client.

    read_tools → Tools.offered, for the model
               → Tools.client_tools, to convert a call to an item of the client's form

Models know functions with a name and a JSON Schema. Other forms become functions:

- A function in a namespace is named `NAMESPACE__NAME`.
- A custom tool takes text, which becomes a parameter; see `custom_tools`.
- `tool_search` with `execution: client`; the tools that the client finds are offered, too.

OpenAI runs `web_search` and `image_generation`. Services of this format receive them, and for
others, a tool of the host may replace the first. Otherwise they are ignored and reported; other
types of tools are refused.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, NamedTuple

from attrs import evolve, frozen

from genai_host.api import ToolCall, ToolSchema, VendorTool, extra_of, merged_extra
from genai_host.errors import NoRoute, ValidationError
from genai_host.serving import CHOICES, MAX_TOOLS, each_once, offered_tool, vendor_tool
from genai_wire_openai.dialect.response_replies import NAME
from genai_wire_openai.responses.fields import Fields, MissingParameter, UnsupportedParameter
from genai_wire_openai.shared import INPUT, PARAMETERS, arguments_text, input_of, with_grammar

Item = dict[str, Any]
MakeItemId = Callable[[str], str]
"""Returns a new item id with the given prefix."""
RepeatedTool = Mapping[str, Any]
"""A tool or a tool choice, as repeated in the response and stored in items."""

EXTRA = "extra"
"""Field of an item, a part or a tool with unknown fields, which are shown where they were. They are
apart from the fields of the host, so that clients cannot set these."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
_OF_SERVICE = re.compile(
    r"image_generation|(?P<web_search>web_search(?:_preview)?(?:_\d{4}_\d\d_\d\d)?)"
)
"""Types of tools that OpenAI runs, with their kinds."""
_MAX_NAME = 64
_SEARCH = "tool_search"


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
        """The name of its function for the model."""
        return function_name(self.name, self.namespace)

    def item(self, call: ToolCall, new_id: MakeItemId) -> Item:
        """The item of a call."""
        item: Item = {"status": "completed", "call_id": call.id}
        item |= unknown_of(call)
        if self.kind == "function":
            item |= {"id": new_id("fc"), "type": "function_call", "arguments": arguments_text(call)}
        elif self.kind == "custom":
            item |= {"id": new_id("ctc"), "type": "custom_tool_call", "input": input_of(call)}
        else:
            item |= {"id": new_id("tsc"), "type": "tool_search_call", "execution": "client"}
            query = {"query": call.malformed} if call.malformed else {}
            return {**item, "arguments": {**query, **call.arguments}}
        item["name"] = self.name
        return {**item, "namespace": self.namespace} if self.namespace else item


def unknown_of(call: ToolCall) -> Item:
    """The unknown fields of a call, for its item."""
    unknown = (call.extra or {}).get(NAME)
    return {EXTRA: unknown} if unknown else {}


def function_name(name: str, namespace: str = "") -> str:
    """The name of a tool for the model, for which services accept up to 64 characters."""
    if not namespace:
        return name
    whole = f"{namespace}__{name}"
    if len(whole) <= _MAX_NAME:
        return whole
    mark = hashlib.sha256(whole.encode()).hexdigest()[:8]
    return f"{whole[: _MAX_NAME - 9]}_{mark}"


def call_of(item: Item, read: Callable[..., ToolCall]) -> ToolCall | None:
    """The call in an item; None if it is not a call. `read` reads a call from its id, its name, its
    arguments as JSON, and `extra`."""
    kind = item["type"]
    name = function_name(item.get("name", _SEARCH), item.get("namespace", ""))
    extra = extra_of(NAME, item.get(EXTRA, {}))
    if kind == "function_call":
        return read(item["call_id"], name, item["arguments"], extra)
    if kind == "custom_tool_call":
        return ToolCall(item["call_id"], name, {INPUT: item["input"]}, extra=extra)
    if kind == "tool_search_call":
        return ToolCall(item["call_id"], name, item["arguments"])
    return None


@frozen
class Tools:
    """The tools of a request.

    Attributes:
        offered: Tools that the model may call.
        choice: `auto`, `none`, `required` or the name of a tool; None leaves it to the model.
        client_tools: The tools as the client knows them, by their names for the model.
        repeated: All given tools, for the response.
        chosen: The given choice, for the response.
    """

    offered: Sequence[ToolSchema]
    choice: str | None
    client_tools: Mapping[str, ClientTool]
    repeated: Sequence[RepeatedTool]
    chosen: str | RepeatedTool


def read_tools(request: Fields, input: Sequence[Item] = (), previous: Sequence[Item] = ()) -> Tools:
    """Read the tools and the tool choice. Of several definitions of a tool, that of the request
    counts, or else the last one in the items: those of the request, and those of `previous`
    requests, which have already been checked. Raises `ValidationError`."""
    path = request.at("tools")
    of_service: dict[str, VendorTool] = {}
    read = read_tool_list(request, "tools", of_service)
    client_tools: dict[str, ClientTool] = {}
    own = chain.from_iterable(_functions(tool, path) for tool, path in read)
    further = _new(_in_items(input, request.at("input")), client_tools)
    schemas = each_once(_checked(chain(own, further), client_tools), path)
    if len(schemas) + len(of_service) > MAX_TOOLS:
        raise ValidationError(f"there are more than {MAX_TOOLS} tools", path=path)
    for function in _new(_in_items(previous, path), client_tools):
        if len(client_tools) + len(of_service) == MAX_TOOLS:
            break
        client_tools[function.tool.function] = function.tool
        schemas.append(function.schema)
    names: dict[str, str] = {}  # of tools of the service, by type
    name, used = "", set(client_tools)
    for kind, each in of_service.items():
        if not name or each.extra:  # the host replaces all types with one function
            name = each.kind or kind
            while name in used:
                name += "_"
            used.add(name)
            schemas.append(evolve(each, name=name))
        names[kind] = name
    chosen: str | RepeatedTool = "auto"
    allowed, choice = frozenset((*client_tools, *names.values())), None
    if isinstance(request.raw("tool_choice"), dict):
        given = request.object("tool_choice")
        assert given is not None
        allowed, choice, chosen = _read_choice(given, client_tools, names)
        if choice in CHOICES or chosen["type"] == "custom" or "namespace" in chosen:
            given.drop_others()  # it is sent in another form
    else:
        choice = request.choice("tool_choice", CHOICES) or None
        chosen = choice or "auto"
    if choice == "required" and not allowed:
        raise ValidationError("no tools to choose from", path=request.at("tool_choice"))
    offered = [schema for schema in schemas if schema.name in allowed]
    repeated = [_as_given(tool) for tool, _ in read]
    return Tools(offered, choice if offered else None, client_tools, repeated, chosen)


def _as_given(tool: RepeatedTool) -> RepeatedTool:
    """A tool with its unknown fields where they were."""
    own = {name: value for name, value in tool.items() if name != EXTRA}
    return merged_extra(own, tool.get(EXTRA, {}))


def check_tools(items: Sequence[Item], path: str) -> None:
    """Check the tools in items that are stored. Raises `ValidationError`."""
    client_tools: dict[str, ClientTool] = {}
    each_once(_checked(_new(_in_items(items, path), client_tools), client_tools), path)


def names_in(item: Item) -> list[str]:
    """The names of the tools in an item, for the model."""
    return [each.tool.function for each in _in_items([item], "$")]


def read_tool_list(
    given: Fields, name: str, of_service: dict[str, VendorTool] | None = None
) -> list[tuple[RepeatedTool, str]]:
    """Read a list of tools, and return each with its path. `of_service` collects the tools that the
    service runs, one of each type; they are ignored if it is None."""
    found = []
    for tool in given.objects(name):
        kind = tool.needed("type")
        # a search by the service is not needed: the model gets all tools
        is_hosted_search = kind == _SEARCH and tool.text("execution") != "client"
        if is_hosted_search:
            tool.drop_this(kind)
            continue
        if _OF_SERVICE.fullmatch(kind):
            own = _read_of_service(kind, tool, of_service)
            found += [] if own is None else [(own, tool.path)]
            continue
        reader = _READERS.get(kind)
        if reader is None:
            raise UnsupportedParameter(
                f"unsupported tool type {kind!r}: choose from {', '.join(_READERS)}",
                path=tool.at("type"),
            )
        read = reader(tool)
        if kind == "function":
            extra = tool.extra_fields()
            read = {**read, EXTRA: extra[NAME]} if extra else read
        tool.drop_others()
        found.append((read, tool.path))
    return found


def _read_of_service(
    kind: str, tool: Fields, of_service: dict[str, VendorTool] | None
) -> RepeatedTool | None:
    """Read a tool of the service; None if it is ignored."""
    if of_service is None or kind in of_service:
        tool.drop_this(kind)
        return None
    with suppress(NoRoute):  # the call reports it
        found = _OF_SERVICE.fullmatch(kind)
        own = vendor_tool(kind, tool, kind=found.lastgroup or "" if found else "")
        if own is not None:
            of_service[kind] = own
            fields = dict((own.extra or {}).get(NAME, ()))
            fields.pop("type", None)
            return {"type": kind, EXTRA: fields}
    return None


def _read_name(tool: Fields) -> str:
    name = tool.needed("name")
    if not _NAME.fullmatch(name):
        raise tool.must_be("name", "of letters, digits, _ and -, and at most 128 characters long")
    return name


def _read_function(tool: Fields) -> RepeatedTool:
    if tool.flag("defer_loading"):  # the model gets all tools immediately
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
        if not read["definition"]:
            raise MissingParameter("definition is missing", path=form.at("definition"))
    found: RepeatedTool = {"type": "custom", "name": _read_name(tool), "format": read}
    # unlike that of a function, it may not be null
    description = tool.text_or_none("description")
    return found if description is None else {**found, "description": description}


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


class _Function(NamedTuple):
    """A tool as a function for the model.

    Attributes:
        tool: The tool as the client knows it.
        description: Its description.
        parameters: JSON Schema of its parameters; None for none.
        path: Its place in the request.
        strict, extra: See `ToolSchema`.
    """

    tool: ClientTool
    description: str
    parameters: Mapping[str, Any] | None
    path: str
    strict: bool | None = None
    extra: Mapping[str, Any] | None = None

    @property
    def schema(self) -> ToolSchema:
        return ToolSchema(
            self.tool.function,
            self.description,
            self.parameters or {},
            self.strict,
            extra=self.extra,
        )


def _functions(tool: RepeatedTool, path: str, namespace: str = "") -> Iterator[_Function]:
    """The functions of a tool for the model."""
    kind = tool["type"]
    if _OF_SERVICE.fullmatch(kind):
        return
    if kind == "namespace":
        about = tool["description"] or ""
        for at, each in enumerate(tool["tools"]):
            for function in _functions(each, f"{path}.tools[{at}]", tool["name"]):
                if about:  # only with the first: the model reads all of them
                    about = f"{function.description}\n\n({tool['name']}: {about})"
                    function = function._replace(description=about)
                about = ""
                yield function
        return
    description, parameters = tool.get("description") or "", tool.get("parameters")
    if kind == "custom":
        parameters = PARAMETERS
        form = tool["format"]
        if form["type"] == "grammar":
            description = with_grammar(description, form["syntax"], form["definition"])
    client_tool = ClientTool(kind, tool.get("name", _SEARCH), namespace)
    extra = extra_of(NAME, tool.get(EXTRA, {}))
    # true is also the value of tools that left it out
    strict = False if tool.get("strict") is False else None
    yield _Function(client_tool, description, parameters, f"{path}.parameters", strict, extra)


def _in_items(items: Sequence[Item], path: str) -> Iterator[_Function]:
    """The functions of the tools in items, those of the last item first."""
    for number in reversed(range(len(items))):
        for at, tool in enumerate(items[number].get("tools", ())):
            yield from _functions(tool, f"{path}[{number}].tools[{at}]")


def _new(
    functions: Iterable[_Function], client_tools: Mapping[str, ClientTool]
) -> Iterator[_Function]:
    """Skip functions with a known name, because clients send the same tools repeatedly."""
    return (each for each in functions if each.tool.function not in client_tools)


def _checked(
    functions: Iterable[_Function], client_tools: dict[str, ClientTool]
) -> Iterator[ToolSchema]:
    """Check functions one after the other, and add their tools to `client_tools`."""
    for each in functions:
        client_tools[each.tool.function] = each.tool
        yield offered_tool(
            each.tool.function,
            each.description,
            each.parameters,
            each.path,
            strict=each.strict,
            extra=each.extra,
        )


def _read_choice(
    chosen: Fields, client_tools: Mapping[str, ClientTool], of_service: Mapping[str, str]
) -> tuple[frozenset[str], str | None, RepeatedTool]:
    """The names of the allowed tools, the choice among them, and the choice for the response."""
    kind = chosen.needed("type")
    every = frozenset((*client_tools, *of_service.values()))
    if kind in of_service:
        return every, of_service[kind], {"type": kind}
    if kind in _CHOSEN:
        name, repeated = _named(chosen, client_tools)
        if name in CHOICES:  # as a choice, it would mean `auto`, `none` or `required`
            return frozenset({name}), "required", repeated
        return every, name, repeated
    if kind != "allowed_tools":
        raise UnsupportedParameter(f"unsupported tool type {kind!r}", path=chosen.at("type"))
    allowed: list[tuple[str, RepeatedTool]] = []
    for tool in chosen.objects("tools"):
        given = tool.text("type")
        if given in of_service:
            allowed.append((of_service[given], {"type": given}))
        elif not _OF_SERVICE.fullmatch(given):
            allowed.append(_named(tool, client_tools))
        tool.drop_others()
    mode = chosen.choice("mode", ("auto", "required")) or "auto"
    tools = [repeated for _, repeated in allowed]
    return frozenset(n for n, _ in allowed), mode, {"type": kind, "mode": mode, "tools": tools}


_CHOSEN = ("function", "custom")


def _named(where: Fields, client_tools: Mapping[str, ClientTool]) -> tuple[str, RepeatedTool]:
    """The name of a chosen tool for the model, and the choice for the response."""
    name, namespace = where.needed("name"), where.text("namespace")
    function = function_name(name, namespace)
    client = client_tools.get(function)
    kind = where.choice("type", _CHOSEN)  # in `allowed_tools` it may be missing
    if client is None or kind not in ("", client.kind):
        raise ValidationError(f"unknown tool {name!r} among the tools", path=where.at("name"))
    repeated = {"type": client.kind, "name": name}
    return function, {**repeated, "namespace": namespace} if namespace else repeated
