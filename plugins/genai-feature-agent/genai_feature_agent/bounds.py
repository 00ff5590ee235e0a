"""Limits on the size of a request, checked before the request is parsed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from genai_host.errors import ValidationError

DEPTH = 100
"""Maximum nesting depth of the JSON of a request, below the limit of any JSON parser."""


def must_be_flat(body: Mapping[str, Any]) -> None:
    """Raise `ValidationError`, with the field, for values nested deeper than `DEPTH`."""
    for name, value in body.items():
        level = [value]
        for _ in range(DEPTH):
            level = [item for each in level for item in _items(each)]
        if level:
            raise ValidationError(f"nested deeper than {DEPTH} levels", path=f"$.{name:.40}")


def must_be_bounded(body: Mapping[str, Any], messages: int, characters: int) -> None:
    """Raise `ValidationError`, with the path, for a history with too many messages, or for too many
    characters in the message, the context and the history together. Images and files do not count.
    """
    history = body.get("history")
    count = len(history) if isinstance(history, (list, tuple)) else 0
    if count > messages:
        raise ValidationError(
            f"the history has {count} messages; the limit is {messages}",
            path="$.history",
            hint="omit the oldest messages",
        )
    for path, value in _said(body):
        characters -= _length(value)
        if characters < 0:
            raise ValidationError(
                "the request has too much text up to this field",
                path=path,
                hint="omit the oldest messages, or reduce the context",
            )


def _said(body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name in ("message", "context", "approvals"):
        yield f"$.{name}", body.get(name)
    history = body.get("history")
    for number, each in enumerate(history if isinstance(history, (list, tuple)) else ()):
        yield f"$.history[{number}]", _without_bytes(each)


def _without_bytes(message: Any) -> Any:
    """Return a message without the images and files in its parts."""
    if not isinstance(message, Mapping) or not isinstance(message.get("parts"), (list, tuple)):
        return message
    parts = [
        {name: part[name] for name in part if name != "data"}
        if isinstance(part, Mapping) and part.get("type") in ("image", "file")
        else part
        for part in message["parts"]
    ]
    return {**message, "parts": parts}


def _length(value: Any) -> int:
    """Return the approximate number of characters of a value as JSON."""
    length, pending = 0, [value]
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            pending += [*value, *value.values()]
            length += 2
        elif isinstance(value, (list, tuple)):
            pending += value
            length += 2
        else:
            length += len(value if isinstance(value, str) else str(value))
    return length


def _items(value: Any) -> Iterator[Any]:
    """Yield the members of a value that can contain other values."""
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return
    yield from (item for item in value if isinstance(item, (Mapping, list, tuple)))
