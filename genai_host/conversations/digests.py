"""Digests of steps.

A step is recorded as its digest; equal steps, and only those, have equal digests. The size of the
log is therefore linear in the size of the messages, not quadratic. Each message is digested once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from typing import Any, get_args, get_origin

import attrs

from genai_host.api import Message, Part, Step
from genai_host.api.messages import FORMER_USAGE, remember_each

Label = Callable[[Any], str]
"""Returns the name of a class or function in a digest."""


def _label(named: Any) -> str:
    """Package and name, without the module: stable if the file is renamed."""
    own = named.__qualname__
    if isinstance(named, type) and issubclass(named, Step):
        own = getattr(named, "step", own)
    elif isinstance(named, type) and issubclass(named, Part):
        own = getattr(named, "type", own)
    return f"{named.__module__.partition('.')[0]}:{own}"


def _old_label(named: Any) -> str:
    """The label in earlier event logs: module and Python name at that time."""
    module, name = named.__module__, named.__qualname__
    if module.startswith("genai_host."):
        name = _OLD_NAMES.get(name, name)
        module = _OLD_MODULES.get(name, module)
    return f"{module}:{name}"


_OLD_MODULES = {
    name: f"genai_host.api.{module}"
    for module, names in {
        "steps": (
            "Prompt CountTokens Embed Moderate CallFunction OfferedTools CallTool CallTools Wait "
            "All Settled Now NewId Progress Rate"
        ),
        "messages": "Message Text Reasoning Image File ToolCall ToolResult Opaque Usage",
        "calls": "Completion Delta RouteInfo TokenCount ToolSchema Vectors Verdict",
        "costs": "Cost",
        "features": "Answer Detail Turn",
        "tools": "OfferedTool ToolOutput",
    }.items()
    for name in names.split()
}
_OLD_NAMES = {
    "AllSettled": "Settled",
    "AvailableTool": "OfferedTool",
    "Embeddings": "Vectors",
    "ListTools": "OfferedTools",
    "ModerationResult": "Verdict",
    "Pause": "Wait",
    "RateLimit": "Rate",
    "VendorPart": "Opaque",
}
_OLD_FIELDS = {
    "CallFunction.idempotent": "twice",
    "Prompt.raw_reply_file": "keep_replies_in",
    "Prompt.stream": "show",
    **{f"Usage.{now}": former for former, now in FORMER_USAGE.items()},
}
"""Former modules, names and fields of steps and their parts. Remove them with the first version of
the store that cannot contain such turns."""


def digest(value: Any, label: Label = _label) -> str:
    """SHA-256, in hex, of the canonical form of a value."""
    text = _ENCODER.encode(_canonical_form(value, label))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


old_digest = partial(digest, label=_old_label)
"""The digest in earlier event logs."""


_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _canonical_form(value: Any, label: Label) -> Any:
    """JSON that is equal only for equal values."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Message):
        if label is _label:
            return value.remember("digest", _of_message).hex()
        return _of_message(value, label).hex()
    if isinstance(value, Mapping):
        return {"mapping": {_key(key): _canonical_form(item, label) for key, item in value.items()}}
    if isinstance(value, (list, tuple)):
        if set(map(type, value)) == {Message}:
            return {"messages": _of_messages(value, label)}
        return [_canonical_form(item, label) for item in value]
    if isinstance(value, (set, frozenset)):
        return {"set": sorted(digest(item, label) for item in value)}
    if isinstance(value, bytes):
        return {"bytes": hashlib.sha256(value).hexdigest()}
    if attrs.has(type(value)):
        return _fields(value, label)
    if get_args(value):  # a type such as `list[int]`
        parts = (get_origin(value), *get_args(value))
        return {"type": [_canonical_form(each, label) for each in parts]}
    if hasattr(value, "__qualname__"):  # a class or function is represented by its name
        return {"name": label(value)}
    raise TypeError(f"a step contains {value!r}, which cannot be recorded")


def _of_messages(messages: Iterable[Message], label: Label) -> str:
    """Digests of messages, cached: a long conversation is digested with each prompt."""
    if label is _label:
        digests = remember_each(messages, "digest", _of_message)
    else:
        digests = [_of_message(message, label) for message in messages]
    return hashlib.sha256(b"".join(digests)).hexdigest()


def _of_message(message: Message, label: Label = _label) -> bytes:
    text = message.plain_text
    if text is not None:  # in most cases
        plain = f"text\0{message.role}\0{text}"
        return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).digest()
    return bytes.fromhex(digest(_fields(message, label), label))


def _key(key: Any) -> str:
    return key if isinstance(key, str) else f"{type(key).__name__} {key!r}"


def _fields(value: Any, label: Label) -> Any:
    """Fields without a default value."""
    name, described = _described(type(value), label)  # type: ignore[arg-type]  # a class is hashable
    fields = {}
    for each, written, default in described:
        found = getattr(value, each)
        if found is not default:
            fields[written] = _canonical_form(found, label)
    return {"class": name, "fields": fields}


@lru_cache(maxsize=256)
def _described(kind: type[Any], label: Label) -> tuple[str, list[tuple[str, str, Any]]]:
    """The label of an attrs class, and its fields with their names in digests and defaults."""
    old = _OLD_FIELDS if label is _old_label else {}
    return label(kind), [
        (each.name, old.get(f"{kind.__name__}.{each.name}", each.name), each.default)
        for each in attrs.fields(kind)
        if each.init
    ]
