"""Budgets of users, of all of them, and of a turn: looked at before each call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import islice
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from stored import run_concurrently

from genai_host import Config, Host, TurnLimits
from genai_host.api import (
    Completion,
    HttpProblem,
    Message,
    Prompt,
    RouteInfo,
    Usage,
    http_status,
)
from genai_host.config import BudgetConfig, BudgetsConfig
from genai_host.errors import (
    BudgetExceeded,
    ConfigurationError,
    IncompleteReply,
    LimitExceeded,
    StoreError,
)
from genai_host.plugins.observers import CallRecord
from genai_host.store import Store
from genai_host.usage.budgets import EVERYBODY, Budget, Budgets, Spent, _end, _exceeded
from genai_host_testing import ManualClock
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.stores import MakeStore

Sold = Callable[..., Host]


@pytest.fixture
def sold(make_host: MakeHost, make_store: MakeStore) -> Iterator[Sold]:
    """Makes a host with these budgets, and a provider whose calls cost half a dollar each."""
    hosts: list[Host] = []
    prices = SimpleNamespace(price=lambda seller, *args: 0.5 if seller == "acme" else None)

    def make(budgets: BudgetsConfig, **options: Any) -> Host:
        # a day does not end amid a test
        options = {"store": make_store(), "clock": ManualClock(), **options}
        host = make_host(config=Config(budgets=budgets), prices=prices, **options)
        host.instances.add("sold", "mock", {"priced_as": "acme"})
        hosts.append(host)
        return host

    yield make
    for host in hosts:
        host.close()


def say(host: Host, **options: Any) -> None:
    with host.open("chat", provider="sold", **options) as conversation:
        conversation.say("hi")


EACH = BudgetsConfig(user=BudgetConfig(day=1.0))


def test_models_of_unknown_cost_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    ledger: Any = mock.Mock()
    budgets = Budgets(EACH, lambda: ledger, ManualClock())
    for name in [f"\n{number}" for number in range(300)] * 2:
        route: Any = SimpleNamespace(candidate=SimpleNamespace(name=name))
        budgets.spend(route, (), Spent(0.0, 1, 1))
    assert len(caplog.messages) == 100
    assert caplog.messages[3] == (
        r"the cost of a call of '\n3' is unknown and is not counted in any budget"
    )


NOW = datetime(2026, 1, 31, 22, 30, tzinfo=UTC)


@pytest.mark.parametrize(("now", "period", "renews"), [
    (NOW, "day", datetime(2026, 2, 1, tzinfo=UTC)),
    (NOW, "month", datetime(2026, 2, 1, tzinfo=UTC)),
    (datetime(2026, 2, 1, tzinfo=UTC), "day", datetime(2026, 2, 2, tzinfo=UTC)),
    (datetime(2026, 2, 1, tzinfo=UTC), "month", datetime(2026, 3, 1, tzinfo=UTC)),
    (datetime(2026, 12, 31, 23, 59, 59, 999999, UTC), "day", datetime(2027, 1, 1, tzinfo=UTC)),
    (datetime(2026, 12, 1, 5, tzinfo=UTC), "month", datetime(2027, 1, 1, tzinfo=UTC)),
])  # fmt: skip
def test_when_a_budget_is_reset(now: datetime, period: Any, renews: datetime) -> None:
    assert _end(period, now) == renews


@pytest.mark.parametrize(("options", "name", "message"), [
    (("ann", "day", "dollars", 0.5, 0.61234, 0), "users.ann.day",
     "the daily budget of ann is exhausted: 0.6123 of 0.5 US dollars"),
    ((EVERYBODY, "month", "tokens", 1e6, 1234567, 0), "total.month_tokens",
     "the monthly budget of all users is exhausted: 1234567 of 1000000 tokens"),
    (("", "day", "tokens", 1, 2, 0), "user.day_tokens",
     "the daily budget is exhausted: 2 of 1 tokens"),
])  # fmt: skip
def test_the_error_of_a_spent_budget_has_its_numbers(
    options: tuple[str, Any, Any, float, float, int], name: str, message: str
) -> None:
    budget = Budget(*options, NOW + timedelta(hours=1.5))
    error = _exceeded(budget, NOW)
    assert error.message == f"{message}; resets at 2026-02-01 00:00 UTC"
    assert (error.budget, error.spent, error.most) == (name, budget.spent, budget.most)
    assert (error.renews, error.retry_after) == ("2026-02-01T00:00:00+00:00", 5400.0)


def test_each_period_and_unit_has_an_account() -> None:
    ledger: Any = mock.Mock()
    ledger.users.return_value = ["bob", EVERYBODY]
    ledger.spent.side_effect = lambda accounts: {each: Spent(0.5, 7, 2) for each in accounts}
    config = BudgetsConfig(user=BudgetConfig(1.0, 2.0, 3, 4), total=BudgetConfig(month=5.0))
    budgets = Budgets(config, lambda: ledger, ManualClock())
    day, month = datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)

    def expected(user: str) -> list[Budget]:
        return [
            Budget(user, "day", "dollars", 1.0, 0.5, 2, day),
            Budget(user, "month", "dollars", 2.0, 0.5, 2, month),
            Budget(user, "day", "tokens", 3, 7, 2, day),
            Budget(user, "month", "tokens", 4, 7, 2, month),
        ]

    total = Budget(EVERYBODY, "month", "dollars", 5.0, 0.5, 2, month)
    assert budgets.states(["ann"]) == [
        *(total, *expected("")),
        *(*expected("ann"), *expected("bob")),
    ]
    assert budgets.state("ann") == expected("ann")
    ledger.users.assert_called_once_with(["2026-01-01", "2026-01"])
    ledger.spent.assert_called_with([("ann", "2026-01"), ("ann", "2026-01-01")])
    assert [each.is_spent for each in budgets.state("ann")] == [False, False, True, True]


def test_spending_that_cannot_be_stored_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    ledger: Any = mock.Mock()
    ledger.spend.side_effect = StoreError("the disk is full")
    purse = Budgets(EACH, lambda: ledger, ManualClock()).middleware("ann")
    assert purse is not None
    route: Any = SimpleNamespace(info=RouteInfo("m", "p", "d"))
    report = CallRecord()
    purse.leave(route, None, report)  # no call was made
    assert not ledger.spend.called
    report.sent = 0.0
    report.result = Completion(Message("assistant", ""), usage=Usage(1, 2), cost=0.0)
    purse.leave(route, None, report)
    ledger.spend.assert_called_once_with([("ann", "2026-01-01")], Spent(0.0, 3, 0))
    assert caplog.messages == ["the cost of a call was not added to any budget: the disk is full"]
    report.result = Completion(Message("assistant", ""), cost=0.0)
    purse.leave(route, None, report)  # it was free
    assert ledger.spend.call_count == 1


def test_item_4_a_budget_that_is_spent_stops_before_the_call_until_the_next_day(sold: Sold) -> None:
    clock = ManualClock()
    host = sold(EACH, clock=clock)
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
    assert "daily budget of ann is exhausted: 1 of 1 US dollars" in error.message
    say(host, owner="bob")  # whose own is not spent
    clock.advance(error.retry_after)
    say(host, owner="ann")


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

    run_concurrently(spend, hosts * 2)
    [state] = hosts[0].budgets.states()
    assert (state.name, state.spent) == ("total.month", 20.0)


@pytest.mark.parametrize(("budgets", "owners", "says"), [
    (BudgetsConfig(total=BudgetConfig(day=1.0)), ["ann", "bob", "carl"], "of all users"),
    (BudgetsConfig(user=BudgetConfig(day_tokens=1)), ["ann", "ann"], "of 1 tokens"),
])  # fmt: skip
def test_other_budgets(sold: Sold, budgets: BudgetsConfig, owners: list[str], says: str) -> None:
    host = sold(budgets)
    for owner in owners[:-1]:
        say(host, owner=owner)
    with pytest.raises(BudgetExceeded, match=says):
        say(host, owner=owners[-1])


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


def test_calls_of_no_conversation_are_on_it_as_well(sold: Sold) -> None:
    host = sold(EACH)

    def ask() -> None:
        list(host.prompt(Prompt([Message("user", "hi")]), provider="sold", owner="ann"))

    ask()
    ask()
    with pytest.raises(BudgetExceeded):
        ask()


@pytest.mark.parametrize("chunks", [1, 3])
def test_a_stream_that_is_not_read_to_its_end_is_charged(sold: Sold, chunks: int) -> None:
    host = sold(EACH._replace(total=BudgetConfig(day_tokens=1000)))

    def ask() -> None:
        stream = host.prompt(Prompt([Message("user", "one two three")]), provider="sold")
        with closing(stream):
            assert len(list(islice(stream, chunks))) == chunks

    ask()
    ask()
    assert host.budgets.states()[0].spent >= 2 * (chunks + len("one two three") // 4)
    with pytest.raises(BudgetExceeded):
        ask()


def test_a_stream_that_breaks_is_charged(sold: Sold) -> None:
    host = sold(EACH)
    reply = {"text": "one two three", "fault": "cut", "pieces": 2}
    host.instances.add("cut", "mock", {"replies": [reply], "repeat": True, "priced_as": "acme"})
    for error in (IncompleteReply, IncompleteReply, BudgetExceeded):
        with host.open("chat", provider="cut") as conversation, pytest.raises(error):
            list(conversation.stream("hi"))
    [state] = host.budgets.states()
    assert (state.spent, state.unknown) == (1.0, 2)


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


def test_other_prices_count_as_the_list_price(sold: Sold, monkeypatch: pytest.MonkeyPatch) -> None:
    allowing, refusing = sold(EACH), sold(EACH._replace(unknown_cost="refuse"))
    own_price = frozenset({"temperature"})
    monkeypatch.setattr(type(allowing.registry.dialects["plain"]), "price_parameters", own_price)
    with pytest.raises(BudgetExceeded, match="is unknown"):
        say(refusing, parameters={"temperature": 1})
    for _ in range(2):
        say(allowing, parameters={"temperature": 1})
    [state] = allowing.budgets.states()
    assert (state.spent, state.unknown) == (1.0, 2)
    with pytest.raises(BudgetExceeded, match="exhausted"):
        say(allowing)
    refusing.instances.add("gift", "mock", {"priced_as": "free"})
    free = refusing.open("chat", provider="gift", parameters={"temperature": 1}, owner="ann")
    with free as conversation:
        conversation.say("hi")


def test_tokens_are_estimated_if_the_service_reports_none(sold: Sold) -> None:
    host = sold(BudgetsConfig(user=BudgetConfig(day_tokens=20)))
    reply = {"text": "one two three " * 10, "usage": {}}
    host.instances.add("silent", "mock", {"replies": [reply], "repeat": True})
    with host.open("chat", provider="silent") as conversation:
        conversation.say("hi")
        with pytest.raises(BudgetExceeded, match="of 20 tokens"):
            conversation.say("hi")


def test_what_is_spent_needs_a_store(sold: Sold) -> None:
    with pytest.raises(ConfigurationError, match="budgets need a store"):
        say(sold(EACH, store=None))


def test_a_turn_has_a_budget_of_its_own(sold: Sold) -> None:
    """The smaller of that which is configured and that which is wanted holds."""
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
    store: Store = make_store()
    host = sold(EACH, store=store)
    say(host, record=False)
    store.close()
    with pytest.raises(StoreError):
        say(host, record=False)
