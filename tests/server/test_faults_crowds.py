"""Two hundred concurrent requests: the limit is kept, some wait, the others are refused with
Retry-After, and all resources are released."""

from __future__ import annotations

import selectors
import socket
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest
from fronts import FRONTS, WORD, Place, place
from talking import dial, heard, statuses

from genai_host_testing.fake_service import HOLD, Reply
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.services.openai import chat

pytestmark = pytest.mark.part

CALLS, CAP, LINE = 200, 20, 80


def held() -> Reply:
    """A reply that waits until the test releases it."""
    return Reply([HOLD, *chat(WORD).steps], keep=True)


def crowd(here: Place, stack: ExitStack) -> list[socket.socket]:
    """Clients of all APIs, each with a request in progress."""
    asked = [here.raw(FRONTS[number % len(FRONTS)], stream=False) for number in range(CALLS)]
    clients = [stack.enter_context(dial(here.url)) for _ in asked]
    for client, data in zip(clients, asked, strict=True):
        client.sendall(data.replace(b"\r\n", b"\r\nconnection: close\r\n", 1))
    return clients


def refused(clients: list[socket.socket], count: int) -> list[bytes]:
    """Return the first replies, and remove their clients."""
    told: list[bytes] = []
    with selectors.DefaultSelector() as waiting:
        for client in clients:
            waiting.register(client, selectors.EVENT_READ)
        while len(told) < count:
            ready = waiting.select(30)
            assert ready, len(told)
            for key, _ in ready:
                client = cast(socket.socket, key.fileobj)
                waiting.unregister(client)
                told.append(heard(client))
                clients.remove(client)
    return told


@pytest.mark.parametrize("where", ["the server", "the service"])
def test_200_requests_at_once_through_a_cap_of_20(
    make_host: MakeHost, tmp_path: Path, where: str
) -> None:
    """The limit is that of the server, or that of the provider."""
    bounds: Mapping[str, Any] = (
        {"max_concurrency": CAP, "queue_size": LINE}
        if where == "the server"
        else {"max_concurrency": CALLS, "limits": {"max_concurrency": CAP, "queue_size": LINE}}
    )
    with place(make_host, tmp_path, **bounds) as here, ExitStack() as stack:
        here.service.replies = [held()]
        clients = crowd(here, stack)
        for reply in refused(clients, CALLS - CAP - LINE):
            assert statuses(reply) == [429]
            assert b"\r\nretry-after: 1\r\n" in reply
        here.service.wait_for_requests(CAP)
        here.service.let_go(CALLS)
        assert Counter(code for each in clients for code in statuses(heard(each))) == {
            200: CAP + LINE
        }
        assert here.service.most_at_once == CAP
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
        free = (application._asking._free, opened.gate.inside, application.bodies.left)
        if free == (settings.max_concurrency, 0, settings.bodies):
            return
        assert here.send("GET", "/health").status_code == 200
    pytest.fail(f"places are left: {free}")
