"""What calls come to by day, and what was spent of budgets, on both databases."""

from __future__ import annotations

import random
import sqlite3
import string
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from stored import append, run_concurrently, turn

from genai_host.api import RouteInfo, Usage
from genai_host.calls.retry import Attempt
from genai_host.conversations.record import StepEnded, StepStarted
from genai_host.errors import StoreError, ValidationError
from genai_host.store import Store
from genai_host.store.database import Database
from genai_host.store.migrations import bring_up_to_date
from genai_host.usage.budgets import Spent
from genai_host.usage.metering import UsageAggregate
from genai_host_testing.internal.stores import CODEC, MakeStore, begin

DAY = 86400.0
NOON = 1_893_499_200.0  # 2030-01-01 12:00 UTC
_TOKENS = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")


def answered(model: str = "m", seconds: float = 1.0, cost: float | None = 0.5) -> dict[str, Any]:
    route = {"model": model, "provider": "p", "dialect": "d"}
    used = {
        "input_tokens": 10, "output_tokens": 5, "cached_tokens": 4, "reasoning_tokens": 2,
    }  # fmt: skip
    return {"route": route, "seconds": seconds, "cost": cost, "usage": used}


def failed(code: str = "unavailable", cost: float | None = 0.0) -> Attempt:
    return Attempt(RouteInfo("m", "p", "d"), NOON, 2.0, code, 503, Usage(), cost)


def add_turn(store: Store, *calls: Any, **options: Any) -> str:
    """A conversation of one turn with a step for each of these calls, the failed ones before
    the last of all."""
    record = begin(store, **options)
    started, *_, ended = turn(0, "a secret word", "b")
    append(record, started)
    tries = tuple(each for each in calls if isinstance(each, Attempt))
    for number, call in enumerate(each for each in calls if not isinstance(each, Attempt)):
        append(record, StepStarted(0, (number,), "prompt", "d"))
        append(record, StepEnded(0, (number,), call, tries=tries if number == 0 else ()))
    append(record, ended)
    return record.id


@pytest.fixture
def at_noon(make_store: MakeStore) -> Store:
    return make_store(now=lambda: NOON)


def calls(store: Store, *by: str, **options: Any) -> dict[tuple[str, ...], int]:
    return {tuple(row.of.values()): row.calls for row in store.usage(by=by, **options)}


class TestUsage:
    def test_calls_are_summed_up(self, at_noon: Store) -> None:
        former = {"input": 10, "output": 5, "cached_input": 4, "reasoning": 2}
        second = {**answered(cost=None), "usage": former}  # as an earlier version wrote it
        add_turn(at_noon, answered(), second, failed(), failed("rate_limited"))
        [row] = at_noon.usage()
        assert (row.calls, row.failed) == (4, {"rate_limited": 1, "unavailable": 1})
        assert (row.input_tokens, row.output_tokens) == (20, 10)
        assert (row.cached_tokens, row.reasoning_tokens) == (8, 4)
        assert (row.cost.dollars, row.cost.known, row.cost.unknown) == (0.5, 3, 1)
        assert (row.mean, row.slowest) == (1.0, 1.0)

    def test_results_of_no_model(self, at_noon: Store, caplog: pytest.LogCaptureFixture) -> None:
        add_turn(at_noon, "now", 5, ["x"], None, {}, {"route": "north"}, {"route": {}}, answered())
        assert [row.calls for row in at_noon.usage()] == [1]
        assert not caplog.records

    def test_by_anything_that_tells_them_apart(self, at_noon: Store) -> None:
        add_turn(at_noon, answered("a"), answered("b"))
        add_turn(at_noon.for_owner("ann"), answered("a"), feature="agent")
        assert calls(at_noon, "model") == {("a",): 2, ("b",): 1}
        assert calls(at_noon, "user", "model") == {("", "a"): 1, ("", "b"): 1, ("ann", "a"): 1}
        assert calls(at_noon, "feature", "provider") == {("agent", "p"): 1, ("chat", "p"): 2}
        assert calls(at_noon, "day") == {("2030-01-01",): 3}
        assert calls(at_noon, "day", user="ann") == {("2030-01-01",): 1}
        with pytest.raises(ValidationError, match="day, feature, model"):
            at_noon.usage(by=["text"])

    def test_between_days_in_utc(self, make_store: MakeStore) -> None:
        now = NOON
        store = make_store(now=lambda: now)
        for _ in range(3):
            add_turn(store, answered())
            now += DAY
        assert calls(store, "day", since="2030-01-02", until="2030-01-02") == {("2030-01-02",): 1}
        assert len(store.usage(by=["day"], since="2030-01-02")) == 2
        assert len(store.usage(by=["day"], most=2)) == 2

    @pytest.mark.parametrize(("seconds", "p50", "p95", "mean", "slowest"), [
        ([number / 100 for number in range(1, 201)], 1.0, 1.9, 1.005, 2.0),
        ([0.25, 0.5], 0.25, 0.5, 0.375, 0.5),
        ([*[0.1] * 19, 10.0], 0.1, 0.1, 0.595, 10.0),  # one of twenty is not the 95th
    ], ids=["many", "few", "one slow"])  # fmt: skip
    def test_percentiles_are_right_to_a_tenth(
        self, at_noon: Store, seconds: list[float], p50: float, p95: float, mean: float,
        slowest: float,
    ) -> None:  # fmt: skip
        add_turn(at_noon, *(answered(seconds=each) for each in seconds))
        [row] = at_noon.usage()
        assert (row.p50, row.p95) == pytest.approx((p50, p95), rel=0.1)
        assert row.mean == pytest.approx(mean)
        assert row.slowest == slowest

    def test_a_thousand_rows_are_returned_unless_asked(self, at_noon: Store) -> None:
        tally = UsageAggregate()
        for number in range(1001):
            tally.add("", "f", {**call_of(f"m{number}")})
        at_noon.add_usage(tally)
        assert len(at_noon.usage(by=["model"])) == 1000
        assert len(at_noon.usage(by=["model"], most=2000)) == 1001

    def test_failed_calls_say_nothing_of_how_long_answers_take(self, at_noon: Store) -> None:
        add_turn(at_noon, answered(seconds=1.0), *[failed()] * 5)
        [row] = at_noon.usage()
        assert (row.mean, row.slowest) == (1.0, 1.0)
        at_noon.add_usage(counted("u", "unavailable"))
        [alone] = at_noon.usage(user="u")
        assert (alone.p50, alone.mean, alone.slowest) == (None, None, None)

    def test_what_a_deleted_conversation_cost_stays(self, at_noon: Store, place: str) -> None:
        seen = add_turn(at_noon, answered(), failed())
        before = at_noon.usage(by=["model"])
        at_noon.delete(seen)
        assert at_noon.usage(by=["model"]) == before
        at_noon.delete(add_turn(at_noon, answered()))  # nobody has asked for anything since
        assert at_noon.usage()[0].calls == 3
        assert at_noon.conversations() == []
        add_turn(at_noon, answered())
        assert at_noon.delete_expired(number=0) == 1
        assert at_noon.usage()[0].cost.dollars == 1.5
        database = Database(place, 5.0)
        with database.reading() as connection:
            rows = connection.execute(text("SELECT * FROM usage")).all()
        database.close()
        assert len(rows) == 2
        assert "secret" not in str(rows)

    def test_a_copy_does_not_cost_again_but_what_is_said_in_it(self, at_noon: Store) -> None:
        id = add_turn(at_noon, answered())
        copy = at_noon.fork(id)
        data = at_noon.export(id)
        at_noon.delete(id)
        at_noon.import_conversation(data, CODEC)
        assert at_noon.usage()[0].calls == 1
        record, _ = at_noon.record(copy, CODEC)
        append(record, *turn(1, "x", history=2, result=answered())[:3])
        assert at_noon.usage()[0].calls == 2

    def test_what_plugins_keep_of_a_user_is_the_users(self, at_noon: Store) -> None:
        add_turn(at_noon.for_owner("assistants/ann"), answered())
        assert calls(at_noon, "user") == {("ann",): 1}

    def test_calls_that_are_on_no_record_can_be_added(self, at_noon: Store) -> None:
        at_noon.add_usage(counted("ann"))
        at_noon.add_usage(counted("ann"))
        [row] = at_noon.usage(by=["user"])
        assert (row.of, row.calls, row.failed, row.input_tokens) == ({"user": "ann"}, 2, {}, 2)
        assert (row.cost.dollars, row.cost.unknown) == (1.0, 0)
        assert (row.mean, row.slowest) == (1.0, 1.0)
        assert row.p50 == row.p95 == pytest.approx(1.0, rel=0.1)

    @pytest.mark.part
    def test_sums_and_names_are_those_that_a_database_takes(self, store: Store) -> None:
        """It refuses integers above 64 bits, NUL, and keys of thousands of bytes."""
        for models in (["m"] * 1100, [f"m{number}" for number in range(1100)]):
            tally = UsageAggregate()
            for model in models:
                used = dict.fromkeys(_TOKENS, 2**53 - 1)
                tally.add("", "f", {**call_of(model), **used})
            for _ in range(2):
                store.add_usage(tally)
        assert store.usage(by=["model"])[0].input_tokens == pytest.approx(2 * (2**53 - 1))
        [total] = store.usage()
        assert total.calls == 4400
        assert total.input_tokens > 2**63
        noise = "".join(random.Random(0).choices(string.ascii_letters, k=9000))
        for model in ("a\0b", "\ud800", noise):
            tally = UsageAggregate()
            tally.add("", "f", {**call_of(model), **used})
            store.add_usage(tally)
        assert store.usage()[0].calls == 4403
        assert store.usage(user="\0\ud800") == []

    def test_two_processes_may_add_at_once(self, make_store: MakeStore) -> None:
        stores = [make_store() for _ in range(2)]
        for each_store in stores:
            each_store.usage()  # opens the database, for which stores wait
        run_concurrently(
            lambda store: [store.add_usage(counted("ann")) for _ in range(25)], stores * 2
        )
        assert stores[0].usage()[0].calls == 100


def call_of(model: str) -> dict[str, Any]:
    place = {"provider": "p", "model": model, "started": NOON, "code": ""}
    return {**answered(), **place, **dict.fromkeys(_TOKENS, 1)}


def counted(user: str, code: str = "") -> UsageAggregate:
    tally = UsageAggregate()
    call = Attempt(RouteInfo("m", "p", "d"), NOON, 1.0, code, usage=Usage(1, 0), cost=0.5)
    tally.count(user, "", call)
    return tally


class TestLedger:
    @pytest.mark.part
    def test_what_is_spent_comes_together(self, make_store: MakeStore) -> None:
        stores = [make_store() for _ in range(2)]
        accounts = [("ann", "2030-01-01"), ("*", "2030-01")]
        spend = Spent(0.25, 10, 1)
        run_concurrently(
            lambda store: [store.ledger.spend(accounts, spend) for _ in range(25)], stores * 2
        )
        spent = stores[0].for_owner("ann").ledger.spent([*accounts, ("bob", "2030-01")])
        assert spent == dict.fromkeys(accounts, Spent(25.0, 1000, 100))

    def test_a_sum_ends_at_a_limit_that_no_call_exceeds(self, store: Store) -> None:
        for _ in range(3):
            store.ledger.spend([("ann", "2030-01")], Spent(1e308, 2**62, 1))
        [spent] = store.ledger.spent([("ann", "2030-01")]).values()
        assert 2**53 <= spent.tokens < 2**63
        assert spent.unknown == 3
        assert spent.dollars < float("inf")

    def test_names_are_values(self, store: Store) -> None:
        account = ("'; DROP TABLE spent; --", "%s ?")
        store.ledger.spend([account], Spent(1.0))
        assert store.ledger.spent([account]) == {account: Spent(1.0)}

    def test_a_connection_that_comes_back_late_is_closed(self, tmp_path: Path) -> None:
        with Store(tmp_path / "x.db") as store:
            ledger = store.ledger
            with ledger._cursor() as cursor:
                connection = cursor.connection
                connection.execute("SELECT 1")
                ledger.close()
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")

    def test_a_connection_that_failed_is_not_used_again(self, tmp_path: Path) -> None:
        with Store(tmp_path / "x.db") as store:
            with pytest.raises(RuntimeError), store.ledger._cursor() as cursor:
                connection = cursor.connection
                raise RuntimeError
            with pytest.raises(sqlite3.ProgrammingError, match="closed"):
                connection.execute("SELECT 1")
            store.ledger.spend([("a", "b")], Spent(1.0))
            assert store.ledger.users(["b"]) == ["a"]

    def test_a_closed_store_is_a_store_error(self, store: Store) -> None:
        store.ledger.spend([("a", "b")], Spent(1.0))
        store.close()
        with pytest.raises(StoreError, match="closed"):
            store.ledger.spent([("a", "b")])


class TestVersion2:
    def test_a_migrated_call_has_any_count_of_tokens(self, at_noon: Store, place: str) -> None:
        add_turn(at_noon, answered())
        at_noon.close()
        database = Database(place, 5.0)
        with database.writing() as connection:
            if connection.dialect.name == "postgresql":
                for name in ("input", "output", "cached", "reasoning"):
                    column = f"{name}_tokens"
                    connection.execute(text(f"ALTER TABLE tries ALTER {column} TYPE INTEGER"))
            connection.execute(text("UPDATE meta SET value = '2' WHERE name = 'schema'"))
        bring_up_to_date(database)
        database.close()
        with Store(place) as now:
            used = {"input_tokens": 2**53 - 1, "output_tokens": 2**31}
            id = add_turn(now, {**answered(), "usage": used})
            assert now.usage()[0].input_tokens == pytest.approx(2**53 - 1 + 10)
            assert now.summary(id).status == "idle"
