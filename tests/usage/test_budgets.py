"""Budgets of users, of all of them, and of a turn: looked at before each call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from genai_host import Config, Host
from genai_host.api import HttpProblem, http_status
from genai_host.config import BudgetConfig, BudgetsConfig
from genai_host.errors import BudgetExceeded, ConfigurationError, LimitExceeded
from genai_host.store import Store
from genai_host.testing import ManualClock
from genai_host.usage.budgets import Budgets, Spent
from genai_host_testing.fixtures import MakeHost
from genai_host_testing.stores import MakeStore, make_store, place, postgres_server

__all__ = ["make_store", "place", "postgres_server"]

Sold = Callable[..., Host]


class Prices:
    """Each call costs half a dollar; `calls` were made."""

    def __init__(self) -> None:
        self.calls = 0

    def price(self, seller: str, *asked: Any) -> float | None:
        self.calls += 1
        return 0.5 if seller == "acme" else None


@pytest.fixture
def prices() -> Prices:
    return Prices()


@pytest.fixture
def sold(make_host: MakeHost, make_store: MakeStore, prices: Prices) -> Iterator[Sold]:
    """Makes a host with these budgets, and a provider that costs something."""
    hosts: list[Host] = []

    def make(budgets: BudgetsConfig, **given: Any) -> Host:
        # a day does not end amid a test
        given = {"store": make_store(), "clock": ManualClock(), **given}
        host = make_host(config=Config(budgets=budgets), prices=prices, **given)
        host.instances.add("sold", "mock", {"priced_as": "acme"})
        hosts.append(host)
        return host

    yield make
    for host in hosts:
        host.close()


def say(host: Host, **given: Any) -> None:
    with host.open("chat", provider="sold", **given) as conversation:
        conversation.say("hi")


EACH = BudgetsConfig(user=BudgetConfig(day=1.0))


def test_models_of_unknown_cost_are_logged_once_and_not_without_limit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ledger: Any = mock.Mock()
    budgets = Budgets(EACH, lambda: ledger, ManualClock())
    for name in [f"\n{number}" for number in range(300)] * 2:
        route: Any = SimpleNamespace(candidate=SimpleNamespace(name=name))
        budgets.spend(route, (), Spent(0.0, 1, 1))
    assert len(caplog.messages) == 100
    assert caplog.messages[3] == (
        r"the cost of a call of '\n3' is unknown and counts for no budget"
    )


def test_item_4_a_budget_that_is_spent_stops_before_the_call(sold: Sold) -> None:
    host = sold(EACH)
    mock: Any = host.instances["sold"].provider
    say(host, owner="ann")
    say(host, owner="ann")
    with pytest.raises(BudgetExceeded) as raised:
        say(host, owner="ann")
    assert len(mock.requests) == 2
    error = raised.value
    assert (error.budget, error.spent, error.most) == ("users.ann.day", 1.0, 1.0)
    assert error.retry_after is not None
    assert 0 < error.retry_after <= 86400
    assert "of ann for a day is spent: 1 of 1 US dollars" in error.message
    say(host, owner="bob")  # whose own is not spent


def test_item_4_it_is_429_for_programs(sold: Sold) -> None:
    host = sold(BudgetsConfig(user=BudgetConfig(day=0)))
    with pytest.raises(BudgetExceeded) as raised:
        say(host)
    problem = HttpProblem.of(raised.value)
    assert (problem.code, http_status(raised.value)) == ("budget_exceeded", 429)
    assert problem.retry_after == raised.value.retry_after
    assert problem.headers["x-should-retry"] == "false"


def test_item_4_it_holds_over_processes_of_one_store(sold: Sold, make_store: MakeStore) -> None:
    """Two hosts, each with a store of its own on one database."""
    first, second = sold(EACH), sold(EACH, store=make_store())
    say(first, owner="ann")
    say(second, owner="ann")
    for host in (first, second):
        with pytest.raises(BudgetExceeded):
            say(host, owner="ann")


@pytest.mark.part
def test_what_many_spend_at_once_comes_together(sold: Sold, make_store: MakeStore) -> None:
    hosts = [sold(BudgetsConfig(total=BudgetConfig(month=1000))) for _ in range(2)]

    def spend(host: Host) -> None:
        for _ in range(10):
            say(host, record=False)

    threads = [threading.Thread(target=spend, args=(host,)) for host in hosts * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [state] = hosts[0].budgets.states()
    assert (state.name, state.spent) == ("total.month", 20.0)


def test_one_of_all_users_bounds_each(sold: Sold) -> None:
    host = sold(BudgetsConfig(total=BudgetConfig(day=1.0)))
    say(host, owner="ann")
    say(host, owner="bob")
    with pytest.raises(BudgetExceeded, match="of all users"):
        say(host, owner="carl")


def test_what_is_said_of_one_comes_before_what_is_said_of_each(sold: Sold) -> None:
    host = sold(EACH._replace(users={"ann": BudgetConfig(day=0.5)}))
    say(host, owner="ann")
    with pytest.raises(BudgetExceeded):
        say(host, owner="ann")
    for _ in range(2):
        say(host, owner="bob")
    assert [(each.name, each.is_spent) for each in host.budgets.states()] == [
        ("user.day", False),
        ("users.ann.day", True),
        ("users.bob.day", True),
    ]


def test_it_begins_anew_with_the_day(sold: Sold) -> None:
    clock = ManualClock()
    host = sold(EACH, clock=clock)
    say(host, owner="ann")
    say(host, owner="ann")
    with pytest.raises(BudgetExceeded) as raised:
        say(host, owner="ann")
    assert raised.value.retry_after is not None
    clock.advance(timedelta(seconds=raised.value.retry_after).total_seconds())
    say(host, owner="ann")


def test_tokens_can_be_bound(sold: Sold) -> None:
    host = sold(BudgetsConfig(user=BudgetConfig(day_tokens=1)))
    say(host)
    with pytest.raises(BudgetExceeded, match="of 1 tokens"):
        say(host)


def test_calls_of_no_conversation_are_on_it_as_well(sold: Sold) -> None:
    host = sold(EACH)

    def ask() -> None:
        from genai_host.api import Message, Prompt

        list(host.prompt(Prompt([Message("user", "hi")]), provider="sold", owner="ann"))

    ask()
    ask()
    with pytest.raises(BudgetExceeded):
        ask()


def test_calls_whose_cost_is_not_known_may_be_refused(sold: Sold) -> None:
    allowing, refusing = sold(EACH), sold(EACH._replace(unknown_cost="refuse"))
    with allowing.open("chat", provider="mock") as conversation:
        conversation.say("hi")
    assert [each.unknown for each in allowing.budgets.states()] == [1]
    with (
        refusing.open("chat", provider="mock") as conversation,
        pytest.raises(BudgetExceeded, match="is unknown"),
    ):
        conversation.say("hi")
    say(refusing)  # its cost is known


def test_what_is_spent_needs_a_store(sold: Sold) -> None:
    with pytest.raises(ConfigurationError, match="budgets need a store"):
        say(sold(EACH, store=None))


def test_a_turn_has_a_budget_of_its_own(sold: Sold) -> None:
    """The smaller of that which is configured and that which is wanted holds."""
    from genai_host import TurnLimits

    host = sold(BudgetsConfig(per_turn=0.0), store=None)
    for caps in (None, TurnLimits(), TurnLimits(cost=5.0)):
        with (
            host.open("chat", provider="sold", turn_limits=caps) as conversation,
            pytest.raises(LimitExceeded),
        ):
            conversation.say("hi")


def test_without_budgets_nothing_stands_before_a_call(make_host: MakeHost) -> None:
    host = make_host()
    assert host.budgets.middleware("ann") is None
    assert host.open("chat", provider="mock")._log.agents.main._middleware == []


def test_a_store_that_fails_lets_nobody_spend(sold: Sold, make_store: MakeStore) -> None:
    from genai_host.errors import StoreError

    store: Store = make_store()
    host = sold(EACH, store=store)
    say(host, record=False)
    store.close()
    with pytest.raises(StoreError):
        say(host, record=False)
