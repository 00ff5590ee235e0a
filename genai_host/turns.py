"""What a record tells of each turn: what was said, and what became of it. Turns that
failed, were interrupted or taken back are there as well."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from attrs import define

from genai_host.api import Answer, Message
from genai_host.errors import GenaiError
from genai_host.record import Entry, Rewound, StepEnded, StepStarted, TurnEnded, TurnStarted

Outcome = Literal["answered", "failed", "unfinished", "waiting", "replaced", "undone"]


@define
class TurnTold:
    """A turn in a transcript.

    number    from 0 on, as it is on record
    outcome   answered     it has an answer
              failed       it has an error
              unfinished   it has not ended: a process is at it, or was cut off
              waiting      it waits for a result
              replaced     it was answered, then said again with another outcome
              undone       it was answered, then taken back
    partial   what had been shown of an answer that then failed
    """

    number: int
    message: Message
    outcome: Outcome = "unfinished"
    answer: Answer | None = None
    error: GenaiError | None = None
    partial: str = ""


def turns_of(entries: Iterable[Entry]) -> list[TurnTold]:
    """The turns of a record, in order."""
    turns: list[TurnTold] = []
    standing: list[TurnTold] = []  # those whose answers make the history
    again = False
    for entry in entries:
        if isinstance(entry, TurnStarted):
            turns.append(TurnTold(entry.turn, entry.message))
            again = entry.again
        elif isinstance(entry, StepStarted) and turns:
            turns[-1].outcome = "waiting" if entry.step == "wait" else "unfinished"
        elif isinstance(entry, StepEnded) and turns:
            turns[-1].outcome = "unfinished"
            turns[-1].partial = entry.text or getattr(entry.error, "text", "")
        elif isinstance(entry, TurnEnded) and turns:
            _end(turns[-1], entry)
            if entry.answer is not None:
                if again and standing:
                    standing.pop().outcome = "replaced"
                standing.append(turns[-1])
        elif isinstance(entry, Rewound):
            for turn in standing[entry.turns :]:
                turn.outcome = "undone"
            del standing[entry.turns :]
    return turns


def _end(turn: TurnTold, ended: TurnEnded) -> None:
    turn.answer, turn.error = ended.answer, ended.error
    turn.outcome = "failed" if ended.answer is None else "answered"
    if ended.answer is not None:
        turn.partial = ""
