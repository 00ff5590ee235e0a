"""Amazon's own `boto3` as an oracle: it and we say the same to a service that writes down what
it is sent. Method, path, query, headers and body agree, but for what is listed here; and both
read the same of what it answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import boto3
import genai_vendor_anthropic
import genai_vendor_bedrock
import pytest
from attrs import frozen
from botocore.config import Config
from botocore.exceptions import ClientError, EventStreamError
from genai_vendor_bedrock import BedrockCount
from peers.bedrock_conversations import TOLD
from peers.conversations import LOOK, user
from peers.differences import differing, headers_in_vain
from peers.sides import Clients, Sides, clients, service, telling

from genai_host.api import (
    Answer,
    CountTokens,
    FeatureSteps,
    Message,
    NoSettings,
    Prompt,
    Reasoning,
    ToolCall,
    ToolResult,
    Turn,
    VendorPart,
)
from genai_host.api.cancellation import Cancellation
from genai_host.errors import RateLimited
from genai_host.testing.fake_service import FakeService, Received, json_reply, stream_reply
from genai_host_testing.anthropic_service import claude
from genai_host_testing.bedrock_service import (
    CALLED,
    KEY,
    THOUGHT,
    USAGE,
    converse,
    encoded,
    events,
    exception,
    framed,
)
from genai_host_testing.fixtures import MakeHost

pytestmark = pytest.mark.peers
__all__ = ["clients", "service"]

FURTHER: Mapping[str, str] = {
    "amz-sdk-invocation-id": "the SDK numbers its calls",
    "amz-sdk-request": "and its tries",
}
SIGNED: Mapping[str, str] = {
    **FURTHER,
    "authorization": "is of a moment, and signs the headers that only one side has",
    "x-amz-date": "is that moment",
}
"""Further headers that may differ, and why."""

ARN = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3d4e5f6"


@frozen
class Way:
    """
    model   its name here
    id      what the SDK calls it
    may     headers that may differ, beside the usual ones
    """

    name: str
    model: str
    id: str
    environment: Mapping[str, str]
    may: Mapping[str, str]
    client: Callable[[str], Any]


def _runtime(url: str) -> Any:
    return boto3.session.Session().client("bedrock-runtime", config=_ONE_TRY)


def _control(url: str) -> Any:
    return boto3.session.Session().client("bedrock", config=_ONE_TRY)


_ONE_TRY = Config(retries={"total_max_attempts": 1})
_PLACE = {
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": "{url}",
    "AWS_ENDPOINT_URL_BEDROCK": "{url}",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}
_BY_KEY = {**_PLACE, "AWS_BEARER_TOKEN_BEDROCK": KEY}
_BY_SIGNATURE = {
    **_PLACE,
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "secret-canary-11",
    "AWS_SESSION_TOKEN": "session-canary-12",
}
_SONNET = "global.anthropic.claude-sonnet-4-6"
WAYS = [
    Way("by key", "claude-sonnet-4-6@bedrock+bedrock-converse", _SONNET, _BY_KEY, FURTHER,
        _runtime),
    Way("signed", "claude-sonnet-4-6@bedrock+bedrock-converse", _SONNET, _BY_SIGNATURE, SIGNED,
        _runtime),
    Way("by ARN", f"bedrock/{ARN}", ARN, _BY_KEY, FURTHER, _runtime),
]  # fmt: skip


class BedrockSides(Sides):
    variables = {"ALL_PROXY", "HTTP_PROXY", "NO_PROXY", "AWS_ENDPOINT_URL", "AWS_PROFILE",
                 *_BY_KEY, *_BY_SIGNATURE}  # fmt: skip
    plugins = {"bedrock": genai_vendor_bedrock, "claude": genai_vendor_anthropic}


@pytest.fixture
def sides(
    service: FakeService, clients: Clients, make_host: MakeHost, monkeypatch: pytest.MonkeyPatch
) -> BedrockSides:
    return BedrockSides(service, clients, make_host, monkeypatch)


TELLINGS = {
    f"{way.name}: {name}, {'streamed' if streamed else 'whole'}": (way, name, streamed)
    for way in WAYS
    for name in TOLD
    for streamed in (False, True)
}


@pytest.mark.parametrize("name", TELLINGS)
def test_both_send_the_same(sides: BedrockSides, name: str) -> None:
    way, said, streamed = TELLINGS[name]
    assert differing(*sent_by_both(sides, way, said, streamed), way.may) == set()


def sent_by_both(
    sides: BedrockSides, way: Way, name: str, streamed: bool
) -> tuple[Received, Received]:
    prompt, fields = TOLD[name]
    sides.set_up(way.environment)
    conversation = sides.host(telling(prompt), "chat").open("tell", way.model)
    client = sides.clients.of(way)
    replies = [converse('{"name": "Oslo"}', streamed=streamed)]

    def speak() -> None:
        if streamed:
            list(conversation.stream("go"))
        else:
            conversation.say("go")

    def speak_by_sdk() -> None:
        if streamed:
            _read(client.converse_stream(modelId=way.id, **fields))
        else:
            client.converse(modelId=way.id, **fields)

    (ours,) = sides.sent(replies, speak)
    (theirs,) = sides.sent(replies, speak_by_sdk)
    return ours, theirs


@pytest.mark.parametrize("way", WAYS[:2], ids=[way.name for way in WAYS[:2]])
@pytest.mark.parametrize("name", TOLD)
def test_both_count_alike(sides: BedrockSides, way: Way, name: str) -> None:
    """The service knows no inference profiles for it."""
    prompt, fields = TOLD[name]
    sides.set_up(way.environment)
    conversation = sides.host(telling(CountTokens(prompt)), "chat").open("tell", way.model)
    client = sides.clients.of(way)
    taken = {name: value for name, value in fields.items() if name in BedrockCount.fields}
    replies = [json_reply({"inputTokens": 12})]
    (ours,) = sides.sent(replies, lambda: conversation.say("go"))
    model = way.id.removeprefix("global.")
    (theirs,) = sides.sent(
        replies, lambda: client.count_tokens(modelId=model, input={"converse": taken})
    )
    assert differing(ours, theirs, way.may) == set()


def test_what_is_signed_is_signed_for_the_same(sides: BedrockSides) -> None:
    """By whom, where, for which service; and all that says what is asked for."""
    ours, theirs = sent_by_both(sides, WAYS[1], "plain", False)
    scopes = [each.headers["authorization"].partition(",")[0].split("/") for each in (ours, theirs)]
    assert [scope[:1] + scope[2:] for scope in scopes] == [
        ["AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE", "us-east-1", "bedrock", "aws4_request"]
    ] * 2
    signed = ours.headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0]
    assert signed == "content-type;host;x-amz-date;x-amz-security-token"


# tools


def _use_tools(turn: Turn[NoSettings]) -> FeatureSteps:
    said = [user("hi")]
    asked = yield from Prompt(said, tools=[LOOK])
    results = [ToolResult(call.id, call.name, "fine") for call in asked.tool_calls]
    yield from Prompt([*said, asked.message, Message("tool", results)], tools=[LOOK])
    return Answer("")


def test_both_use_tools_alike(sides: BedrockSides) -> None:
    """The SDK's user sends back what came, as the service's guide has it."""
    way = WAYS[0]
    sides.set_up(way.environment)
    conversation = sides.host(_use_tools, "chat").open("tell", way.model)
    client = sides.clients.of(way)
    replies = [converse("so", call=True), converse("fine")]
    fields: Any = {"modelId": way.id, "toolConfig": TOLD["tools"][1]["toolConfig"]}

    def use() -> None:
        messages: list[Any] = [{"role": "user", "content": [{"text": "hi"}]}]
        said = client.converse(messages=messages, **fields)["output"]["message"]
        use = next(each["toolUse"] for each in said["content"] if "toolUse" in each)
        result = {"toolUseId": use["toolUseId"], "content": [{"text": "fine"}]}
        messages += [said, {"role": "user", "content": [{"toolResult": result}]}]
        client.converse(messages=messages, **fields)

    ours = sides.sent(replies, lambda: conversation.say("go"))
    theirs = sides.sent(replies, use)
    assert len(ours) == len(theirs) == 2
    for both in zip(ours, theirs, strict=True):
        assert differing(*both, way.may) == set()


# Claude in its maker's format


@pytest.mark.parametrize("way", WAYS[:2], ids=[way.name for way in WAYS[:2]])
def test_both_invoke_claude_alike(sides: BedrockSides, way: Way) -> None:
    sides.set_up(way.environment)
    tell = telling(Prompt([Message("system", "Be brief."), user("hi")]))
    conversation = sides.host(tell, "chat").open("tell", "claude-sonnet-4-6@bedrock")
    client = sides.clients.of(way)
    given = {
        "anthropic_version": "bedrock-2023-05-31",
        "max_tokens": 16_000,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "hi"}],
    }
    replies = [claude("fine")]
    (ours,) = sides.sent(replies, lambda: conversation.say("go"))
    (theirs,) = sides.sent(
        replies,
        lambda: client.invoke_model(
            modelId=way.id, body=json.dumps(given), contentType="application/json"
        ),
    )
    assert differing(ours, theirs, way.may) == set()


# lists


def test_both_list_models_alike(sides: BedrockSides) -> None:
    sides.set_up(_BY_SIGNATURE)
    provider = sides.host(telling(Prompt([])), "chat").instances["bedrock"].provider
    client = sides.clients.of(Way("lists", "", "", _BY_SIGNATURE, SIGNED, _control))
    replies = [
        json_reply({"modelSummaries": []}),
        json_reply({"inferenceProfileSummaries": [], "nextToken": "n/+="}),
        json_reply({"inferenceProfileSummaries": []}),
    ]

    def list_by_sdk() -> None:
        client.list_foundation_models(byOutputModality="TEXT")
        for _ in client.get_paginator("list_inference_profiles").paginate(
            PaginationConfig={"PageSize": 1000}
        ):
            pass

    ours = sides.sent(replies, lambda: list(provider.list_models(Cancellation())))
    theirs = sides.sent(replies, list_by_sdk)
    assert len(ours) == len(theirs) == 3
    for both in zip(ours, theirs, strict=True):
        assert differing(*both, {*SIGNED, "content-type"}) == set()  # which says nothing here


# what is read


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_both_read_the_same(sides: BedrockSides, streamed: bool) -> None:
    way = WAYS[0]
    sides.set_up(way.environment)
    heard: list[Any] = []

    def tell(turn: Turn[NoSettings]) -> FeatureSteps:
        heard.append((yield from Prompt([user("hi")], tools=[LOOK])))
        return Answer("")

    conversation = sides.host(tell, "chat").open("tell", way.model)
    client = sides.clients.of(way)
    fields: Any = {"modelId": way.id, "messages": TOLD["plain"][1]["messages"]}
    replies = [converse("héllo", call=True, streamed=streamed)]
    if streamed:
        sides.sent(replies, lambda: list(conversation.stream("go")))
        theirs: list[Any] = []
        sides.sent(replies, lambda: theirs.extend(_read(client.converse_stream(**fields))))
        content, reason, usage = _joined(theirs)
    else:
        sides.sent(replies, lambda: conversation.say("go"))
        found: dict[str, Any] = {}
        sides.sent(replies, lambda: found.update(client.converse(**fields)))
        content = found["output"]["message"]["content"]
        reason, usage = found["stopReason"], found["usage"]
    [ours] = heard
    assert content == [THOUGHT, {"text": "héllo"}, CALLED]
    assert ours.message.content[0] == Reasoning("hm")
    assert ours.message.content[1] == VendorPart("bedrock-converse", content[0])
    assert ours.text == content[1]["text"]
    use = content[2]["toolUse"]
    assert ours.tool_calls == (ToolCall(use["toolUseId"], use["name"], use["input"]),)
    assert ours.vendor_finish == reason
    assert usage == USAGE
    cached, written = usage["cacheReadInputTokens"], usage["cacheWriteInputTokens"]
    assert ours.usage.input == usage["inputTokens"] + cached + written


def _joined(told: list[Any]) -> tuple[list[Any], str, Any]:
    """The pieces of a stream, as the SDK gives them, put together by hand."""
    texts: dict[int, str] = {}
    thought: dict[str, str] = {}
    use: dict[str, Any] = {}
    reason, usage = "", None
    for event in told:
        delta = event.get("contentBlockDelta", {}).get("delta", {})
        if "text" in delta:
            texts[event["contentBlockDelta"]["contentBlockIndex"]] = (
                "".join(texts.values()) + delta["text"]
            )
        thought.update(delta.get("reasoningContent", {}))
        use.update(event.get("contentBlockStart", {}).get("start", {}).get("toolUse", {}))
        use["input"] = use.get("input", "") + delta.get("toolUse", {}).get("input", "")
        reason = event.get("messageStop", {}).get("stopReason", reason)
        usage = event.get("metadata", {}).get("usage", usage)
    content = [
        {"reasoningContent": {"reasoningText": thought}},
        *({"text": text} for text in texts.values()),
        {"toolUse": {**use, "input": json.loads(use["input"])}},
    ]
    return content, reason, usage


def test_both_are_told_of_an_exception_amid_a_stream(sides: BedrockSides) -> None:
    way = WAYS[0]
    sides.set_up(way.environment)
    conversation = sides.host(telling(Prompt([user("hi")])), "chat").open("tell", way.model)
    client = sides.clients.of(way)
    begun = [framed(each) for each in encoded(events([{"text": "hello"}]))[:3]]
    told = [*begun, exception("throttlingException", "slow down")]
    replies = [stream_reply(told, content_type="application/vnd.amazon.eventstream")]
    with pytest.raises(RateLimited, match="slow down"):
        sides.sent(replies, lambda: list(conversation.stream("go")))
    messages = TOLD["plain"][1]["messages"]
    with pytest.raises(EventStreamError, match=r"throttlingException.*slow down"):
        sides.sent(
            replies,
            lambda: _read(client.converse_stream(modelId=way.id, messages=messages)),
        )


def test_both_are_told_of_a_refusal(sides: BedrockSides) -> None:
    way = WAYS[0]
    sides.set_up(way.environment)
    conversation = sides.host(telling(Prompt([user("hi")])), "chat").open("tell", way.model)
    told = {"x-amzn-ErrorType": "ThrottlingException:http://internal.amazon.com/coral/"}
    replies = [json_reply({"message": "slow down"}, 429, {**told, "Retry-After": "999"})]
    with pytest.raises(RateLimited, match="slow down"):
        sides.sent(replies, lambda: conversation.say("go"))
    client = sides.clients.of(way)
    with pytest.raises(ClientError, match=r"ThrottlingException.*slow down"):
        sides.sent(replies, lambda: client.converse(modelId=way.id, **TOLD["plain"][1]))


def test_no_header_is_listed_in_vain(sides: BedrockSides) -> None:
    """But for the moment, which may be the same."""
    listed = {"accept-encoding", "user-agent", *SIGNED} - {"x-amz-date"}
    assert headers_in_vain(*sent_by_both(sides, WAYS[1], "plain", False), listed) == []


def _read(reply: Any) -> list[Any]:
    """All events of a stream, which botocore leaves open where one of them is an error."""
    with closing(reply["stream"]) as stream:
        return list(stream)
