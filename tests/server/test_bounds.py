"""Limits on request bodies, concurrent requests and connections."""

from __future__ import annotations

import asyncio
import selectors
import socket
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import Any, cast

import pytest
import requests
from fronts import FRONTS, WORD, Place, place
from genai_server import Server
from genai_server.access import ByteBudget, RequestQueue, UserRateLimiter
from genai_server.heads import Refused
from genai_server.settings import AccessLogEntry, ServerSettings
from raw_http import dial, exchange, receive_all, statuses, until

from genai_host import Host
from genai_host.api import HttpRoute, RouteRequest, RouteResponse, Secret, json_response
from genai_host_testing import InlinePlugin, ManualClock
from genai_host_testing.fake_service import HOLD, Reply
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.servers import served, wait_until
from genai_host_testing.services.openai import chat

pytestmark = pytest.mark.part

POST = b"POST /size HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
HELD = POST.replace(b"/size", b"/held") + b"content-length: 2\r\n\r\n{}"
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"


class Held:
    """Handler whose requests wait until the test releases them."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.come = threading.Semaphore(0)
        self.go = threading.Event()
        self.most = self.now = self.pieces = 0
        self.closed = threading.Event()
        self.lock = threading.Lock()

    def answer(self, request: RouteRequest, host: Host) -> RouteResponse:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.come.release()
        with request.limits.on_cancel(self.go.set):
            self.go.wait(30)
        with self.lock:
            self.now -= 1
        return json_response("held")

    def endless(self, request: RouteRequest, host: Host) -> RouteResponse:
        return RouteResponse(self._pieces())

    def _pieces(self) -> Iterator[bytes]:
        try:
            while True:
                self.pieces += 1
                yield b"x" * 10_000
        finally:
            self.closed.set()


held = Held()


def size(request: RouteRequest, host: Host) -> RouteResponse:
    return json_response(len(request.body))


@pytest.fixture
def host(make_host: MakeHost, clock: ManualClock) -> Host:
    held.begin()
    routes = [
        HttpRoute("POST", "/size", f"{__name__}:size", max_body_size=1000),
        HttpRoute("POST", "/large", f"{__name__}:size", max_body_size=10**6),
        HttpRoute("GET", "/size", f"{__name__}:size"),
        HttpRoute("POST", "/held", f"{__name__}:held.answer"),
        HttpRoute("GET", "/endless", f"{__name__}:held.endless"),
    ]
    return make_host(clock=clock, mine=InlinePlugin(http_routes=routes))


class TestBodies:
    def test_that_are_declared_too_large_are_not_waited_for(self, host: Host) -> None:
        with served(host) as server:
            with dial(server.url) as sender:
                sender.sendall(POST + b"content-length: 1001\r\n\r\n")
                assert statuses(until(sender, b"}}")) == [413]
            right = POST + b"connection: close\r\ncontent-length: 1000\r\n\r\n" + b"1" * 1000
            assert statuses(exchange(server.url, right)) == [200]

    def test_in_chunks_are_counted(self, host: Host) -> None:
        piece = b"64\r\n" + b"1" * 100 + b"\r\n"
        with served(host) as server, dial(server.url) as sender:
            sender.sendall(CHUNKED + 10 * piece + b"0\r\n\r\n")
            assert until(sender, b"1000").startswith(b"HTTP/1.1 200")
            sender.sendall(CHUNKED + 11 * piece)
            assert statuses(until(sender, b"}}")) == [413]

    def test_that_nobody_takes_are_not_waited_for(self, host: Host) -> None:
        nowhere = POST.replace(b"/size", b"/nope") + b"content-length: 999999999\r\n\r\n"
        wrong = POST.replace(b"POST", b"PUT") + b"content-length: 999999999\r\n\r\n"
        with served(host) as server:
            for request, status in ((nowhere, 404), (wrong, 405)):
                with dial(server.url) as sender:
                    sender.sendall(request)
                    assert statuses(until(sender, b"}}")) == [status]

    def test_have_a_time(self, host: Host) -> None:
        with served(host, body_seconds=0.1) as server:
            for begun in (POST + b"content-length: 9\r\n\r\n123", CHUNKED + b"5\r\n12"):
                assert statuses(exchange(server.url, begun)) == [408]

    def test_that_do_not_come_are_given_up(self, host: Host) -> None:
        with served(host) as server, dial(server.url) as sender:
            sender.sendall(POST + b"content-length: 9\r\n\r\n123")
            sender.shutdown(socket.SHUT_WR)
            assert receive_all(sender) == b""

    def test_of_all_have_a_bound(self, host: Host, client: requests.Session) -> None:
        with served(host, max_body_memory=1500) as server:
            with dial(server.url) as sender:
                sender.sendall(POST + b"content-length: 1000\r\n\r\n" + b"1" * 999)
                uvicorn: Any = server._uvicorn
                while uvicorn.config.app.state.body_budget.left > 501:  # it has not been read yet
                    assert client.get(f"{server.url}/size").status_code == 200
                assert client.post(f"{server.url}/large", json="x" * 1000).status_code == 429
                sender.sendall(b"1")
                until(sender, b"\r\n\r\n")
            assert client.post(f"{server.url}/large", json="x" * 1000).json() == 1002


class TestPlaces:
    def asking(self, pool: ThreadPoolExecutor, url: str, count: int) -> list[Any]:
        """Begin requests, of which two are answered at once."""
        futures = [pool.submit(requests.post, url, json={}, timeout=30) for _ in range(count)]
        for _ in range(2):
            assert held.come.acquire(timeout=30)
        return futures

    def test_so_many_are_answered_at_once(self, host: Host, client: requests.Session) -> None:
        with served(host, max_concurrency=2, queue_size=0) as server, ThreadPoolExecutor(2) as pool:
            url = f"{server.url}/held"
            futures = self.asking(pool, url, 2)
            refused = client.post(url, json={})
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
            assert refused.json()["error"]["code"] == "overloaded"
            # what is only looked at does not wait for them
            assert client.get(f"{server.url}/size").json() == 0
            held.go.set()
            assert [each.result().json() for each in futures] == ["held"] * 2
            assert client.post(url, json={}).status_code == 200

    def test_others_wait(self, host: Host) -> None:
        with served(host, max_concurrency=2, queue_size=4) as server, ThreadPoolExecutor(6) as pool:
            futures = self.asking(pool, f"{server.url}/held", 6)
            held.go.set()
            assert [each.result().json() for each in futures] == ["held"] * 6
        assert held.most == 2

    def test_disconnected_client_leaves_the_queue(self, host: Host) -> None:
        ended: SimpleQueue[AccessLogEntry] = SimpleQueue()
        limits = {"max_concurrency": 1, "queue_size": 1, "access_log": ended.put}
        with served(host, **limits) as server, ThreadPoolExecutor(1) as pool:
            first = pool.submit(requests.post, f"{server.url}/held", json={}, timeout=30)
            assert held.come.acquire(timeout=30)
            for _ in range(5):
                with dial(server.url) as client:
                    client.sendall(HELD)
                assert ended.get(timeout=30).status == 499
            held.go.set()
            assert first.result().json() == "held"
        assert held.most == 1

    def test_in_the_order_of_coming(self) -> None:
        async def check() -> None:
            places = RequestQueue(1, 2)
            assert places.acquire() is None
            first, second = places.acquire(), places.acquire()
            assert first is not None
            assert second is not None
            with pytest.raises(Refused):
                places.acquire()
            first.cancel()
            places.cancel_wait(first)
            third = places.acquire()
            assert third is not None
            places.release()
            assert (second.done(), third.done()) == (True, False)
            places.cancel_wait(second)  # it had its turn, and is not there to take it
            assert third.done()
            places.release()
            assert places.acquire() is None

        asyncio.run(check())


class TestRate:
    def test_of_each_user(self, host: Host, clock: ManualClock, client: requests.Session) -> None:
        tokens = {"ann": Secret("the-token-of-ann"), "bob": Secret("the-token-of-bob")}
        with served(host, tokens=tokens, rate_limit=2) as server:
            url = f"{server.url}/size"
            ann, bob = {"x-api-key": "the-token-of-ann"}, {"x-api-key": "the-token-of-bob"}
            assert [client.get(url, headers=ann).status_code for _ in range(2)] == [200] * 2
            refused = client.get(url, headers=ann)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "30")
            assert client.get(url, headers=bob).status_code == 200
            assert client.get(f"{server.url}/health").status_code == 200
            clock.advance(30)
            assert [client.get(url, headers=ann).status_code for _ in range(2)] == [200, 429]

    def test_leaves_out_what_the_page_asks_for(self, host: Host, client: requests.Session) -> None:
        with served(host, rate_limit=1) as server:
            for _ in range(3):
                assert client.get(f"{server.url}/page").status_code == 200
                reply = client.post(f"{server.url}/page/markdown", json={"texts": ["a"]})
                assert reply.status_code == 200
            assert client.get(f"{server.url}/size").status_code == 200
            assert client.get(f"{server.url}/nope").status_code == 429

    def test_comes_back_with_time_and_that_of_many_is_forgotten(self) -> None:
        allowance = UserRateLimiter(60)
        for _ in range(60):
            allowance.acquire("a", 0.0)
        with pytest.raises(Refused) as refused:
            allowance.acquire("a", 0.5)
        assert refused.value.problem.retry_after == 1
        allowance.acquire("a", 1.0)
        with pytest.raises(Refused):
            allowance.acquire("a", 1.0)
        for _ in range(60):
            allowance.acquire("a", 1e6)
        with pytest.raises(Refused):
            allowance.acquire("a", 1e6)

        many = UserRateLimiter(1)
        for number in range(20_000):
            many.acquire(str(number), 0.0)
        assert len(many._left) == 10_000

    def test_room(self) -> None:
        room = ByteBudget(10)
        room.acquire(10)
        with pytest.raises(Refused):
            room.acquire(1)
        room.release(10)
        room.acquire(1)


class TestSlowReaders:
    def begin(self, reader: socket.socket) -> None:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.sendall(b"GET /endless HTTP/1.1\r\nhost: localhost\r\n\r\n")

    def test_slow_reader_blocks_the_writer(self, host: Host) -> None:
        with served(host) as server, dial(server.url) as reader:
            self.begin(reader)
            until(reader, b"\r\n\r\n")
            count = settled()
            assert count * 10_000 < 20 * 2**20, "what the system buffers, and little more"
            until(reader, b"x" * 10_000)
            reader.close()
            assert held.closed.wait(30)

    def test_that_read_nothing_are_left(self, host: Host) -> None:
        with served(host, send_seconds=0.1) as server, dial(server.url) as reader:
            self.begin(reader)
            assert held.closed.wait(30)


def settled() -> int:
    """Return the number of chunks once no more are produced."""
    waited = threading.Event()
    before = -1
    while before != held.pieces:
        before = held.pieces
        waited.wait(0.2)
    return before


def filled(server: Server, stack: ExitStack, count: int) -> list[socket.socket]:
    """Open connections that stay idle after one request each."""
    clients = [stack.enter_context(dial(server.url)) for _ in range(count)]
    for client in clients:
        client.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert client.recv(1000).startswith(b"HTTP/1.1 200")
    return clients


class TestConnections:
    def test_too_many_are_refused(self, host: Host, caplog: pytest.LogCaptureFixture) -> None:
        with served(host, connections=3) as server, ExitStack() as stack:
            filled(server, stack, 3)
            for path in (b"/size", b"/healthy", b"/v1/models", b"/page") * 5:
                with dial(server.url) as more:
                    more.sendall(b"GET %b HTTP/1.1\r\nhost: localhost\r\n\r\n" % path)
                    refused = receive_all(more)
                    assert statuses(refused) == [503]
                    assert b'"overloaded"' in refused
            assert caplog.text.count("further connections are refused") == 1
            stack.close()
            while requests.get(f"{server.url}/size", timeout=30).status_code == 503:
                pass  # the server sees that they have gone

    @pytest.mark.parametrize("root", ["", "/below"])
    def test_beyond_the_limit_answer_health_checks(self, host: Host, root: str) -> None:
        """Health checks are answered even if clients use all connections, including the reserve."""
        with served(host, connections=3, root_path=root) as server, ExitStack() as stack:
            wait_until(lambda: requests.head(f"{server.url}/ready", timeout=30).ok)
            filled(server, stack, 3)
            idle = [stack.enter_context(dial(server.url)) for _ in range(40)]
            for path in ("/health", "/ready", f"{root}/health?deep=1"):
                with dial(server.url) as client:
                    client.sendall(b"GET %b HTTP/1.1\r\nhost: localhost\r\n\r\n" % path.encode())
                    assert statuses(receive_all(client)) == [200], (
                        path
                    )  # and the connection is closed
            assert requests.head(f"{server.url}/ready", timeout=30).status_code == 200
            assert requests.post(f"{server.url}/health", json={}, timeout=30).status_code == 503
            assert statuses(receive_all(idle[0])) == [503]

    def test_of_the_reserve_have_a_time(self, host: Host) -> None:
        with served(host, connections=1, head_seconds=0.5) as server, ExitStack() as stack:
            filled(server, stack, 1)
            with dial(server.url) as more:
                more.sendall(b"GET /health HTTP/1.1\r\n")
                assert statuses(receive_all(more)) == [503]

    def test_of_the_reserve_are_those_beyond_the_limit_alone(self, host: Host) -> None:
        with served(host, connections=1) as server, ExitStack() as stack:
            filled(server, stack, 1)
            stack.enter_context(dial(server.url))
            assert requests.get(f"{server.url}/health", timeout=30).status_code == 200
            stack.close()
            while requests.get(f"{server.url}/size", timeout=30).status_code == 503:
                pass
            filled(server, stack, 1)
            assert requests.get(f"{server.url}/size", timeout=30).status_code == 503
            stack.close()


def test_the_limit_of_open_files_leaves_room(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    limits = {resource.RLIM_INFINITY: 20_000, 10**6: 20_000, 1024: 768, 200: 136, 16: 8}
    for files, connections in limits.items():
        monkeypatch.setattr(resource, "getrlimit", lambda _, files=files: (files, files))
        assert ServerSettings().max_connections == connections


CALLS, CAP, LINE = 200, 20, 80


def reply_on_release() -> Reply:
    """A reply that waits until the test releases it."""
    return Reply([HOLD, *chat(WORD).steps], keep=True)


def crowd(here: Place, stack: ExitStack) -> list[socket.socket]:
    """Clients of all APIs, each with a request in progress."""
    messages = [here.raw(FRONTS[number % len(FRONTS)], stream=False) for number in range(CALLS)]
    clients = [stack.enter_context(dial(here.url)) for _ in messages]
    for client, data in zip(clients, messages, strict=True):
        client.sendall(data.replace(b"\r\n", b"\r\nconnection: close\r\n", 1))
    return clients


def refused(clients: list[socket.socket], count: int) -> list[bytes]:
    """Return the first replies, and remove their clients."""
    replies: list[bytes] = []
    with selectors.DefaultSelector() as waiting:
        for client in clients:
            waiting.register(client, selectors.EVENT_READ)
        while len(replies) < count:
            ready = waiting.select(30)
            assert ready, len(replies)
            for key, _ in ready:
                client = cast(socket.socket, key.fileobj)
                waiting.unregister(client)
                replies.append(receive_all(client))
                clients.remove(client)
    return replies


@pytest.mark.parametrize("where", ["the server", "the service"])
def test_200_requests_through_a_cap_of_20(make_host: MakeHost, tmp_path: Path, where: str) -> None:
    """The limit is that of the server, or that of the provider."""
    bounds: Mapping[str, Any] = (
        {"max_concurrency": CAP, "queue_size": LINE}
        if where == "the server"
        else {"max_concurrency": CALLS, "limits": {"max_concurrency": CAP, "queue_size": LINE}}
    )
    with place(make_host, tmp_path, **bounds) as here, ExitStack() as stack:
        here.service.replies = [reply_on_release()]
        clients = crowd(here, stack)
        for reply in refused(clients, CALLS - CAP - LINE):
            assert statuses(reply) == [429]
            assert b"\r\nretry-after: 1\r\n" in reply
        here.service.wait_for_requests(CAP)
        here.service.let_go(CALLS)
        assert Counter(code for each in clients for code in statuses(receive_all(each))) == {
            200: CAP + LINE
        }
        assert here.service.max_at_once == CAP
        assert len(here.service.requests) == CAP + LINE
        nothing_is_left(here)


def nothing_is_left(here: Place) -> None:
    """Check that no slots are in use in the server and at the provider once all threads have
    ended."""
    uvicorn: Any = here.server._uvicorn
    application = uvicorn.config.app.state
    settings = application.settings
    opened: Any = here.host.instances["remote"]._opened
    for _ in range(1000):
        free = (application._write_queue._free, opened.gate.inside, application.body_budget.left)
        if free == (settings.max_concurrency, 0, settings.max_body_memory):
            return
        assert here.send("GET", "/health").status_code == 200
    pytest.fail(f"places are left: {free}")
