"""The simulation finds no violations, finds a planted defect, and is reproducible."""

from __future__ import annotations

import pytest

from genai_host.store.writer import EntryWriter
from simulation.minimize import minimized, run, run_seeds
from simulation.oracle import Row, wrong_messages, wrong_order
from simulation.plan import Plan, plan_of
from simulation.simulation import Simulation


def failures(*simulations: Simulation) -> list[str]:
    return [
        f"seed {simulation.plan.seed}: {failure.kind}: {failure.what}"
        for simulation in simulations
        for failure in simulation.failures
    ]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("first", "turns"),
    [
        pytest.param(1, 50, marks=pytest.mark.part),
        pytest.param(5, 100, marks=pytest.mark.slow),
        pytest.param(100, 150, marks=pytest.mark.slow),
    ],
)
def test_kills_lose_nothing_and_repeat_nothing(first: int, turns: int) -> None:
    assert failures(*run_seeds(first, turns, ("kill",))) == []


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(1000, 1360, 36))  # 36 seeds have about 500 turns
def test_no_fault_of_5000_turns_spoils_anything(first: int) -> None:
    assert failures(*run_seeds(first, 500)) == []


@pytest.mark.process
def test_kills_with_postgresql_lose_nothing(postgres_server: str) -> None:
    assert failures(*run_seeds(1, 40, ("kill",), postgres_server)) == []


@pytest.mark.process
def test_a_run_that_failed_with_postgresql_holds_now(postgres_server: str) -> None:
    """A job was deleted before its thread had begun, and its turn never ended."""
    assert failures(run(plan_of(28100054), postgres_server)) == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_fault_with_postgresql_spoils_anything(postgres_server: str) -> None:
    assert failures(*run_seeds(3000, 500, server=postgres_server)) == []


@pytest.mark.part
@pytest.mark.parametrize(
    "plan",
    [
        # the clock was set back a day, and the job and lease of a killed worker blocked for a day
        pytest.param(plan_of(5005, ("kill",)), id="clock-set-back"),
        # a server was killed between a run and its job, and the run blocked its thread
        pytest.param(plan_of(5, ("kill",)), id="run-without-job"),
        # the store was locked when a run referred to its new event log, and the log remained
        pytest.param(plan_of(131), id="log-without-run"),
        # a worker was killed after it had created an event log, before its run referred to it
        pytest.param(plan_of(2040), id="log-of-killed-worker"),
    ],
)
def test_a_run_that_failed_holds_now(plan: Plan) -> None:
    assert failures(run(plan)) == []


@pytest.mark.part
def test_equal_plans_make_equal_runs() -> None:
    one, other = run(plan_of(1)), run(plan_of(1))
    assert one.trace == other.trace
    assert len(one.trace) > 50


@pytest.mark.part
def test_a_planted_fault_is_found_and_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the start of a tool call is acknowledged, but not written."""
    add = EntryWriter.add

    def lose(self: EntryWriter, addition: object) -> None:
        if '"step":"call_tool"' not in addition.rows[-1].body:  # type: ignore[attr-defined]
            add(self, addition)  # type: ignore[arg-type]

    monkeypatch.setattr(EntryWriter, "add", lose)
    plan = plan_of(8, ("kill",))
    kinds = [failure.kind for failure in run(plan).failures]
    assert kinds
    small = minimized(plan, kinds[0], 5.0)
    assert kinds[0] in [failure.kind for failure in run(small).failures]
    assert small.skip


class TestOracle:
    OPENED = Row(0, None, "opened", 0.0, "{}")

    @pytest.mark.parametrize(
        ("entries", "wrong"),
        [
            ([("turn_started", "{}"), ("turn_ended", "{}")], ""),
            ([("turn_ended", "{}")], "entry 1, turn_ended of turn 0, is in turn None"),
            ([("turn_started", "{}"), ("turn_started", "{}")], "turn 0 begins within turn 0"),
            (
                [("turn_started", "{}"), ("step_ended", '{"path":[0]}')],
                "step (0, 0) ends without a start",
            ),
            (
                [("turn_started", "{}"), *[("step_started", '{"path":[0]}')] * 2],
                "step_started of (0, 0) comes twice",
            ),
        ],
    )
    def test_order(self, entries: list[tuple[str, str]], wrong: str) -> None:
        rows = [Row(n, 0, kind, 0.0, body) for n, (kind, body) in enumerate(entries, 1)]
        assert wrong_order([self.OPENED, *rows]) == wrong

    def test_messages(self) -> None:
        message = {"role": "user", "content": "hi"}
        assert wrong_messages([message]) == ""
        assert wrong_messages([message, message]) == "two messages of user in a row"
        called = {"role": "assistant", "tool_calls": [{"id": "c"}]}
        assert wrong_messages([message, called]) == "the last message is of assistant"
