"""Requests for OpenAI's chat completions: messages, contents and tools.

Source: OpenAI API reference, "ChatCompletionRequestMessage",
"ChatCompletionRequestUserMessageContentPart", "ChatCompletionTool",
"CustomToolChatCompletions", "ChatCompletionToolChoiceOption", "ChatCompletionFunctions";
`reasoning_content` as in servers of reasoning models. Functions are the deprecated form of tools: a
message has one call, without an id.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence, Set
from itertools import count
from typing import Any

from attrs import evolve

from genai_host.api import (
    File,
    Image,
    JsonReader,
    Message,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolSchema,
    VendorTool,
    bytes_of,
    merged_extra,
    write_json,
)
from genai_host.errors import ValidationError
from genai_host.serving import (
    CHOICES,
    CallReader,
    each_once,
    merge_consecutive,
    offered_tool,
    one_of,
    result_and_files,
)
from genai_wire_openai.shared import (
    CHAT,
    INPUT,
    MARKED,
    PARAMETERS,
    RESPONSES,
    detail_extra,
    report_detail,
    with_grammar,
)

NEUTRAL = ("annotations", "cache_control", "id")
"""Fields of messages, parts and tools that mean nothing to services of other formats."""

_DATA = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,")


def parts_in(given: JsonReader) -> list[Part]:
    """Read the content of a message: a text or a list of parts. Raises `ValidationError`."""
    content = given.raw("content")
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(content)] if content else []
    return [_part_with_extra(each) for each in given.objects("content")]


def texts_in(given: JsonReader) -> list[Text]:
    """Read content that may have only text. Raises `ValidationError`."""
    found = []
    for part in parts_in(given):
        if not isinstance(part, Text):
            raise ValidationError("only text is supported here", path=given.at("content"))
        found.append(part)
    return found


def texts_or_tokens(body: JsonReader, name: str) -> Sequence[str | Sequence[int]]:
    """Read a text or a list of them; some clients send token IDs instead of a text. Raises
    `ValidationError`."""
    given = body.raw(name)
    texts = [given] if isinstance(given, str) else body.values(name)
    if texts and all(type(each) is int for each in texts):
        texts = [texts]
    for text in texts:
        is_tokens = isinstance(text, list) and all(type(each) is int for each in text)
        if text == [] or not (is_tokens or isinstance(text, str)):
            raise ValidationError("must be a text, or a list of token IDs", path=body.at(name))
    return texts


def _part_with_extra(given: JsonReader) -> Part:
    part = _part(given)
    extra = given.extra_fields(*NEUTRAL)
    return part if extra is None else evolve(part, extra=merged_extra(part.extra or {}, extra))


def _part(given: JsonReader) -> Part:
    kind = given.text("type")
    if kind == "text":
        return Text(given.text("text"))
    if kind == "refusal":
        return Text(given.text("refusal"), extra=MARKED)
    if kind == "image_url":
        if isinstance(given.raw("image_url"), str):  # sent by some clients
            return image_at(given.text("image_url"), given.at("image_url"))
        inner = given.object("image_url")
        if inner is None:
            raise ValidationError("image_url is missing", path=given.path)
        detail = inner.text("detail")
        report_detail(inner, detail)
        return evolve(image_at(inner.text("url"), inner.at("url")), extra=detail_extra(detail))
    if kind == "file":
        inner = given.object("file")
        if inner is None:
            raise ValidationError("file is missing", path=given.path)
        inner.refuse("file_id")
        return file_of(inner.text("file_data"), inner.text("filename"), inner.at("file_data"))
    raise ValidationError(f"unsupported content part of type {kind or '(none)'}", path=given.path)


def image_at(url: str, path: str) -> Image:
    """Return an image from its URL or data URL. Raises `ValidationError`."""
    if url.startswith(("https://", "http://")):
        return Image(url=url)
    kind, data = _data(url, path)
    if not kind.startswith("image/"):
        raise ValidationError("not an image", path=path)
    return Image(data, kind)


def file_of(data: str, name: str, path: str) -> File:
    """Return a document from a data URL or plain base64. Raises `ValidationError`."""
    kind, content = _data(data, path) if data.startswith("data:") else ("", bytes_of(data, path))
    if not content:
        raise ValidationError("must not be empty", path=path)
    return File(content, kind or "application/pdf", name)


def _data(url: str, path: str) -> tuple[str, bytes]:
    found = _DATA.match(url)
    if found is None:
        raise ValidationError("must be an http(s) URL or a base64 data URL", path=path)
    content = bytes_of(url[found.end() :], path)
    if not content:
        raise ValidationError("must not be empty", path=path)
    return found[1].lower(), content


_ROLES = ("assistant", "developer", "function", "system", "tool", "user")


def messages_in(body: JsonReader, has_names: Callable[[], bool]) -> list[Message]:
    """Read the messages, oldest first. Consecutive tool results become one message. `has_names` is
    whether the service receives the names of speakers; it is asked if there are any. Raises
    `ValidationError`."""
    given = body.objects("messages")
    if not given:
        raise ValidationError("must not be empty", path=body.at("messages"))
    return merge_consecutive(_MessageReader(has_names).read(given), "tool")


class _MessageReader:
    """Reads the messages of a request."""

    def __init__(self, has_names: Callable[[], bool]) -> None:
        self._has_names = functools.cache(has_names)
        self._tools: dict[str, str] = {}  # names of the tools called so far, by call id
        self._functions: dict[str, str] = {}  # ids of the last calls of functions, by name
        self._files: list[Part] = []  # documents of results
        self._calls = CallReader()
        self._numbers = count()

    def read(self, given: Sequence[JsonReader]) -> Iterator[Message]:
        """Documents in tool results follow after all consecutive results."""
        files = self._files
        for each in given:
            message = self._message(each)
            if files and message.role != "tool":
                yield Message("user", files)
                files.clear()
            yield message
        if files:
            yield Message("user", files)

    def _message(self, given: JsonReader) -> Message:
        role = given.choice("role", _ROLES)
        if role == "user":
            return self._made("user", parts_in(given) or [Text("")], given)
        if role in ("system", "developer"):
            return self._made("system", texts_in(given) or [Text("")], given)
        if role == "assistant":
            return self._made("assistant", list(self._answer(given)), given)
        if role == "tool":
            return self._result(given, given.text("tool_call_id"), "tool_call_id")
        if role == "function":
            return self._result(given, self._functions.get(given.text("name"), ""), "name")
        raise ValidationError("invalid or missing role", path=given.at("role"))

    def _made(self, role: Role, parts: Sequence[Part], given: JsonReader) -> Message:
        name = self._name(given)
        return Message(role, parts, name=name, extra=given.extra_fields(*NEUTRAL))

    def _name(self, given: JsonReader) -> str:
        name = given.text("name")
        if name and not self._has_names():
            given.drop("name")
            return ""
        if name:
            given.drop_elsewhere("name")
        return name

    def _result(self, given: JsonReader, id: str, field: str) -> Message:
        if id not in self._tools:
            what = "id" if field == "tool_call_id" else "name"
            raise ValidationError(f"no tool call has this {what}", path=given.at(field))
        parts = parts_in(given)
        given.text("name")  # of the tool, which is known
        extra = given.extra_fields(*NEUTRAL)
        result, found = result_and_files(id, self._tools[id], parts, extra=extra)
        self._files += found
        return Message("tool", [result])

    def _answer(self, given: JsonReader) -> Iterator[Part]:
        given.refuse("audio")
        thoughts = (given.text("reasoning_content"), given.text("reasoning"))
        thought = next(filter(None, thoughts), "")
        if thought:
            yield Reasoning(thought)
        yield from texts_in(given)
        if given.text("refusal"):
            yield Text(given.text("refusal"), extra=MARKED)
        for each in given.objects("tool_calls"):
            call = _call(each, self._calls)
            self._tools[call.id] = call.name
            yield call
        function = given.object("function_call")
        if function is not None:
            yield self._function_call(function)

    def _function_call(self, function: JsonReader) -> ToolCall:
        name = function.text("name")
        if not name:
            raise ValidationError("a function call must have a name", path=function.path)
        ids = (f"function_call_{number}" for number in self._numbers)
        id = next(id for id in ids if id not in self._tools)
        self._tools[id] = name
        self._functions[name] = id
        arguments = function.text("arguments")
        function.drop_others()  # it is sent as the call of a tool
        return self._calls.read(id, name, arguments)


_KINDS = ("function", "custom")
"""Types of tools, and the fields with their definition."""


def _call(given: JsonReader, calls: CallReader) -> ToolCall:
    kind = given.choice("type", _KINDS, "function")
    function = given.object(kind)
    id, name = given.text("id"), "" if function is None else function.text("name")
    given.raw("index")  # of a streamed call
    if function is None or not id or not name:
        raise ValidationError(
            f"a tool call must have an id and a {kind} with a name", path=given.path
        )
    if kind == "custom":
        text = function.text(INPUT)
        function.drop_others()  # it is sent as the call of a function
        return ToolCall(id, name, {INPUT: text}, extra=given.extra_fields())
    arguments = function.raw("arguments")
    if isinstance(arguments, dict):  # sent by some clients
        text = write_json(arguments).decode()
    else:
        text = function.text("arguments")
    return calls.read(id, name, text, given.extra_fields())


def tools_in(body: JsonReader) -> list[ToolSchema]:
    """Read the tools, and the functions. Raises `ValidationError`."""
    tools, functions = body.objects("tools"), body.objects("functions")
    if tools and functions:
        raise ValidationError("functions cannot be combined with tools", path=body.at("functions"))
    if functions:
        return each_once(map(_old_function, functions), body.at("functions"))
    return each_once(map(_tool, tools), body.at("tools"))


def _old_function(given: JsonReader) -> ToolSchema:
    """A function that is not in a tool; it is sent as a tool."""
    function = _function(given)
    given.drop_others()
    return function


_SEARCH = "web_search"
_OPTIONS = "web_search_options"


def web_search_in(
    body: JsonReader, tools: Sequence[ToolSchema], dialect: Callable[[], str]
) -> list[VendorTool]:
    """Read the web search. Services of this format receive the field, and those of responses a
    tool; for others, the host may have a tool. Raises `ValidationError`."""
    given = body.peek(_OPTIONS)
    if given is None or dialect() == CHAT:
        return []
    translated = body.translates(_SEARCH)
    if dialect() != RESPONSES and not (translated or body.replaces(_SEARCH)):
        body.drop(_OPTIONS)
        return []
    body.raw(_OPTIONS)
    extra = {RESPONSES: _search(given)} if dialect() == RESPONSES else None
    given.drop_others()
    name = _SEARCH
    while name in {tool.name for tool in tools}:
        name += "_"
    tool = VendorTool(name, "", extra=extra, kind=_SEARCH, translated=translated)
    if translated or (extra is not None and not body.replaces(_SEARCH)):
        body.drop_elsewhere(_OPTIONS, tool)
    return [tool]


def _search(options: JsonReader) -> dict[str, Any]:
    """The tool of a response for the options of a chat completion."""
    size, location = options.text("search_context_size"), options.object("user_location")
    tool: dict[str, Any] = {"type": _SEARCH}
    if size:
        tool["search_context_size"] = size
    if location is not None:
        kind = location.text("type", "approximate")
        tool["user_location"] = {"type": kind, **(location.mapping(kind) or {})}
    return tool


def chosen(
    body: JsonReader, tools: Sequence[ToolSchema]
) -> tuple[Sequence[ToolSchema], str | None]:
    """Read the tools that may be used, and the choice among them. Raises `ValidationError`."""
    fields = ("function_call", "tool_choice")
    field, other = fields if body.raw("functions") else reversed(fields)
    body.drop(other)
    choice = body.raw(field)
    if choice is None:
        return tools, None
    if isinstance(choice, str):
        return tools, body.choice(field, CHOICES)
    given = body.object(field)
    if given is None:
        return tools, None
    if field == "tool_choice" and given.text("type") == "allowed_tools":
        return _allowed(given, tools)
    name = given.text("name") if field == "function_call" else _name_of(given)
    if field == "function_call" or given.text("type") == "custom" or name in CHOICES:
        given.drop_others()  # it is sent in another form
    _must_be_offered(name, {tool.name for tool in tools}, body.at(field))
    return one_of(tools, name)


def _allowed(
    given: JsonReader, tools: Sequence[ToolSchema]
) -> tuple[Sequence[ToolSchema], str | None]:
    allowed = given.object("allowed_tools")
    if allowed is None:
        raise ValidationError("allowed_tools is missing", path=given.path)
    mode = allowed.choice("mode", ("auto", "required"), "auto")
    offered, names = {tool.name for tool in tools}, set()
    for each in allowed.objects("tools"):
        name = _name_of(each)
        _must_be_offered(name, offered, each.path)
        each.drop_others()
        names.add(name)
    given.drop_others()
    if not names:
        raise ValidationError("no tools are allowed", path=allowed.at("tools"))
    return [tool for tool in tools if tool.name in names], mode


def _name_of(given: JsonReader) -> str:
    """The name of a chosen tool."""
    tool = given.object("custom" if given.text("type") == "custom" else "function")
    return "" if tool is None else tool.text("name")


def _must_be_offered(name: str, offered: Set[str], path: str) -> None:
    if name not in offered:
        raise ValidationError("the chosen tool is not among the tools of the request", path=path)


def _tool(given: JsonReader) -> ToolSchema:
    kind = given.text("type")
    if kind not in _KINDS:
        raise ValidationError(
            f"unsupported tool type {kind or '(none)'}: use {' or '.join(_KINDS)}",
            path=given.at("type"),
        )
    function = given.object(kind)
    if function is None:
        raise ValidationError(f"{kind} is missing", path=given.path)
    if kind == "custom":
        tool = _custom(function)
        given.drop_others()  # it is sent as a function
        return tool
    return evolve(_function(function), extra=given.extra_fields(*NEUTRAL))


def _custom(given: JsonReader) -> ToolSchema:
    description = given.text("description")
    form = given.object("format")
    if form is not None and form.choice("type", ("text", "grammar")) == "grammar":
        grammar = form.object("grammar")
        if grammar is None:
            raise ValidationError("grammar is missing", path=form.path)
        definition = grammar.required_text("definition")
        description = with_grammar(description, grammar.text("syntax"), definition)
    return offered_tool(given.text("name"), description, PARAMETERS, given.path)


def _function(given: JsonReader) -> ToolSchema:
    return offered_tool(
        given.text("name"),
        given.text("description"),
        given.mapping("parameters"),
        given.at("parameters"),
        strict=given.flag("strict"),
    )
