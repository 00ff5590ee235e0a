"""The service behind a server that is soaked: mostly it answers, by chance it fails.

Each answer has a word of its own, so that it can be found in the record.
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

_MOST_PIECES = 60
_USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
_FAULTS: Sequence[tuple[str, int]] = (  # in a thousand
    ("busy", 10), ("down", 20), ("refused", 20), ("reset", 15), ("cut", 20), ("garbage", 15),
    ("html", 10), ("hang", 5),
)  # fmt: skip


def answer(seed: int) -> Callable[[Received], Reply]:
    """What `FakeService` is given; what comes is by chance, beginning with that seed."""
    chance = random.Random(seed)  # noqa: S311 - chance, no secret
    lock = threading.Lock()
    numbers = itertools.count(1)

    def reply_to(received: Received) -> Reply:
        body = received.json()
        with lock:
            number = next(numbers)
            drawn = chance.randrange(1000)
            pieces = [
                f"word{number}.",
                *(f" {chance.random():.6f}" for _ in range(chance.randrange(_MOST_PIECES))),
            ]
        streams = bool(body.get("stream"))
        for fault, weight in _FAULTS:
            drawn -= weight
            if drawn < 0:
                return _failing(fault, pieces, streams=streams)
        return _events(pieces) if streams else json_reply(_completion(pieces))

    return reply_to


def _failing(fault: str, pieces: Sequence[str], *, streams: bool) -> Reply:
    if fault == "busy":
        return json_reply({"error": {"message": "too many"}}, 429, {"Retry-After": "1"})
    if fault == "down":
        return json_reply({"error": {"message": "down"}}, 503)
    if fault == "refused":
        return json_reply({"error": {"message": "no such thing"}}, 400)
    if fault == "html":
        return reply(b"<html>it works</html>", headers={"Content-Type": "text/html"})
    if fault == "garbage":
        return sse_reply([b"{", b"\xff\xfe", b"[DONE]"]) if streams else reply(b'{"choices":')
    end = {"reset": RESET, "cut": CUT, "hang": HANG}[fault]
    return _events(pieces, end) if streams else Reply([b"HTTP/1.1 200 OK\r\n", end])


def _completion(pieces: Sequence[str]) -> Any:
    message = {"role": "assistant", "content": "".join(pieces)}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": _USAGE}


def _events(pieces: Sequence[str], end: ReplyStep | None = None) -> Reply:
    """The pieces as they are streamed, to the end, or half of them."""
    told: list[ReplyStep] = [_chunk({"content": piece}) for piece in pieces]
    if end is not None:
        return sse_reply([*told[: len(told) // 2 + 1], end])
    return sse_reply([*told, _chunk({}, "stop"), b"[DONE]"])


def _chunk(delta: Any, finish: str | None = None) -> bytes:
    return json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}).encode()
