"""The join: what is said is the same whichever way a model is called. A table of models,
of the ways that each of them can go, and of what is said."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve
from ways import MakeHosts, Way, each_way, host, invoked, service, set_up, ways

from genai_host import Config, Host, Image, InMemoryRecord, Message, RetryPolicy, Text
from genai_host.api import Part, Reasoning, ToolCall, ToolResult, VendorPart
from genai_host.conversations.record import StepEnded
from genai_host.errors import NoRoute, ServiceUnavailable
from genai_host_testing.fake_service import FakeService, Reply, json_reply
from genai_host_testing.services import anthropic as anthropic_service

pytestmark = pytest.mark.part

__all__ = ["host", "service", "set_up"]

PNG = b"\x89PNG\r\n\x1a\n"
CITY = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
SEES_NOTHING = "llama"
CANNOT_STOP = "responses"  # the format has no place for it: it is an error before the call


def said(
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
    **given: Any,
) -> tuple[list[Message], list[Any]]:
    """What the history is then, without what is the way's own, and what was sent."""
    service.requests.clear()
    service.replies[:] = replies
    with host.open(feature, f"{model}@{way.route}", **given) as conversation:
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
    return Message(message.role, [_without_id(p) for p in message.content if _is_common(p)])


def _is_common(part: Part) -> bool:
    return not isinstance(part, (VendorPart, Reasoning))


def _without_id(part: Part) -> Part:
    return evolve(part, id="") if isinstance(part, (ToolCall, ToolResult)) else part


@each_way
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_an_answer(host: Host, service: FakeService, model: str, way: Way, streamed: bool) -> None:
    reply = way.says("Grüße", streamed=streamed)
    history, _ = said(host, service, model, way, [reply], "hello", streamed=streamed)
    assert history == [Message("user", "hello"), Message("assistant", "Grüße")]


@each_way
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_tool(host: Host, service: FakeService, model: str, way: Way, streamed: bool) -> None:
    # Llama at Bedrock cannot ask for tools amid a stream, and answers whole
    in_pieces = streamed and not (model.startswith("llama") and "converse" in way.route)
    replies = [way.says(call=True, streamed=in_pieces), way.says("It is fine", streamed=in_pieces)]
    history, (_, last) = said(
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
def test_an_answer_that_has_to_be_data(
    host: Host, service: FakeService, model: str, way: Way
) -> None:
    reply = way.says('{"name": "Oslo"}')
    history, (sent,) = said(host, service, model, way, [reply], "a city", returns=CITY)
    assert history[-1] == Message("assistant", '{"name": "Oslo"}')
    asked = json.dumps(sent).replace("\\", "")
    assert '"required": ["name"]' in asked or '"required":["name"]' in asked


@ways(but=SEES_NOTHING)
def test_a_picture_and_what_the_system_says(
    host: Host, service: FakeService, model: str, way: Way
) -> None:
    given: dict[str, Any] = {"history": [Message("system", "You are brief.")]}
    shown = [Text("what is it?"), Image(PNG, "image/png")]
    history, (sent,) = said(host, service, model, way, [way.says("A dot")], shown, **given)
    assert history == [
        Message("system", "You are brief."), Message("user", shown), Message("assistant", "A dot"),
    ]  # fmt: skip
    asked = json.dumps(sent)
    assert base64.b64encode(PNG).decode() in asked
    assert asked.count("You are brief.") == 1


@ways(but=CANNOT_STOP)
def test_a_word_to_stop_at(host: Host, service: FakeService, model: str, way: Way) -> None:
    given: dict[str, Any] = {"parameters": {"stop": ["END"], "max_tokens": 99}}
    history, (sent,) = said(host, service, model, way, [way.says("so")], "go", **given)
    assert history[-1] == Message("assistant", "so")
    asked = json.dumps(sent)
    assert '"END"' in asked
    assert "99" in asked


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


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_claude_goes_on_at_bedrock_where_anthropic_fails(
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
