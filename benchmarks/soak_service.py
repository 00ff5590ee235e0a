"""Fake service of the soak test, with random faults.

Each answer contains a unique word, so that it can be found in the store.
"""

from __future__ import annotations

import itertools
import json
import random
import threading
from collections.abc import Callable, Sequence
from typing import Any

from genai_host_testing.fake_service import (
    CUT,
    HANG,
    RESET,
    Received,
    Reply,
    ReplyStep,
    json_reply,
    reply,
    sse_reply,
)

_MAX_CHUNKS = 60
_USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
_FAULTS: Sequence[tuple[str, int]] = (  # per thousand requests
    ("busy", 10), ("down", 20), ("refused", 20), ("reset", 15), ("cut", 20), ("garbage", 15),
    ("html", 10), ("hang", 5),
)  # fmt: skip


def answer(seed: int) -> Callable[[Received], Reply]:
    """Return the answer function of a `FakeService`.

    Args:
        seed: Seed of the random answers and faults.
    """
    rng = random.Random(seed)  # noqa: S311 - test data, no secret
    lock = threading.Lock()
    numbers = itertools.count(1)

    def reply_to(received: Received) -> Reply:
        body = received.json()
        with lock:
            number = next(numbers)
            draw = rng.randrange(1000)
            chunks = [
                f"word{number}.",
                *(f" {rng.random():.6f}" for _ in range(rng.randrange(_MAX_CHUNKS))),
            ]
        streams = bool(body.get("stream"))
        for fault, weight in _FAULTS:
            draw -= weight
            if draw < 0:
                return _fault(fault, chunks, streams=streams)
        return _events(chunks) if streams else json_reply(_completion(chunks))

    return reply_to


def _fault(fault: str, chunks: Sequence[str], *, streams: bool) -> Reply:
    if fault == "busy":
        return json_reply({"error": {"message": "too many"}}, 429, {"Retry-After": "1"})
    if fault == "down":
        return json_reply({"error": {"message": "down"}}, 503)
    if fault == "refused":
        return json_reply({"error": {"message": "not found"}}, 400)
    if fault == "html":
        return reply(b"<html>it works</html>", headers={"Content-Type": "text/html"})
    if fault == "garbage":
        return sse_reply([b"{", b"\xff\xfe", b"[DONE]"]) if streams else reply(b'{"choices":')
    end = {"reset": RESET, "cut": CUT, "hang": HANG}[fault]
    return _events(chunks, end) if streams else Reply([b"HTTP/1.1 200 OK\r\n", end])


def _completion(chunks: Sequence[str]) -> Any:
    message = {"role": "assistant", "content": "".join(chunks)}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": _USAGE}


def _events(chunks: Sequence[str], end: ReplyStep | None = None) -> Reply:
    """Stream the chunks, or half of them and a fault."""
    events: list[ReplyStep] = [_chunk({"content": chunk}) for chunk in chunks]
    if end is not None:
        return sse_reply([*events[: len(events) // 2 + 1], end])
    return sse_reply([*events, _chunk({}, "stop"), b"[DONE]"])


def _chunk(delta: Any, finish: str | None = None) -> bytes:
    return json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}).encode()
