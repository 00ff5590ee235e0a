"""Sessions: apart, so many and no more, and not for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from genai_tools_sandbox.sessions import Sessions

from genai_host.api import Cancellation
from genai_host.errors import Cancelled, ServiceUnavailable


class _Made:
    """A process that is none."""

    def __init__(self) -> None:
        self.alive = True
        self.closed = 0
        self.killed = threading.Event()

    def kill(self) -> None:
        self.alive = False
        self.killed.set()

    def close(self) -> None:
        self.alive = False
        self.closed += 1


class _Waiting(Cancellation):
    """Cancel token with an event for its second check, which only a waiting caller makes."""

    def __init__(self) -> None:
        super().__init__()
        self._looks = 0
        self.waiting = threading.Event()

    def check(self) -> None:
        self._looks += 1
        if self._looks > 1:
            self.waiting.set()
        super().check()


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


@pytest.fixture
def sessions(clock: _Clock) -> Iterator[Sessions[_Made]]:
    sessions: Sessions[_Made] = Sessions(2, 600.0, clock)
    yield sessions
    sessions.close()


def _used(sessions: Sessions[_Made], name: str, limits: Cancellation | None = None) -> _Made:
    with sessions.use(name, _Made, limits or Cancellation()) as process:
        return process


def test_a_session_keeps_its_process(sessions: Sessions[_Made]) -> None:
    one = _used(sessions, "one")
    assert _used(sessions, "one") is one
    assert _used(sessions, "two") is not one
    assert one.alive


def test_without_a_name_each_use_has_its_own(sessions: Sessions[_Made]) -> None:
    one, two = _used(sessions, ""), _used(sessions, "")
    assert one is not two
    assert (one.closed, two.closed) == (1, 1)


def test_the_one_that_was_used_longest_ago_goes(sessions: Sessions[_Made], clock: _Clock) -> None:
    one = _used(sessions, "one")
    clock.now = 1.0
    two = _used(sessions, "two")
    clock.now = 2.0
    _used(sessions, "one")
    _used(sessions, "three")
    assert (one.closed, two.closed) == (0, 1)


def test_a_session_that_failed_is_gone(sessions: Sessions[_Made]) -> None:
    one = _used(sessions, "one")
    with pytest.raises(ZeroDivisionError), sessions.use("one", _Made, Cancellation()):
        raise ZeroDivisionError
    assert one.closed == 1
    assert _used(sessions, "one") is not one


def test_one_that_did_not_start_takes_no_room(sessions: Sessions[_Made]) -> None:
    def fail() -> _Made:
        raise OSError

    for _ in range(5):
        with pytest.raises(OSError), sessions.use("x", fail, Cancellation()):  # noqa: PT011
            pass
    assert _used(sessions, "x").alive


def test_one_whose_process_ended_gets_another(sessions: Sessions[_Made]) -> None:
    one = _used(sessions, "one")
    one.alive = False
    assert _used(sessions, "one") is not one
    assert one.closed == 1


def test_who_comes_while_all_are_in_use_waits(
    sessions: Sessions[_Made], background: Callable[..., Any]
) -> None:
    with sessions.use("one", _Made, Cancellation()) as one, sessions.use("", _Made, Cancellation()):
        waits = _Waiting(), _Waiting()
        same = background(_used, sessions, "one", waits[0])
        other = background(_used, sessions, "three", waits[1])
        assert all(each.waiting.wait(30) for each in waits)
        assert not same.done()
        assert not other.done()
    assert same.result(30) is one or one.closed
    assert other.result(30) is not one


def test_waiting_ends_with_its_limits(
    sessions: Sessions[_Made], background: Callable[..., Any]
) -> None:
    limits = Cancellation()

    def wait() -> None:
        with sessions.use("one", _Made, limits):
            pass

    with sessions.use("one", _Made, Cancellation()):
        waiting = background(wait)
        limits.cancel()
        with pytest.raises(Cancelled):
            waiting.result(30)


def test_a_session_that_nobody_uses_ends(sessions: Sessions[_Made], clock: _Clock) -> None:
    one = _used(sessions, "one")
    clock.now = 300.0
    two = _used(sessions, "two")
    clock.now = 600.0
    sessions.sweep()
    assert (one.closed, two.closed) == (1, 0)


def test_it_ends_by_itself() -> None:
    sessions: Sessions[_Made] = Sessions(2, 0.01)
    closed = threading.Event()

    class Told(_Made):
        def close(self) -> None:
            super().close()
            closed.set()

    with sessions.use("one", Told, Cancellation()):
        pass
    assert closed.wait(30)
    sessions.close()


def test_closing_ends_all_and_those_in_use(
    sessions: Sessions[_Made], background: Callable[..., Any]
) -> None:
    idle = _used(sessions, "idle")
    with sessions.use("busy", _Made, Cancellation()) as busy:
        sessions.close()
        assert busy.killed.is_set()
        assert idle.closed == 1
        assert busy.closed == 0  # who uses it does that
    assert busy.closed == 1
    with pytest.raises(ServiceUnavailable):
        _used(sessions, "one")
    sessions.close()


def test_one_that_was_starting_while_all_was_closed_ends(sessions: Sessions[_Made]) -> None:
    session = _Made()

    def start() -> _Made:
        sessions.close()
        return session

    with pytest.raises(ServiceUnavailable), sessions.use("one", start, Cancellation()):
        pass
    assert session.closed == 1
