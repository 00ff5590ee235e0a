"""Servers in processes of their own, and turns that their service does not end."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fronts import DELTA, WORD, raw
from raw_http import dial, until

from genai_host_testing.fake_service import HANG, HOLD, FakeService, Received, Reply, sse_reply
from genai_host_testing.internal.servers import HEADERS, Several, configure
from genai_host_testing.services.openai import chat

STOP = b'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'


def behind(received: Received) -> Reply:
    """Reply immediately, hang after the first chunk, or wait for `let_go`, as the last message
    says."""
    body = received.json()
    if body["messages"][-1]["content"] == "hang":
        return sse_reply([DELTA, HANG])
    if body["messages"][-1]["content"] == "hold":
        return sse_reply([DELTA, HOLD, STOP, b"[DONE]"])
    return chat(WORD, streamed=body.get("stream", False))


@pytest.fixture
def service(home: Path) -> Iterator[FakeService]:
    with FakeService(answer=behind) as service:
        configure(home, service, server={"graceful_timeout": 0.3})
        yield service


@contextmanager
def hanging(server: Several, path: str, message: bytes = b"hang") -> Iterator[socket.socket]:
    """Yield a connection on which a turn of a conversation is in progress."""
    body = b'{"message": "%b", "stream": true}' % message
    with dial(server.url) as connection:
        connection.sendall(raw(f"{path}/turns", body, authorization=HEADERS["authorization"]))
        until(connection, WORD.encode())
        yield connection
