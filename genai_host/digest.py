"""A digest of a step: equal steps, and only they, have equal ones.

Kept on record instead of the step itself, so that a conversation's record grows
with what is said, and not with its square. A message is digested once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, get_args, get_origin

import attrs

from genai_host.api import Message, Text
from genai_host.api.messages import remember_each


def digest(value: Any) -> str:
    """SHA-256, in hex, of a value's plain form."""
    text = _ENCODER.encode(_plain(value))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    """JSON that tells apart what is different."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Message):
        return value.remember("digest", _of_message).hex()
    if isinstance(value, Mapping):
        return {"mapping": {_key(key): _plain(item) for key, item in value.items()}}
    if isinstance(value, (list, tuple)):
        if value and all(type(item) is Message for item in value):
            return {"messages": _of_messages(value)}
        return [_plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return {"set": sorted(digest(item) for item in value)}
    if isinstance(value, bytes):
        return {"bytes": hashlib.sha256(value).hexdigest()}
    if attrs.has(type(value)):
        return _fields(value)
    if get_args(value):  # a type such as `list[int]`
        return {"type": [_plain(get_origin(value)), *map(_plain, get_args(value))]}
    if hasattr(value, "__qualname__"):  # a class or a function stands for its name
        return {"name": f"{value.__module__}:{value.__qualname__}"}
    raise TypeError(f"a step holds {value!r}, which cannot be put on record")


def _of_messages(messages: Iterable[Message]) -> str:
    """A conversation is long, and is digested again with each prompt."""
    digests = remember_each(messages, "digest", _of_message)
    return hashlib.sha256(b"".join(digests)).hexdigest()


def _of_message(message: Message) -> bytes:
    content = message.content
    if len(content) == 1 and type(content[0]) is Text:  # as most are
        text = f"text\0{message.role}\0{content[0].text}"
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return bytes.fromhex(digest(_fields(message)))


def _key(key: Any) -> str:
    return key if isinstance(key, str) else f"{type(key).__name__} {key!r}"


def _fields(value: Any) -> Any:
    """What was given to make it: a field that has its default says nothing."""
    label, defaults = _described(type(value))  # type: ignore[arg-type]  # a class is hashable
    fields = {}
    for name, default in defaults:
        found = getattr(value, name)
        if found is not default:
            fields[name] = _plain(found)
    return {"class": label, "fields": fields}


@lru_cache(maxsize=256)
def _described(kind: type[Any]) -> tuple[str, list[tuple[str, Any]]]:
    """The name of an attrs class, and its fields with their defaults."""
    defaults = [(field.name, field.default) for field in attrs.fields(kind) if field.init]
    return f"{kind.__module__}:{kind.__qualname__}", defaults
