"""What was said, from the messages of a request.

Source: Claude API reference, "Create a Message": "MessageParam", "ContentBlockParam"; the
guides to tool use and to thinking.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from genai_host.api import (
    Image,
    Message,
    Opaque,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from genai_host.api.given import Given
from genai_host.errors import InvalidData
from genai_host.server.anthropic.documents import document, image
from genai_host.server.anthropic.marks import ttl_in

OWN = "anthropic-messages"
"""The dialect whose signatures and own blocks these are."""

MALFORMED = "INVALID_JSON"
"""The only argument of a call whose arguments are no object: what was written instead."""

_ROLES = ("user", "assistant", "system")
_OF_ITS_SERVICE = frozenset(
    {
        "bash_code_execution_tool_result", "code_execution_tool_result", "container_upload",
        "mcp_tool_result", "mcp_tool_use", "redacted_thinking", "server_tool_use",
        "text_editor_code_execution_tool_result", "tool_search_tool_result",
        "web_fetch_tool_result", "web_search_tool_result",
    }
)  # fmt: skip
"""Blocks of a model's answer that its own service wrote, and reads again."""


def messages_in(body: Given) -> tuple[list[Message], set[str]]:
    """What the system says, then the messages, oldest first; and how long what is marked is
    to be kept in a cache. Raises `InvalidData`."""
    given = body.objects("messages")
    if not given:
        raise InvalidData("there are no messages", path=body.at("messages"))
    reader = _Reader()
    said = [*reader.system(body, "system")]
    for each in given:
        said += reader.messages(each)
    return said, reader.ttls


class _Reader:
    """Of one conversation.

    ttls   of the marks that were met
    """

    def __init__(self) -> None:
        self.ttls: set[str] = set()
        self._names: dict[str, str] = {}  # of the tools that were called, by ids of calls

    def system(self, given: Given, name: str) -> Iterator[Message]:
        for block in self._blocks(given, name):
            if block.text("type") != "text":
                raise InvalidData("the system says texts alone", path=block.path)
            yield Message("system", _text(block))

    def messages(self, given: Given) -> Iterator[Message]:
        role = given.choice("role", _ROLES)
        if role == "user":
            yield from self._of_user(given)
        elif role == "assistant":
            parts = [
                part for block in self._blocks(given, "content") for part in self._answered(block)
            ]
            yield Message("assistant", parts)
        elif role == "system":
            yield from self.system(given, "content")
        else:
            raise InvalidData("a message has a role", path=given.at("role"))
        given.nothing_else()

    def _of_user(self, given: Given) -> Iterator[Message]:
        """The results of tools stand before what else is said."""
        results: list[Part] = []
        said: list[Part] = []
        for block in self._blocks(given, "content"):
            if block.text("type") == "tool_result":
                results.append(self._result(block))
            else:
                said.append(_part(block))
        if results:
            yield Message("tool", results)
        if said or not results:
            yield Message("user", said or [Text("")])

    def _answered(self, block: Given) -> Iterator[Part]:
        """A block as it came, which may have fields that say nothing here."""
        kind = block.text("type")
        if kind == "text":
            if block.values("citations"):
                yield Opaque(OWN, {"citations": block.raw("citations")})
            yield Text(block.text("text"))
        elif kind == "tool_use":
            yield self._call(block)
        elif kind == "thinking":
            if block.text("thinking"):
                yield Reasoning(block.text("thinking"))
            if block.text("signature"):
                yield Opaque(OWN, dict(block.value))
        elif kind in _OF_ITS_SERVICE:
            yield Opaque(OWN, dict(block.value))
        else:
            raise _not_taken(block)

    def _call(self, block: Given) -> ToolCall:
        id, name = block.text("id"), block.text("name")
        if not id or not name:
            raise InvalidData("a call has an id and a name", path=block.path)
        self._names[id] = name
        given: Mapping[str, Any] = block.mapping("input") or {}
        malformed = given.get(MALFORMED)
        if len(given) == 1 and isinstance(malformed, str) and malformed:
            return ToolCall(id, name, malformed=malformed)
        return ToolCall(id, name, given)

    def _result(self, block: Given) -> ToolResult:
        id = block.text("tool_use_id")
        if id not in self._names:
            raise InvalidData("no tool was called by this id", path=block.at("tool_use_id"))
        content: list[Text | Image] = []
        for each in self._blocks(block, "content"):
            part = _part(each)
            if not isinstance(part, (Text, Image)):
                raise InvalidData("a result has texts and pictures", path=each.path)
            content.append(part)
        is_error = bool(block.flag("is_error"))
        block.raw("toolset_name")
        block.nothing_else()
        return ToolResult(id, self._names[id], content, is_error)

    def _blocks(self, given: Given, name: str) -> Sequence[Given]:
        """A text stands for one block of it."""
        value = given.raw(name)
        if isinstance(value, str):
            return [Given({"type": "text", "text": value}, given.at(name))] if value else []
        blocks = given.objects(name)
        for block in blocks:
            self.ttls.update(ttl_in(block))
        return blocks


def _part(block: Given) -> Part:
    kind = block.text("type")
    if kind == "text":
        return _text(block)
    if kind == "image":
        return image(block)
    if kind == "document":
        return document(block)
    raise _not_taken(block)


def _text(block: Given) -> Text:
    found = Text(block.text("text"))
    block.refuse("citations")
    block.nothing_else()
    return found


def _not_taken(block: Given) -> InvalidData:
    kind = block.text("type") or "(none)"
    return InvalidData(f"blocks of type {kind} are not taken here", path=block.at("type"))
