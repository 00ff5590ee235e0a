"""A store that is closed while others write to it."""

from __future__ import annotations

import threading
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest

from genai_host.api import Codec, RouteInfo
from genai_host.calls.retry import Attempt
from genai_host.conversations.record import Opened
from genai_host.store import Store
from genai_host.store.library import ConversationQueries
from genai_host.usage.metering import UsageAggregate
from genai_host_testing import FakeModel
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.suites.base import in_background


class Slow:
    """A connection that is at a write until it is let go."""

    def __init__(self) -> None:
        self.entered, self.let_go = threading.Event(), threading.Event()
        self.is_closed = self.was_closed_meanwhile = False

    def cursor(self) -> Slow:
        return self

    def executemany(self, *args: Any) -> None:
        self.entered.set()
        assert self.let_go.wait(30)
        self.was_closed_meanwhile = self.is_closed

    def close(self) -> None:
        self.is_closed = True


def test_closing_waits_for_who_writes(make_host: MakeHost, tmp_path: Path) -> None:
    """SQLite's library crashes where a connection is closed that is in use."""
    with Store(tmp_path / "store.db") as store:
        conversation = make_host(fake=FakeModel(), store=store).open("chat", "fake")
        writer: Any = store._writer
        writer._let_go()
        slow = writer._connection = Slow()
        writing = in_background(lambda: conversation.use(temperature=0.5))
        assert slow.entered.wait(30)
        closing = in_background(store.close)
        wait([closing], 0.2)
        slow.let_go.set()
        writing.result(30)
        closing.result(30)
        assert slow.is_closed
        assert not slow.was_closed_meanwhile


def test_any_thread_can_close_a_store(tmp_path: Path) -> None:
    """The lock that shows that its process is alive is released then."""
    store = Store(tmp_path / "store.db")
    store.create(Opened("chat", "1", {}), Codec())
    lock = store._presence._lock
    assert lock.is_locked
    in_background(store.close).result(30)
    assert not lock.is_locked


def test_closing_waits_for_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is done in the background: a connection that is in use could not be closed."""
    begun, goes_on = threading.Event(), threading.Event()
    usual = ConversationQueries.add_usage

    def slowly(self: ConversationQueries, counted: Any) -> None:
        begun.set()
        assert goes_on.wait(30)
        usual(self, counted)

    monkeypatch.setattr(ConversationQueries, "add_usage", slowly)
    store = Store(tmp_path / "store.db")
    tally = UsageAggregate()
    tally.count("ann", "", Attempt(RouteInfo("m", "p", "d"), 0.0, 1.0, ""))
    counting = in_background(store.add_usage, tally)
    assert begun.wait(30)
    closing = in_background(store.close)
    assert not wait([closing], 0.1).done
    goes_on.set()
    counting.result(30)
    closing.result(30)
    with Store(tmp_path / "store.db") as again:
        assert [each.calls for each in again.usage()] == [1]
