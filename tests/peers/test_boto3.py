"""Amazon's own `boto3` as an oracle; both read the same of what the service answers as well."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import boto3
import genai_vendor_anthropic
import genai_vendor_bedrock
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, EventStreamError
from genai_vendor_bedrock.converse import BedrockCount
from peers.conversations import LOOK, user
from peers.oracle import Case, Oracle, Place, Sides, both_ways, using_tools

from genai_host.api import (
    Answer,
    CountTokens,
    FeatureSteps,
    File,
    Image,
    Message,
    NoSettings,
    Prompt,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    VendorPart,
)
from genai_host.errors import RateLimited
from genai_host_testing.fake_service import json_reply, stream_reply
from genai_host_testing.services.anthropic import claude
from genai_host_testing.services.bedrock import (
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

_PNG, _PDF = b"\x89PNG\r\n\x1a\n", b"%PDF-1.7"
_HI = [{"role": "user", "content": [{"text": "hi"}]}]
_CITY = {
    "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"],
    "additionalProperties": False,
}  # fmt: skip
_WIRE_LOOK = {
    "toolSpec": {
        "name": LOOK.name,
        "description": LOOK.description,
        "inputSchema": {"json": LOOK.parameters},
    }
}


def _said(*content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [*content]}]}


def _with(wire: Mapping[str, Any], **prompt: Any) -> tuple[Prompt, Mapping[str, Any]]:
    return Prompt([user("hi")], **prompt), {"messages": _HI, **wire}


def _tools(**choice: Any) -> dict[str, Any]:
    return {"toolConfig": {"tools": [_WIRE_LOOK], **choice}}


_USED = [
    user("look"),
    Message("assistant", ["so:", ToolCall("tooluse_1", "look", {"at": "é", "n": [1, None]})]),
    Message("tool", ToolResult("tooluse_1", "look", ("fine", Image(_PNG, "image/png")))),
    Message("tool", ToolResult("tooluse_2", "look", "it broke", error=True)),
]
_WIRE_USED = [
    {"role": "user", "content": [{"text": "look"}]},
    {"role": "assistant", "content": [
        {"text": "so:"},
        {"toolUse": {
            "toolUseId": "tooluse_1", "name": "look", "input": {"at": "é", "n": [1, None]}}},
    ]},
    {"role": "user", "content": [
        {"toolResult": {"toolUseId": "tooluse_1", "content": [
            {"text": "fine"}, {"image": {"format": "png", "source": {"bytes": _PNG}}}]}},
        {"toolResult": {
            "toolUseId": "tooluse_2", "content": [{"text": "it broke"}], "status": "error"}},
    ]},
]  # fmt: skip
_MARK = {"cachePoint": {"type": "default", "ttl": "1h"}}
_GUARDRAIL = {"guardrailIdentifier": "g1234567", "guardrailVersion": "1", "trace": "enabled"}
_HELD = {
    "type": "json_schema",
    "structure": {
        "jsonSchema": {"name": "answer", "schema": json.dumps(_CITY, separators=(",", ":"))}
    },
}

TOLD: Mapping[str, tuple[Prompt, Mapping[str, Any]]] = {
    "plain": _with({}),
    "odd characters": (
        Prompt([user('é 🙂 \u2028 \x00 \n "\\ </script> \ufeff')]),
        _said({"text": 'é 🙂 \u2028 \x00 \n "\\ </script> \ufeff'}),
    ),
    "several texts": (Prompt([user(Text("a"), Text("b"))]), _said({"text": "a"}, {"text": "b"})),
    "history": (
        Prompt(
            [Message("system", "Be brief."), user("hi"), Message("assistant", "yes"), user("?")]
        ),
        {
            "system": [{"text": "Be brief."}],
            "messages": [
                *_HI,
                {"role": "assistant", "content": [{"text": "yes"}]},
                {"role": "user", "content": [{"text": "?"}]},
            ],
        },
    ),
    "picture": (
        Prompt([user("what?", Image(_PNG, "image/png"))]),
        _said({"text": "what?"}, {"image": {"format": "png", "source": {"bytes": _PNG}}}),
    ),
    "picture in S3": (
        Prompt([user("what?", Image(url="s3://bucket/a.webp"))]),
        _said({"text": "what?"}, {"image": {
            "format": "webp", "source": {"s3Location": {"uri": "s3://bucket/a.webp"}}}}),
    ),
    "document": (
        Prompt([user("what?", File(_PDF, "application/pdf", "a b.pdf"))]),
        _said({"text": "what?"}, {"document": {
            "format": "pdf", "name": "a b", "source": {"bytes": _PDF}}}),
    ),
    "parameters": _with(
        {
            "inferenceConfig": {
                "maxTokens": 7, "temperature": 0.5, "topP": 0.9, "stopSequences": ["x", "\n"]},
            "additionalModelRequestFields": {"top_k": 3, "deep": {"a": [1.5, None]}},
            "guardrailConfig": _GUARDRAIL,
            "serviceTier": {"type": "flex"},
            "outputConfig": {"effort": "low"},
        },
        parameters={
            "max_tokens": 7, "temperature": 0.5, "top_p": 0.9, "stop": ["x", "\n"],
            "additional_fields": {"top_k": 3, "deep": {"a": [1.5, None]}},
            "guardrail": _GUARDRAIL, "service_tier": "flex", "reasoning_effort": "low",
        },
    ),
    "cache": (
        Prompt([Message("system", "s"), user("hi")], tools=[LOOK],
               parameters={"prompt_cache": "1h"}),
        {
            "system": [{"text": "s"}, _MARK],
            "messages": [{"role": "user", "content": [{"text": "hi"}, _MARK]}],
            "toolConfig": {"tools": [_WIRE_LOOK, _MARK]},
        },
    ),
    "tools": _with(_tools(), tools=[LOOK]),
    "tool choice auto": _with(_tools(toolChoice={"auto": {}}), tools=[LOOK], tool_choice="auto"),
    "tool choice required": _with(
        _tools(toolChoice={"any": {}}), tools=[LOOK], tool_choice="required"
    ),
    "tool choice look": _with(
        _tools(toolChoice={"tool": {"name": "look"}}), tools=[LOOK], tool_choice="look"
    ),
    "tools that were used": (
        Prompt(_USED, tools=[LOOK]), {"messages": _WIRE_USED, **_tools()}
    ),
    "schema": _with({"outputConfig": {"textFormat": _HELD}}, schema=_CITY),
}  # fmt: skip
"""By name: as it is said here, and what `converse` gets for it."""


pytestmark = pytest.mark.peers

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


def _runtime(url: str) -> Any:
    return boto3.session.Session().client("bedrock-runtime", config=_ONE_TRY)


def _control(url: str) -> Any:
    return boto3.session.Session().client("bedrock", config=_ONE_TRY)


_ONE_TRY = Config(retries={"total_max_attempts": 1})
_PLACE = {
    "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": "{url}", "AWS_ENDPOINT_URL_BEDROCK": "{url}",
    "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}  # fmt: skip
_BY_KEY = {**_PLACE, "AWS_BEARER_TOKEN_BEDROCK": KEY}
_BY_SIGNATURE = {
    **_PLACE, "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret-canary-11",
    "AWS_SESSION_TOKEN": "session-canary-12",
}  # fmt: skip
_SONNET = "global.anthropic.claude-sonnet-4-6"
PLACES = {
    "by key": Place(_BY_KEY, _runtime, FURTHER),
    "signed": Place(_BY_SIGNATURE, _runtime, SIGNED),
}
MODEL = "claude-sonnet-4-6@bedrock+bedrock-converse"


def _says(place: str, name: str, model: str = MODEL, id: str = _SONNET) -> dict[str, Case]:
    prompt, fields = TOLD[name]

    def make_case(streamed: bool) -> Case:
        def say(client: Any) -> Any:
            if streamed:
                return _read(client.converse_stream(modelId=id, **fields))
            return client.converse(modelId=id, **fields)

        replies = [converse('{"name": "Oslo"}', streamed=streamed)]
        return Case(PLACES[place], model, prompt, say, replies, streamed=streamed)

    return both_ways(f"{place}, {model[:11]}: {name}", make_case)


def _counts(name: str) -> tuple[Any, Callable[[Any], Any]]:
    """The service knows no inference profiles for it."""
    prompt, fields = TOLD[name]
    counted = {name: value for name, value in fields.items() if name in BedrockCount.fields}
    model = _SONNET.removeprefix("global.")
    return CountTokens(prompt), lambda client: client.count_tokens(
        modelId=model, input={"converse": counted}
    )


def _use_tools(client: Any) -> None:
    """The SDK's user sends back what came, as the service's guide has it."""
    fields: Any = {"modelId": _SONNET, "toolConfig": TOLD["tools"][1]["toolConfig"]}
    messages: list[Any] = [{"role": "user", "content": [{"text": "hi"}]}]
    message = client.converse(messages=messages, **fields)["output"]["message"]
    use = next(each["toolUse"] for each in message["content"] if "toolUse" in each)
    result = {"toolUseId": use["toolUseId"], "content": [{"text": "fine"}]}
    messages += [message, {"role": "user", "content": [{"toolResult": result}]}]
    client.converse(messages=messages, **fields)


def _invoke(client: Any) -> Any:
    """Claude in its maker's format."""
    body = {
        "anthropic_version": "bedrock-2023-05-31", "max_tokens": 16_000, "system": "Be brief.",
        "messages": [{"role": "user", "content": "hi"}],
    }  # fmt: skip
    return client.invoke_model(
        modelId=_SONNET, body=json.dumps(body), contentType="application/json"
    )


def _list(client: Any) -> None:
    client.list_foundation_models(byOutputModality="TEXT")
    pages = client.get_paginator("list_inference_profiles")
    list(pages.paginate(PaginationConfig={"PageSize": 1000}))


def _cases() -> Iterator[tuple[str, Case]]:
    for at, place in PLACES.items():
        for name in TOLD:
            yield from _says(at, name).items()
            counted = json_reply({"inputTokens": 12})
            yield f"{at}: {name}, counted", Case(place, MODEL, *_counts(name), [counted])
        brief = Prompt([Message("system", "Be brief."), user("hi")])
        claude_ = "claude-sonnet-4-6@bedrock"
        yield f"{at}: invoked", Case(place, claude_, brief, _invoke, [claude("fine")])
    for name in TOLD:
        yield from _says("by key", name, f"bedrock/{ARN}", ARN).items()
    replies = [converse("so", call=True), converse("fine")]
    use = using_tools(False)
    yield "tools that are used", Case(PLACES["by key"], MODEL, use, _use_tools, replies)
    replies = [
        json_reply({"modelSummaries": []}),
        json_reply({"inferenceProfileSummaries": [], "nextToken": "n/+="}),
        json_reply({"inferenceProfileSummaries": []}),
    ]
    yield "models", Case(Place(_BY_SIGNATURE, _control, SIGNED), "bedrock", None, _list, replies)


class TestBedrock(Oracle):
    variables = {"AWS_ENDPOINT_URL", "AWS_PROFILE", *_BY_KEY, *_BY_SIGNATURE}
    plugins = {"bedrock": genai_vendor_bedrock, "claude": genai_vendor_anthropic}
    cases = dict(_cases())
    # that is of other SDKs; those of botocore are ours; and the moment may be the same
    alike = {"x-stainless-*", "accept", "connection", "x-amz-date"}

    def test_what_is_signed_is_signed_for_the_same(self, sides: Sides) -> None:
        """By whom, where, for which service; and all that says what is asked for."""
        [both] = sides.both(_says("signed", "plain")["signed, claude-sonn: plain, whole"])
        scopes = [each.headers["authorization"].partition(",")[0].split("/") for each in both]
        assert [scope[:1] + scope[2:] for scope in scopes] == [
            ["AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE", "us-east-1", "bedrock", "aws4_request"]
        ] * 2
        signed = both[0].headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0]
        assert signed == "content-type;host;x-amz-date;x-amz-security-token"

    # what is read

    @pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
    def test_both_read_the_same(self, sides: Sides, streamed: bool) -> None:
        completions: list[Any] = []

        def tell(turn: Turn[NoSettings]) -> FeatureSteps:
            completions.append((yield from Prompt([user("hi")], tools=[LOOK])))
            return Answer("")

        client = sides.set_up(PLACES["by key"])
        conversation = sides.host(tell).open("tell", MODEL)
        fields: Any = {"modelId": _SONNET, "messages": TOLD["plain"][1]["messages"]}
        replies = [converse("héllo", call=True, streamed=streamed)]
        theirs: list[Any] = []
        if streamed:
            sides.sent(replies, lambda: list(conversation.stream("go")))
            sides.sent(replies, lambda: theirs.extend(_read(client.converse_stream(**fields))))
            content, reason, usage = _joined(theirs)
        else:
            sides.sent(replies, lambda: conversation.say("go"))
            sides.sent(replies, lambda: theirs.append(client.converse(**fields)))
            content = theirs[0]["output"]["message"]["content"]
            reason, usage = theirs[0]["stopReason"], theirs[0]["usage"]
        [ours] = completions
        assert content == [THOUGHT, {"text": "héllo"}, CALLED]
        use = content[2]["toolUse"]
        assert ours.message.content == (
            Reasoning("hm"), VendorPart("bedrock-converse", content[0]), Text(content[1]["text"]),
            ToolCall(use["toolUseId"], use["name"], use["input"]),
        )  # fmt: skip
        assert ours.vendor_finish == reason
        assert usage == USAGE
        cached, written = usage["cacheReadInputTokens"], usage["cacheWriteInputTokens"]
        assert ours.usage.input_tokens == usage["inputTokens"] + cached + written

    def test_both_are_told_of_an_exception_amid_a_stream(self, sides: Sides) -> None:
        client = sides.set_up(PLACES["by key"])
        conversation = sides.host(Prompt([user("hi")])).open("tell", MODEL)
        begun = [framed(each) for each in encoded(events([{"text": "hello"}]))[:3]]
        frames = [*begun, exception("throttlingException", "slow down")]
        replies = [stream_reply(frames, content_type="application/vnd.amazon.eventstream")]
        with pytest.raises(RateLimited, match="slow down"):
            sides.sent(replies, lambda: list(conversation.stream("go")))
        messages = TOLD["plain"][1]["messages"]
        with pytest.raises(EventStreamError, match=r"throttlingException.*slow down"):
            sides.sent(
                replies, lambda: _read(client.converse_stream(modelId=_SONNET, messages=messages))
            )

    def test_both_are_told_of_a_refusal(self, sides: Sides) -> None:
        client = sides.set_up(PLACES["by key"])
        conversation = sides.host(Prompt([user("hi")])).open("tell", MODEL)
        headers = {"x-amzn-ErrorType": "ThrottlingException:http://internal.amazon.com/coral/"}
        replies = [json_reply({"message": "slow down"}, 429, {**headers, "Retry-After": "999"})]
        with pytest.raises(RateLimited, match="slow down"):
            sides.sent(replies, lambda: conversation.say("go"))
        with pytest.raises(ClientError, match=r"ThrottlingException.*slow down"):
            sides.sent(replies, lambda: client.converse(modelId=_SONNET, **TOLD["plain"][1]))


def _joined(events: list[Any]) -> tuple[list[Any], str, Any]:
    """The pieces of a stream, as the SDK gives them, put together by hand."""
    texts: dict[int, str] = {}
    thought: dict[str, str] = {}
    use: dict[str, Any] = {}
    reason, usage = "", None
    for event in events:
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


def _read(reply: Any) -> list[Any]:
    """All events of a stream, which botocore leaves open where one of them is an error."""
    with closing(reply["stream"]) as stream:
        return list(stream)
