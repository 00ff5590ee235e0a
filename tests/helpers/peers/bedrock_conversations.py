"""What is said to Amazon Bedrock: as it is said here, and as whoever uses `boto3` writes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from peers.conversations import LOOK, user

from genai_host.api import File, Image, Message, Prompt, Text, ToolCall, ToolResult

_PNG, _PDF = b"\x89PNG\r\n\x1a\n", b"%PDF-1.7"
_HI = [{"role": "user", "content": [{"text": "hi"}]}]
_CITY = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
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
