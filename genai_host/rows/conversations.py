"""Conversations that were kept, and their turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from genai_host.api import Codec
from genai_host.rows.answers import answer_row
from genai_host.rows.costs import cost_row
from genai_host.rows.times import utc
from genai_host.turns import TurnTold

if TYPE_CHECKING:  # most of a store's cost is to import it
    from genai_host.store.summary import Found, StoredTry, Summary


def row_of(summary: Summary) -> dict[str, Any]:
    """A conversation in JSON."""
    return {
        "id": summary.id,
        "title": summary.title,
        "feature": summary.feature,
        "models": dict(summary.models),
        "status": summary.status,
        "turns": summary.turns,
        "cost": cost_row(summary.cost),
        "created": utc(summary.created),
        "updated": utc(summary.updated),
        "forked_from": summary.forked_from or None,
    }


def turn_row(turn: TurnTold, at: float, codec: Codec) -> dict[str, Any]:
    """A turn in JSON.

    at   when it was begun, in seconds since 1970
    """
    return {
        "turn": turn.number,
        "at": utc(at),
        "outcome": turn.outcome,
        "message": codec.to_json(turn.message),
        "answer": None if turn.answer is None else answer_row(turn.answer, codec),
        "partial": turn.partial,
        "error": None if turn.error is None else codec.to_json(turn.error),
    }


def try_row(each: StoredTry) -> dict[str, Any]:
    """A call of a model in JSON."""
    return {**attrs.asdict(each), "started": utc(each.started)}


def found_row(found: Found) -> dict[str, Any]:
    """A message that was searched for."""
    return attrs.asdict(found)
