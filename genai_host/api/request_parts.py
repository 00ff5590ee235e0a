"""What formats write alike that have little else in common; `reply_fields` reads."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from re import Pattern

from genai_host.api.messages import Message, Opaque, Part, Reasoning, Text
from genai_host.errors import UnsupportedPart


def unsupported(part: Part, where: str, dialect: str) -> UnsupportedPart:
    """The error for a part that a format has no place for.

    where   in words, as `in a message of role system`
    """
    return UnsupportedPart(
        f"{dialect} has no place for a part of type {part.type} {where}",
        part=part.type,
        dialect=dialect,
    )


def system_texts(messages: Iterable[Message], dialect: str) -> list[str]:
    """What the system says, wherever in a conversation, for formats in which that stands
    apart. Raises `UnsupportedPart` for what is no text."""
    texts: list[str] = []
    for message in messages:
        if message.role != "system":
            continue
        for part in message.content:
            if isinstance(part, Text):
                texts.append(part.text)
            elif not isinstance(part, (Reasoning, Opaque)):
                raise unsupported(part, "in a message of role system", dialect)
    return texts


def fitting_id(id: str, form: Pattern[str]) -> str:
    """The id of a call, as a service takes it: one of another vendor may have characters
    that are refused there, and then becomes another, always the same."""
    if form.fullmatch(id):
        return id
    return f"call_{hashlib.sha256(id.encode(errors='surrogatepass')).hexdigest()[:24]}"
