"""What is said: messages made of typed parts, and what saying it used up.

A part is a frozen attrs class with a `type` of its own, which is its tag in the
JSON form (`{"type": "text", "text": "hi"}`). Plugins add parts by subclassing
`Part` and naming the class in the `genai_parts` hook. A dialect that cannot
write a part raises `UnsupportedPart`; nothing is left out in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, ClassVar, Literal, TypeVar, get_args

from attrs import Attribute, field, frozen
from attrs import validators as must

from genai_host.api.json_text import check_numbers, well_formed, well_formed_object
from genai_host.errors import ValidationError

Role = Literal["system", "user", "assistant", "tool"]
ROLES: tuple[Role, ...] = get_args(Role)

M = TypeVar("M")
_NOTHING: Any = object()


@frozen
class Part:
    """Base of everything that a message can hold."""

    type: ClassVar[str]


def _parts(content: str | Part | Iterable[str | Part]) -> tuple[Part, ...]:
    """Parts from what is handy to write: a string, a part, or several of them."""
    if isinstance(content, str):
        return (Text(content),)
    if isinstance(content, Part):
        return (content,)
    if isinstance(content, Mapping) or not isinstance(content, Iterable):
        kind = type(content).__name__
        raise ValidationError(f"a message holds parts, not {kind}", path="$.content")
    return tuple([_part(each) for each in content])


def _part(content: object) -> Part:
    if isinstance(content, str):
        return Text(content)
    if isinstance(content, Part):
        return content
    raise ValidationError(f"a message holds parts, not {type(content).__name__}", path="$.content")


def result_parts(content: str | Part | Iterable[str | Part]) -> tuple[Text | Image, ...]:
    """The same for the result of a tool. Raises `ValidationError` for other kinds."""
    kept = []
    for part in _parts(content):
        if not isinstance(part, (Text, Image)):
            kind = getattr(part, "type", type(part).__name__)
            raise ValidationError(f"the result of a tool holds no part of type {kind}")
        kept.append(part)
    return tuple(kept)


def _show_bytes(data: bytes) -> str:
    return f"<{len(data)} bytes>"


def _either_data_or_url(part: Image | File, attribute: Attribute[str], url: str) -> None:
    if bool(part.data) == bool(url):
        raise ValidationError(f"{part.type}: give either data or a url")


def _is_json(part: Part, attribute: Attribute[Any], value: object) -> None:
    check_numbers(value)


@frozen
class Text(Part):
    """Plain text.

    Attributes:
        text: Lone surrogates, which cannot be encoded as UTF-8, are replaced by U+FFFD.
    """

    type = "text"
    text: str = field(converter=well_formed, validator=must.instance_of(str))


@frozen
class Image(Part):
    """A picture: its bytes, or where the service finds it.

    Attributes:
        data: The encoded picture (PNG, JPEG ...), in JSON as base64.
        media_type: IANA media type of the data, for example `image/png`.
        url: http(s) address, instead of data.
    """

    type = "image"
    data: bytes = field(default=b"", repr=_show_bytes)
    media_type: str = ""
    url: str = field(default="", validator=_either_data_or_url)


@frozen
class File(Part):
    """A document: its bytes, or where the service finds it.

    Attributes:
        data: The content, in JSON as base64.
        media_type: IANA media type of the data, for example `application/pdf`.
        name: File name to show the model.
        url: http(s) address, instead of data.
    """

    type = "file"
    data: bytes = field(default=b"", repr=_show_bytes)
    media_type: str = ""
    name: str = ""
    url: str = field(default="", validator=_either_data_or_url)


@frozen
class ToolCall(Part):
    """The model asks for a tool to be run.

    Attributes:
        id: Pairs the call with its `ToolResult`.
        arguments: By name, as the tool's JSON Schema describes them.
        malformed: What the model wrote instead, where that was no JSON object.

    Raises:
        ValidationError: For numbers in the arguments that are no JSON.
    """

    type = "tool_call"
    id: str
    name: str
    arguments: Mapping[str, Any] = field(
        factory=dict, converter=well_formed_object, validator=_is_json
    )
    malformed: str = field(default="", converter=well_formed)


@frozen
class ToolResult(Part):
    """What a tool gave back, or why it failed.

    Attributes:
        id: Of the `ToolCall` that it answers.
        content: Text and pictures for the model.
        error: Whether the content tells of a failure.
    """

    type = "tool_result"
    id: str
    name: str = ""
    content: tuple[Text | Image, ...] = field(default=(), converter=result_parts)
    error: bool = False


@frozen
class Reasoning(Part):
    """What the model thought before it answered, as far as it shows it."""

    type = "reasoning"
    text: str = field(converter=well_formed)


@frozen
class VendorPart(Part):
    """A vendor's own part, kept to be sent back as it came.

    Attributes:
        dialect: The dialect that made it; others leave it out.
        data: JSON.

    Raises:
        ValidationError: For numbers in the data that are no JSON.
    """

    type = "opaque"
    dialect: str
    data: Any = field(validator=_is_json)


PARTS: tuple[type[Part], ...] = (
    Text,
    Image,
    File,
    ToolCall,
    ToolResult,
    Reasoning,
    VendorPart,
)
"""The parts that every host knows; plugins add to them."""


def _is_role(message: Message, attribute: Attribute[Any], role: object) -> None:
    if role not in ROLES:
        raise ValidationError(
            f"unknown role {role!r}: it is one of {', '.join(ROLES)}", path="$.role"
        )


@frozen
class Message:
    """One message of a conversation.

    Attributes:
        role: Who speaks: `system`, `user`, `assistant` or `tool`.
        content: Its parts; a string stands for one `Text`, and single parts and strings mix freely:
            `Message("user", ["What is this?", image])`.

    Raises:
        ValidationError: For any other role, and for what is no part.
    """

    role: Role = field(validator=_is_role)
    content: tuple[Part, ...] = field(converter=_parts)
    _remembered: dict[Hashable, Any] = field(factory=dict, init=False, eq=False, repr=False)

    @property
    def text(self) -> str:
        """Its text parts, joined."""
        return "".join(part.text for part in self.content if isinstance(part, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.content if isinstance(part, ToolCall))

    def remember(self, key: Hashable, make: Callable[[Message], M]) -> M:
        """`make(self)`, computed once for each key and then kept with the message.

        A long history is encoded and digested again with each turn; this makes
        that cost once per message.
        """
        found = self._remembered.get(key, _NOTHING)
        if found is _NOTHING:
            found = self._remembered.setdefault(key, make(self))
        return found  # type: ignore[no-any-return]  # keyed by its maker


def remember_each(
    messages: Iterable[Message], key: Hashable, make: Callable[[Message], M]
) -> list[M]:
    """`message.remember(key, make)` of each, several times as quick where most remember.

    Args:
        make: Gives no None.
    """
    messages = list(messages)
    found: list[Any] = [message._remembered.get(key) for message in messages]
    if None in found:
        for number, message in enumerate(messages):
            if found[number] is None:
                found[number] = message.remember(key, make)
    return found


MOST_TOKENS = 2**53 - 1
"""The largest whole number that all readers of JSON keep (RFC 8259, section 6)."""


def count(value: int) -> int:
    """A reported number of tokens. Negative numbers, numbers above `MOST_TOKENS` and other types
    count as 0."""
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else 0


def _tokens() -> Any:
    return field(default=0, converter=count)


@frozen
class Usage:
    """Tokens used; `+` adds. Invalid counts are 0: see `count`.

    Attributes:
        cached_input: Of the input, how many came from the service's cache.
        reasoning: Of the output, how many were spent thinking.
        cache_written: Of the input, how many were put into the service's cache.
        cache_written_1h: Of these, how many were put there for an hour.
    """

    input: int = _tokens()
    output: int = _tokens()
    cached_input: int = _tokens()
    reasoning: int = _tokens()
    cache_written: int = _tokens()
    cache_written_1h: int = _tokens()

    @property
    def total(self) -> int:
        return self.input + self.output

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            _sum(self.input, other.input),
            _sum(self.output, other.output),
            _sum(self.cached_input, other.cached_input),
            _sum(self.reasoning, other.reasoning),
            _sum(self.cache_written, other.cache_written),
            _sum(self.cache_written_1h, other.cache_written_1h),
        )


def _sum(one: int, other: int) -> int:
    return min(one + other, MOST_TOKENS)
