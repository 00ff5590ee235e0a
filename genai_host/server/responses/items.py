"""Items of input and output, and the fields they are read from.

    read_items → _read_item → one function for each type

Items are read from a request and brought to the one form in which they are stored and listed. A
field of the wrong type raises `ValidationError` with its path; a field that is null counts as
missing.

Reasoning is stored with the data that only its own dialect can read, under `opaque`, and is shown
with that data sealed (`Seals` in `api.py`). Data from a client is accepted only if it was sealed
by this host.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from attrs import frozen

from genai_host.api.json_reader import bytes_of
from genai_host.errors import NotFound, ValidationError

K = TypeVar("K")


class UnsupportedParameter(ValidationError):
    """A field or value that would change the answer, but is not supported."""

    code = "unsupported_parameter"


class MissingParameter(ValidationError):
    """A required field is missing."""

    code = "missing_required_parameter"


class PreviousNotFound(NotFound):
    """The previous response does not exist."""

    code = "previous_response_not_found"


class ResponseNotFound(NotFound):
    """The user has no such response."""

    code = "response_not_found"


class ConversationNotFound(NotFound):
    """The user has no such conversation."""

    code = "conversation_not_found"


class ItemNotFound(NotFound):
    """The conversation has no such item, or the item is not stored."""

    code = "item_not_found"


@frozen
class Fields:
    """A JSON object of a request.

    Attributes:
        path: Its path in the request, for example `$.input[0]`.
    """

    value: Mapping[str, Any]
    path: str

    def at(self, name: str) -> str:
        return f"{self.path}.{name}"

    def text(self, name: str) -> str | None:
        return self._of(name, str, "a string")

    def boolean(self, name: str) -> bool | None:
        return self._of(name, bool, "true or false")

    def list(self, name: str) -> list[Any] | None:
        return self._of(name, list, "a list")

    def object(self, name: str) -> Fields | None:
        value = self._of(name, dict, "an object")
        return None if value is None else Fields(value, self.at(name))

    def integer(self, name: str, least: int) -> int | None:
        value = self.value.get(name)
        if value is None:
            return None
        if type(value) is not int or value < least:
            raise self.wrong(name, f"a whole number of at least {least}")
        return value

    def number(self, name: str, least: float, most: float) -> float | None:
        value = self.value.get(name)
        if value is None:
            return None
        if type(value) not in (int, float) or not least <= value <= most:
            raise self.wrong(name, f"a number from {least:g} to {most:g}")
        return float(value)

    def choice(self, name: str, words: Collection[str]) -> str | None:
        value = self.text(name)
        if value is not None and value not in words:
            raise self.wrong(name, " or ".join(words))
        return value

    def needed(self, name: str) -> str:
        """Return a required string."""
        value = self.text(name)
        if value is None:
            raise MissingParameter(f"{name} is missing", path=self.at(name))
        return value

    def wrong(self, name: str, wanted: str) -> ValidationError:
        return ValidationError(f"{name} must be {wanted}", path=self.at(name))

    def _of(self, name: str, kind: type[K], wanted: str) -> K | None:
        value = self.value.get(name)
        if value is None or isinstance(value, kind):
            return value
        raise self.wrong(name, wanted)


def fields_of(value: Any, path: str = "$") -> Fields:
    """Return the fields of an object. Raises `ValidationError` if the value is not an object."""
    if not isinstance(value, dict):
        raise ValidationError(f"{path} must be an object", path=path)
    return Fields(value, path)


Item = dict[str, Any]
Unseal = Callable[[str], list[Any] | None]
"""Returns the data of a sealed text; None if it was not sealed by this host."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)
_INLINE = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w.+-]+=[^;,]*)*;base64,", re.IGNORECASE)
_PHASES = ("commentary", "final_answer")
_DETAILS = ("auto", "low", "high", "original")
_PREFIXES = {
    "function_call": "fc",
    "function_call_output": "fco",
    "image_generation_call": "ig",
    "reasoning": "rs",
}


def is_id(value: object) -> bool:
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def with_id(item: Item, tail: str) -> Item:
    """Return an item with its id first; a new id ends with the tail, after the prefix of its
    type."""
    return {"id": item.get("id") or f"{_PREFIXES.get(item['type'], 'msg')}_{tail}", **item}


def read_items(value: Any, path: str, unseal: Unseal) -> list[Item]:
    """Read the items of a request. A string is a user message; references are not resolved. Raises
    `ValidationError`."""
    if isinstance(value, str):
        return [_message("user", [{"type": "input_text", "text": value}])]
    if not isinstance(value, list):
        raise ValidationError("must be a string or a list of items", path=path)
    return [_read_item(fields_of(each, f"{path}[{at}]"), unseal) for at, each in enumerate(value)]


def _read_item(item: Fields, unseal: Unseal) -> Item:
    kind = item.text("type")
    if kind is None:  # messages and references may omit the type
        kind = "item_reference" if "role" not in item.value and "id" in item.value else "message"
    if kind == "item_reference":
        return {"type": kind, "id": item.needed("id")}
    readers: Mapping[str, Callable[[Fields], Item]] = {
        "message": _read_message,
        "function_call": _read_call,
        "function_call_output": _read_output,
        "image_generation_call": _read_picture,
        "reasoning": lambda given: _read_reasoning(given, unseal),
    }
    if kind not in readers:
        raise UnsupportedParameter(
            f"unsupported item type {kind!r}: choose from {', '.join(readers)}, item_reference",
            path=item.at("type"),
        )
    read = readers[kind](item)
    return {"id": item.value["id"], **read} if is_id(item.text("id")) else read


def _message(role: str, content: Sequence[Item], status: str = "completed") -> Item:
    return {"type": "message", "role": role, "status": status, "content": [*content]}


def _read_message(item: Fields) -> Item:
    role = item.choice("role", ("user", "assistant", "system", "developer"))
    if role is None:
        raise MissingParameter("role is missing", path=item.at("role"))
    read_part = _read_said if role == "assistant" else _read_part
    content = item.value.get("content")
    if isinstance(content, str):
        kind = "output_text" if role == "assistant" else "input_text"
        parts = [_text_part(kind, content)]
    elif isinstance(content, list):
        parts = [read_part(part) for part in _each(content, item.at("content"))]
    else:
        raise item.wrong("content", "a string or a list of parts")
    if not parts and role != "assistant":
        raise item.wrong("content", "at least one part")
    read = _message(role, parts, item.choice("status", _STATUSES) or "completed")
    phase = item.choice("phase", _PHASES) if role == "assistant" else None
    return {**read, "phase": phase} if phase else read


_STATUSES = ("in_progress", "completed", "incomplete")


def _each(values: Sequence[Any], path: str) -> Iterator[Fields]:
    return (fields_of(value, f"{path}[{at}]") for at, value in enumerate(values))


def _text_part(kind: str, text: str) -> Item:
    if kind == "output_text":
        return {"type": kind, "text": text, "annotations": [], "logprobs": []}
    return {"type": kind, "text": text}


def _read_said(part: Fields) -> Item:
    """Read a part of an assistant message."""
    kind = part.choice("type", ("output_text", "refusal"))
    if kind == "refusal":
        return {"type": kind, "refusal": part.needed("refusal")}
    return _text_part("output_text", part.needed("text"))


def _read_part(part: Fields) -> Item:
    kind = part.choice("type", ("input_text", "input_image", "input_file"))
    if kind is None:
        raise MissingParameter("type is missing", path=part.at("type"))
    if kind == "input_text":
        return _text_part(kind, part.needed("text"))
    if part.text("file_id") is not None:
        raise UnsupportedParameter(
            "the Files API is not supported: send the content or its URL",
            path=part.at("file_id"),
        )
    return _read_image(part) if kind == "input_image" else _read_file(part)


def _read_image(part: Fields) -> Item:
    url = part.needed("image_url")
    if not _ADDRESS.fullmatch(url):
        inline(url, part.at("image_url"))
    detail = part.choice("detail", _DETAILS) or "auto"
    return {"type": "input_image", "image_url": url, "detail": detail}


def _read_file(part: Fields) -> Item:
    given = {name: part.text(name) for name in ("filename", "file_data", "file_url")}
    read = {name: value for name, value in given.items() if value is not None}
    if ("file_data" in read) == ("file_url" in read):
        raise MissingParameter("give either file_data or file_url", path=part.path)
    if "file_data" in read:
        inline(read["file_data"], part.at("file_data"), bare=True)
    elif not _ADDRESS.fullmatch(read["file_url"]):
        raise part.wrong("file_url", "an http or https address")
    return {"type": "input_file", **read}


def inline(url: str, path: str, *, bare: bool = False) -> tuple[bytes, str]:
    """Return the data of a data URL and its media type.

    Args:
        url: The data URL.
        path: Path of the field, for errors.
        bare: Whether plain base64 is accepted; its media type is empty.

    Raises:
        ValidationError: The data is invalid.
    """
    head = _INLINE.match(url)
    if head is None and (not bare or url.startswith("data:")):
        raise ValidationError("must be an http(s) URL or base64 data", path=path)
    data = bytes_of(url[head.end() if head else 0 :], path)
    return _not_empty(data, path), (head.group(1) or "") if head else ""


def _not_empty(data: bytes, path: str) -> bytes:
    if not data:
        raise ValidationError("must not be empty", path=path)
    return data


def is_inline(url: str) -> bool:
    return not _ADDRESS.fullmatch(url)


def _read_call(item: Fields) -> Item:
    return {
        "type": "function_call",
        "call_id": item.needed("call_id"),
        "name": item.needed("name"),
        "arguments": item.needed("arguments"),
        "status": item.choice("status", _STATUSES) or "completed",
    }


def _read_output(item: Fields) -> Item:
    call = item.needed("call_id")
    output = item.value.get("output")
    if isinstance(output, list):
        output = [_read_part(part) for part in _each(output, item.at("output"))]
    elif not isinstance(output, str):
        raise item.wrong("output", "a string or a list of parts")
    status = item.choice("status", _STATUSES) or "completed"
    return {"type": "function_call_output", "call_id": call, "output": output, "status": status}


def _read_picture(item: Fields) -> Item:
    """Read an image generated by the model."""
    result = item.needed("result")
    _not_empty(bytes_of(result, item.at("result")), item.at("result"))
    return {"type": "image_generation_call", "status": "completed", "result": result}


def _read_reasoning(item: Fields, unseal: Unseal) -> Item:
    """Data that was not sealed by this host is ignored."""
    read: Item = {"type": "reasoning", "summary": _texts(item, "summary", "summary_text")}
    if item.list("content"):
        read["content"] = _texts(item, "content", "reasoning_text")
    sealed = item.text("encrypted_content")
    opaque = unseal(sealed) if sealed else None
    return {**read, "opaque": opaque} if opaque else read


def _texts(item: Fields, name: str, kind: str) -> list[Item]:
    parts = _each(item.list(name) or (), item.at(name))
    return [{"type": kind, "text": part.needed("text")} for part in parts]
