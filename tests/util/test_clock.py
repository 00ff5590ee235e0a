"""The system's clock: its times, and its one thread that calls back."""

from __future__ import annotations

import gc
import threading
import time as real_time
import weakref
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest

from genai_host.util import clock as module
from genai_host.util.clock import Alarm, SystemClock
from genai_host_testing import ManualClock

LONG = 10.0  # what happens at once happens within it on any machine


@pytest.fixture
def clock() -> Iterator[SystemClock]:
    clock = SystemClock()
    yield clock
    clock.close()


@pytest.mark.skipif(not hasattr(real_time, "tzset"), reason="Windows has its own zone alone")
@pytest.mark.parametrize(("zone", "change"), [
    ("Europe/Berlin", 1_901_149_200),  # 2030-03-31 01:00 UTC
    ("Europe/Berlin", 1_919_293_200),  # 2030-10-27 01:00 UTC
    ("Australia/Lord_Howe", 1_917_444_600),  # by half an hour, at half past an hour
    ("Asia/Kathmandu", 1_900_000_000),  # 5:45 hours, and no change
])  # fmt: skip
def test_it_tells_the_time_with_the_offset_of_that_time(
    monkeypatch: pytest.MonkeyPatch, clock: SystemClock, zone: str, change: int
) -> None:
    monkeypatch.setenv("TZ", zone)
    real_time.tzset()
    try:
        for moment in (change - 3600, change - 1, change - 0.001, change, change + 0.001, 0.0):
            monkeypatch.setattr(module, "time", SimpleNamespace(time=partial(float, moment)))
            now = clock.now()
            there = datetime.fromtimestamp(moment, ZoneInfo(zone))
            assert (now.timestamp(), now.utcoffset()) == (moment, there.utcoffset())
    finally:
        monkeypatch.undo()
        real_time.tzset()


class Time:
    """Stands still until a test says that it is later."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=time.monotonic))
    return time


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "alarms"]


def must_ring(clock: SystemClock, seconds: float = 0.0) -> None:
    rung = threading.Event()
    clock.call_later(seconds, rung.set)
    assert rung.wait(LONG)


def test_it_has_no_thread_before_it_needs_one(clock: SystemClock) -> None:
    before = len(threads())
    first = clock.monotonic()
    assert clock.monotonic() >= first
    assert clock.now().utcoffset() is not None
    assert len(threads()) == before
    must_ring(clock)
    must_ring(clock)
    assert len(threads()) == before + 1
    clock.close()
    assert len(threads()) == before


@pytest.mark.parametrize("seconds", [0.001, 0.0, -5.0])
def test_it_calls_back_once_from_its_thread(clock: SystemClock, seconds: float) -> None:
    names: list[str] = []
    alarm = clock.call_later(seconds, lambda: names.append(threading.current_thread().name))
    must_ring(clock, max(seconds, 0.0))
    must_ring(clock)
    assert names == ["alarms"]
    assert not alarm.is_set()
    alarm.ring()
    assert names == ["alarms"]


def test_alarms_ring_in_the_order_they_are_due(clock: SystemClock, time: Time) -> None:
    rung: list[str] = []
    done = threading.Event()
    for seconds, name in ((0.004, "d"), (0.002, "b"), (0.003, "c"), (0.001, "a"), (0.002, "b2")):
        clock.call_later(seconds, lambda name=name: rung.append(name))  # type: ignore[misc]  # each its own
    clock.call_later(0.005, done.set)
    time.now = 1.0
    assert done.wait(LONG)
    assert rung == ["a", "b", "b2", "c", "d"]


def test_an_alarm_does_not_ring_before_it_is_due(clock: SystemClock, time: Time) -> None:
    rung: list[str] = []
    clock.call_later(0.002, lambda: rung.append("later"))
    must_ring(clock, 0.0)
    assert rung == []
    time.now = 0.001
    must_ring(clock, 0.0)
    assert rung == []
    time.now = 0.002
    must_ring(clock, 0.0)
    assert rung == ["later"]


@pytest.mark.parametrize("way", ["release", "context"])
def test_an_alarm_that_is_released_does_not_ring(clock: SystemClock, time: Time, way: str) -> None:
    rung: list[str] = []
    alarm = clock.call_later(0.001, lambda: rung.append("released"))
    assert alarm.is_set()
    if way == "release":
        alarm.release()
        alarm.release()
    else:
        with alarm as entered:
            assert entered is alarm
    assert not alarm.is_set()
    time.now = 1.0
    must_ring(clock, 0.0)
    assert rung == []


def test_an_alarm_may_set_another(clock: SystemClock) -> None:
    rung = threading.Event()

    def ring() -> None:
        clock.call_later(0.0, rung.set)

    clock.call_later(0.0, ring)
    assert rung.wait(LONG)


@pytest.mark.parametrize("error", [RuntimeError("broken"), SystemExit(1)])
def test_an_alarm_that_raises_keeps_no_other_from_ringing(
    clock: SystemClock, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    def fail() -> None:
        raise error

    clock.call_later(0.0, fail)
    must_ring(clock)
    (logged,) = [record for record in caplog.records if record.name == module.__name__]
    assert logged.exc_info is not None
    assert logged.exc_info[1] is error
    must_ring(clock)


@pytest.mark.parametrize("seconds", [1e9, 1e10, 1e300, float("inf")])
def test_an_alarm_may_be_as_far_off_as_one_likes(clock: SystemClock, seconds: float) -> None:
    clock.call_later(seconds, lambda: None)
    for _ in range(5):  # between any two of them, the far one is what it waits for
        must_ring(clock)


def test_an_alarm_may_be_released_while_another_is_set(clock: SystemClock) -> None:
    """The garbage collector may close a generator at any time, which releases its alarm."""
    alarms = [clock.call_later(60, lambda: None) for _ in range(200)]
    rung = threading.Event()

    class Order:
        def __next__(self) -> int:
            for alarm in alarms:
                alarm.release()
            return 10**6

    clock._order = Order()  # type: ignore[assignment]
    clock.call_later(0, rung.set)
    assert rung.wait(30)


def test_released_alarms_are_forgotten(clock: SystemClock) -> None:
    alarms = [clock.call_later(3600.0, lambda: None) for _ in range(1_000)]
    references = weakref.WeakSet(alarms)
    while alarms:
        alarms.pop().release()
    gc.collect()
    assert len(references) < 200
    must_ring(clock)


def test_alarms_that_are_not_released_stay_in_order(clock: SystemClock, time: Time) -> None:
    rung: list[int] = []
    alarms: list[Alarm] = []
    for number in range(300):
        due = number * 37 % 300  # each once, and in disorder
        callback: Callable[[], None] = lambda due=due: rung.append(due)  # type: ignore[misc]  # noqa: E731
        alarms.append(clock.call_later(0.001 + due / 1e6, callback))
    for number, alarm in enumerate(alarms):
        if number % 3:
            alarm.release()
    time.now = 1.0
    must_ring(clock)
    assert rung == sorted(number * 37 % 300 for number in range(0, 300, 3))


def test_no_alarm_rings_after_the_end(time: Time) -> None:
    clock = SystemClock()
    rung: list[str] = []
    clock.call_later(0.001, lambda: rung.append("before"))
    clock.close()
    before = len(threads())
    time.now = 1.0
    clock.call_later(0.0, lambda: rung.append("after")).release()
    clock.call_later(0.0, lambda: rung.append("after"))
    clock.close()
    assert len(threads()) == before
    assert rung == []


def test_a_clock_may_be_closed_by_an_alarm() -> None:
    clock = SystemClock()
    done = threading.Event()

    def end() -> None:
        clock.close()
        done.set()

    clock.call_later(0.0, end)
    assert done.wait(LONG)
    clock.close()
    SystemClock().close()


def test_a_manual_clock_is_waited_on_for_one_alarm_among_others() -> None:
    manual = ManualClock()
    manual.call_later(60.0, lambda: None)
    with pytest.raises(TimeoutError, match=r"due in \[60\.0\] s, none in 0\.5 s"):
        manual.wait_for_alarm_in(0.5, within=0.0)
    setting = threading.Thread(target=lambda: manual.call_later(1.5, lambda: None))
    setting.start()
    manual.wait_for_alarm_in(1.5)
    manual.advance(1.0)
    manual.wait_for_alarm_in(0.5)
    manual.wait_for_alarm_in(59.0)
    setting.join(LONG)
