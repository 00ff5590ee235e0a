"""A digest of a step: equal steps, and only they, have equal ones.

Kept on record instead of the step itself, so that a conversation's record grows
with what is said, and not with its square. A message is digested once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from typing import Any, get_args, get_origin

import attrs

from genai_host.api import Message, Part, Step, Text
from genai_host.api.messages import remember_each

Label = Callable[[Any], str]
"""The name of a class or a function within a digest."""


def _label(named: Any) -> str:
    """The package and the own name: it stays when the file or the Python name changes."""
    own = named.__qualname__
    if isinstance(named, type) and issubclass(named, Step):
        own = getattr(named, "step", own)
    elif isinstance(named, type) and issubclass(named, Part):
        own = getattr(named, "type", own)
    return f"{named.__module__.partition('.')[0]}:{own}"


def _old_label(named: Any) -> str:
    """The label of records that were written before: module and Python name as they were."""
    module, name = named.__module__, named.__qualname__
    if module.startswith("genai_host."):
        module = _OLD_MODULES.get(name, module)
    return f"{module}:{name}"


_OLD_MODULES = {
    name: f"genai_host.api.{module}"
    for module, names in {
        "steps": (
            "Prompt CountTokens Embed Moderate CallFunction OfferedTools CallTool CallTools Wait "
            "All Settled Now NewId Progress Rate"
        ),
        "messages": ("Message Text Reasoning Image File ToolCall ToolResult Opaque Usage"),
        "calls": "Completion Delta RouteInfo TokenCount ToolSchema Vectors Verdict",
        "costs": "Cost",
        "features": "Answer Detail Turn",
        "tools": "OfferedTool ToolOutput",
    }.items()
    for name in names.split()
}
"""Where the classes of steps, and of what they hold, were. Remove with the first version of the
store that cannot hold a turn from before."""


def digest(value: Any, label: Label = _label) -> str:
    """SHA-256, in hex, of a value's plain form."""
    text = _ENCODER.encode(_plain(value, label))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


old_digest = partial(digest, label=_old_label)
"""The digest that the record of a turn from before has."""


_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any, label: Label) -> Any:
    """JSON that tells apart what is different."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Message):
        if label is _label:
            return value.remember("digest", _of_message).hex()
        return _of_message(value, label).hex()
    if isinstance(value, Mapping):
        return {"mapping": {_key(key): _plain(item, label) for key, item in value.items()}}
    if isinstance(value, (list, tuple)):
        if value and all(type(item) is Message for item in value):
            return {"messages": _of_messages(value, label)}
        return [_plain(item, label) for item in value]
    if isinstance(value, (set, frozenset)):
        return {"set": sorted(digest(item, label) for item in value)}
    if isinstance(value, bytes):
        return {"bytes": hashlib.sha256(value).hexdigest()}
    if attrs.has(type(value)):
        return _fields(value, label)
    if get_args(value):  # a type such as `list[int]`
        parts = (get_origin(value), *get_args(value))
        return {"type": [_plain(each, label) for each in parts]}
    if hasattr(value, "__qualname__"):  # a class or a function stands for its name
        return {"name": label(value)}
    raise TypeError(f"a step holds {value!r}, which cannot be put on record")


def _of_messages(messages: Iterable[Message], label: Label) -> str:
    """A conversation is long, and is digested again with each prompt."""
    if label is _label:
        digests = remember_each(messages, "digest", _of_message)
    else:
        digests = [_of_message(message, label) for message in messages]
    return hashlib.sha256(b"".join(digests)).hexdigest()


def _of_message(message: Message, label: Label = _label) -> bytes:
    content = message.content
    if len(content) == 1 and type(content[0]) is Text:  # as most are
        text = f"text\0{message.role}\0{content[0].text}"
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return bytes.fromhex(digest(_fields(message, label), label))


def _key(key: Any) -> str:
    return key if isinstance(key, str) else f"{type(key).__name__} {key!r}"


def _fields(value: Any, label: Label) -> Any:
    """What was given to make it: a field that has its default says nothing."""
    name, defaults = _described(type(value), label)  # type: ignore[arg-type]  # a class is hashable
    fields = {}
    for each, default in defaults:
        found = getattr(value, each)
        if found is not default:
            fields[each] = _plain(found, label)
    return {"class": name, "fields": fields}


@lru_cache(maxsize=256)
def _described(kind: type[Any], label: Label) -> tuple[str, list[tuple[str, Any]]]:
    """The label of an attrs class, and its fields with their defaults."""
    return label(kind), [(each.name, each.default) for each in attrs.fields(kind) if each.init]
