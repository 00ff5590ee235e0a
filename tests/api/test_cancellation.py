"""Cancelling: the error that ends it, whom it wakes, and what ends with what."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from stand_ins import UnaskedProvider

from genai_host import Host, TurnLimits
from genai_host.api import (
    CancelToken,
    NoSettings,
    ProviderRequest,
    ProviderType,
    ReplyStream,
    StreamEvent,
    cancellation as module,
)
from genai_host.api.cancellation import Cancellation, Registration
from genai_host.errors import Cancelled, GenaiError, LimitExceeded, ServiceUnavailable
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost

LONG = 30.0


def error_of(cancellation: Cancellation) -> GenaiError:
    with pytest.raises(GenaiError) as caught:
        cancellation.check()
    return caught.value


def ended(error: GenaiError | None = None) -> Cancellation:
    cancellation = Cancellation()
    cancellation.cancel(error)
    return cancellation


def test_it_ends_with_cancelled_unless_something_else_is_said() -> None:
    cancellation = Cancellation()
    cancellation.check()
    assert not cancellation.is_cancelled()
    cancellation.cancel()
    assert cancellation.is_cancelled()
    assert error_of(cancellation) == Cancelled("cancelled")


def test_the_first_error_stays() -> None:
    limit = LimitExceeded("too long", limit="seconds", hint="wait", model="m")
    cancellation = ended(limit)
    cancellation.cancel(Cancelled("too late"))
    cancellation.cancel()
    assert error_of(cancellation) == limit


def test_each_check_raises_an_error_of_its_own() -> None:
    """So that what one thread adds to it, another does not see."""
    error = ServiceUnavailable("away", retry_after=1.0)
    cancellation = ended(error)
    first = error_of(cancellation)
    first.located(provider="p").hint = "changed"
    second = error_of(cancellation)
    assert second is not first
    assert second is not error
    assert second == error == ServiceUnavailable("away", retry_after=1.0)
    assert second.__traceback__ is not None
    assert error.__traceback__ is None


def test_it_wakes_all_that_wait_once_and_at_once_if_it_has_ended() -> None:
    cancellation, woken = Cancellation(), list[str]()
    cancellation.on_cancel(lambda: woken.append("a"))
    cancellation.on_cancel(lambda: woken.append("b"))
    cancellation.cancel()
    cancellation.cancel()
    assert sorted(woken) == ["a", "b"]
    with cancellation.on_cancel(lambda: woken.append("late")) as registration:
        registration.release()
    assert woken[2:] == ["late"]


@pytest.mark.parametrize("way", ["release", "context"])
def test_released_callback_is_not_called(way: str) -> None:
    cancellation, woken = Cancellation(), list[str]()
    gone = cancellation.on_cancel(lambda: woken.append("gone"))
    cancellation.on_cancel(lambda: woken.append("there"))
    leave(gone, way)
    cancellation.cancel()
    gone.release()
    assert woken == ["there"]


def leave(what: Registration | Cancellation, way: str) -> None:
    if way == "release":
        what.release()
        what.release()
    else:
        with what as entered:
            assert entered is what


def test_who_is_woken_finds_the_error_and_may_use_it() -> None:
    cancellation, woken = Cancellation(), list[str]()
    other = cancellation.on_cancel(lambda: woken.append("other"))

    def wake() -> None:
        woken.append(str(error_of(cancellation)))
        cancellation.cancel(Cancelled("again"))
        cancellation.on_cancel(lambda: woken.append("inner"))
        other.release()
        woken.append("outer")

    cancellation.on_cancel(wake)
    cancellation.cancel(Cancelled("by me"))
    assert [each for each in woken if each != "other"] == ["by me", "inner", "outer"]
    assert error_of(cancellation) == Cancelled("by me")


def fail() -> None:
    raise RuntimeError("broken")


def test_failing_callback_does_not_stop_others(caplog: pytest.LogCaptureFixture) -> None:
    """The callback may belong to a plugin; its error must not reach the caller of `cancel`."""
    parent = Cancellation()
    child, woken = Cancellation(parent), list[str]()
    for cancellation in (parent, child):
        cancellation.on_cancel(fail)
        cancellation.on_cancel(lambda: woken.append("woken"))
    parent.cancel(Cancelled("enough"))
    assert woken == ["woken", "woken"]
    with child.on_cancel(fail):  # called at once, and no concern of who registers it
        assert error_of(child) == Cancelled("enough")
    logged = [record for record in caplog.records if record.name == module.__name__]
    assert [str(record.exc_info and record.exc_info[1]) for record in logged] == ["broken"] * 3


def hang(go_on: threading.Event) -> None:
    go_on.wait(LONG)


class Hanging:
    def __init__(self, go_on: threading.Event) -> None:
        self.go_on = go_on

    def __call__(self) -> None:
        self.go_on.wait(LONG)


@pytest.mark.parametrize("waker", [partial(partial, hang), Hanging])
def test_hanging_callback_is_logged_and_does_not_block(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    waker: Callable[[threading.Event], Callable[[], None]],
) -> None:
    """The thread of all timers may have cancelled."""
    monkeypatch.setattr(module, "_HANGS", 0.0)
    cancellation, go_on, ended = Cancellation(), threading.Event(), threading.Event()
    cancellation.on_cancel(waker(go_on))
    cancellation.on_cancel(ended.set)
    try:
        cancellation.cancel()
        assert ended.is_set()
        name = Hanging.__name__ if waker is Hanging else hang.__name__
        assert f"the callback {__name__}.{name} for a cancellation" in caplog.text
    finally:
        go_on.set()


@pytest.mark.parametrize("of_children", [False, True])
def test_wakers_run_concurrently_and_so_time_out_together(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, of_children: bool
) -> None:
    monkeypatch.setattr(module, "_HANGS", LONG)
    parent, all_run = Cancellation(), threading.Barrier(3)

    def wake() -> None:
        all_run.wait()

    for _ in range(3):
        (Cancellation(parent) if of_children else parent).on_cancel(wake)
    parent.cancel()
    assert not caplog.records


def test_a_waker_is_called_where_no_thread_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    cancellation, woken = Cancellation(), list[str]()
    cancellation.on_cancel(lambda: woken.append("woken"))
    cancellation.cancel()
    assert woken == ["woken"]


def test_a_thread_that_waits_is_woken() -> None:
    cancellation, waits = Cancellation(), threading.Event()

    def wait() -> GenaiError:
        woken = threading.Event()
        with cancellation.on_cancel(woken.set):
            waits.set()
            woken.wait(LONG)
        return error_of(cancellation)

    with ThreadPoolExecutor(1) as pool:
        outcome = pool.submit(wait)
        assert waits.wait(LONG)
        cancellation.cancel(Cancelled("enough"))
        assert outcome.result(LONG) == Cancelled("enough")


def test_of_many_that_cancel_at_once_one_does() -> None:
    cancellation, woken = Cancellation(), list[int]()
    for number in range(100):
        cancellation.on_cancel(partial(woken.append, number))
    together = threading.Barrier(8)

    def cancel(number: int) -> GenaiError:
        together.wait(LONG)
        cancellation.cancel(Cancelled(str(number)))
        return error_of(cancellation)

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(cancel, range(8)))) == 1
    assert sorted(woken) == list(range(100))


class TestParents:
    def test_it_ends_with_its_parent_for_the_same_reason(self) -> None:
        parent, woken = Cancellation(), list[str]()
        child = Cancellation(parent)
        grandchild = Cancellation(child)
        grandchild.on_cancel(lambda: woken.append("woken"))
        parent.cancel(LimitExceeded("too long", limit="seconds"))
        assert woken == ["woken"]
        for each in (child, grandchild, Cancellation(parent)):
            assert error_of(each) == LimitExceeded("too long", limit="seconds")

    def test_it_can_end_alone(self) -> None:
        parent = Cancellation()
        child, sibling = Cancellation(parent), Cancellation(parent)
        child.cancel(Cancelled("alone"))
        parent.check()
        sibling.check()
        parent.cancel(Cancelled("all"))
        assert error_of(child) == Cancelled("alone")
        assert error_of(sibling) == Cancelled("all")

    @pytest.mark.parametrize("way", ["release", "context"])
    def test_what_is_over_does_not_end_with_it(self, way: str) -> None:
        parent = Cancellation()
        child = Cancellation(parent)
        leave(child, way)
        parent.cancel()
        child.check()
        child.cancel(Cancelled("by itself"))
        assert error_of(child) == Cancelled("by itself")
        with Cancellation() as alone:
            alone.check()

    def test_released_child_is_garbage_collected(self) -> None:
        parent = Cancellation()
        child = Cancellation(parent)
        reference = weakref.ref(child)
        child.release()
        del child
        gc.collect()
        assert reference() is None
        parent.check()


def test_a_waker_that_was_taken_back_is_let_go() -> None:
    cancellation, waker = Cancellation(), Hanging(threading.Event())
    reference = weakref.ref(waker)
    with cancellation.on_cancel(waker):
        del waker
        gc.collect()
        assert reference() is not None
    gc.collect()
    assert reference() is None


class Stuck(UnaskedProvider):
    """Its streams bring nothing until they are closed, and cannot close without an error."""

    def __init__(self) -> None:
        self.reading = threading.Event()

    def stream(self, request: ProviderRequest, limits: CancelToken) -> ReplyStream:
        return StuckStream(self.reading)


class StuckStream:
    def __init__(self, reading: threading.Event) -> None:
        self._reading = reading
        self._closed = threading.Event()

    def __iter__(self) -> Iterator[StreamEvent]:
        self._reading.set()
        self._closed.wait(LONG)
        return iter(())

    def close(self) -> None:
        self._closed.set()
        raise RuntimeError("cannot close")


@pytest.fixture
def stuck() -> Stuck:
    return Stuck()


@pytest.fixture
def stuck_host(make_host: MakeHost, stuck: Stuck) -> Host:
    """A host with `stuck`, and with real time."""
    plugin = InlinePlugin(providers=[ProviderType("stuck", NoSettings, lambda *_: stuck)])
    return make_host(made=plugin)


def test_the_time_of_a_turn_is_limited_whatever_a_plugin_raises(stuck_host: Host) -> None:
    for _ in range(3):
        conversation = stuck_host.open("chat", "stuck/x", turn_limits=TurnLimits(seconds=0.01))
        with pytest.raises(LimitExceeded):
            list(conversation.stream("hi"))


def test_cancelling_raises_nothing_whatever_a_plugin_raises(stuck_host: Host, stuck: Stuck) -> None:
    conversation = stuck_host.open("chat", "stuck/x")
    with ThreadPoolExecutor(1) as pool:
        outcome = pool.submit(list, conversation.stream("hi"))
        assert stuck.reading.wait(LONG)
        conversation.cancel()
        assert outcome.exception(LONG) == Cancelled("cancelled")
