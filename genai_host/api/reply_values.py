"""Helpers to write dialects: typed values of JSON replies, and parts of messages."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from itertools import chain, groupby
from re import Pattern
from typing import Any

from attrs import evolve

from genai_host.api.calls import ChatCall
from genai_host.api.error_replies import ErrorIn, one_line, raise_error_in
from genai_host.api.extra import joined_extra
from genai_host.api.json_text import read_json
from genai_host.api.messages import (
    Citation,
    Image,
    Message,
    Part,
    Reasoning,
    Text,
    ToolResult,
    VendorPart,
    count,
)
from genai_host.api.provider_requests import StreamEvent
from genai_host.errors import IncompleteReply, MalformedReply, ServiceUnavailable, UnsupportedPart


def read_object(data: bytes) -> dict[str, Any]:
    """Parse the JSON object of a reply or an event.

    Raises:
        MalformedReply: It is not a JSON object.
    """
    return _object(_read(data))


def read_reply(data: bytes, error_in: ErrorIn, answer: Collection[str] = ()) -> dict[str, Any]:
    """Parse a reply, and raise the error that it may contain despite a status of 200.

    Args:
        data: JSON text.
        error_in: Finds the error in an object.
        answer: Fields of an answer; see `raise_error_in`.

    Raises:
        MalformedReply: It is not a JSON object.
        GenaiError: The error in the reply.
    """
    value = _read(data)
    raise_error_in(value, error_in, answer)
    return _object(value)


def _read(data: bytes) -> Any:
    try:
        return read_json(data)
    except ValueError as error:
        raise malformed(f"it is not JSON: {error}") from error


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise malformed(f"it is a {type(value).__name__}")
    return value


def read_event(
    event: StreamEvent, error_in: ErrorIn, answer: Collection[str] = ()
) -> dict[str, Any]:
    """Parse an event of a stream; an event named `error` is an error in any form.

    Args:
        event: The event.
        error_in: Finds the error in an object.
        answer: Fields of an event without an error; see `raise_error_in`.

    Raises:
        MalformedReply: It is not a JSON object.
        GenaiError: The error in the event.
    """
    if event.name != "error":
        return read_reply(event.data, error_in, answer)
    try:
        value = read_json(event.data)
    except ValueError:
        value = event.data.decode(errors="replace")
    error = value if isinstance(value, dict) and value.get("error") else {"error": value}
    raise_error_in(error, error_in)
    raise ServiceUnavailable("the service failed and gave no reason")


def object_in(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A field that is an object; empty if it is missing or null.

    Raises:
        MalformedReply: It has another type.
    """
    value = data.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise malformed(f"{name} is not an object")
    return value


def details_in(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A field that is an object; empty if it is missing or has another type. For data that is not
    part of the answer, such as usage."""
    value = data.get(name)
    return value if isinstance(value, dict) else {}


def list_in(data: Mapping[str, Any], name: str) -> list[Any]:
    """A field that is a list, without items that are null; empty if it is missing or null.

    Raises:
        MalformedReply: It has another type.
    """
    value = data.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise malformed(f"{name} is not a list")
    return [each for each in value if each is not None] if None in value else value


def objects_in(data: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """A field that is a list of objects, as `list_in`.

    Raises:
        MalformedReply: It has another type.
    """
    found = list_in(data, name)
    if not all(isinstance(each, dict) for each in found):
        raise malformed(f"{name} is not a list of objects")
    return found


def string_in(data: Mapping[str, Any], name: str) -> str:
    """A field that is a string; empty if it is missing or null.

    Raises:
        MalformedReply: It has another type.
    """
    value = data.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise malformed(f"{name} is not a string")
    return value


def id_in(data: Mapping[str, Any], name: str) -> str:
    """A field with an id, which is a string or an integer; empty if it is missing or null.

    Raises:
        MalformedReply: It has another type.
    """
    value = data.get(name)
    return str(value) if type(value) is int else string_in(data, name)


def index_in(data: Mapping[str, Any], name: str) -> int | None:
    """A field with a position: an integer in any spelling, such as `"1"`; None if it is missing or
    null.

    Raises:
        MalformedReply: It is not an integer.
    """
    value = data.get(name)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < _DIGITS:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if value is not None and type(value) is not int:
        raise malformed(f"{name} is not an integer")
    return value


_DIGITS = 10


def text_in(data: Mapping[str, Any], name: str) -> str:
    """A field that is a string, or a list of strings and parts such as `{"text": ...}`. Parts of
    other types are empty.

    Raises:
        MalformedReply: It has another type.
    """
    value = data.get(name)
    if not isinstance(value, list):
        return string_in(data, name)
    parts = [{"text": each} if isinstance(each, str) else each for each in list_in(data, name)]
    if not all(isinstance(each, dict) for each in parts):
        raise malformed(f"{name} is not a list of parts")
    return "".join(string_in(each, "text") for each in parts)


def count_in(data: Mapping[str, Any], name: str) -> int:
    """A field with a number of tokens; 0 if it is invalid, see `count`."""
    value: Any = data.get(name)
    return count(value)


def citation_of(
    url: object,
    title: object = None,
    start: object = None,
    end: object = None,
    *,
    cited_text: object = None,
) -> list[Citation]:
    """A citation from the values of a reply, which are ignored if they have another type; empty
    without a URL."""
    if not isinstance(url, str) or not url:
        return []
    name, text = (each if isinstance(each, str) else "" for each in (title, cited_text))
    first, last = (each if type(each) is int and each > 0 else 0 for each in (start, end))
    return [Citation(url, name, text, first, max(first, last))]


def malformed(why: str) -> MalformedReply:
    """The error for an invalid reply."""
    return MalformedReply(f"the reply is malformed: {why}")


def interrupted(text: str) -> IncompleteReply:
    """The error for a reply without its end, with the text so far."""
    return IncompleteReply("the reply was interrupted before its end", text=text)


def unsupported(part: Part, where: str, dialect: str) -> UnsupportedPart:
    """The error for a part that a format cannot represent.

    Args:
        part: The part.
        where: Place of the part, for example `in a message of role system`.
        dialect: Name of the dialect.
    """
    return UnsupportedPart(
        f"{dialect} does not support a part of type {part.type} {where}",
        part=part.type,
        dialect=dialect,
    )


def picture_in_words(image: Image) -> Text:
    """Text in place of an image, for formats and models that allow no images there."""
    kind = one_line(image.media_type or image.url)
    return Text(f"(image omitted{f' ({kind})' if kind else ''}: not supported here)")


def is_blank(message: Message) -> bool:
    """Whether a message has nothing but texts without a visible character."""
    return all(isinstance(part, Text) and not part.text.strip() for part in message.content)


def system_as_user(call: ChatCall, dialect: str) -> ChatCall:
    """The call with its system texts as a user message, if it has no other message that is not
    blank. For formats that send system texts separately and require a message. Raises
    `UnsupportedPart`."""
    if not all(each.role == "system" or is_blank(each) for each in call.messages):
        return call
    texts = [part for part in system_parts(call.messages, dialect) if part.text.strip()]
    return evolve(call, messages=[Message("user", texts)]) if texts else call


def merge_consecutive(messages: Iterable[Message], *roles: str) -> list[Message]:
    """Merge consecutive messages of the same role, for example the results of parallel calls."""
    found: list[Message] = []
    for role, group in groupby(messages, key=lambda message: message.role):
        alike = list(group)
        if role in roles and len(alike) > 1:
            parts = chain.from_iterable(message.content for message in alike)
            found.append(Message(role, parts, extra=joined_extra(*alike)))
        else:
            found += alike
    return found


def with_tool_names(call: ChatCall) -> ChatCall:
    """The call in which results have the names of their tools, for formats that need them: of the
    calls with their ids before them, since some services use an id again. A result without such a
    call stays without a name."""
    parts = (part for each in call.messages if each.role == "tool" for part in each.content)
    if all(part.name for part in parts if isinstance(part, ToolResult)):
        return call
    names: dict[str, str] = {}
    messages = []
    for message in call.messages:
        names.update((each.id, each.name) for each in message.tool_calls)
        if message.role == "tool":
            content = [_named(part, names) for part in message.content]
            messages.append(evolve(message, content=content))
        else:
            messages.append(message)
    return evolve(call, messages=messages)


def _named(part: Part, names: Mapping[str, str]) -> Part:
    if not isinstance(part, ToolResult) or part.name:
        return part
    return evolve(part, name=names.get(part.id, ""))


def system_texts(messages: Iterable[Message], dialect: str) -> list[str]:
    """Texts of all system messages; see `system_parts`."""
    return [part.text for part in system_parts(messages, dialect)]


def system_parts(messages: Iterable[Message], dialect: str) -> list[Text]:
    """Parts of all system messages, for formats that send them separately.

    Raises:
        UnsupportedPart: A system message contains a part that is not text.
    """
    texts: list[Text] = []
    for message in messages:
        if message.role != "system":
            continue
        for part in message.content:
            if isinstance(part, Text):
                texts.append(part)
            elif not isinstance(part, (Reasoning, VendorPart)):
                raise unsupported(part, "in a message of role system", dialect)
    return texts


def fitting_id(id: str, form: Pattern[str]) -> str:
    """The id of a tool call in the form that a service accepts; an invalid id, for example of
    another vendor, is replaced by its hash."""
    if form.fullmatch(id):
        return id
    return f"call_{hashlib.sha256(id.encode(errors='surrogatepass')).hexdigest()[:24]}"
