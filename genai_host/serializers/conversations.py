"""JSON forms of answers, conversations, costs and usage, for the CLI and the API."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import attrs

from genai_host.api import Answer, Codec, Cost, Pause
from genai_host.conversations.transcript import TurnSummary
from genai_host.errors import ValidationError
from genai_host.usage.budgets import EVERYBODY

if TYPE_CHECKING:
    from genai_host.store.records import SearchMatch, StoredTry, Summary
    from genai_host.store.usage import UsageRow
    from genai_host.usage.budgets import Budget


def cost_row(cost: Cost) -> dict[str, Any] | None:
    """A cost; None if unknown."""
    return attrs.asdict(cost) if cost.known else None


def utc(moment: float) -> str:
    """A time in ISO 8601, in UTC and milliseconds."""
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")


def answer_row(answer: Answer, codec: Codec) -> dict[str, Any]:
    return {
        "text": answer.text,
        "citations": codec.to_json(answer.citations),
        "data": codec.to_json(answer.data),
        "reactions": codec.to_json(answer.reactions),
        "usage": attrs.asdict(answer.usage),
        "cost": cost_row(answer.cost),
        "details": codec.to_json(answer.details),
    }


def pause_row(pause: Pause[Any]) -> dict[str, Any]:
    return {"kind": pause.kind, "payload": pause.payload}


def row_of(summary: Summary) -> dict[str, Any]:
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


def turn_row(turn: TurnSummary, at: float, codec: Codec) -> dict[str, Any]:
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
    return {**attrs.asdict(each), "started": utc(each.started)}


def found_row(found: SearchMatch) -> dict[str, Any]:
    return attrs.asdict(found)


def usage_row(row: UsageRow) -> dict[str, Any]:
    cost = {"dollars": row.cost.dollars, "unknown": row.cost.unknown}
    return {**attrs.asdict(row), "of": dict(row.of), "failed": dict(row.failed), "cost": cost}


def budget_row(budget: Budget) -> dict[str, Any]:
    """A budget; `user` is None for the total of all users."""
    return {
        "name": budget.name,
        "user": None if budget.user == EVERYBODY else budget.user,
        "period": budget.period,
        "unit": budget.unit,
        "most": budget.most,
        "spent": budget.spent,
        "unknown": budget.unknown,
        "renews": budget.renews.isoformat(timespec="seconds"),
    }


def groups_in(text: str) -> list[str]:
    """Split groupings such as `model,day`. The store validates them."""
    return list(dict.fromkeys(each for each in (each.strip() for each in text.split(",")) if each))


def day_in(text: str, now: datetime, path: str) -> str:
    """An ISO date in UTC, from a date or an age: `7d` is the last seven days, with today. An
    empty text stays empty. Raises `ValidationError`."""
    if not text:
        return ""
    ago = re.fullmatch("([1-9][0-9]{0,4})d", text)
    if ago:
        return (now.date() - timedelta(days=int(ago[1]) - 1)).isoformat()
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise ValidationError(
            f"invalid date {text[:40]!r}: expected YYYY-MM-DD or an age such as 7d", path=path
        ) from None
