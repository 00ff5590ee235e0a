"""Cancelling: the error that ends it, whom it wakes, and what ends with what."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from genai_host import Host, TurnLimits
from genai_host.api import (
    CancelToken,
    DialectEndpoint,
    NoSettings,
    Provider,
    ProviderReply,
    ProviderRequest,
    ProviderType,
    ReplyStream,
    StreamEvent,
)
from genai_host.api import cancellation as module
from genai_host.api.cancellation import Cancellation
from genai_host.errors import Cancelled, GenaiError, LimitExceeded, ServiceUnavailable
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost

LONG = 30.0


def error_of(cancellation: Cancellation) -> GenaiError:
    with pytest.raises(GenaiError) as caught:
        cancellation.check()
    return caught.value


def test_nothing_ends_by_itself() -> None:
    cancellation = Cancellation()
    cancellation.check()
    assert not cancellation.is_cancelled()


def test_it_ends_with_cancelled_unless_something_else_is_said() -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    assert cancellation.is_cancelled()
    assert error_of(cancellation) == Cancelled("cancelled")


def test_the_first_error_stays() -> None:
    cancellation = Cancellation()
    limit = LimitExceeded("too long", limit="seconds", hint="wait", model="m")
    cancellation.cancel(limit)
    cancellation.cancel(Cancelled("too late"))
    cancellation.cancel()
    assert error_of(cancellation) == limit


def test_each_check_raises_an_error_of_its_own() -> None:
    """So that what one thread adds to it, another does not see."""
    cancellation = Cancellation()
    given = ServiceUnavailable("away", retry_after=1.0)
    cancellation.cancel(given)
    first = error_of(cancellation)
    first.located(provider="p").hint = "changed"
    second = error_of(cancellation)
    assert second is not first
    assert second is not given
    assert second == given == ServiceUnavailable("away", retry_after=1.0)
    assert second.__traceback__ is not None
    assert given.__traceback__ is None


def test_it_wakes_all_that_wait_once() -> None:
    cancellation = Cancellation()
    woken: list[str] = []
    cancellation.on_cancel(lambda: woken.append("a"))
    cancellation.on_cancel(lambda: woken.append("b"))
    cancellation.cancel()
    cancellation.cancel()
    assert sorted(woken) == ["a", "b"]


def test_it_wakes_at_once_if_it_has_ended() -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    woken: list[str] = []
    with cancellation.on_cancel(lambda: woken.append("late")) as registration:
        registration.release()
    assert woken == ["late"]


@pytest.mark.parametrize("way", ["release", "context"])
def test_whoever_went_is_not_woken(way: str) -> None:
    cancellation = Cancellation()
    woken: list[str] = []
    gone = cancellation.on_cancel(lambda: woken.append("gone"))
    cancellation.on_cancel(lambda: woken.append("there"))
    if way == "release":
        gone.release()
        gone.release()
    else:
        with gone as entered:
            assert entered is gone
    cancellation.cancel()
    gone.release()
    assert woken == ["there"]


def test_the_error_is_there_when_it_wakes() -> None:
    cancellation = Cancellation()
    found: list[GenaiError] = []
    cancellation.on_cancel(lambda: found.append(error_of(cancellation)))
    cancellation.cancel(Cancelled("by me"))
    assert found == [Cancelled("by me")]


def test_who_is_woken_may_use_it() -> None:
    cancellation = Cancellation()
    woken: list[str] = []
    other = cancellation.on_cancel(lambda: woken.append("other"))

    def wake() -> None:
        cancellation.cancel(Cancelled("again"))
        cancellation.on_cancel(lambda: woken.append("inner"))
        other.release()
        woken.append("outer")

    cancellation.on_cancel(wake)
    cancellation.cancel()
    assert woken[-2:] == ["inner", "outer"]
    assert error_of(cancellation) == Cancelled("cancelled")


def fail() -> None:
    raise RuntimeError("broken")


def test_a_waker_that_raises_keeps_nobody_from_being_woken(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It may be a plugin's, and whoever cancels is not to blame."""
    parent = Cancellation()
    child = Cancellation(parent)
    woken: list[str] = []
    for cancellation in (parent, child):
        cancellation.on_cancel(fail)
        cancellation.on_cancel(lambda: woken.append("woken"))
    parent.cancel(Cancelled("enough"))
    assert woken == ["woken", "woken"]
    assert error_of(child) == Cancelled("enough")
    logged = [record for record in caplog.records if record.name == module.__name__]
    assert [str(record.exc_info and record.exc_info[1]) for record in logged] == ["broken"] * 2


def test_a_waker_that_raises_at_once_is_no_concern_of_who_registers_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    with cancellation.on_cancel(fail):
        assert error_of(cancellation) == Cancelled("cancelled")
    assert [record.name for record in caplog.records] == [module.__name__]


def hang(go_on: threading.Event) -> None:
    go_on.wait(LONG)


class Hanging:
    def __init__(self, go_on: threading.Event) -> None:
        self.go_on = go_on

    def __call__(self) -> None:
        self.go_on.wait(LONG)


@pytest.mark.parametrize("waker", [partial(partial, hang), Hanging])
def test_a_waker_that_hangs_is_named_and_keeps_nobody_waiting(
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
        cancellation = Cancellation(parent) if of_children else parent
        cancellation.on_cancel(wake)
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
    cancellation = Cancellation()
    waits = threading.Event()
    outcome: list[GenaiError] = []

    def wait() -> None:
        woken = threading.Event()
        with cancellation.on_cancel(woken.set):
            waits.set()
            woken.wait(LONG)
            try:
                cancellation.check()
            except GenaiError as error:
                outcome.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    assert waits.wait(LONG)
    cancellation.cancel(Cancelled("enough"))
    thread.join(LONG)
    assert outcome == [Cancelled("enough")]


def test_of_many_that_cancel_at_once_one_does() -> None:
    cancellation = Cancellation()
    woken: list[int] = []
    seen: list[GenaiError] = []
    for number in range(100):
        cancellation.on_cancel(lambda number=number: woken.append(number))  # type: ignore[misc]  # each its own
    together = threading.Barrier(8)

    def cancel(number: int) -> None:
        together.wait(LONG)
        cancellation.cancel(Cancelled(str(number)))
        seen.append(error_of(cancellation))

    threads = [threading.Thread(target=cancel, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert sorted(woken) == list(range(100))
    assert len(seen) == 8
    assert len(set(seen)) == 1


def test_it_ends_with_its_parent_for_the_same_reason() -> None:
    parent = Cancellation()
    child = Cancellation(parent)
    grandchild = Cancellation(child)
    woken: list[str] = []
    grandchild.on_cancel(lambda: woken.append("woken"))
    parent.cancel(LimitExceeded("too long", limit="seconds"))
    assert woken == ["woken"]
    for each in (child, grandchild):
        assert error_of(each) == LimitExceeded("too long", limit="seconds")


def test_it_can_end_alone() -> None:
    parent = Cancellation()
    child, sibling = Cancellation(parent), Cancellation(parent)
    child.cancel(Cancelled("alone"))
    parent.check()
    sibling.check()
    parent.cancel(Cancelled("all"))
    assert error_of(child) == Cancelled("alone")
    assert error_of(sibling) == Cancelled("all")


def test_the_child_of_what_has_ended_has_ended() -> None:
    parent = Cancellation()
    parent.cancel(Cancelled("before"))
    assert error_of(Cancellation(parent)) == Cancelled("before")


@pytest.mark.parametrize("way", ["release", "context"])
def test_what_is_over_does_not_end_with_its_parent(way: str) -> None:
    parent = Cancellation()
    child = Cancellation(parent)
    if way == "release":
        child.release()
        child.release()
    else:
        with child as entered:
            assert entered is child
    parent.cancel()
    child.check()
    child.cancel(Cancelled("by itself"))
    assert error_of(child) == Cancelled("by itself")
    with Cancellation() as alone:
        alone.check()


def test_a_parent_does_not_hold_on_to_what_is_over() -> None:
    parent = Cancellation()
    child = Cancellation(parent)
    kept = weakref.ref(child)
    child.release()
    del child
    gc.collect()
    assert kept() is None
    parent.check()


def test_a_waker_that_was_taken_back_is_let_go() -> None:
    class Waker:
        def __call__(self) -> None: ...

    cancellation = Cancellation()
    waker = Waker()
    kept = weakref.ref(waker)
    with cancellation.on_cancel(waker):
        del waker
        gc.collect()
        assert kept() is not None
    gc.collect()
    assert kept() is None


class Stuck(Provider):
    """Its streams bring nothing until they are closed, and cannot close without an error."""

    serves = {"plain": DialectEndpoint()}

    def __init__(self) -> None:
        self.reading = threading.Event()

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        raise NotImplementedError

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
    made = InlinePlugin(providers=[ProviderType("stuck", NoSettings, lambda *_: stuck)])
    return make_host(made=made)


def test_the_time_of_every_conversation_is_limited_whatever_a_plugin_raises(
    stuck_host: Host,
) -> None:
    for _ in range(3):
        conversation = stuck_host.open("chat", "stuck/x", turn_limits=TurnLimits(seconds=0.01))
        with pytest.raises(LimitExceeded):
            list(conversation.stream("hi"))


def test_cancelling_raises_nothing_whatever_a_plugin_raises(stuck_host: Host, stuck: Stuck) -> None:
    conversation = stuck_host.open("chat", "stuck/x")
    outcome: list[GenaiError] = []

    def say() -> None:
        with pytest.raises(GenaiError) as caught:
            list(conversation.stream("hi"))
        outcome.append(caught.value)

    thread = threading.Thread(target=say)
    thread.start()
    assert stuck.reading.wait(LONG)
    conversation.cancel()
    thread.join(LONG)
    assert outcome == [Cancelled("cancelled")]
