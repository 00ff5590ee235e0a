"""What was said, from the messages of a request.

Source: Claude API reference, "Create a Message": "ContentBlockParam".
"""

from __future__ import annotations

from collections.abc import Iterator

from genai_host.api import (
    File,
    Image,
    Message,
    Opaque,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from genai_host.errors import InvalidData
from genai_host.server.given import Given

OWN = "anthropic-messages"
"""The dialect whose signatures and own blocks these are."""

_ROLES = ("user", "assistant", "system")


def messages_in(body: Given) -> list[Message]:
    """What the system says, then the messages, oldest first. Raises `InvalidData`."""
    given = body.objects("messages")
    if not given:
        raise InvalidData("there are no messages", path=body.at("messages"))
    names: dict[str, str] = {}
    said = list(_system(body, "system"))
    for each in given:
        role = each.choice("role", _ROLES)
        if role == "user":
            said += _of_user(each, names)
        elif role == "assistant":
            said.append(Message("assistant", list(_of_assistant(each, names))))
        elif role == "system":
            said += _system(each, "content")
        else:
            raise InvalidData("a message has a role", path=each.at("role"))
    return said


def _system(given: Given, name: str) -> Iterator[Message]:
    for block in _blocks(given, name):
        if block.text("type") != "text":
            raise InvalidData("the system says texts alone", path=block.at("type"))
        yield Message("system", block.text("text"))


def _of_user(given: Given, names: dict[str, str]) -> Iterator[Message]:
    """The results of tools stand before what else is said.

    names   of the tools that were called so far, by the ids of the calls
    """
    results: list[Part] = []
    said: list[Part] = []
    for block in _blocks(given, "content"):
        if block.text("type") == "tool_result":
            results.append(_result(block, names))
        else:
            said.append(_part(block))
    if results:
        yield Message("tool", results)
    if said or not results:
        yield Message("user", said or [Text("")])


def _of_assistant(given: Given, names: dict[str, str]) -> Iterator[Part]:
    for block in _blocks(given, "content"):
        kind = block.text("type")
        if kind == "text":
            yield Text(block.text("text"))
        elif kind == "tool_use":
            id, name = block.text("id"), block.text("name")
            if not id or not name:
                raise InvalidData("a call has an id and a name", path=block.path)
            names[id] = name
            yield ToolCall(id, name, block.mapping("input") or {})
        elif kind == "thinking":
            if block.text("thinking"):
                yield Reasoning(block.text("thinking"))
            if block.text("signature"):
                yield Opaque(OWN, dict(block.value))
        elif kind:  # what its own service wrote, and reads again
            yield Opaque(OWN, dict(block.value))
        else:
            raise InvalidData("a block has a type", path=block.path)


def _blocks(given: Given, name: str) -> list[Given]:
    """A text stands for one block of it."""
    value = given.raw(name)
    if isinstance(value, str):
        return [Given({"type": "text", "text": value}, given.at(name))] if value else []
    return list(given.objects(name))


def _part(block: Given) -> Part:
    kind = block.text("type")
    if kind == "text":
        return Text(block.text("text"))
    source = block.object("source")
    if kind == "image" and source is not None:
        return _image(source)
    if kind == "document" and source is not None:
        citations = block.object("citations")
        if citations is not None and citations.flag("enabled"):
            raise InvalidData("citations are not given here", path=block.at("citations"))
        return _document(source, block.text("title"))
    raise InvalidData(f"{kind or 'this'} is no block that is taken here", path=block.path)


def _image(source: Given) -> Image:
    if source.text("type") == "url":
        return Image(url=_address(source))
    _must_be(source, "base64")
    kind, data = source.text("media_type"), source.data("data")
    if not kind.startswith("image/") or not data:
        raise InvalidData("this is no picture", path=source.path)
    return Image(data, kind)


def _document(source: Given, title: str) -> Part:
    kind = source.text("type")
    if kind == "text":
        return File(_some(source, source.text("data").encode()), "text/plain", title)
    if kind == "url":
        return File(url=_address(source), media_type="application/pdf", name=title)
    if kind == "content":
        texts = [each.text("text") for each in _blocks(source, "content")]
        return File(_some(source, "\n".join(texts).encode()), "text/plain", title)
    _must_be(source, "base64")
    data = _some(source, source.data("data"))
    return File(data, source.text("media_type") or "application/pdf", title)


def _some(source: Given, data: bytes) -> bytes:
    if not data:
        raise InvalidData("there is nothing in it", path=source.path)
    return data


def _must_be(source: Given, kind: str) -> None:
    if source.text("type") != kind:
        raise InvalidData(
            f"a source of type {source.text('type') or '(none)'} is not taken here",
            path=source.at("type"),
        )


def _address(source: Given) -> str:
    url = source.text("url")
    if not url.startswith(("https://", "http://")):
        raise InvalidData("this is no http(s) address", path=source.at("url"))
    return url


def _result(block: Given, names: dict[str, str]) -> ToolResult:
    id = block.text("tool_use_id")
    if id not in names:
        raise InvalidData("no tool was called by this id", path=block.at("tool_use_id"))
    content: list[Text | Image] = []
    for each in _blocks(block, "content"):
        part = _part(each)
        if not isinstance(part, (Text, Image)):
            raise InvalidData("a result has texts and pictures", path=each.path)
        content.append(part)
    return ToolResult(id, names[id], content, bool(block.flag("is_error")))
