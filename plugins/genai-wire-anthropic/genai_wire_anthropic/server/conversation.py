"""Messages of a request: blocks, documents, cache marks.

Source: Claude API reference, "Create a Message": "MessageParam", "ContentBlockParam",
"ImageBlockParam", "DocumentBlockParam", "CacheControlEphemeralParam"; the guides to tool use,
thinking and prompt caching.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from attrs import evolve

from genai_host.api import (
    File,
    Image,
    JsonReader,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    VendorPart,
    one_line,
    well_formed,
)
from genai_host.errors import ValidationError
from genai_host.serving import result_and_files
from genai_wire_anthropic.dialect.replies import DIRECT, NAME
from genai_wire_anthropic.dialect.tools import MALFORMED

_TTLS = ("5m", "1h")


def ttl_in(given: JsonReader) -> tuple[str, ...]:
    """Return the cache lifetime of a marked block; empty if it is not marked. Raises
    `ValidationError`."""
    control = given.peek("cache_control")  # the mark stays where it is
    if control is None:
        return ()
    control.choice("type", ("ephemeral",))
    return (control.choice("ttl", _TTLS, _TTLS[0]),)


NEUTRAL = ("cache_control", "caller", "toolset_name", "transformations")
"""Fields of blocks and tools that mean nothing to other services."""


def longest(ttls: Iterable[str]) -> str | None:
    """Return the longest of the lifetimes; None without any."""
    return max(ttls, key=_TTLS.index, default=None)


_PDF, _TEXT = "application/pdf", "text/plain"


def image(block: JsonReader) -> Image:
    """Read an image. Raises `ValidationError`."""
    changes = block.peek("transformations")
    if changes is not None:
        changes.choice("oversized_image", ("downsize",))
    source = _source(block)
    kind = source.text("type")
    if kind == "url":
        found = Image(url=_address(source))
    elif kind == "base64":
        media_type = source.text("media_type")
        if not media_type.startswith("image/"):
            raise ValidationError("not an image", path=source.at("media_type"))
        found = Image(_some(source, source.data("data")), media_type)
    else:
        raise _source_not_taken(source)
    return evolve(found, extra=block.extra_fields(*NEUTRAL))


def document(block: JsonReader) -> File:
    """Read a document: a PDF or a text. Raises `ValidationError`."""
    citations = block.peek("citations")
    if citations is not None:
        citations.refuse_elsewhere("enabled")
    block.refuse_elsewhere("context")
    title = block.text("title")
    source = _source(block)
    kind = source.text("type")
    if kind == "url":
        found = File(url=_address(source), media_type=_PDF, name=title)
    elif kind == "base64":
        source.choice("media_type", (_PDF,))
        found = File(_some(source, source.data("data")), _PDF, title)
    elif kind == "text":
        source.choice("media_type", (_TEXT,))
        found = _of_text(source, source.text("data"), title)
    elif kind == "content":
        found = _of_text(source, _joined(source), title)
    else:
        raise _source_not_taken(source)
    return evolve(found, extra=block.extra_fields(*NEUTRAL, "citations"))


def _source(block: JsonReader) -> JsonReader:
    source = block.object("source")
    if source is None:
        raise ValidationError("this field is required", path=block.at("source"))
    return source


def _of_text(source: JsonReader, text: str, title: str) -> File:
    return File(_some(source, well_formed(text).encode()), _TEXT, title)


def _joined(source: JsonReader) -> str:
    """Join text blocks, because citations of single blocks are not supported."""
    content = source.raw("content")
    if isinstance(content, str):
        return content
    texts = []
    for each in source.objects("content"):
        if each.text("type") != "text":
            raise ValidationError("only text blocks are supported in a document", path=each.path)
        texts.append(each.text("text"))
        each.drop_others()
    return "\n".join(texts)


def _some(source: JsonReader, data: bytes) -> bytes:
    if not data:
        raise ValidationError("must not be empty", path=source.path)
    return data


def _address(source: JsonReader) -> str:
    url = source.text("url")
    if not url.startswith(("https://", "http://")):
        raise ValidationError("must be an http(s) URL", path=source.at("url"))
    return url


def _source_not_taken(source: JsonReader) -> ValidationError:
    kind = source.text("type")
    if kind == "file":
        return ValidationError(
            "the Files API is not supported: send the content of the file", path=source.at("type")
        )
    return ValidationError(f"unsupported source type {kind or '(none)'}", path=source.at("type"))


_ROLES = ("user", "assistant", "system")
_OF_ITS_SERVICE = frozenset(
    {
        "advisor_tool_result", "bash_code_execution_tool_result", "code_execution_tool_result",
        "compaction", "fallback", "mcp_tool_listing", "mcp_tool_result",
        "mcp_tool_use", "redacted_thinking", "server_tool_use",
        "text_editor_code_execution_tool_result", "tool_search_tool_result",
        "web_fetch_tool_result", "web_search_tool_result",
    }
)  # fmt: skip
"""Blocks of an answer that only Anthropic's service writes and reads."""
_HIDDEN_THOUGHT = "redacted_thinking"


def messages_in(
    body: JsonReader, has_dialect: Callable[[], bool]
) -> tuple[list[Message], set[str]]:
    """Read the system prompt and the messages, oldest first, and the cache lifetimes of marked
    blocks. `has_dialect` is whether the service has this format: then it receives the blocks that
    only such services write. Raises `ValidationError`."""
    given = body.objects("messages")
    if not given:
        raise ValidationError("must not be empty", path=body.at("messages"))
    reader = _Reader(has_dialect)
    messages = [*reader.system(body, "system")]
    for each in given:
        messages += reader.messages(each)
    return messages, reader.ttls


class _Reader:
    """Reader of one conversation."""

    def __init__(self, has_dialect: Callable[[], bool]) -> None:
        self._has_dialect = has_dialect
        self.ttls: set[str] = set()
        self._names: dict[str, str] = {}  # names of called tools, by call id

    def system(self, given: JsonReader, name: str) -> Iterator[Message]:
        for block in self._blocks(given, name):
            if block.text("type") != "text":
                raise ValidationError(
                    "only text blocks are supported in the system prompt", path=block.path
                )
            yield Message("system", _text(block))

    def messages(self, given: JsonReader) -> Iterator[Message]:
        role = given.choice("role", _ROLES)
        if role == "user":
            yield from self._of_user(given)
        elif role == "assistant":
            parts = [
                part for block in self._blocks(given, "content") for part in self._answered(block)
            ]
            yield Message("assistant", parts, extra=given.extra_fields())
        elif role == "system":
            yield from self.system(given, "content")
            given.drop_others()  # it becomes a part of the system prompt
        else:
            raise ValidationError("invalid or missing role", path=given.at("role"))

    def _of_user(self, given: JsonReader) -> Iterator[Message]:
        """Yield the tool results before other content."""
        results: list[Part] = []
        parts: list[Part] = []
        for block in self._blocks(given, "content"):
            if block.text("type") == "tool_result":
                result, files = self._result(block)
                results.append(result)
                parts += files
            else:
                parts.append(_part(block))
        extra = given.extra_fields()
        if results:
            yield Message("tool", results, extra=extra)
        if parts or not results:
            yield Message("user", parts or [Text("")], extra=None if results else extra)

    def _answered(self, block: JsonReader) -> Iterator[Part]:
        """Read a block of an answer, which may have further fields."""
        kind = block.text("type")
        if kind == "text":
            if citations := [*filter(_is_of_service, block.values("citations"))]:
                yield self._own(block, {"citations": citations}, "citations")
            yield Text(block.text("text"), extra=block.extra_fields(*NEUTRAL))
        elif kind == "tool_use":
            yield self._call(block)
        elif kind == "thinking":
            if block.text("thinking"):
                yield Reasoning(block.text("thinking"))
            if block.text("signature"):
                yield VendorPart(NAME, dict(block.value))
            else:
                block.drop_others()  # the service accepts no thoughts without a signature
        elif kind in _OF_ITS_SERVICE:
            # other services receive no thoughts at all
            yield self._own(block, dict(block.value), "" if kind == _HIDDEN_THOUGHT else kind)
        else:
            raise _not_taken(block)

    def _own(self, block: JsonReader, data: Any, what: str) -> VendorPart:
        """What only a service of this format receives; others ignore it, and `what` is reported."""
        part = VendorPart(NAME, data)
        if what and self._has_dialect():
            block.drop_elsewhere(what, part)
        elif what:
            block.drop_this(what)
        return part

    def _call(self, block: JsonReader) -> ToolCall:
        id, name = block.text("id"), block.text("name")
        if not id or not name:
            raise ValidationError("a tool_use block must have an id and a name", path=block.path)
        self._names[id] = name
        given: Mapping[str, Any] = block.mapping("input") or {}
        malformed = given.get(MALFORMED)
        if block.raw("caller") != DIRECT:
            block.read.discard("caller")
        extra = block.extra_fields(*NEUTRAL)
        if len(given) == 1 and isinstance(malformed, str) and malformed:
            return ToolCall(id, name, malformed=malformed, extra=extra)
        return ToolCall(id, name, given, extra=extra)

    def _result(self, block: JsonReader) -> tuple[ToolResult, list[File]]:
        id = block.text("tool_use_id")
        if id not in self._names:
            raise ValidationError("no tool call has this id", path=block.at("tool_use_id"))
        content = [_part_of_result(each) for each in self._blocks(block, "content")]
        is_error = bool(block.flag("is_error"))
        extra = block.extra_fields(*NEUTRAL)
        return result_and_files(id, self._names[id], content, is_error, extra)

    def _blocks(self, given: JsonReader, name: str) -> Iterator[JsonReader]:
        """The blocks of a field; a string is one text block."""
        value = given.raw(name)
        if isinstance(value, str):
            if value:
                yield JsonReader({"type": "text", "text": value}, given.at(name))
            return
        for block in given.objects(name):
            self.ttls.update(ttl_in(block))
            yield block


def _is_of_service(citation: Any) -> bool:
    """Whether a service of this format wrote a citation, not this host for another one."""
    return not isinstance(citation, dict) or citation.get("encrypted_index") != ""


def _part_of_result(block: JsonReader) -> Part:
    """A block of a result. Others than those of messages become text, so that the conversation can
    continue: they are in its history."""
    kind = block.text("type")
    if kind in _OF_MESSAGES or not kind:
        return _part(block)
    named = [text for name in ("title", "source") if isinstance(text := block.raw(name), str)]
    inner = block.raw("content")
    blocks = block.objects("content") if isinstance(inner, list) else ()
    texts = [each.text("text") for each in blocks if each.text("type") == "text"]
    full_text = "\n".join(filter(None, [*named, *texts]))
    return Text(full_text or f"(a block of type {one_line(kind)} was left out)")


_OF_MESSAGES = ("document", "image", "text")


def _part(block: JsonReader) -> Part:
    kind = block.text("type")
    if kind == "text":
        return _text(block)
    if kind == "image":
        return image(block)
    if kind == "document":
        return document(block)
    raise _not_taken(block)


def _text(block: JsonReader) -> Text:
    text = block.text("text")
    block.refuse("citations")
    return Text(text, extra=block.extra_fields(*NEUTRAL))


def _not_taken(block: JsonReader) -> ValidationError:
    kind = block.text("type") or "(none)"
    return ValidationError(f"unsupported block type {kind}", path=block.at("type"))
