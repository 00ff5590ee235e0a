"""Acceptance: what a service sent stays reachable on each way that a model can go, byte for
byte, and without a key. The files themselves: item 7 in test_chat_models.py."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from botocore.eventstream import EventStreamBuffer
from ways import Way, each_way, host, service, set_up

from genai_host import Host
from genai_host_testing.fake_service import FakeService, Reply

pytestmark = pytest.mark.part

__all__ = ["host", "service", "set_up"]

both_streamed = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def body_of(reply: Reply) -> bytes:
    """What a reply sends after its headers, out of its chunks."""
    head, *chunks = [step for step in reply.steps if isinstance(step, bytes)]
    headers, _, body = head.partition(b"\r\n\r\n")
    if b"chunked" not in headers:
        return body
    return b"".join(chunk.partition(b"\r\n")[2][:-2] for chunk in chunks[:-1])


def events_of(body: bytes) -> list[bytes]:
    """The data of a stream's events, whichever way they are framed."""
    if body.startswith(b"{"):
        return body.splitlines()
    if body.startswith(b"data: "):
        return re.findall(rb"^data: (.*)$", body, re.MULTILINE)
    buffer = EventStreamBuffer()
    buffer.add_data(body)
    return [_unframed(each.headers[":event-type"], each.payload) for each in buffer]


def _unframed(kind: str, payload: bytes) -> bytes:
    """Of an event in a frame, which has its name in a header: an object of that name."""
    if kind == "chunk":
        return base64.b64decode(json.loads(payload)["bytes"])
    return b'{"%b":%b}' % (kind.encode(), payload)


def kept(host: Host, folder: Path, model: str, way: Way, *, streamed: bool) -> bytes:
    """What is in the file after a turn, below the line that says when and of whom."""
    settings = {
        "keep_raw_engine_responses": True,
        "raw_engine_responses": str(folder),
        "request_limit": None,
    }
    conversation = host.open("chat-model", f"{model}@{way.route}", settings=settings)
    _ = list(conversation.stream("hi")) if streamed else conversation.say("hi")
    [file] = folder.rglob("*.txt")
    head, _, text = file.read_bytes().partition(b"\n")
    assert f"{model}@{way.route.partition('+')[0]}".encode() in head
    assert text.endswith(b"\n")
    return text[:-1]


@each_way
@both_streamed
def test_item_07_what_the_service_sent_is_kept_byte_for_byte(
    host: Host, service: FakeService, tmp_path: Path, model: str, way: Way, streamed: bool
) -> None:
    """Of a stream, the data of its events."""
    reply = way.says("Grüße, \u2028\x1b[1m!", streamed=streamed)
    service.replies[:] = [reply]
    body = body_of(reply)
    sent = b"\n".join(events_of(body)) if streamed else body
    assert kept(host, tmp_path / "raw", model, way, streamed=streamed) == sent


KEYS: Mapping[str, str] = {
    "openai": "OPENAI_API_KEY",
    "azure-openai": "AZURE_OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "bedrock": "AWS_BEARER_TOKEN_BEDROCK",
    "gemini": "GEMINI_API_KEY",
    "vertex": "CLOUDSDK_AUTH_ACCESS_TOKEN",
    "ollama": "OLLAMA_API_KEY",
    "mine": "MINE_API_KEY",
}
CANARY = "canary-71c3"


class InOnePiece(str):
    """A text that is one piece of a stream, and not as many as it has letters."""

    __slots__ = ()

    def __iter__(self) -> Iterator[str]:
        yield str(self)


@each_way
@both_streamed
def test_item_07_no_key_that_the_service_sent_back_is_kept(
    host: Host,
    service: FakeService,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    way: Way,
    streamed: bool,
) -> None:
    monkeypatch.setenv(KEYS[way.route.partition("+")[0]], CANARY)
    service.replies[:] = [way.says(InOnePiece(f"your key is {CANARY}"), streamed=streamed)]
    text = kept(host, tmp_path / "raw", model, way, streamed=streamed)
    assert CANARY in str(service.requests[-1].headers)
    assert CANARY.encode() not in text
    assert b"your key is ***" in text
