"""Answers, and what else comes of a turn."""

from __future__ import annotations

from typing import Any

from genai_host.api import Answer, Codec, Problem, Wait
from genai_host.errors import GenaiError
from genai_host.rows.answers import answer_row, wait_row


def answered(
    answer: Answer, codec: Codec, turn: int, unrecorded: GenaiError | None = None
) -> dict[str, Any]:
    """The answer to a turn; its pictures are fetched one by one.

    unrecorded   why it is not kept, if it is not
    """
    row = answer_row(answer, codec)
    row["summary"] = row.pop("text")
    row["pictures"] = [{"media_type": each.media_type or "image/png"} for each in answer.pictures]
    if unrecorded is not None:
        row["unrecorded"] = failed(unrecorded)
    return {"turn": turn, **row}


def waiting(wait: Wait[Any] | None) -> dict[str, Any] | None:
    """What a turn waits for."""
    return None if wait is None else wait_row(wait)


def failed(error: GenaiError) -> dict[str, Any]:
    """An error, as it stands in a stream and in a list of turns."""
    problem = Problem.of(error)
    row = {"code": problem.code, "message": problem.message}
    for name in ("hint", "path"):
        if getattr(problem, name):
            row[name] = getattr(problem, name)
    return row
