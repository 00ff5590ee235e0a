"""What users may spend in a day and in a month: looked at before each call of a model.

    Budgets.toll → Purse.enter    raises `BudgetExceeded` where a budget is spent
                   Purse.leave    adds what the call cost

What was spent is kept by a `Ledger`, which all processes share that have the same store.
Calls that are under way together do not know of each other: a budget may be overshot by what
they cost, and by no call more. Days and months are those of UTC.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from attrs import frozen

from genai_host.api import Clock
from genai_host.calls.retry import called
from genai_host.calls.route import Route
from genai_host.config import BudgetConfig, BudgetsConfig
from genai_host.errors import BudgetExceeded, ConfigurationError, GenaiError, StoreError
from genai_host.plugins.observers import CallRecord

EVERYBODY = "*"
"""In place of a user: all of them together."""

Account = tuple[str, str]
"""A user, or `EVERYBODY`, and a period as `2030-01-31` or `2030-01`."""

Period = Literal["day", "month"]
Unit = Literal["dollars", "tokens"]

_log = logging.getLogger(__name__)
_FORMS: Mapping[Period, str] = {"day": "%Y-%m-%d", "month": "%Y-%m"}


def user_of(owner: str) -> str:
    """Whose the conversations of an owner are: what plugins keep of a user's is kept under
    `PLUGIN/USER`."""
    return owner.rpartition("/")[2]


class Spent(NamedTuple):
    """
    dollars   of the calls whose cost is known
    tokens    of all calls, as far as services told them
    unknown   how many calls there were whose cost is not known
    """

    dollars: float = 0.0
    tokens: int = 0
    unknown: int = 0


class Ledger(Protocol):
    """What was spent. May be used from many threads, and by many processes at once; raises
    `StoreError`."""

    def spent(self, accounts: Sequence[Account]) -> Mapping[Account, Spent]:
        """Of accounts on which nothing was spent, there is none."""

    def spend(self, accounts: Sequence[Account], spent: Spent) -> None:
        """Add it to each of them, all or none."""

    def users(self, periods: Sequence[str]) -> Iterable[str]:
        """Who has spent something in one of these periods; `EVERYBODY` as well."""


@frozen
class Budget:
    """What may be spent, and what was.

    user     whose it is, or `EVERYBODY`
    most     US dollars, or tokens
    spent    of the current period
    unknown  calls in it whose cost is not known, and is not in `spent`
    renews   when the next period begins
    """

    user: str
    period: Period
    unit: Unit
    most: float
    spent: float
    unknown: int
    renews: datetime.datetime

    @property
    def name(self) -> str:
        """As the configuration has it: `users.ann.day`."""
        owner = "total" if self.user == EVERYBODY else f"users.{self.user}" if self.user else "user"
        return f"{owner}.{self.period}{'_tokens' * (self.unit == 'tokens')}"

    @property
    def is_spent(self) -> bool:
        return self.spent >= self.most


class Budgets:
    """Those of one host.

    ledger   gives what keeps what was spent; None if there is nothing
    """

    def __init__(
        self, config: BudgetsConfig, ledger: Callable[[], Ledger | None], clock: Clock
    ) -> None:
        self._config = config
        self._ledger = ledger
        self._clock = clock
        self._told: set[str] = set()

    def toll(self, user: str) -> Purse | None:
        """What stands before the calls of a user; None if nothing bounds what they spend."""
        bounds = self._bounds(user)
        return Purse(self, bounds) if bounds else None

    def states(self, users: Iterable[str] = ()) -> list[Budget]:
        """How the budgets stand: that of all users, and those of these users, and of all who
        have one of their own or have spent something. Raises what `ledger` raises."""
        now = self._now()
        there = self._kept().users([now.strftime(form) for form in _FORMS.values()])
        named = {*users, *self._config.users, *there, ""} - {EVERYBODY}
        found = self._found(_bounds_of(EVERYBODY, self._config.total), now)
        for user in sorted(named):
            found += self._found(_bounds_of(user, self._config.of(user)), now)
        return found

    def state(self, user: str) -> list[Budget]:
        """How those stand that bound one user, but that of all."""
        return self._found(_bounds_of(user, self._config.of(user)), self._now())

    def check(self, route: Route, bounds: Sequence[_Bound]) -> None:
        now = self._now()
        for budget in self._found(bounds, now):
            if budget.is_spent:
                raise _exceeded(budget, now)
        in_dollars = any(bound.unit == "dollars" for bound in bounds)
        if in_dollars and self._config.unknown_cost == "refuse" and not route.is_priced():
            raise BudgetExceeded(
                f"the cost of a call of {route.candidate.name} is unknown, "
                "and budgets.unknown_cost is refuse",
                hint='pip install "genai-host[prices]" knows many prices; '
                'or allow it: budgets.unknown_cost = "allow"',
            )

    def spend(self, route: Route, bounds: Sequence[_Bound], spent: Spent) -> None:
        now = self._now()
        if spent.unknown and route.candidate.name not in self._told:
            self._told.add(route.candidate.name)
            _log.warning(
                "the cost of a call of %s is unknown: no budget counts it", route.candidate.name
            )
        try:
            self._kept().spend(_accounts(bounds, now), spent)
        except StoreError as error:  # the answer is there: the next call will not be made
            _log.warning("what a call cost is on no budget: %s", error)

    def called(self, route: Route, error: GenaiError | None, report: CallRecord) -> Spent | None:
        """What a call has spent; None if there was none, or it cost nothing."""
        call = called(route.info, self._clock, error, report)
        if call is None:
            return None
        spent = Spent(call.cost or 0.0, call.usage.total, int(call.cost is None))
        return spent if any(spent) else None

    def _bounds(self, user: str) -> tuple[_Bound, ...]:
        config = self._config
        return (*_bounds_of(user, config.of(user)), *_bounds_of(EVERYBODY, config.total))

    def _found(self, bounds: Sequence[_Bound], now: datetime.datetime) -> list[Budget]:
        if not bounds:
            return []
        known = self._kept().spent(_accounts(bounds, now))
        found = []
        for bound in bounds:
            spent = known.get(_account(bound, now), Spent())
            amount = spent.dollars if bound.unit == "dollars" else spent.tokens
            renews = _end(bound.period, now)
            found.append(Budget(*bound, amount, spent.unknown, renews))
        return found

    def _kept(self) -> Ledger:
        ledger = self._ledger()
        if ledger is None:
            raise ConfigurationError(
                "there are budgets, and no store to keep what is spent",
                hint="give the host one: Host(store=Store())",
            )
        return ledger

    def _now(self) -> datetime.datetime:
        return self._clock.now().astimezone(datetime.UTC)


class Purse:
    """The `CallMiddleware` of a user's calls."""

    def __init__(self, budgets: Budgets, bounds: Sequence[_Bound]) -> None:
        self._budgets = budgets
        self._bounds = bounds

    def enter(self, route: Route) -> None:
        """Raises `BudgetExceeded` if a budget is spent; `StoreError` if that is not known."""
        self._budgets.check(route, self._bounds)

    def leave(self, route: Route, error: GenaiError | None, report: CallRecord) -> None:
        spent = self._budgets.called(route, error, report)
        if spent is not None:
            self._budgets.spend(route, self._bounds, spent)


class _Bound(NamedTuple):
    user: str
    period: Period
    unit: Unit
    most: float


def _bounds_of(user: str, config: BudgetConfig) -> list[_Bound]:
    given: tuple[tuple[Period, Unit, float | None], ...] = (
        ("day", "dollars", config.day),
        ("month", "dollars", config.month),
        ("day", "tokens", config.day_tokens),
        ("month", "tokens", config.month_tokens),
    )
    return [_Bound(user, period, unit, most) for period, unit, most in given if most is not None]


def _account(bound: _Bound, now: datetime.datetime) -> Account:
    return bound.user, now.strftime(_FORMS[bound.period])


def _accounts(bounds: Iterable[_Bound], now: datetime.datetime) -> list[Account]:
    return sorted({_account(bound, now) for bound in bounds})


def _end(period: Period, now: datetime.datetime) -> datetime.datetime:
    """When the next one begins."""
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "day":
        return today + datetime.timedelta(days=1)
    return (today.replace(day=1) + datetime.timedelta(days=32)).replace(day=1)


def _exceeded(budget: Budget, now: datetime.datetime) -> BudgetExceeded:
    owner = "all users" if budget.user == EVERYBODY else budget.user
    whose = f"of {owner} " if owner else ""
    unit = "US dollars" if budget.unit == "dollars" else "tokens"
    renews = budget.renews.strftime("%Y-%m-%d %H:%M UTC")
    spent, most = (
        (f"{budget.spent:.4g}", f"{budget.most:g}")
        if budget.unit == "dollars"
        else (f"{budget.spent:.0f}", f"{budget.most:.0f}")
    )
    return BudgetExceeded(
        f"the budget {whose}for a {budget.period} is spent: "
        f"{spent} of {most} {unit}; it begins anew at {renews}",
        budget=budget.name,
        spent=budget.spent,
        most=budget.most,
        renews=budget.renews.isoformat(timespec="seconds"),
        retry_after=(budget.renews - now).total_seconds(),
        hint="wait until then, or ask whoever runs this for more",
    )
