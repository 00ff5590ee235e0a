"""Messages made of typed parts, and token usage.

A part is a frozen attrs class. Its `type` is the tag in its JSON form
(`{"type": "text", "text": "hi"}`). Plugins add parts by subclassing `Part` and naming the class in
the hook `genai_parts`. A dialect that cannot write a part raises `UnsupportedPart`; no part is
dropped silently.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, ClassVar, Literal, TypeVar, get_args

from attrs import Attribute, evolve, field, frozen, validators as must

from genai_host.api.extra import checked_extra
from genai_host.api.json_text import check_numbers, well_formed, well_formed_object
from genai_host.errors import ValidationError
from genai_host.util.text import short_repr

Role = Literal["system", "user", "assistant", "tool"]
ROLES: tuple[Role, ...] = get_args(Role)

M = TypeVar("M")
_NOTHING: Any = object()


@frozen
class Part:
    """Base of all parts of a message. Lone surrogates in its texts, which UTF-8 cannot encode, are
    replaced by U+FFFD.

    Attributes:
        extra: Fields that only a dialect knows, by the name of the dialect, which sends them again;
            other dialects leave them out. None for none.
    """

    type: ClassVar[str]
    extra: Mapping[str, Any] | None = field(
        default=None, kw_only=True, hash=False, repr=False, converter=checked_extra
    )


def _parts(content: str | Part | Iterable[str | Part]) -> tuple[Part, ...]:
    """Normalize a string, a part, or several of them to parts."""
    if isinstance(content, str):
        return (Text(content),)
    if isinstance(content, Part):
        return (content,)
    if type(content) is not list and (
        isinstance(content, Mapping) or not isinstance(content, Iterable)
    ):
        kind = type(content).__name__
        raise ValidationError(
            f"message content must be strings or parts, not {kind}", path="$.content"
        )
    return tuple([_part(each) for each in content])


def _part(content: object) -> Part:
    if isinstance(content, str):
        return Text(content)
    if isinstance(content, Part):
        return content
    kind = type(content).__name__
    raise ValidationError(f"message content must be strings or parts, not {kind}", path="$.content")


def result_parts(content: str | Part | Iterable[str | Part]) -> tuple[Text | Image, ...]:
    """The parts of a tool's result.

    Raises:
        ValidationError: A part is neither text nor an image.
    """
    kept = []
    for part in _parts(content):
        if not isinstance(part, (Text, Image)):
            kind = getattr(part, "type", type(part).__name__)
            raise ValidationError(f"a tool result must contain only text and images, not {kind}")
        kept.append(part)
    return tuple(kept)


def _show_bytes(data: bytes) -> str:
    return f"<{len(data)} bytes>"


def _either_data_or_url(part: Image | File, attribute: Attribute[str], url: str) -> None:
    if bool(part.data) == bool(url):
        raise ValidationError(f"{part.type}: give either data or a url")


_is_text = must.instance_of(str)


def _is_json(part: Part, attribute: Attribute[Any], value: object) -> None:
    check_numbers(value)


def _text(value: str) -> str:
    """`well_formed` and `instance_of` in one, since a conversation has very many texts."""
    if isinstance(value, str):
        return value if value.isascii() else well_formed(value)
    raise TypeError(f"text must be a string, not {short_repr(value)}")


@frozen
class Citation:
    """A web page that supports a passage of a text.

    Attributes:
        url: Address of the page.
        title: Title of the page; empty if unknown.
        cited_text: Text of the page; empty if unknown.
        start: Position of the passage in the text, in characters.
        end: Position after the passage. Some services give no positions: the page then supports
            the whole text, see `within`.
    """

    url: str = field(converter=_text)
    title: str = field(default="", converter=_text)
    cited_text: str = field(default="", converter=_text)
    start: int = 0
    end: int = 0

    def within(self, text: str) -> Citation:
        """The citation of a text; of all of it if it has no such passage."""
        if self.start < min(self.end, len(text)):
            return self
        return evolve(self, start=0, end=len(text))

    def moved(self, by: int) -> Citation:
        """The citation for a text in which the passage is at another position."""
        return evolve(self, start=self.start + by, end=self.end + by) if by else self


def _citations(value: Iterable[Citation]) -> tuple[Citation, ...]:
    return tuple(value)


_WEB = re.compile(r"https?://[^\s\x00-\x1f\x7f-\x9f<>]+", re.IGNORECASE)


def cited_pages(citations: Iterable[Citation]) -> dict[str, str]:
    """Titles of the cited pages by their URL, in the order of the first citations. Citations of
    anything else than a page on the web are left out."""
    pages: dict[str, str] = {}
    for each in citations:
        if _WEB.fullmatch(each.url):
            pages[each.url] = pages.get(each.url) or each.title
    return pages


@frozen
class Text(Part):
    """Plain text.

    Attributes:
        text: The text.
        citations: Pages that support passages of it, as far as the service gives them. Dialects do
            not send them again.
    """

    type = "text"
    text: str = field(converter=_text)
    citations: tuple[Citation, ...] = field(default=(), converter=_citations, kw_only=True)


@frozen
class Image(Part):
    """An image: its data or its URL.

    Attributes:
        data: The encoded image, for example PNG; base64 in JSON.
        media_type: IANA media type of the data, for example `image/png`.
        url: http or https URL, instead of data.
    """

    type = "image"
    data: bytes = field(default=b"", repr=_show_bytes)
    media_type: str = field(default="", converter=well_formed, validator=_is_text)
    url: str = field(default="", converter=well_formed, validator=[_is_text, _either_data_or_url])


@frozen
class File(Part):
    """A document: its data or its URL.

    Attributes:
        data: The content; base64 in JSON.
        media_type: IANA media type of the data, for example `application/pdf`.
        name: File name, for the model.
        url: http or https URL, instead of data.
    """

    type = "file"
    data: bytes = field(default=b"", repr=_show_bytes)
    media_type: str = field(default="", converter=well_formed, validator=_is_text)
    name: str = field(default="", converter=well_formed, validator=_is_text)
    url: str = field(default="", converter=well_formed, validator=[_is_text, _either_data_or_url])


@frozen
class ToolCall(Part):
    """A model's request to run a tool.

    Attributes:
        id: Id that pairs the call with its `ToolResult`.
        name: Name of the tool.
        arguments: Arguments by name, as described by the tool's JSON Schema.
        malformed: The model's text, if the arguments are not a JSON object.

    Raises:
        ValidationError: The arguments contain NaN or infinity.
    """

    type = "tool_call"
    id: str = field(converter=well_formed, validator=_is_text)
    name: str = field(converter=well_formed, validator=_is_text)
    arguments: Mapping[str, Any] = field(
        factory=dict, converter=well_formed_object, validator=_is_json
    )
    malformed: str = field(default="", converter=well_formed, validator=_is_text)


@frozen
class ToolResult(Part):
    """The result of a tool call.

    Attributes:
        id: Id of the `ToolCall`.
        name: Name of the tool.
        content: Text and images for the model.
        error: Whether the call failed.
    """

    type = "tool_result"
    id: str = field(converter=well_formed, validator=_is_text)
    name: str = field(default="", converter=well_formed, validator=_is_text)
    content: tuple[Text | Image, ...] = field(default=(), converter=result_parts)
    error: bool = False


@frozen
class Reasoning(Part):
    """The model's reasoning before the answer, as far as the service returns it.

    Attributes:
        text: The reasoning.
    """

    type = "reasoning"
    text: str = field(converter=well_formed, validator=_is_text)


@frozen
class VendorPart(Part):
    """A vendor-specific part, stored to be sent back unchanged.

    Attributes:
        dialect: Dialect that created it; other dialects omit it.
        data: JSON.

    Raises:
        ValidationError: The data contains NaN or infinity.
    """

    type = "opaque"
    dialect: str
    data: Any = field(validator=_is_json)


PARTS: tuple[type[Part], ...] = (Text, Image, File, ToolCall, ToolResult, Reasoning, VendorPart)
"""The built-in kinds of part; plugins add others."""


def _is_role(message: Message, attribute: Attribute[Any], role: object) -> None:
    if role not in ROLES:
        raise ValidationError(
            f"unknown role {role!r}: it is one of {', '.join(ROLES)}", path="$.role"
        )


@frozen
class Message:
    """A message of a conversation.

    Attributes:
        role: `system`, `user`, `assistant` or `tool`.
        content: The parts. A string becomes a `Text`; strings and parts can be mixed:
            `Message("user", ["What is this?", image])`.
        name: Name of the speaker, which distinguishes participants of the same role. Dialects
            without such a field leave it out.
        extra: See `Part`.

    Raises:
        ValidationError: The role is unknown, or the content is not made of parts.
    """

    role: Role = field(validator=_is_role)
    content: tuple[Part, ...] = field(converter=_parts)
    name: str = field(default="", kw_only=True)
    extra: Mapping[str, Any] | None = field(
        default=None, kw_only=True, hash=False, repr=False, converter=checked_extra
    )
    _remembered: dict[Hashable, Any] = field(factory=dict, init=False, eq=False, repr=False)

    @property
    def text(self) -> str:
        """Its text parts, joined."""
        return "".join(part.text for part in self.content if isinstance(part, Text))

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The citations of its text parts, with positions in `text`."""
        found: list[Citation] = []
        begin = 0
        for part in self.content:
            if isinstance(part, Text):
                found += (each.within(part.text).moved(begin) for each in part.citations)
                begin += len(part.text)
        return tuple(found)

    @property
    def plain_text(self) -> str | None:
        """Its text, if dialects send nothing else, as of most messages: one text, no name, no
        `extra`."""
        content = self.content
        if len(content) != 1 or self.name or self.extra is not None:
            return None
        text = content[0]
        return text.text if type(text) is Text and text.extra is None else None

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Its tool calls."""
        return tuple(part for part in self.content if isinstance(part, ToolCall))

    def remember(self, key: Hashable, make: Callable[[Message], M]) -> M:
        """`make(self)`, computed once per key and cached in the message.

        A long history is encoded and hashed in each turn; the cache makes that cost once per
        message.
        """
        found = self._remembered.get(key, _NOTHING)
        if found is _NOTHING:
            found = self._remembered.setdefault(key, make(self))
        return found  # type: ignore[no-any-return]  # keyed by its maker


def remember_each(
    messages: Iterable[Message], key: Hashable, make: Callable[[Message], M]
) -> list[M]:
    """`message.remember(key, make)` for each message, several times faster if most are cached.

    Args:
        messages: The messages.
        key: Key of the cached values.
        make: Computes a value; must not return None.
    """
    messages = list(messages)
    found: list[Any] = [message._remembered.get(key) for message in messages]
    if None in found:
        for number, message in enumerate(messages):
            if found[number] is None:
                found[number] = message.remember(key, make)
    return found


MAX_TOKENS = 2**53 - 1
"""The largest integer that all JSON readers preserve (RFC 8259, section 6)."""


def count(value: int) -> int:
    """A number of tokens, or 0 if it is negative, above `MAX_TOKENS` or not an integer."""
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else 0


def _tokens() -> Any:
    return field(default=0, converter=count)


@frozen
class Usage:
    """Token usage; supports `+`. Invalid counts become 0, see `count`.

    Attributes:
        input_tokens: Input tokens.
        output_tokens: Output tokens.
        cached_tokens: Input tokens read from the service's cache.
        reasoning_tokens: Output tokens used for reasoning.
        cache_write_tokens: Input tokens written to the service's cache.
        cache_write_1h_tokens: Of these, tokens cached for an hour.
    """

    input_tokens: int = _tokens()
    output_tokens: int = _tokens()
    cached_tokens: int = _tokens()
    reasoning_tokens: int = _tokens()
    cache_write_tokens: int = _tokens()
    cache_write_1h_tokens: int = _tokens()

    @property
    def total(self) -> int:
        """Input and output tokens."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        if self is NO_USAGE:
            return other
        return Usage(
            _sum(self.input_tokens, other.input_tokens),
            _sum(self.output_tokens, other.output_tokens),
            _sum(self.cached_tokens, other.cached_tokens),
            _sum(self.reasoning_tokens, other.reasoning_tokens),
            _sum(self.cache_write_tokens, other.cache_write_tokens),
            _sum(self.cache_write_1h_tokens, other.cache_write_1h_tokens),
        )


NO_USAGE = Usage()
"""No tokens. It is shared, since converting the counts of a new one takes as long as a sum."""

FORMER_USAGE = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cached_input": "cached_tokens",
    "reasoning": "reasoning_tokens",
    "cache_written": "cache_write_tokens",
    "cache_written_1h": "cache_write_1h_tokens",
}
"""Fields of `Usage` by the names in entries of earlier versions."""


def _sum(one: int, other: int) -> int:
    return min(one + other, MAX_TOKENS)
