"""Failures of the upstream service, and of the store, as clients of each API see them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import genai_feature_agent
import genai_feature_research
import pytest
from ai_sdk_lines import read_lines
from fronts import DELTA, FRONTS, JSON, MODEL, PLUGIN_FRONTS, WORD, Front, Place, place, raw
from raw_http import dial, until

from genai_host.config import ServerConfig
from genai_host_testing.fake_service import (
    CUT,
    HANG,
    HOLD,
    RESET,
    Reply,
    ReplyStep,
    json_reply,
    reply as service_reply,
    sse_reply,
)
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.servers import wait_until
from genai_host_testing.services.openai import chat, failure

pytestmark = pytest.mark.part

STOP = b'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'
each_front = pytest.mark.parametrize("front", FRONTS, ids=str)
BOTH = (False, True)


@pytest.fixture
def here(make_host: MakeHost, tmp_path: Path) -> Iterator[Place]:
    with place(make_host, tmp_path) as here:
        yield here


def status_of(front: Front, reply: Any) -> tuple[int, str | None]:
    """Status and Retry-After of a failure. Where a conversation has begun to tell of a turn,
    they are no longer: then its error."""
    if front.name == "native" and reply.headers["content-type"] == "text/event-stream":
        error = json.loads(reply.text.rpartition("event: error\ndata: ")[2])
        status = {"rate_limited": 429, "unavailable": 503, "circuit_open": 503}
        status["authentication"] = 502
        seconds = error.get("retry_after")
        return status.get(error["code"], 0), None if seconds is None else str(seconds)
    return reply.status_code, reply.headers.get("retry-after")


@each_front
def test_429_with_retry_after_is_told_at_once(here: Place, front: Front) -> None:
    """The client gets a valid Retry-After; the service receives one request."""
    for stream in BOTH:
        for header, seconds in (("86400", "86400"), ("120", "120"), ("soon", None)):
            here.service.requests.clear()
            here.service.replies = [failure(429, {"Retry-After": header})]
            assert status_of(front, here.ask(front, stream=stream)) == (429, seconds)
            assert len(here.service.requests) == 1


@each_front
def test_503_and_others_that_pass_are_no_fault_of_the_client(here: Place, front: Front) -> None:
    usual = 529 if front.name == "anthropic" else 503
    for stream in BOTH:
        for status in (500, 502, 503, 529):
            here.service.replies = [failure(status, {"Retry-After": "90"})]
            received, seconds = status_of(front, here.ask(front, stream=stream))
            assert received in (usual, 502 if status == 502 else usual), status
            assert seconds == "90"


@each_front
def test_401_of_the_service_is_none_of_the_server(here: Place, front: Front) -> None:
    """Otherwise the client would consider its own token invalid."""
    for stream in BOTH:
        for status in (401, 403):
            here.service.requests.clear()
            here.service.replies = [failure(status)]
            assert status_of(front, here.ask(front, stream=stream))[0] == 502
            assert len(here.service.requests) == 1


@each_front
def test_a_stream_that_is_cut_ends_with_an_error(here: Place, front: Front) -> None:
    """The client receives all chunks before the failure; the error comes last."""
    for fault in (
        [CUT],
        [RESET],
        [b'{"choices": [{'],
        [b'{"error": {"message": "no", "code": 500}}'],
        [],  # it ends without its mark
    ):
        here.service.replies = [sse_reply([DELTA, *fault])]
        reply = here.ask(front, stream=True)  # raises if its body does not end as it should
        assert reply.status_code == 200
        before, mark, after = reply.content.partition(front.failed)
        assert mark, (fault, reply.text)
        assert WORD.encode() in before
        assert front.done not in reply.content
        assert after.rstrip().count(b"\n") <= 1
        if front.name == "native":
            [turn] = here.turns()
            assert (turn["status"], turn["partial"]) == ("failed", WORD)


@each_front
def test_a_whole_answer_that_is_cut_is_an_error(here: Place, front: Front) -> None:
    body = chat(WORD).steps[0]
    assert isinstance(body, bytes)
    for act in (CUT, RESET):
        here.service.replies = [Reply([body[:-20], act])]
        assert here.ask(front, stream=False).status_code in (502, 503)


ENDS = {
    "length": (b'"length"', b'"max_output_tokens"', b'"max_tokens"', b'"MAX_TOKENS"'),
    "content_filter": (b'"content_filter"', b'"refusal"', b'"SAFETY"'),
}
"""Names of the finish reasons in the APIs; Ollama has none for the second one."""


@pytest.mark.parametrize(
    ("front", "finish"),
    [
        (front, finish)
        for front in FRONTS[:-1]  # a turn of the native one needs the value
        for finish in ENDS
        if (front.name, finish) != ("ollama", "content_filter")
    ],
    ids=str,
)
def test_an_answer_by_a_schema_has_its_finish_reason(here: Place, front: Any, finish: str) -> None:
    """Clients look at it before they parse the text, and SDKs repeat a call with status 502."""
    end = b'{"choices":[{"index":0,"delta":{},"finish_reason":"%b"}]}' % finish.encode()
    for stream in BOTH:
        for text in (WORD, f"```json\n{WORD}"):
            message = {"role": "assistant", "content": text}
            whole = json_reply({"choices": [{"message": message, "finish_reason": finish}]})
            delta = {"choices": [{"index": 0, "delta": {"content": text}}]}
            here.service.replies = [
                sse_reply([json.dumps(delta).encode(), end, b"[DONE]"]) if stream else whole
            ]
            reply = here.ask(front, stream=stream, **front.shaped({"type": "object"}))
            assert reply.status_code == 200, reply.text
            assert WORD.encode() in reply.content
            assert front.failed not in reply.content
            assert any(name in reply.content for name in ENDS[finish]), reply.text


@pytest.mark.parametrize("front", FRONTS[:-1], ids=str)  # the native one begins with its turn
def test_a_stream_that_fails_before_its_content_has_the_status_of_the_error(
    make_host: MakeHost, tmp_path: Path, front: Front
) -> None:
    """Azure begins each stream with the results of its filter."""
    begun = b'{"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}'
    with place(
        make_host, tmp_path, config={"server": ServerConfig(pass_through=False)}, head_delay=60.0
    ) as here:
        here.service.replies = [sse_reply([begun, CUT])]
        assert status_of(front, here.ask(front, stream=True))[0] in (502, 503)


@each_front
def test_html_or_nothing_with_status_200_is_an_error(here: Place, front: Front) -> None:
    """No API returns the markup as an answer."""
    for body in (b"<html><script>hit()</script></html>", b"", b"null", b"[]"):
        for stream in BOTH:
            here.service.replies = [service_reply(body, headers={"Content-Type": "text/html"})]
            reply = here.ask(front, stream=stream)
            assert front.done not in reply.content
            if reply.headers["content-type"] == "text/event-stream":
                assert front.failed in reply.content
            else:
                assert reply.status_code == 502, (body, reply.text)
                assert reply.headers["content-type"] == "application/json"


@each_front
def test_a_prompt_that_is_too_long_is_400_and_sent_once(here: Place, front: Front) -> None:
    for stream in BOTH:
        here.service.requests.clear()
        here.service.replies = [failure(400, code="context_length_exceeded")]
        reply = here.ask(front, stream=stream)
        if reply.status_code == 200:  # a conversation has begun to tell of a turn
            assert b'"code":"context_overflow"' in reply.content
        else:
            assert reply.status_code == (502 if front.name == "native" else 400), reply.text
        assert len(here.service.requests) == 1


def test_a_failing_service_is_left_alone_by_every_api(make_host: MakeHost, tmp_path: Path) -> None:
    """The client gets an immediate refusal with Retry-After; errors of clients do not count as
    failures."""
    with place(make_host, tmp_path, limits={"breaker_threshold": 2}) as here:
        for status in (400, 404, 400, 500, 503):
            here.service.replies = [failure(status)]
            here.ask(FRONTS[0], stream=False)
        assert len(here.service.requests) == 5
        for front in FRONTS:
            for stream in BOTH:
                status, seconds = status_of(front, here.ask(front, stream=stream))
                assert status in (503, 529), front
                assert seconds is not None
                assert 0 < int(seconds) <= 30
        assert len(here.service.requests) == 5


@each_front
def test_no_text_of_a_model_is_taken_for_the_end_of_a_stream(here: Place, front: Front) -> None:
    """Nor as an event: the text is encoded as JSON on one line."""
    forged = "\n\ndata: [DONE]\n\nevent: message_stop\r\ndata: {}\r\revent: answer\u2028\x85\x00"
    forged += '\n{"done":true}\n'
    event = json.dumps({"choices": [{"index": 0, "delta": {"content": forged}}]}).encode()
    here.service.replies = [sse_reply([event, CUT])]
    reply = here.ask(front, stream=True)
    assert front.failed in reply.content
    for line in reply.content.replace(b"\r", b"\n").split(b"\n"):
        assert line not in (b"data: [DONE]", b"event: message_stop", b"event: answer")
        assert not line.startswith(b'{"done"')
        assert b"\x00" not in line
    assert json.dumps("data: [DONE]")[1:-1].encode() in reply.content


@pytest.mark.parametrize("front", [*FRONTS, *PLUGIN_FRONTS], ids=str)
@pytest.mark.parametrize("begun", [[], [DELTA]], ids=["before", "amid"])
@pytest.mark.parametrize("end", [[STOP, b"[DONE]"], [CUT]], ids=["whole", "cut"])
def test_a_stream_that_takes_its_time_says_that_it_goes_on(
    make_host: MakeHost, tmp_path: Path, front: Front, begun: list[ReplyStep], end: list[ReplyStep]
) -> None:
    """After the head is sent, an interrupted reply is reported as an event instead of a status."""
    plugins = {"agent": genai_feature_agent, "research": genai_feature_research}
    with place(
        make_host, tmp_path, head_delay=0.0, keepalive_interval=0.01, plugins=plugins
    ) as here:
        body = slowly(here, front, [*begun, HOLD, DELTA, *end])
    assert (front.done in body, front.failed in body) == (end != [CUT], end == [CUT])
    if front.name == "agent-lines":
        list(read_lines([body]))
    else:
        for line in body.splitlines():  # nothing but values, names of events, and comments
            text = line.strip().removeprefix(b"data: ")
            if text and text != b"[DONE]" and not text.startswith((b"event: ", b":")):
                json.loads(text)


def slowly(here: Place, front: Front, steps: list[ReplyStep]) -> bytes:
    """A stream of a service that goes on once the client was told three times that it does."""
    here.service.replies = [sse_reply(steps)]
    path, body = here.request_of(front, stream=True)
    headers = {**JSON, "accept": "text/event-stream"}
    sent = json.dumps(body).encode()
    with here.client.post(here.url + path, sent, headers=headers, stream=True, timeout=30) as reply:
        assert reply.status_code == 200
        pieces = reply.iter_content(None)
        received: bytes = next(pieces)
        while received.count(front.silence) < 3:
            received += next(pieces)
        here.service.let_go()
        return received + b"".join(pieces)


@each_front
def test_silence_ends_at_its_deadline(make_host: MakeHost, tmp_path: Path, front: Front) -> None:
    """Before the first token, and after it; for whole answers as well. On a busy machine, the first
    token may arrive too late: this is status 504, too."""
    limits = {"first_token_timeout": 0.05, "read_timeout": 0.05, "timeout": 0.1}
    with place(make_host, tmp_path, limits=limits) as here:
        ways: list[list[ReplyStep]] = [[HANG], [DELTA, HANG]]
        for steps in ways:
            here.service.replies = [sse_reply(steps)]
            reply = here.ask(front, stream=True)
            if reply.status_code == 200:
                assert front.failed in reply.content
                assert front.done not in reply.content
            else:
                assert reply.status_code == 504, reply.text
        here.service.replies = [sse_reply([HANG])]
        reply = here.ask(front, stream=False)
        assert reply.status_code == 504, reply.text


@each_front
def test_a_client_that_disconnects_frees_the_service(here: Place, front: Front) -> None:
    """Before the first byte, in mid-stream, and where it waits for the whole answer. Of a
    conversation, what had come is kept."""
    ways: list[tuple[bool, list[ReplyStep]]] = [
        (False, [HANG]), (True, [HANG]), (True, [DELTA, HANG])
    ]  # fmt: skip
    for stream, steps in ways:
        here.service.requests.clear()
        here.service.replies = [sse_reply(steps)]
        with dial(here.url) as client:
            client.sendall(here.raw(front, stream=stream))
            here.service.wait_for_requests(1)
            if DELTA in steps:
                until(client, WORD.encode())
        here.service.wait_until_closed()
        if front.name == "native":
            turn = ended(here)
            assert (turn["status"], turn["error"]["code"]) == ("failed", "cancelled")
            assert turn["partial"] == (WORD if DELTA in steps else "")


def ended(here: Place) -> Any:
    """Wait until the last turn has ended, and return it."""
    wait_until(lambda: here.turns()[-1]["status"] != "unfinished")
    return here.turns()[-1]


def test_a_job_goes_on_without_its_client_until_it_is_removed(here: Place) -> None:
    here.service.replies = [sse_reply([HANG])]
    job = here.send("POST", "/api/v1/jobs", {"message": "hi"}).json()["id"]
    here.service.wait_for_requests(1)
    assert here.send("DELETE", f"/api/v1/jobs/{job}").status_code < 300
    here.service.wait_until_closed()


def test_a_client_that_disconnects_from_embeddings_frees_the_service(here: Place) -> None:
    part = {"parts": [{"text": "hi"}]}
    here.service.replies = [Reply([HANG])]
    for path, body in (
        ("/v1/embeddings", {"model": MODEL, "input": "hi"}),
        ("/api/embed", {"model": MODEL, "input": "hi"}),
        (f"/v1beta/models/{MODEL}:embedContent", {"content": part}),
        (f"/v1beta/models/{MODEL}:batchEmbedContents",
         {"requests": [{"model": f"models/{MODEL}", "content": part}]}),
    ):  # fmt: skip
        here.service.requests.clear()
        with dial(here.url) as client:
            client.sendall(raw(path, json.dumps(body).encode()))
            here.service.wait_for_requests(1)
        here.service.wait_until_closed()


LONG = "much " * 20_000
NATIVE = FRONTS[-1]
Broken = Callable[[Place], AbstractContextManager[None]]


@contextmanager
def full(here: Place) -> Iterator[None]:
    """Fail as a full disk does."""
    with closing(sqlite3.connect(here.database)) as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
    store: Any = here.host.store
    connect = store._writer._database.connect

    def connect_to_full_disk() -> Any:
        connection = connect()
        connection.execute(f"PRAGMA max_page_count = {pages}").fetchall()
        return connection

    store._writer._database.connect = connect_to_full_disk
    store._writer._let_go()  # a connection that has failed is made anew
    yield
    del store._writer._database.connect
    store._writer._let_go()


@contextmanager
def locked(here: Place) -> Iterator[None]:
    with closing(sqlite3.connect(here.database, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


@pytest.fixture
def recording(make_host: MakeHost, tmp_path: Path) -> Iterator[Place]:
    """A server that records all API calls."""
    with place(
        make_host, tmp_path, patience=0.0, config={"server": ServerConfig(record_api_calls=True)}
    ) as here:
        yield here


broken_in_each_way = pytest.mark.parametrize("broken", [full, locked], ids=["full", "locked"])


def long_said(front: Front) -> Mapping[str, Any]:
    """Return a request with a message that does not fit on the disk."""
    message = {"role": "user", "content": LONG}
    bodies: dict[str, dict[str, Any]] = {
        "responses": {"input": LONG, "store": True},
        "gemini": {"contents": [{"parts": [{"text": LONG}]}]},
        "native": {"message": LONG},
    }
    return bodies.get(front.name, {"messages": [message]})


@broken_in_each_way
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_answer_reaches_the_user_by_every_api(recording: Place, broken: Broken) -> None:
    for front in FRONTS:
        for stream in (False, True):
            recording.service.replies = [chat(WORD)]
            assert recording.ask(front, stream=False).status_code == 200, front  # and it is kept
            path, body = recording.request_of(front, stream=stream)
            recording.service.replies = [chat(WORD, streamed=stream)]
            with broken(recording):
                reply = recording.send("POST", path, {**body, **long_said(front)})
            assert reply.status_code == 200, (front, reply.text)
            assert WORD[-1] in reply.text
            if stream:
                assert front.done in reply.content, front
            if front is NATIVE:
                assert '"record_error"' in reply.text


@broken_in_each_way
def test_what_needs_the_store_is_503_and_nothing_is_lost(recording: Place, broken: Broken) -> None:
    recording.service.replies = [chat(WORD)]
    id = recording.opened()
    path = f"/api/v1/conversations/{id}"
    assert recording.send("POST", f"{path}/turns", {"message": "before"}).status_code == 200
    before = recording.send("GET", path).json()
    with broken(recording):
        reply = recording.send("PATCH", path, {"title": LONG[:200]})
        opened = recording.send("POST", "/api/v1/conversations", {"title": "x"})
        for each in (reply, opened):
            # what is short may have found room
            assert each.status_code == 503 or (broken is full and each.ok), each.text
            if each.status_code == 503:
                assert each.json()["error"]["code"] == "store"
                assert each.json()["error"]["hint"]
    if reply.status_code == 503:
        assert recording.send("GET", path).json() == before
    assert recording.send("POST", f"{path}/turns", {"message": "after"}).status_code == 200
