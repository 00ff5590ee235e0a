"""Requests release all resources, however they end."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from genai_server import Server, application
from raw_http import dial, receive_all, until

from genai_host import Config, Host, Message
from genai_host.api import HttpRoute, RouteRequest, RouteResponse, json_response
from genai_host.errors import Interrupted
from genai_host.serving import completion
from genai_host.serving.completion import ChatRequest
from genai_host.store import Store
from genai_host_testing import InlinePlugin, ManualClock
from genai_host_testing.fake_service import (
    CUT,
    HANG,
    FakeService,
    json_reply as service_reply,
    sse_reply,
)
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.servers import served, wait_until

pytestmark = pytest.mark.part

DELTA = b'{"choices":[{"index":0,"delta":{"content":"hello"}}]}'
EVENT = b"data: hello\n\n"
SAID: Any = [Message("user", "hi")]


def plain(request: RouteRequest, host: Host) -> RouteResponse:
    chat_request = ChatRequest(model="remote/m", messages=SAID)
    return json_response(completion.whole(host, chat_request, request).text)


def streamed(request: RouteRequest, host: Host) -> RouteResponse:
    chat_request = ChatRequest(model="remote/m", messages=SAID, stream=True)

    def write(answering: completion.CompletionStream) -> Iterator[bytes]:
        try:
            for delta in answering:
                yield b"data: " + delta.text.encode() + b"\n\n"
        except Interrupted as error:
            yield b"event: error\ndata: " + error.code.encode() + b"\n\n"
        else:
            yield b"data: [DONE]\n\n"

    return completion.streamed(completion.answer(host, chat_request, request), write)


def fails(request: RouteRequest, host: Host) -> RouteResponse:
    raise RuntimeError("a bug")


def breaks(request: RouteRequest, host: Host) -> RouteResponse:
    def pieces() -> Iterator[bytes]:
        yield b"x" * 1000
        raise RuntimeError("a bug")

    return RouteResponse(pieces())


ROUTES = [
    *(HttpRoute("POST", f"/{name}", f"{__name__}:{name}") for name in ("plain", "streamed")),
    *(HttpRoute("GET", f"/{name}", f"{__name__}:{name}") for name in ("fails", "breaks")),
]


@pytest.fixture
def host(make_host: MakeHost, service: FakeService) -> Host:
    import genai_vendor_openai

    remote = provider_config("openai-compatible", base_url=f"{service.url}/v1")
    return make_host(
        mine=InlinePlugin(http_routes=ROUTES),
        openai=genai_vendor_openai,
        config=Config(providers={"remote": remote}),
    )


def post(path: str) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\n"
    return f"{head}content-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}".encode()


@pytest.mark.parametrize("how", ["with a reset", "after another request"])
def test_a_client_that_goes_ends_its_request(host: Host, service: FakeService, how: str) -> None:
    """test_faults_behind.py has those that go without either."""
    service.replies = [sse_reply([DELTA, HANG])]
    with served(host) as server:
        with dial(server.url) as client:
            client.sendall(post("/streamed"))
            until(client, EVENT)
            if how == "with a reset":
                linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            else:
                client.sendall(post("/plain") * 3)
        service.wait_until_closed()


def test_the_server_ends_what_is_under_way(host: Host, service: FakeService) -> None:
    """The handler receives the reason, and can send it."""
    service.replies = [sse_reply([DELTA, HANG])]
    with served(host) as server, dial(server.url) as client:
        client.sendall(post("/streamed"))
        until(client, EVENT)
        server.stop()
        end = receive_all(client)
        service.wait_until_closed()
    assert b"data: interrupted\n\n" in end
    assert end.endswith(b"0\r\n\r\n")


@contextlib.contextmanager
def served_with_store(
    make_host: MakeHost, file: Path, **settings: Any
) -> Iterator[tuple[str, Store]]:
    """Yield the address of a server once its host is loaded, and its store."""
    with Store(file) as store, served(make_host(store=store, **settings)) as server:
        requests.get(f"{server.url}/nope", timeout=30)
        yield server.url, store


def ready(url: str) -> tuple[int, Any]:
    reply = requests.get(f"{url}/ready", timeout=30)
    return reply.status_code, reply.json()


def test_it_is_not_ready_without_its_store(make_host: MakeHost, tmp_path: Path) -> None:
    broken = tmp_path / "c.db"
    broken.write_bytes(b"no database at all, but long enough to be looked at" * 100)
    with served_with_store(make_host, broken) as (url, _):
        body = {"status": "no store", "reason": "file is not a database"}
        assert ready(url) == (503, body)
        assert requests.get(f"{url}/health", timeout=30).json() == {"status": "ok"}


def test_it_is_not_ready_where_its_store_breaks(
    make_host: MakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served_with_store(make_host, tmp_path / "c.db") as (url, store):
        monkeypatch.setattr(store, "check", lambda: 1 / 0)
        body = {"status": "no store", "reason": "see the log of the server"}
        assert ready(url) == (503, body)


def test_it_is_not_ready_where_its_store_cannot_be_made(
    make_host: MakeHost, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a-file").write_text("")
    (tmp_path / "c.db").mkdir()
    for place in (tmp_path / "a-file" / "c.db", tmp_path / "c.db"):
        with served_with_store(make_host, place) as (url, _):
            status, body = ready(url)
            assert (status, body["status"]) == (503, "no store")
            opened = requests.get(f"{url}/api/v1/conversations", timeout=30)
            assert (opened.status_code, opened.json()["error"]["code"]) == (503, "store")
            for text in (str(body), opened.text):  # no file is a client's to know
                assert str(tmp_path) not in text
                assert os.path.expanduser("~") not in text
            assert str(place) in caplog.text


def test_unready_without_a_store(make_host: MakeHost, tmp_path: Path, clock: ManualClock) -> None:
    """The state of the store is checked at most once per second."""
    with served_with_store(make_host, tmp_path / "c.db", clock=clock) as (url, store):
        assert ready(url) == (200, {"status": "ready"})
        store.conversations()
        (tmp_path / "c.db").unlink()
        clock.advance(1)
        assert ready(url)[0] == 200
        clock.advance(0.1)
        assert ready(url)[0] == 503


def test_all_hear_of_a_store_that_takes_its_time(
    make_host: MakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, go = threading.Event(), threading.Event()

    def check() -> None:
        looked.set()
        assert go.wait(30)

    ask = b"GET /ready HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    with served_with_store(make_host, tmp_path / "c.db") as (url, store):
        monkeypatch.setattr(store, "check", check)
        with dial(url) as first, dial(url) as second:
            first.sendall(ask)
            assert looked.wait(30)
            second.sendall(ask)
            assert requests.get(f"{url}/health", timeout=30).status_code == 200
            go.set()
            for client in (first, second):
                assert receive_all(client).startswith(b"HTTP/1.1 200")


def test_early_requests_wait(make_host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    monkeypatch.setattr(application, "own_routes", lambda: go.wait(30) and [])
    with served(make_host()) as server, dial(server.url) as early:
        early.sendall(b"GET /nope HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        assert ready(server.url) == (503, {"status": "starting"})
        go.set()
        assert receive_all(early).startswith(b"HTTP/1.1 404")


def test_a_broken_host_ends_it(make_host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> list[HttpRoute]:
        raise RuntimeError("it cannot")

    monkeypatch.setattr(application, "own_routes", fail)
    with pytest.raises(RuntimeError, match="it cannot"):
        Server(make_host(), port=0).run()


def test_what_fails_at_every_turn_leaves_nothing(
    host: Host, service: FakeService, caplog: pytest.LogCaptureFixture
) -> None:
    """No threads or connections remain, nor objects that hold them."""
    chance = random.Random(7)
    done = [DELTA, b'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}', b"[DONE]"]
    replies = [
        sse_reply(done), sse_reply([DELTA, CUT]), sse_reply([DELTA, HANG]),
        service_reply({"error": {"message": "no"}}, 500),
    ]  # fmt: skip

    def goes(url: str) -> None:
        service.replies = [chance.choice(replies)]
        with dial(url) as client:
            client.sendall(post(chance.choice(["/plain", "/streamed"])))
            if chance.random() < 0.5:
                client.settimeout(0.05)
                with contextlib.suppress(TimeoutError):
                    client.recv(4096)

    def garbage(url: str) -> None:
        with dial(url) as client:
            client.sendall(post("/plain")[: chance.randrange(1, 90)])

    def get(url: str) -> None:
        path = chance.choice(["/fails", "/breaks", "/nope", "/health"])
        with contextlib.suppress(requests.exceptions.ChunkedEncodingError):
            requests.get(url + path, timeout=30)

    def refused(url: str) -> None:
        requests.post(f"{url}/plain", "{}", headers={"content-type": "text/plain"}, timeout=30)

    kinds: list[Callable[[str], Any]] = [goes, garbage, get, refused]
    with served(host, send_seconds=1.0) as server:
        for kind in kinds * 3:
            kind(server.url)
        settle(service)
        before = counted()
        for _ in range(200):
            chance.choice(kinds)(server.url)

        # idle threads end after a while; connections to the service are kept
        def is_idle() -> bool:
            settle(service)
            return not exceeds(counted(), before)

        wait_until(is_idle)
    assert "genai-host-server" not in str(threading.enumerate())


def exceeds(now: tuple[int, int], before: tuple[int, int]) -> bool:
    return any(each > was + 4 for each, was in zip(now, before, strict=True))


def settle(service: FakeService) -> None:
    wait_until(lambda: service.open_connections <= 3)
    gc.collect()


def counted() -> tuple[int, int]:
    """Return the number of threads, except those of the service, and of open files."""
    threads = [each for each in threading.enumerate() if each.name != "fake-service"]
    return len(threads), len(os.listdir("/proc/self/fd"))
