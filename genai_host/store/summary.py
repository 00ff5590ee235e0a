"""What a list of conversations shows of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from attrs import field, frozen

from genai_host.api import Cost

Status = Literal["idle", "failed", "waiting", "running", "interrupted"]


@frozen
class Summary:
    """A conversation in a list.

    title     the name that it was given, else the beginning of what was said first
    created   seconds since 1970; ids sort by it
    updated   when the last entry came
    status    of the last turn:
              idle          it was answered, or there is none
              failed        it ended with an error, or was cancelled
              waiting       it waits for a result: `Conversation.resume`
              running       a process is at it
              interrupted   the process that was at it is gone: `Conversation.resume`
    turns     how many were begun
    entries   how many are on record
    models    role to model
    cost      of all its calls of models, also in turns that failed or were taken back; that
              of a fork has in it what the turns cost that it took over
    """

    id: str
    title: str
    feature: str
    created: float
    updated: float
    status: Status
    turns: int = 0
    entries: int = 0
    models: Mapping[str, str] = field(factory=dict)
    forked_from: str = ""
    cost: Cost = field(factory=Cost)


@frozen
class StoredTry:
    """A call of a model, as it is on record.

    path        the step that it was for, in its turn
    number      of the try for that step, from 0
    started     seconds since 1970
    code        of its error; None if it succeeded
    cost        US dollars; None where it is not known
    """

    turn: int
    path: str
    number: int
    model: str
    provider: str
    dialect: str
    started: float
    seconds: float
    code: str | None = None
    http_status: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: float | None = None


@frozen
class Found:
    """A message that has the words that were searched for.

    turn   in which it was said; None for one that the conversation began with
    """

    conversation: str
    title: str
    turn: int | None
    role: str
    text: str
