"""What a record tells of each turn: what was said, and what became of it. Turns that
failed, were interrupted or taken back are there as well."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from attrs import define

from genai_host.api import Answer, Message, Wait
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
    wait      what it waits for, if it does; the class of the result is not on record
    """

    number: int
    message: Message
    outcome: Outcome = "unfinished"
    answer: Answer | None = None
    error: GenaiError | None = None
    partial: str = ""
    wait: Wait[Any] | None = None


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
            turns[-1].wait = _wait(entry) if entry.step == Wait.step else None
            turns[-1].outcome = "unfinished" if turns[-1].wait is None else "waiting"
        elif isinstance(entry, StepEnded) and turns:
            turns[-1].outcome, turns[-1].wait = "unfinished", None
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


def _wait(started: StepStarted) -> Wait[Any]:
    return Wait(started.asks.get("kind", ""), started.asks.get("payload"))


def _end(turn: TurnTold, ended: TurnEnded) -> None:
    turn.wait = None
    turn.answer, turn.error = ended.answer, ended.error
    turn.outcome = "failed" if ended.answer is None else "answered"
    if ended.answer is not None:
        turn.partial = ""
