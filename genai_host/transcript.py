"""A conversation as a document."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from genai_host.api import Codec, Message, Part, Reasoning, Text, ToolCall, ToolResult
from genai_host.errors import ConfigurationError


def write_transcript(history: Iterable[Message], file: str | os.PathLike[str]) -> None:
    """Write messages to a file that only the user can read: JSON if its name ends in
    `.json`, else Markdown. Raises `ConfigurationError` if it cannot be written."""
    messages = list(history)
    if Path(file).suffix == ".json":
        text = json.dumps(Codec().to_json(messages), indent=2, ensure_ascii=False) + "\n"
    else:
        text = as_markdown(messages)
    write_text(text, file)


def write_text(text: str, file: str | os.PathLike[str]) -> None:
    """Write a file that only the user can read. Raises `ConfigurationError` if it cannot
    be written."""
    try:
        path = Path(file).expanduser()
        data = text.encode("utf-8", "backslashreplace")  # for half a surrogate pair
        with open(path, "wb", opener=_for_the_user_alone) as stream:
            stream.write(data)
    except (OSError, ValueError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"{file} cannot be written: {why}") from error


def _for_the_user_alone(path: str, flags: int) -> int:
    descriptor = os.open(path, flags, 0o600)
    os.fchmod(descriptor, 0o600)  # it may have been there
    return descriptor


def as_markdown(messages: Iterable[Message], said: Mapping[int, str] = {}) -> str:
    """Messages as Markdown, each under the name of who speaks.

    said   when, for some of them, by their numbers
    """
    heads = (
        (f"{message.role}, {said[number]}" if number in said else message.role, message)
        for number, message in enumerate(messages)
    )
    return "\n".join(f"## {head}\n\n{content_as_markdown(message)}\n" for head, message in heads)


def content_as_markdown(message: Message) -> str:
    """What a message holds, as Markdown."""
    return "\n\n".join(_part(part) for part in message.content)


def _part(part: Part) -> str:
    if isinstance(part, Text):
        return part.text
    if isinstance(part, Reasoning):
        return "\n".join(f"> {line}" for line in part.text.splitlines())
    if isinstance(part, ToolCall):
        arguments = part.malformed or json.dumps(dict(part.arguments), ensure_ascii=False)
        return f"```json\n{part.name}({arguments})\n```"
    if isinstance(part, ToolResult):
        text = "".join(_part(each) for each in part.content)
        return f"```\n{text}\n```"
    return f"*({part.type})*"
