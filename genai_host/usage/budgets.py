"""Budgets of users per day and month, checked before each model call.

    Budgets.middleware → Purse.enter   raises `BudgetExceeded` if a budget is spent
                         Purse.leave   adds the cost of the call

Spending is stored in a `Ledger`, which all processes with the same store share. Parallel calls can
exceed a budget by up to the cost of the calls in progress. Days and months are in UTC.
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
from genai_host.util import waiting
from genai_host.util.text import short_repr

EVERYBODY = "*"
"""In place of a user: all users together."""

Account = tuple[str, str]
"""A user, or `EVERYBODY`, and a period such as `2030-01-31` or `2030-01`."""

Period = Literal["day", "month"]
Unit = Literal["dollars", "tokens"]

_log = logging.getLogger(__name__)
_MAX_WARNINGS = 100
_FORMS: Mapping[Period, str] = {"day": "%Y-%m-%d", "month": "%Y-%m"}


def user_of(owner: str) -> str:
    """The user who owns the conversations of an owner; plugins store conversations of a user under
    `PLUGIN/USER`."""
    return owner.rpartition("/")[2]


class Spent(NamedTuple):
    """Spending in one period.

    Attributes:
        dollars: US dollars of the calls with a known cost.
        tokens: Tokens of all calls, if reported.
        unknown: Number of calls with an unknown cost.
    """

    dollars: float = 0.0
    tokens: int = 0
    unknown: int = 0


class Ledger(Protocol):
    """Stores spending. Safe for several threads and processes; raises `StoreError`."""

    def spent(self, accounts: Sequence[Account]) -> Mapping[Account, Spent]:
        """Spending by account, without accounts that have none."""

    def spend(self, accounts: Sequence[Account], spent: Spent) -> None:
        """Add spending to all accounts, or to none."""

    def users(self, periods: Sequence[str]) -> Iterable[str]:
        """Users with spending in one of the periods, including `EVERYBODY`."""


@frozen
class Budget:
    """A budget and its spending in the current period.

    Attributes:
        user: The user, or `EVERYBODY`.
        period: `day` or `month`.
        unit: Unit of `most` and `spent`.
        most: Amount, in US dollars or tokens.
        spent: Spending in the current period.
        unknown: Number of calls in the period with an unknown cost, which `spent` does not include.
        renews: Start of the next period.
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
        """Name in the configuration, for example `users.ann.day`."""
        owner = "total" if self.user == EVERYBODY else f"users.{self.user}" if self.user else "user"
        return f"{owner}.{self.period}{'_tokens' * (self.unit == 'tokens')}"

    @property
    def is_spent(self) -> bool:
        return self.spent >= self.most


class Budgets:
    def __init__(
        self, config: BudgetsConfig, ledger: Callable[[], Ledger | None], clock: Clock
    ) -> None:
        self._config = config
        self._ledger = ledger
        self._clock = clock
        self._unpriced: set[str] = set()  # models for which a warning was logged

    def middleware(self, user: str) -> Purse | None:
        """The middleware for the calls of a user; None if no budget applies."""
        bounds = self._bounds(user)
        return Purse(self, bounds) if bounds else None

    def states(self, users: Iterable[str] = ()) -> list[Budget]:
        """The total budget, those of the given users, and those of all users with a budget or
        spending. Raises what `ledger` raises."""
        now = self._now()
        there = self._kept().users([now.strftime(form) for form in _FORMS.values()])
        named = {*users, *self._config.users, *there, ""} - {EVERYBODY}
        found = self._found(_bounds_of(EVERYBODY, self._config.total), now)
        for user in sorted(named):
            found += self._found(_bounds_of(user, self._config.of(user)), now)
        return found

    def state(self, user: str) -> list[Budget]:
        """The budgets of one user, without the total."""
        return self._found(_bounds_of(user, self._config.of(user)), self._now())

    def check(self, route: Route, report: CallRecord, bounds: Sequence[_Bound]) -> None:
        now = self._now()
        for budget in self._found(bounds, now):
            if budget.is_spent:
                raise _exceeded(budget, now)
        in_dollars = any(bound.unit == "dollars" for bound in bounds)
        must_know = in_dollars and self._config.unknown_cost == "refuse"
        if must_know and not route.is_priced(report.parameters):
            raise BudgetExceeded(
                f"the cost of a call of {route.candidate.name} is unknown, "
                "and budgets.unknown_cost is refuse",
                hint='install the price list: pip install "genai-host[prices]"; '
                "or allow such calls: genai-host config set budgets.unknown_cost=allow",
            )

    def spend(self, route: Route, bounds: Sequence[_Bound], spent: Spent) -> None:
        now = self._now()
        if spent.unknown and not spent.dollars:
            self._warn_of_unknown_cost(route.candidate.name)
        try:
            waiting.call(self._kept().spend, _accounts(bounds, now), spent)
        except StoreError as error:  # the answer is valid; the next call will be refused
            _log.warning("the cost of a call was not added to any budget: %s", error)

    def _warn_of_unknown_cost(self, model: str) -> None:
        """Log a warning once per model. The number is limited, since clients can name any model."""
        if model not in self._unpriced and len(self._unpriced) < _MAX_WARNINGS:
            self._unpriced.add(model)
            what = short_repr(model)
            _log.warning(
                "the cost of a call of %s is unknown and is not counted in any budget", what
            )

    def called(self, route: Route, error: GenaiError | None, report: CallRecord) -> Spent | None:
        """Spending of a call; None if none was made or it was free. A call of unknown cost counts
        at the list price of its tokens, if there is one."""
        call = called(route.info, self._clock, error, report)
        if call is None:
            return None
        dollars = report.estimated_cost if call.cost is None else call.cost
        spent = Spent(dollars or 0.0, call.usage.total, int(call.cost is None))
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
                "budgets need a store for the spending",
                hint="open the host with one: Host(store=Store())",
            )
        return ledger

    def _now(self) -> datetime.datetime:
        return self._clock.now().astimezone(datetime.UTC)


class Purse:
    """The `CallMiddleware` for the calls of a user."""

    def __init__(self, budgets: Budgets, bounds: Sequence[_Bound]) -> None:
        self._budgets = budgets
        self._bounds = bounds

    def enter(self, route: Route, report: CallRecord) -> None:
        """Raises `BudgetExceeded` if a budget is spent, `StoreError` if the spending cannot be
        read."""
        self._budgets.check(route, report, self._bounds)

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
    """Start of the next period."""
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "day":
        return today + datetime.timedelta(days=1)
    return (today.replace(day=1) + datetime.timedelta(days=32)).replace(day=1)


def _exceeded(budget: Budget, now: datetime.datetime) -> BudgetExceeded:
    owner = "all users" if budget.user == EVERYBODY else budget.user
    of_owner = f" of {owner}" if owner else ""
    period = "daily" if budget.period == "day" else "monthly"
    unit = "US dollars" if budget.unit == "dollars" else "tokens"
    renews = budget.renews.strftime("%Y-%m-%d %H:%M UTC")
    spent, most = (
        (f"{budget.spent:.4g}", f"{budget.most:g}")
        if budget.unit == "dollars"
        else (f"{budget.spent:.0f}", f"{budget.most:.0f}")
    )
    return BudgetExceeded(
        f"the {period} budget{of_owner} is exhausted: {spent} of {most} {unit}; resets at {renews}",
        budget=budget.name,
        spent=budget.spent,
        most=budget.most,
        renews=budget.renews.isoformat(timespec="seconds"),
        retry_after=(budget.renews - now).total_seconds(),
        hint="wait until then, or ask the operator for a larger budget",
    )
