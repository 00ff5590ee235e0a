"""Ten thousand requests, most of which go wrong, of one server in a process of its own: what
they leave behind in it is nothing.

What is to go wrong behind the server, the message to the model says; what a client does wrong
is done on a plain socket.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import struct
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pytest

from genai_host_testing.fake_service import (
    CUT,
    HANG,
    HOLD,
    RESET,
    FakeService,
    Received,
    Reply,
    json_reply,
    reply,
    sse_reply,
)
from genai_host_testing.internal.servers import (
    HEADERS,
    TOKEN,
    Several,
    configure,
    serving,
    wait_until,
)
from genai_host_testing.services import openai as openai_service

WARM_UP = 2_000
PARTS = (4_800, 1_600, 1_600)  # ten thousand in all
CLIENTS = 16
AT_ONCE = 24
GROWTH = 10 * 1024  # KiB
PATIENCE = 60.0  # seconds, for what must come, and usually has come already
SEED = 20261123
PATH = "/v1/chat/completions"
MODEL = "service/some-model"

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="what a process holds is told in /proc"
)


class Behind:
    """Fake service that does what the last message says, and reports each request."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._asked: Counter[str] = Counter()

    def answer(self, received: Received) -> Reply:
        if received.method == "GET":  # whether it is there
            return json_reply({"data": []})
        body = received.json()
        try:
            text = body["messages"][-1]["content"].strip()
        except (LookupError, TypeError, AttributeError):  # it passes through the host
            return openai_service.failure(400)
        with self._changed:
            self._asked[text] += 1
            self._changed.notify_all()
        return _replies(text.split()[0], body.get("stream", False))

    def wait_for(self, text: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._asked[text], PATIENCE), text


def _replies(fault: str, streamed: bool) -> Reply:
    fine = openai_service.chat("all is well", streamed=streamed)
    cut = b"".join(each for each in fine.steps if isinstance(each, bytes))[:-30]
    first = json.dumps({"choices": [{"index": 0, "delta": {"content": "word " * 200}}]}).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: "
    if fault.isdecimal():
        return openai_service.failure(int(fault))
    replies: dict[str, Callable[[], Reply]] = {
        "fine": lambda: fine,
        "busy": lambda: openai_service.failure(429, {"Retry-After": "86400"}),
        "cut": lambda: Reply([cut, CUT]), "reset": lambda: Reply([cut, RESET]),
        "garbage": lambda: reply(b'data: {"choices": [\n\n{{' + os.urandom(500)),
        "broken": lambda: sse_reply([first, b'{"choices": [{"delta": ']),
        "endless": lambda: Reply([head, first * 3000, CUT]),
        "html": lambda: reply(b"<html>Sign in</html>", headers={"Content-Type": "text/html"}),
        "empty": lambda: reply(b""), "hang": lambda: Reply([HANG]),
        "begin": lambda: sse_reply([first, first, HANG]),
        "flood": lambda: sse_reply([first] * 500),
        "hold": lambda: sse_reply([first, HOLD, b"[DONE]"]),
    }  # fmt: skip
    return replies[fault]()


def _resources(server: Several, service: FakeService) -> tuple[int, int]:
    """Threads and descriptors of the server, without the connections that are kept: those to the
    service, and to the store, of which it keeps five, once it had them."""
    folder = Path(f"/proc/{server.pid}")
    descriptors = sum(
        "conversations.db" not in _name_of(each) for each in (folder / "fd").iterdir()
    )
    threads = len(os.listdir(folder / "task"))
    return threads, descriptors - service.open_connections


def _memory(server: Several) -> int:
    """KiB that are its own."""
    rollup = Path(f"/proc/{server.pid}/smaps_rollup").read_text(encoding="utf-8")
    return sum(int(line.split()[1]) for line in rollup.splitlines() if "Private_" in line)


class Client:
    """Client that performs random actions, chosen by weight."""

    def __init__(self, number: int, port: int, behind: Behind) -> None:
        self._number = number
        self._port = port
        self._behind = behind
        self._random = Random(SEED + number)
        self._count = 0
        self._kept = self._connection()
        self.done: Counter[str] = Counter()

    def run(self, requests: int) -> None:
        for deed in self._random.choices([*_DEEDS], [*_DEEDS.values()], k=requests):
            deed(self)
            self.done[deed.__name__] += 1

    def close(self) -> None:
        """The next request opens it again."""
        self._kept.close()

    def be_answered(self) -> None:
        status, body = self._ask(self._kept, "fine")
        assert status == 200, body
        assert json.loads(body)["choices"][0]["message"]["content"] == "all is well"

    def name_another_model(self) -> None:
        """Ids are passed through: there is no end to them."""
        status, body = self._ask(self._kept, "fine", model=f"service/{self._saying('model')}")
        assert status == 200, body

    def be_streamed(self) -> None:
        status, body = self._ask(self._kept, "fine", stream=True)
        assert status == 200, body
        assert body.rstrip().endswith(b"data: [DONE]"), body

    def look_around(self) -> None:
        for path in ("/v1/models", "/health"):
            self._kept.request("GET", path, headers=HEADERS)
            with self._kept.getresponse() as response:
                assert response.status == 200, response.read()
                response.read()

    def meet_a_fault(self) -> None:
        """Behind the server. No answer that is not whole looks as if it were."""
        model = self._random.choice([MODEL] * 9 + ["fragile/some-model"])
        fault, stream = self._random.choice(_FAULTS), self._random.random() < 0.5
        status, body = self._ask(None, fault, stream=stream, model=model)
        assert b"[DONE]" not in body, (fault, body)
        assert b'"error"' in body, (fault, body)
        assert status != 500, (fault, body)
        assert stream or status >= 400, (fault, body)

    def fail_again_and_again(self) -> None:
        """So that the host tries it more than once, which takes its time."""
        fault = self._random.choice(["500", "503", "529"])
        stream = self._random.random() < 0.5
        status, body = self._ask(None, fault, stream=stream)
        if stream and status == 200:  # its head was sent meanwhile
            assert b'"error"' in body, body
            assert b"[DONE]" not in body, body
        else:
            assert status in (502, 503), body

    def leave_before_the_answer(self) -> None:
        text = self._saying("hang")
        with self._asking(text, stream=self._random.random() < 0.5):
            self._behind.wait_for(text)

    def leave_amid_the_answer(self) -> None:
        fault = self._random.choice(["begin", "flood"])
        with self._asking(self._saying(fault), stream=True) as connection:
            received = b""
            while b"word" not in received:
                piece = connection.recv(65536)
                assert piece, received
                received += piece
            if self._random.random() < 0.5:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE_CLOSED)

    def leave_amid_the_request(self) -> None:
        request = _request(_body(self._saying("fine")))
        with self._connected() as connection:
            connection.sendall(request[: self._random.randrange(1, len(request))])

    def be_refused(self) -> None:
        statuses, data = self._random.choice(_REFUSED)
        with self._connected() as connection:
            connection.sendall(data)
            with http.client.HTTPResponse(connection) as received:
                received.begin()
                assert received.status in statuses, (data[:200], received.status, received.read())

    def hold(self) -> bytes:
        """All that came of an answer that the service ends when the test says so."""
        return self._ask(None, "hold", stream=True)[1]

    def _ask(
        self, reused: http.client.HTTPConnection | None, fault: str, **fields: Any
    ) -> tuple[int, bytes]:
        """Ask over a connection that is kept, or a new one."""
        if reused is None:
            with closing(self._connection()) as connection:
                return self._ask(connection, fault, **fields)
        connection = reused
        body = _body(self._saying(fault), **fields)
        connection.request("POST", PATH, body, HEADERS)
        with connection.getresponse() as received:
            try:
                return received.status, received.read()
            except http.client.IncompleteRead as error:
                return received.status, error.partial

    def _saying(self, fault: str) -> str:
        self._count += 1
        return f"{fault} {self._number}.{self._count}"

    def _asking(self, text: str, *, stream: bool) -> socket.socket:
        connection = self._connected()
        connection.sendall(_request(_body(text, stream=stream)))
        return connection

    def _connected(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._port), PATIENCE)

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)


_AT_ONCE_CLOSED = struct.pack("ii", 1, 0)
_FAULTS = ["busy", "cut", "reset", "garbage", "broken", "endless", "html", "empty"]
_FAULTS += ["400", "401", "403", "404"]
_DEEDS: dict[Callable[[Client], None], int] = {
    Client.be_answered: 5, Client.name_another_model: 5, Client.be_streamed: 10,
    Client.look_around: 5, Client.meet_a_fault: 25, Client.fail_again_and_again: 2,
    Client.leave_before_the_answer: 12, Client.leave_amid_the_answer: 12,
    Client.leave_amid_the_request: 8, Client.be_refused: 16,
}  # fmt: skip


def _body(text: str, *, stream: bool = False, model: str = MODEL) -> bytes:
    messages = [{"role": "user", "content": text}]
    return json.dumps({"model": model, "messages": messages, "stream": stream}).encode()


def _request(body: bytes, path: str = PATH, method: str = "POST", **headers: str) -> bytes:
    """Return the bytes of a request; given headers replace the usual ones."""
    fields = {
        "Host": "127.0.0.1", "Content-Type": "application/json",
        "Authorization": f"Bearer {TOKEN}", "Content-Length": str(len(body)),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }  # fmt: skip
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


_REFUSED: list[tuple[tuple[int, ...], bytes]] = [
    ((401,), _request(_body("fine"), Authorization="Bearer another")),
    ((401,), _request(_body("fine"), Authorization="")),
    ((400, 403, 421), _request(_body("fine"), Host="elsewhere.example")),
    ((403,), _request(_body("fine"), Origin="https://elsewhere.example")),
    ((413,), _request(b"{}", Content_Length=str(2**30))),
    ((404,), _request(b"{}", "/nowhere")),
    ((405,), _request(b"", PATH, "DELETE")),
    ((400,), b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 500),
    ((400, 431), _request(b"", "/" + "x" * 2**17)),
    *(
        ((400,), _request(body))
        for body in (
            b"",
            b"{",
            b"[]",
            b"null",
            b"\xff\xfe",
            b"[" * 100_000,
            b'{"model": 7, "messages": []}',
            b'{"model": "service/some-model", "messages": [{"role": "king", "content": []}]}',
            b'{"model": "service/some-model", "messages": {"role": "user"}}',
        )
    ),
    ((404,), _request(_body("fine", model="nobody/some-model"))),
    ((400,), _request(b"zz\r\n", Transfer_Encoding="chunked").replace(b"Content-Length", b"X")),
]


@pytest.fixture
def behind() -> Behind:
    return Behind()


@pytest.fixture
def service(behind: Behind) -> Iterator[FakeService]:
    with FakeService(answer=behind.answer) as fake_service:
        yield fake_service


@pytest.fixture
def serves(service: FakeService, home: Path) -> Iterator[tuple[Several, Future[str]]]:
    """A server, and what it logs. Its second provider opens its circuit for 0.5 s after three
    failures."""
    patient = {"breaker_threshold": 10**9, "max_concurrency": AT_ONCE}
    providers = {
        name: {"type": "openai-compatible", "base_url": f"{service.url}/v1", "limits": limits}
        for name, limits in [
            ("service", patient),
            ("fragile", {"breaker_threshold": 3, "breaker_reset": 0.5}),
        ]
    }
    configure(home, service, providers=providers, server={"max_concurrency": AT_ONCE})
    with ThreadPoolExecutor(1) as pool, serving() as server:
        assert server.process.stderr is not None
        yield server, pool.submit(server.process.stderr.read)  # or else it would be full


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_ten_thousand_requests_of_mixed_faults_leave_nothing_behind(
    service: FakeService, serves: tuple[Several, Future[str]], behind: Behind
) -> None:
    server, logged = serves
    port = urlsplit(server.url).port
    assert port is not None
    clients = [Client(number, port, behind) for number in range(CLIENTS)]
    clients[0].be_answered()
    clients[0].look_around()
    clients[0].close()
    nobody = Rest(server, service)

    run(clients, WARM_UP)
    warm = nobody.comes_again()
    after = []
    for part in PARTS:
        run(clients, part)
        after.append(nobody.comes_again())
    done = sum((client.done for client in clients), Counter[str]())
    print(dict(done), warm, after)  # noqa: T201 - how much it was, with `pytest -rP`
    assert done.total() == 10_000
    for _ in range(5):  # what leaks stays, what the C library keeps comes and goes
        if min(after) - warm > GROWTH:
            run(clients, 20 * CLIENTS)
            after.append(nobody.comes_again())
    assert min(after) - warm <= GROWTH, (warm, after)
    all_places_are_free(clients, service)
    clients[0].be_answered()
    clients[0].look_around()
    clients[0].close()
    server.process.terminate()
    assert server.process.wait(PATIENCE) == 0
    assert "Traceback" not in logged.result(PATIENCE)


class Rest:
    """Resources of the idle server: no more than before."""

    def __init__(self, server: Several, service: FakeService) -> None:
        self._server = server
        self._service = service
        self._before = _resources(server, service)

    def comes_again(self) -> int:
        """Wait for it; KiB of memory then."""
        wait_until(self._has_come, "threads to end and descriptors to be closed")
        self._service.wait_until_closed(but=AT_ONCE)
        return _memory(self._server)

    def _has_come(self) -> bool:
        pairs = zip(_resources(self._server, self._service), self._before, strict=True)
        return all(now <= before for now, before in pairs)


def _name_of(descriptor: Path) -> str:
    try:
        return os.readlink(descriptor)
    except OSError:  # closed meanwhile
        return ""


def run(clients: list[Client], requests: int) -> None:
    """Divide the requests among concurrent clients, then close their connections."""
    with ThreadPoolExecutor(len(clients)) as pool:
        list(pool.map(lambda client: client.run(requests // len(clients)), clients))
    for client in clients:
        client.close()


def all_places_are_free(clients: list[Client], service: FakeService) -> None:
    """Check that the configured number of requests can run concurrently."""
    before = len(service.requests)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        held = [pool.submit(clients[n % len(clients)].hold) for n in range(AT_ONCE)]
        service.wait_for_requests(before + AT_ONCE)
        service.let_go(AT_ONCE)
        for each in held:
            assert each.result().rstrip().endswith(b"data: [DONE]")
