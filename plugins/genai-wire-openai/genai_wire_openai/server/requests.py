"""Requests for OpenAI's chat completions: messages, contents and tools.

Source: OpenAI API reference, "ChatCompletionRequestMessage",
"ChatCompletionRequestUserMessageContentPart", "ChatCompletionTool",
"ChatCompletionToolChoiceOption"; `reasoning_content` as in servers of reasoning models.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from genai_host.api import (
    File,
    Image,
    JsonReader,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolSchema,
    bytes_of,
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

_DATA = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,")


def parts_in(given: JsonReader, name: str = "content") -> list[Part]:
    """Read the content of a message: a text or a list of parts. Raises `ValidationError`."""
    content = given.raw(name)
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(content)] if content else []
    return [_part(each) for each in given.objects(name)]


def texts_in(given: JsonReader, name: str = "content") -> list[Text]:
    """Read content that may have only text. Raises `ValidationError`."""
    found = []
    for part in parts_in(given, name):
        if not isinstance(part, Text):
            raise ValidationError("only text is supported here", path=given.at(name))
        found.append(part)
    return found


def _part(given: JsonReader) -> Part:
    kind = given.text("type")
    if kind == "text":
        return Text(given.text("text"))
    if kind == "refusal":
        return Text(given.text("refusal"))
    if kind == "image_url":
        if isinstance(given.raw("image_url"), str):  # sent by some clients
            return image_at(given.text("image_url"), given.at("image_url"))
        inner = given.object("image_url")
        if inner is None:
            raise ValidationError("image_url is missing", path=given.path)
        return image_at(inner.text("url"), inner.at("url"))
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


_ROLES = ("assistant", "developer", "system", "tool", "user")


def messages_in(body: JsonReader) -> list[Message]:
    """Read the messages, oldest first. Consecutive tool results become one message. Raises
    `ValidationError`."""
    given = body.objects("messages")
    if not given:
        raise ValidationError("must not be empty", path=body.at("messages"))
    return merge_consecutive(_read_messages(given), "tool")


def _read_messages(given: Sequence[JsonReader]) -> Iterator[Message]:
    """Documents in tool results follow after all consecutive results."""
    names: dict[str, str] = {}
    files: list[Part] = []
    calls = CallReader()
    for each in given:
        message = _message(each, names, files, calls)
        if files and message.role != "tool":
            yield Message("user", files)
            files.clear()
        yield message
    if files:
        yield Message("user", files)


def _message(
    given: JsonReader, names: dict[str, str], files: list[Part], calls: CallReader
) -> Message:
    """Read one message. `names` has the tools called so far, by call id; `files` receives the
    documents of a result."""
    role = given.choice("role", _ROLES)
    if role == "user":
        return Message("user", parts_in(given) or [Text("")])
    if role in ("system", "developer"):
        return Message("system", texts_in(given) or [Text("")])
    if role == "assistant":
        return Message("assistant", list(_assistant_parts(given, names, calls)))
    if role == "tool":
        id = given.text("tool_call_id")
        if id not in names:
            raise ValidationError("no tool call has this id", path=given.at("tool_call_id"))
        result, found = result_and_files(id, names[id], parts_in(given))
        files += found
        return Message("tool", [result])
    raise ValidationError("invalid or missing role", path=given.at("role"))


def _assistant_parts(given: JsonReader, names: dict[str, str], calls: CallReader) -> Iterator[Part]:
    given.refuse("audio", "function_call")
    thought = given.text("reasoning_content") or given.text("reasoning")
    if thought:
        yield Reasoning(thought)
    yield from texts_in(given)
    if given.text("refusal"):
        yield Text(given.text("refusal"))
    for each in given.objects("tool_calls"):
        call = _call(each, calls)
        names[call.id] = call.name
        yield call


def _call(given: JsonReader, calls: CallReader) -> ToolCall:
    given.choice("type", ("function",))
    function = given.object("function")
    id, name = given.text("id"), "" if function is None else function.text("name")
    if function is None or not id or not name:
        raise ValidationError(
            "a tool call must have an id and a function with a name", path=given.path
        )
    arguments = function.raw("arguments")
    if isinstance(arguments, dict):  # sent by some clients
        return calls.read(id, name, write_json(arguments).decode())
    return calls.read(id, name, function.text("arguments"))


def tools_in(body: JsonReader) -> list[ToolSchema]:
    """Read the tools. Raises `ValidationError`."""
    return each_once(map(_tool, body.objects("tools")), body.at("tools"))


def chosen(
    body: JsonReader, tools: Sequence[ToolSchema]
) -> tuple[Sequence[ToolSchema], str | None]:
    """Read the tools that may be used, and the choice among them. Raises `ValidationError`."""
    choice = body.raw("tool_choice")
    if choice is None:
        return tools, None
    if isinstance(choice, str):
        return tools, body.choice("tool_choice", CHOICES)
    given = body.object("tool_choice")
    function = None if given is None else given.object("function")
    name = "" if function is None else function.text("name")
    if name not in {tool.name for tool in tools}:
        raise ValidationError(
            "the chosen tool is not among the tools of the request", path=body.at("tool_choice")
        )
    return one_of(tools, name)


def _tool(given: JsonReader) -> ToolSchema:
    if given.text("type") != "function":
        raise ValidationError(
            f"unsupported tool type {given.text('type') or '(none)'}: use function",
            path=given.at("type"),
        )
    function = given.object("function")
    if function is None:
        raise ValidationError("function is missing", path=given.path)
    return offered_tool(
        function.text("name"),
        function.text("description"),
        function.mapping("parameters"),
        function.at("parameters"),
    )
