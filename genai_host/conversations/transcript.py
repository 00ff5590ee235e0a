"""Transcripts: the turns of an event log, and their Markdown.

The turns include failed, interrupted and undone ones.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from attrs import define

from genai_host.api import (
    Answer,
    Message,
    Part,
    Pause,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    cited_pages,
)
from genai_host.api.codec import default_codec
from genai_host.conversations.record import (
    Entry,
    Rewound,
    StepEnded,
    StepStarted,
    TurnEnded,
    TurnStarted,
)
from genai_host.errors import ConfigurationError, GenaiError

Outcome = Literal["answered", "failed", "unfinished", "paused", "replaced", "undone"]


@define
class TurnSummary:
    """A turn in a transcript.

    Attributes:
        number: Number in the event log, from 0.
        outcome: `answered`, `failed`, `unfinished` (running or interrupted), `paused` (for a
            result), `replaced` by another turn, or `undone`.
        partial: Text streamed before the failure.
        pause: What the turn waits for, if it is paused; the class of its result is unknown.
    """

    number: int
    message: Message
    outcome: Outcome = "unfinished"
    answer: Answer | None = None
    error: GenaiError | None = None
    partial: str = ""
    pause: Pause[Any] | None = None


def turns_of(entries: Iterable[Entry]) -> list[TurnSummary]:
    """The turns of an event log, in order."""
    turns: list[TurnSummary] = []
    standing: list[TurnSummary] = []  # turns in the history
    again = False
    for entry in entries:
        if isinstance(entry, TurnStarted):
            turns.append(TurnSummary(entry.turn, entry.message))
            again = entry.again
        elif isinstance(entry, StepStarted) and turns:
            turns[-1].outcome, turns[-1].pause = "unfinished", None
            if entry.step == Pause.step:
                asks = entry.asks
                turns[-1].pause = Pause(asks.get("kind", ""), asks.get("payload"))
                turns[-1].outcome = "paused"
        elif isinstance(entry, StepEnded) and turns:
            turns[-1].outcome, turns[-1].pause = "unfinished", None
            turns[-1].partial = entry.text or getattr(entry.error, "text", "")
        elif isinstance(entry, TurnEnded) and turns:
            ended = turns[-1]
            ended.answer, ended.error, ended.pause = entry.answer, entry.error, None
            ended.outcome = "failed" if entry.answer is None else "answered"
            if entry.answer is not None:
                ended.partial = ""
                if again and standing:
                    standing.pop().outcome = "replaced"
                standing.append(ended)
        elif isinstance(entry, Rewound):
            for turn in standing[entry.turns :]:
                turn.outcome = "undone"
            del standing[entry.turns :]
    return turns


def write_transcript(
    history: Iterable[Message], file: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Write messages to a file that only the user can read: JSON if its name ends in `.json`, else
    Markdown. Raises `ConfigurationError` if the file cannot be written, or exists and may not be
    overwritten."""
    messages = list(history)
    if Path(file).suffix == ".json":
        text = json.dumps(default_codec().to_json(messages), indent=2, ensure_ascii=False) + "\n"
    else:
        text = as_markdown(messages)
    write_text(text, file, overwrite=overwrite)


def write_text(text: str, file: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a file that only the user can read. Raises `ConfigurationError` if the file cannot be
    written, or exists and may not be overwritten."""
    try:
        path = Path(file).expanduser()
        if "\0" in str(path):
            raise ValueError("embedded null byte")
        data = text.encode("utf-8", "backslashreplace")  # for lone surrogates
        if path.exists() and not path.is_file():
            path.write_bytes(data)  # for example /dev/stdout
        else:
            _write(path.resolve() if path.is_symlink() else path, data, overwrite=overwrite)
    except FileExistsError:
        raise ConfigurationError(
            f"{file} already exists",
            hint="use another name, or --overwrite (in Python, overwrite=True)",
        ) from None
    except (OSError, ValueError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"cannot write {file}: {why}") from error


def _write(path: Path, data: bytes, *, overwrite: bool) -> None:
    """Write a file that only the user can read. After an error, an earlier file is unchanged."""
    descriptor, unfinished = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        if not overwrite:  # not all file systems have hard links
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.replace(unfinished, path)
    except BaseException:
        os.unlink(unfinished)
        raise


def as_markdown(messages: Iterable[Message], times: Mapping[int, str] = {}) -> str:
    """Messages as Markdown, each below the name of its role."""
    heads = (
        (f"{message.role}, {times[number]}" if number in times else message.role, message)
        for number, message in enumerate(messages)
    )
    return "\n".join(f"## {head}\n\n{content_as_markdown(message)}\n" for head, message in heads)


def content_as_markdown(message: Message) -> str:
    """The parts of a message as Markdown, and the pages that they cite."""
    parts = [_part(part) for part in message.content]
    if pages := cited_pages(message.citations):
        lines = (f"{_plain(title)} <{url}>".lstrip() for url, title in pages.items())
        numbered = "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))
        parts.append(f"Sources:\n\n{numbered}")
    return "\n\n".join(parts)


_MARKUP = re.compile(r"[\\`\[\]<]|:(?=//)|(?<=www)\.", re.IGNORECASE)  # also bare addresses


def _plain(text: str) -> str:
    """A text on one line, without links to pages, HTML and code."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(text.split()))


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
