"""A conversation that was kept, as people and programs read it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from genai_host.api import Codec, Message
from genai_host.cli.app import App
from genai_host.cli.ask import answer_row, show_details
from genai_host.cli.terminal import echo
from genai_host.cli.times import utc
from genai_host.record import Record, added, retell
from genai_host.transcript import as_markdown, content_as_markdown
from genai_host.turns import TurnTold

if TYPE_CHECKING:
    from genai_host.store.summary import Summary

FORM = 1
"""Version of what is exported as JSON."""


def row_of(summary: Summary) -> dict[str, Any]:
    """A conversation in JSON."""
    return {
        "id": summary.id,
        "title": summary.title,
        "feature": summary.feature,
        "models": dict(summary.models),
        "status": summary.status,
        "turns": summary.turns,
        "created": utc(summary.created),
        "updated": utc(summary.updated),
        "forked_from": summary.forked_from or None,
    }


def title_of(summary: Summary) -> str:
    """On one line."""
    return " ".join(summary.title.split())


def turn_row(turn: TurnTold, codec: Codec) -> dict[str, Any]:
    """A turn in JSON."""
    return {
        "turn": turn.number,
        "outcome": turn.outcome,
        "message": codec.to_json(turn.message),
        "answer": None if turn.answer is None else answer_row(turn.answer, codec),
        "error": None if turn.error is None else codec.to_json(turn.error),
    }


def show_transcript(
    began: Iterable[Message], turns: Iterable[TurnTold], *, details: bool = False
) -> None:
    """Print what was said.

    began   messages that the conversation began with
    """
    _show_messages(began)
    for turn in turns:
        mark = "" if turn.outcome == "answered" else f" (turn {turn.number}, {turn.outcome})"
        _show_messages([turn.message], mark)
        if turn.answer is not None:
            _show_messages(_answers(turn), mark)
            if details:
                show_details(turn.answer, echo)
        if turn.error is not None:
            echo(f"\nerror: {turn.error}", fg="red")


def _answers(turn: TurnTold) -> Sequence[Message]:
    """What the answer says, as it entered the history; itself if it did not."""
    assert turn.answer is not None  # the caller has looked
    new = [each for each in added(turn.answer, turn.message) if each.role != "user"]
    return new or [Message("assistant", turn.answer.summary)]


def _show_messages(messages: Iterable[Message], mark: str = "") -> None:
    for message in messages:
        echo(f"\n## {message.role}{mark}\n", bold=True)
        echo(content_as_markdown(message))


def exported_json(app: App, summary: Summary) -> str:
    """All that is on record, indented."""
    codec = app.host.codec
    entries = Record(app.store.entries(summary.id, codec)).to_json(codec)
    form = {"form": FORM, "conversation": row_of(summary), "entries": entries}
    return json.dumps(form, indent=2)


def exported_markdown(app: App, summary: Summary) -> str:
    """What was said and answered, as the history has it."""
    history = retell(app.store.entries(summary.id, app.host.codec)).history
    return f"# {title_of(summary) or summary.id}\n\n{as_markdown(history)}".rstrip()
