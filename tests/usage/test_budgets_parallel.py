"""Budgets while calls are in progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from genai_host import Config, Host
from genai_host.api import Completion, HttpProblem, Message, Prompt, RouteInfo, Usage
from genai_host.calls.retry import RetryPolicy
from genai_host.config import BudgetConfig, BudgetsConfig
from genai_host.errors import RateLimited, ServiceUnavailable
from genai_host.plugins.observers import CallRecord
from genai_host.usage.budgets import Account, Budgets, Purse, Spent
from genai_host_testing import ManualClock
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.stores import MakeStore

ROUTE: Any = SimpleNamespace(info=RouteInfo("m", "p", "d"))
OTHER: Any = SimpleNamespace(info=RouteInfo("n", "p", "d"))


class MemoryLedger:
    def __init__(self) -> None:
        self.known: dict[Account, Spent] = {}

    def spent(self, accounts: Sequence[Account]) -> Mapping[Account, Spent]:
        return {each: self.known[each] for each in accounts if each in self.known}

    def spend(self, accounts: Sequence[Account], spent: Spent) -> None:
        for each in accounts:
            before = self.known.get(each, Spent())
            dollars, tokens = before.dollars + spent.dollars, before.tokens + spent.tokens
            self.known[each] = Spent(dollars, tokens)

    def users(self, periods: Sequence[str]) -> list[str]:
        return []


def budgets_of(**limits: Any) -> Budgets:
    ledger = MemoryLedger()
    return Budgets(BudgetsConfig(**limits), lambda: ledger, ManualClock())


def purse_of(budgets: Budgets, user: str = "ann") -> Purse:
    purse = budgets.middleware(user)
    assert purse is not None
    return purse


def leave(purse: Purse, dollars: float, route: Any = ROUTE, tokens: int = 10) -> None:
    report = CallRecord()
    report.sent = 0.0
    report.result = Completion(Message("assistant", ""), usage=Usage(tokens, 0), cost=dollars)
    purse.leave(route, None, report)


def call(purse: Purse, dollars: float, route: Any = ROUTE, tokens: int = 10) -> None:
    purse.enter(route)
    leave(purse, dollars, route, tokens)


def test_calls_in_progress_count_with_the_average_cost() -> None:
    purse = purse_of(budgets_of(user=BudgetConfig(day=1.0)))
    call(purse, 0.4)
    purse.enter(ROUTE)
    purse.enter(ROUTE)  # 0.4 is spent, and 0.4 are expected
    with pytest.raises(RateLimited, match=r"may use up the budget users\.ann\.day") as raised:
        purse.enter(ROUTE)
    assert raised.value.retry_after == 1.0
    leave(purse, 0.0)  # the average is 0.3 now
    purse.enter(ROUTE)  # 0.4 is spent, and 0.3 are expected
    with pytest.raises(RateLimited):
        purse.enter(ROUTE)


def test_tokens_are_expected_as_well() -> None:
    purse = purse_of(budgets_of(user=BudgetConfig(day_tokens=100)))
    call(purse, 0.0, tokens=40)
    purse.enter(ROUTE)
    purse.enter(ROUTE)
    with pytest.raises(RateLimited):
        purse.enter(ROUTE)


def test_the_cost_of_each_model_has_an_average() -> None:
    purse = purse_of(budgets_of(user=BudgetConfig(day=1.0)))
    call(purse, 0.1)
    call(purse, 0.5, OTHER)
    purse.enter(ROUTE)
    purse.enter(ROUTE)
    purse.enter(OTHER)  # 0.6 is spent, and 0.2 are expected
    with pytest.raises(RateLimited):
        purse.enter(ROUTE)


def test_the_first_calls_of_a_model_have_no_expected_cost() -> None:
    purse = purse_of(budgets_of(user=BudgetConfig(day=0.1)))
    for _ in range(5):
        purse.enter(ROUTE)


def test_a_call_that_fails_is_in_progress_no_longer() -> None:
    purse = purse_of(budgets_of(user=BudgetConfig(day=1.0)))
    call(purse, 0.4)
    purse.enter(ROUTE)
    purse.enter(ROUTE)
    purse.leave(ROUTE, ServiceUnavailable("no connection"), CallRecord())
    purse.enter(ROUTE)


def test_calls_of_others_count_for_the_total_alone() -> None:
    each, total = BudgetConfig(day=1.0), BudgetConfig(day=2.0)
    budgets = budgets_of(user=each, total=total)
    ann, bob = purse_of(budgets, "ann"), purse_of(budgets, "bob")
    call(ann, 0.4)
    ann.enter(ROUTE)
    ann.enter(ROUTE)
    bob.enter(ROUTE)
    bob.enter(ROUTE)  # 0.4 is spent of the total, and 1.2 are expected
    with pytest.raises(RateLimited, match=r"total\.day"):
        bob.enter(ROUTE)


def test_clients_are_told_to_retry(make_host: MakeHost, make_store: MakeStore) -> None:
    class Prices:
        def price(self, *asked: Any) -> float:
            return 0.5

    host: Host = make_host(
        config=Config(budgets=BudgetsConfig(total=BudgetConfig(day=1.0))),
        prices=Prices(),
        store=make_store(),
        clock=ManualClock(),
        retry_policy=RetryPolicy(max_attempts=1),
    )
    host.instances.add("sold", "mock", {"priced_as": "acme"})
    prompt = Prompt([Message("user", "hi")])
    list(host.prompt(prompt, provider="sold"))
    first = host.prompt(prompt, provider="sold")
    next(first)
    with pytest.raises(RateLimited) as raised:
        list(host.prompt(prompt, provider="sold"))
    problem = HttpProblem.of(raised.value)
    assert (problem.status, problem.retry_after, dict(problem.headers)) == (429, 1.0, {})
    first.close()
    list(host.prompt(prompt, provider="sold"))
