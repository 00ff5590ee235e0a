"""What calls of models came to, and what may be spent on them."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import attrs

from genai_host.budgets import EVERYBODY
from genai_host.errors import InvalidData

if TYPE_CHECKING:
    from genai_host.budgets import Budget
    from genai_host.store.usage import UsageRow


def usage_row(row: UsageRow) -> dict[str, Any]:
    cost = {"dollars": row.cost.dollars, "unknown": row.cost.unknown}
    return {**attrs.asdict(row), "of": dict(row.of), "failed": dict(row.failed), "cost": cost}


def budget_row(budget: Budget) -> dict[str, Any]:
    """`user` is None for that of all users together."""
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
    """`model,day` as a list; which there are, the store says."""
    return list(dict.fromkeys(each for each in (each.strip() for each in text.split(",")) if each))


def day_in(text: str, now: datetime, path: str) -> str:
    """A day in UTC as the store has it, of one that is written so or as `7d`: the last seven
    days with today. Empty for nothing. Raises `InvalidData`."""
    if not text:
        return ""
    ago = re.fullmatch("([1-9][0-9]{0,4})d", text)
    if ago:
        return (now.date() - timedelta(days=int(ago[1]) - 1)).isoformat()
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise InvalidData(
            f"{text[:40]!r} is no day", path=path, hint="as 2030-01-31 or 7d"
        ) from None
