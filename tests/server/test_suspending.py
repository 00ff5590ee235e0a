"""Streamed replies that need no thread while the service is silent."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from fronts import DELTA, FRONTS, WORD, Front, Place, place, raw
from genai_server import Server
from raw_http import dial, receive_all, until
from reference_cycles import left_in_cycles

from genai_host.api import HttpRoute, RouteRequest, RouteResponse, hookimpl
from genai_host.catalog.prices import cost_of
from genai_host.config import BudgetConfig, BudgetsConfig
from genai_host.host import Host
from genai_host.store import Store
from genai_host.util import waiting
from genai_host_testing import InlinePlugin
from genai_host_testing.fake_service import HANG, sse_reply
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.servers import served, wait_until

pytestmark = pytest.mark.part

_OF_MODELS = [front for front in FRONTS if front.name != "native"]
_USAGE = (
    b'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}'
)


class Observing(InlinePlugin):
    """An observer of a third party."""

    @hookimpl
    def genai_on_call_start(self, id: str) -> None:
        pass


def workers() -> int:
    return sum(thread.name.startswith("genai-host-server-") for thread in threading.enumerate())


def streaming(here: Place, front: Front, stack: ExitStack, count: int) -> None:
    """Open streams one after another, each of which has begun and is silent."""
    for _ in range(count):
        here.service.replies = [sse_reply([DELTA, HANG])]
        client = stack.enter_context(dial(here.url))
        client.sendall(here.raw(front, stream=True))
        until(client, WORD.encode())


@pytest.mark.parametrize("front", _OF_MODELS, ids=str)
def test_silent_streams_take_no_threads(
    make_host: MakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, front: Front
) -> None:
    """Idle threads end while the streams are open."""
    monkeypatch.setattr("genai_server.state._IDLE_SECONDS", 0.01)
    with place(make_host, tmp_path) as here, ExitStack() as stack:
        streaming(here, front, stack, 12)
        wait_until(lambda: workers() <= 1)  # one looks for changes of the configuration


def test_a_stream_leaves_no_reference_cycles(make_host: MakeHost, tmp_path: Path) -> None:
    """Their collection would delay other requests."""
    with place(make_host, tmp_path, head_delay=0.0) as here:

        def ask() -> None:
            here.service.replies = [sse_reply([DELTA, _USAGE, b"[DONE]"])]
            assert WORD.encode() in here.ask(FRONTS[0], stream=True).content

        assert left_in_cycles(ask) < 10


@pytest.mark.parametrize("why", ["an observer of others may block", "a loop as that of Windows"])
def test_others_take_threads(
    make_host: MakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    def add_reader(self: object, file: int, function: object) -> None:
        raise NotImplementedError

    is_observed = why.startswith("an observer")
    if not is_observed:
        monkeypatch.setattr(asyncio.SelectorEventLoop, "add_reader", add_reader)
    plugins = {"observing": Observing()} if is_observed else {}
    with place(make_host, tmp_path, plugins=plugins) as here, ExitStack() as stack:
        streaming(here, FRONTS[0], stack, 12)
        assert workers() >= 12


def test_the_cost_of_a_stream_is_computed_and_stored_in_threads(
    make_host: MakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The price list is imported for the first one, and another process may lock the store."""
    budgets = BudgetsConfig(user=BudgetConfig(day_tokens=100))
    with place(make_host, tmp_path, config={"budgets": budgets}) as here:
        store = here.host.store
        assert isinstance(store, Store)
        threads: list[str] = []

        def noted(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any) -> Any:
                threads.append(threading.current_thread().name)
                return function(*arguments)

            return call

        monkeypatch.setattr(store.ledger, "spend", noted(store.ledger.spend))
        monkeypatch.setattr("genai_host.calls.pricing.cost_of", noted(cost_of))
        here.service.replies = [sse_reply([DELTA, _USAGE, b"[DONE]"])]
        assert WORD.encode() in here.ask(FRONTS[0], stream=True).content
        wait_until(lambda: len(threads) == 2)
        assert "genai-host-server" not in threads
        assert [budget.spent for budget in here.host.budgets.states()] == [2]


class Pieces:
    """A body that notes the threads in which it is used."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces
        self.threads: list[str] = []
        self.goes_on = threading.Event()

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.pieces:
            self.threads.append(threading.current_thread().name)
            yield piece
            if piece == b"fails":
                raise LookupError("no")
            if piece == b"hangs":
                waiting.call(self.goes_on.wait)

    def close(self) -> None:
        self.threads.append(f"closed in {threading.current_thread().name}")


_BODIES: dict[str, Pieces] = {}


def answer(request: RouteRequest, host: Host) -> RouteResponse:
    return RouteResponse(_BODIES[request.body.decode()], suspends=True)


_PLUGIN = InlinePlugin(http_routes=[HttpRoute("POST", "/api/pieces", f"{__name__}:answer")])


@contextmanager
def asking(
    make_host: MakeHost, body: Pieces, *, is_ours: bool = True
) -> Iterator[tuple[Server, socket.socket]]:
    """Ask a server for a body of a plugin of this project, or of a third party."""
    host = make_host(pieces=_PLUGIN)
    if is_ours:
        host.registry.third_parties = frozenset()
    _BODIES["it"] = body
    try:
        with served(host) as server, dial(server.url) as client:
            client.sendall(raw("/api/pieces", b"it"))
            yield server, client
    finally:
        body.goes_on.set()
        _BODIES.clear()


@pytest.mark.parametrize("is_ours", [False, True])
def test_a_body_of_others_is_iterated_in_a_thread(make_host: MakeHost, is_ours: bool) -> None:
    """Whatever it says about itself."""
    body = Pieces(b"a", b"b", b"", b"c")
    with asking(make_host, body, is_ours=is_ours) as (_, client):
        until(client, b"c\r\n0\r\n\r\n")
    wait_until(lambda: len(body.threads) == 5)
    assert all((name == "genai-host-server") == is_ours for name in body.threads[:4])
    assert body.threads[4].startswith("closed")


def test_a_failed_reply_is_cut(make_host: MakeHost, caplog: pytest.LogCaptureFixture) -> None:
    body = Pieces(b"a", b"fails")
    with asking(make_host, body) as (_, client):
        assert receive_all(client).endswith(b"afails\r\n")
    assert "a reply was interrupted" in caplog.text
    assert body.threads[-1].startswith("closed")


def test_a_server_that_stops_does_not_wait_for_one_that_hangs(make_host: MakeHost) -> None:
    body = Pieces(b"hangs")
    with asking(make_host, body) as (server, client):
        until(client, b"hangs")
        server.stop()
        assert not receive_all(client).endswith(b"0\r\n\r\n")
    assert body.threads[-1].startswith("closed")


def test_a_client_that_reads_nothing_holds_up_the_body(make_host: MakeHost) -> None:
    body = Pieces(*[bytes(1 << 20)] * 200)
    with asking(make_host, body) as (server, client):
        until(client, b"200 OK")
        with dial(server.url) as other:
            other.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
            until(other, b'"ok"')
        client.close()
        wait_until(lambda: bool(body.threads) and body.threads[-1].startswith("closed"))
    assert len(body.threads) < 100
