"""Middleware around the attempts of calls."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from genai_host.calls.middleware import around
from genai_host.errors import BudgetExceeded, Cancelled, GenaiError, ServiceUnavailable
from genai_host.plugins.observers import CallRecord

ROUTE: Any = object()


class Noted:
    """Middleware that notes its calls, and may prevent the call of the model."""

    def __init__(self, notes: list[Any], prevents: GenaiError | None = None) -> None:
        self._notes = notes
        self._prevents = prevents

    def enter(self, route: Any, report: CallRecord) -> None:
        self._notes.append(("enter", route))
        if self._prevents is not None:
            raise self._prevents

    def leave(self, route: Any, error: GenaiError | None, report: CallRecord) -> None:
        self._notes.append((error, route, report))


@pytest.mark.parametrize(("raised", "reported"), [
    (None, None),
    (ServiceUnavailable("down"), ServiceUnavailable("down")),
    (GeneratorExit(), Cancelled("abandoned")),
])  # fmt: skip
def test_it_learns_of_the_end(raised: BaseException | None, reported: GenaiError | None) -> None:
    notes: list[Any] = []
    report = CallRecord()
    with (
        pytest.raises(type(raised)) if raised else contextlib.nullcontext(),
        around([Noted(notes), Noted(notes)], ROUTE, report),
    ):
        assert notes == [("enter", ROUTE)] * 2
        if raised is not None:
            raise raised
    assert notes[2:] == [(reported, ROUTE, report)] * 2


def test_it_can_prevent_an_attempt() -> None:
    notes: list[Any] = []
    middleware = [Noted(notes, BudgetExceeded("spent")), Noted(notes)]
    with pytest.raises(BudgetExceeded), around(middleware, ROUTE, CallRecord()):
        pytest.fail("the attempt was made")
    assert notes == [("enter", ROUTE)]


def test_none_is_needed() -> None:
    with around([], ROUTE, CallRecord()):
        pass
