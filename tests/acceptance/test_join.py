"""The join: what is said is the same whichever way a model is called, and what a service sent stays
reachable, byte for byte, and without a key. A table of models, of the ways that each of them can
go, and of what is said. The files with what was sent: item 7 in test_chat_models.py."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from botocore.eventstream import EventStreamBuffer
from ways import MakeHosts, Way, each_way, host, invoked, service, set_up, ways

from genai_host import Config, Host, Image, InMemoryRecord, Message, RetryPolicy, Text
from genai_host.api import Reasoning, ToolCall, ToolResult, VendorPart
from genai_host.conversations.record import StepEnded
from genai_host.errors import NoRoute, ServiceUnavailable
from genai_host_testing.fake_service import FakeService, Reply, json_reply
from genai_host_testing.services import anthropic as anthropic_service

pytestmark = pytest.mark.part

__all__ = ["host", "service", "set_up"]

both_streamed = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])

PNG = b"\x89PNG\r\n\x1a\n"
CITY = {
    "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"],
    "additionalProperties": False,
}  # fmt: skip
SEES_NOTHING = "llama"


def exchange(
    host: Host,
    service: FakeService,
    model: str,
    way: Way,
    replies: list[Reply],
    message: Any,
    *,
    feature: str = "chat",
    streamed: bool = False,
    returns: Any = None,
    **options: Any,
) -> tuple[list[Message], list[Any]]:
    """What the history is then, without what is the way's own, and what was sent."""
    service.requests.clear()
    service.replies[:] = replies
    with host.open(feature, f"{model}@{way.route}", **options) as conversation:
        if streamed:
            for _ in conversation.stream(message, output_type=returns):
                pass
        else:
            conversation.say(message, output_type=returns)
        sent = list(service.requests)
        assert all(way.path in each.path for each in sent)
        return [_plain(each) for each in conversation.history], [
            json.loads(each.body) for each in sent
        ]


def _plain(message: Message) -> Message:
    """Without thoughts, which are a model's own, and ids, which a service makes up."""
    common = [each for each in message.content if not isinstance(each, (VendorPart, Reasoning))]
    return Message(
        message.role,
        [evolve(p, id="") if isinstance(p, (ToolCall, ToolResult)) else p for p in common],
    )


@each_way
@both_streamed
def test_an_answer(host: Host, service: FakeService, model: str, way: Way, streamed: bool) -> None:
    reply = way.says("Grüße", streamed=streamed)
    history, _ = exchange(host, service, model, way, [reply], "hello", streamed=streamed)
    assert history == [Message("user", "hello"), Message("assistant", "Grüße")]


@each_way
@both_streamed
def test_a_tool(host: Host, service: FakeService, model: str, way: Way, streamed: bool) -> None:
    # Llama at Bedrock cannot ask for tools amid a stream, and answers whole
    in_pieces = streamed and not (model.startswith("llama") and "converse" in way.route)
    replies = [way.says(call=True, streamed=in_pieces), way.says("It is fine", streamed=in_pieces)]
    history, (_, last) = exchange(
        host, service, model, way, replies, "look at é", feature="look", streamed=streamed
    )
    assert history == [
        Message("user", "look at é"),
        Message("assistant", [ToolCall("", "look", {"at": "é"})]),
        Message("tool", [ToolResult("", "look", [Text("é is fine")])]),
        Message("assistant", "It is fine"),
    ]
    assert "é is fine" in json.dumps(last, ensure_ascii=False)


@each_way
def test_an_answer_as_data(host: Host, service: FakeService, model: str, way: Way) -> None:
    reply = way.says('{"name": "Oslo"}')
    history, (sent,) = exchange(host, service, model, way, [reply], "a city", returns=CITY)
    assert history[-1] == Message("assistant", '{"name": "Oslo"}')
    request = json.dumps(sent).replace("\\", "")
    assert '"required": ["name"]' in request or '"required":["name"]' in request


@ways(but=SEES_NOTHING)
def test_picture_and_system_prompt(host: Host, service: FakeService, model: str, way: Way) -> None:
    options: dict[str, Any] = {"history": [Message("system", "You are brief.")]}
    shown = [Text("what is it?"), Image(PNG, "image/png")]
    history, (sent,) = exchange(host, service, model, way, [way.says("A dot")], shown, **options)
    assert history == [
        Message("system", "You are brief."), Message("user", shown), Message("assistant", "A dot"),
    ]  # fmt: skip
    request = json.dumps(sent)
    assert base64.b64encode(PNG).decode() in request
    assert request.count("You are brief.") == 1


@each_way
def test_a_failure(host: Host, service: FakeService, model: str, way: Way) -> None:
    service.requests.clear()
    service.replies[:] = [json_reply({}, 503)]
    with host.open("chat", f"{model}@{way.route}") as conversation:
        with pytest.raises(ServiceUnavailable) as caught:
            conversation.say("hello")
        assert not conversation.history
    error = caught.value
    provider = way.route.partition("+")[0]
    assert (error.provider, error.model, error.status) == (provider, model, 503)


@both_streamed
def test_claude_falls_over_to_bedrock(
    set_up: MakeHosts, service: FakeService, streamed: bool
) -> None:
    host = set_up(
        Config(provider_order=("anthropic", "bedrock")),
        patience=RetryPolicy(max_attempts=1, max_total_attempts=2),
    )
    service.requests.clear()
    service.replies[:] = [
        anthropic_service.failure(529, kind="overloaded_error"),
        invoked("at last", streamed=streamed),
    ]
    with host.open("chat", "claude-haiku-4-5") as conversation:
        if streamed:
            answer = [event.answer for event in conversation.stream("hello")][-1]
        else:
            answer = conversation.say("hello")
        assert answer is not None
        assert answer.text == "at last"
        assert isinstance(conversation.record, InMemoryRecord)
        ended = next(e for e in conversation.record.entries if isinstance(e, StepEnded))
    assert [each.path.startswith("/v1/messages") for each in service.requests] == [True, False]
    assert [(each.route.provider, each.status) for each in ended.tries] == [("anthropic", 529)]
    assert answer.details[0].data["provider"] == "bedrock"


COUNTS: Mapping[str, tuple[str, str]] = {
    "claude-haiku-4-5@anthropic": ("/v1/messages/count_tokens", "input_tokens"),
    "claude-haiku-4-5@bedrock": ("/count-tokens", "inputTokens"),
    "claude-haiku-4-5@vertex": ("/models/count-tokens:rawPredict", "input_tokens"),
    "gpt-4.1@openai": ("/v1/responses/input_tokens", "input_tokens"),
    "gemini-3.8-flash@gemini": (":countTokens", "totalTokens"),
    "gemini-3.8-flash@vertex": (":countTokens", "totalTokens"),
    "llama-3.3-70b@bedrock": ("/count-tokens", "inputTokens"),
}


@pytest.mark.parametrize("route", COUNTS)
def test_tokens_are_counted(host: Host, service: FakeService, route: str) -> None:
    path, name = COUNTS[route]
    service.requests.clear()
    service.replies[:] = [json_reply({name: 12})]
    count = host.count_tokens("how many?", model=route)
    assert count.tokens == 12
    (sent,) = service.requests
    assert sent.path.split("?")[0].endswith(path)
    assert "how many?" in sent.body.decode()
    assert "max_tokens" not in sent.body.decode()
    assert count.route is not None
    assert f"{count.route.model}@{count.route.provider}" == route


def test_where_no_tokens_are_counted_it_is_said(host: Host) -> None:
    with pytest.raises(NoRoute, match="ollama cannot count tokens of ollama-chat"):
        host.count_tokens("how many?", model="llama-3.3-70b@ollama+ollama-chat")


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
    return [
        base64.b64decode(json.loads(each.payload)["bytes"])
        if each.headers[":event-type"] == "chunk"
        # of an event in a frame, which has its name in a header: an object of that name
        else b'{"%b":%b}' % (each.headers[":event-type"].encode(), each.payload)
        for each in buffer
    ]


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
    "openai": "OPENAI_API_KEY", "azure-openai": "AZURE_OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY", "bedrock": "AWS_BEARER_TOKEN_BEDROCK",
    "gemini": "GEMINI_API_KEY", "vertex": "CLOUDSDK_AUTH_ACCESS_TOKEN", "ollama": "OLLAMA_API_KEY",
    "mine": "MINE_API_KEY",
}  # fmt: skip
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
