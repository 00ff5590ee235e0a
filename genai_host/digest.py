"""A digest of a step: equal steps, and only they, have equal ones.

Kept on record instead of the step itself, so that a conversation's record grows
with what is said, and not with its square. A message is digested once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, get_args, get_origin

import attrs

from genai_host.api import Message


def digest(value: Any) -> str:
    """SHA-256, in hex, of a value's plain form."""
    text = json.dumps(_plain(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _plain(value: Any) -> Any:
    """JSON that tells apart what is different."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Message):
        return value.remember("digest", lambda message: digest(_fields(message)))
    if isinstance(value, Mapping):
        return {"mapping": {_key(key): _plain(item) for key, item in value.items()}}
    if isinstance(value, (list, tuple)):
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


def _key(key: Any) -> str:
    return key if isinstance(key, str) else f"{type(key).__name__} {key!r}"


def _fields(value: Any) -> Any:
    kind = type(value)
    fields = {
        field.name: _plain(getattr(value, field.name)) for field in attrs.fields(kind) if field.init
    }
    return {"class": f"{kind.__module__}:{kind.__qualname__}", "fields": fields}
