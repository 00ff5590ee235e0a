"""A conversation as a document."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from genai_host.api import Codec, Message, Part, Reasoning, Text, ToolCall, ToolResult
from genai_host.errors import ConfigurationError


def write_transcript(history: Iterable[Message], file: str | os.PathLike[str]) -> None:
    """Write messages to a file that only the user can read: JSON if its name ends in
    `.json`, else Markdown. Raises `ConfigurationError` if it cannot be written."""
    path = Path(file).expanduser()
    messages = list(history)
    if path.suffix == ".json":
        text = json.dumps(Codec().to_json(messages), indent=2, ensure_ascii=False) + "\n"
    else:
        text = as_markdown(messages)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}") from error


def as_markdown(messages: Iterable[Message]) -> str:
    """Messages as Markdown, each under the name of who speaks."""
    blocks = []
    for message in messages:
        parts = "\n\n".join(_part(part) for part in message.content)
        blocks.append(f"## {message.role}\n\n{parts}\n")
    return "\n".join(blocks)


def _part(part: Part) -> str:
    if isinstance(part, Text):
        return part.text
    if isinstance(part, Reasoning):
        return "\n".join(f"> {line}" for line in part.text.splitlines())
    if isinstance(part, ToolCall):
        return f"```json\n{json.dumps({'tool': part.name, 'arguments': dict(part.arguments)})}\n```"
    if isinstance(part, ToolResult):
        text = "".join(_part(each) for each in part.content)
        return f"```\n{text}\n```"
    return f"*({part.type})*"
