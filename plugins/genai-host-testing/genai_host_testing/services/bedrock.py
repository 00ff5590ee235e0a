"""Amazon Bedrock, as simulated for the tests of its provider: whole and streamed replies."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from zlib import crc32

from genai_host_testing.fake_service import Reply, json_reply, stream_reply
from genai_host_testing.services.anthropic import claude

KEY = "bedrock-api-key-canary-77d0"
STREAM_TYPE = "application/vnd.amazon.eventstream"
USAGE = {
    "inputTokens": 4, "outputTokens": 4, "totalTokens": 13,
    "cacheReadInputTokens": 3, "cacheWriteInputTokens": 2,
}  # fmt: skip
THOUGHT = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2lnbmVk"}}}
CALLED = {"toolUse": {"toolUseId": "tooluse_1", "name": "look", "input": {"at": "é"}}}


def message(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return a message of an event stream, whose headers are strings."""
    head = b"".join(
        struct.pack(">B", len(name)) + name.encode() + b"\x07" + _counted(value.encode())
        for name, value in headers.items()
    )
    prelude = struct.pack(">II", 16 + len(head) + len(payload), len(head))
    begun = prelude + struct.pack(">I", crc32(prelude)) + head + payload
    return begun + struct.pack(">I", crc32(begun))


def _counted(data: bytes) -> bytes:
    return struct.pack(">H", len(data)) + data


def event(kind: str, payload: Any) -> bytes:
    """Return an event of a type in its frame."""
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return message(
        {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}, data
    )


def chunk(data: bytes) -> bytes:
    """Return a chunk of a stream of InvokeModel."""
    return event("chunk", {"bytes": base64.b64encode(data).decode(), "p": "abcdef"})


def exception(kind: str, text: str = "no") -> bytes:
    return message(
        {":exception-type": kind, ":content-type": "application/json",
         ":message-type": "exception"},
        json.dumps({"message": text}).encode(),
    )  # fmt: skip


def framed(data: bytes) -> bytes:
    """Return an event in the form that the dialect reads, `{"messageStop":{...}}`, in its frame;
    also for exceptions.
    """
    try:
        [(kind, payload)] = json.loads(data).items()
    except (ValueError, AttributeError):
        return event("contentBlockDelta", data)
    return exception(kind, payload["message"]) if "xception" in kind else event(kind, payload)


def body(content: Sequence[Any], reason: str = "end_turn", /, **fields: Any) -> dict[str, Any]:
    """Return a whole reply of Converse."""
    output = {"message": {"role": "assistant", "content": [*content]}}
    return {"output": output, "stopReason": reason, "metrics": {"latencyMs": 1}, **fields}


def events(content: Sequence[Any], reason: str = "end_turn", /, **usage: Any) -> list[Any]:
    """Return the events of the same reply as a stream, with texts split into letters."""
    found: list[Any] = [{"messageStart": {"role": "assistant", "p": "abcd"}}]
    for index, block in enumerate(content):
        at = {"contentBlockIndex": index}
        start, deltas = _pieces(block)
        if start:
            found.append({"contentBlockStart": {"start": start, **at}})
        found += [{"contentBlockDelta": {"delta": delta, **at}} for delta in deltas]
        found.append({"contentBlockStop": at})
    found.append({"messageStop": {"stopReason": reason}})
    found.append({"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}})
    return found


def _pieces(block: Mapping[str, Any]) -> tuple[Any, list[Any]]:
    """Return the start of a block, and its deltas."""
    if "text" in block:
        return None, [{"text": letter} for letter in block["text"]]
    if "toolUse" in block:
        use = block["toolUse"]
        given = json.dumps(use["input"])
        start = {"toolUse": {name: value for name, value in use.items() if name != "input"}}
        return start, [{"toolUse": {"input": half}} for half in (given[:3], given[3:])]
    reasoning = block["reasoningContent"]
    if "redactedContent" in reasoning:
        return None, [{"reasoningContent": reasoning}]
    return None, [
        {"reasoningContent": {name: value}} for name, value in reasoning["reasoningText"].items()
    ]


def encoded(values: Iterable[Any]) -> list[bytes]:
    return [json.dumps(value, ensure_ascii=False).encode() for value in values]


def converse(text: str = "", *, call: bool = False, streamed: bool = False) -> Reply:
    """Return an answer of Converse with reasoning before it."""
    content: list[Any] = [THOUGHT, *([{"text": text}] if text else []), *([CALLED] if call else [])]
    reason = "tool_use" if call else "end_turn"
    if not streamed:
        return json_reply(body(content, reason, usage=USAGE))
    frames = [framed(each) for each in encoded(events(content, reason, **USAGE))]
    return stream_reply(frames, content_type=STREAM_TYPE)


def refusal(status: int, kind: str, text: str = "no", **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return json_reply({"message": text}, status, {"x-amzn-ErrorType": f"{kind}:", **named})


def by_claude(streamed: bool) -> Reply:
    """What Anthropic's service says, as InvokeModel has it."""
    if not streamed:
        return claude("hello")
    sent = b"".join(
        step for step in claude("hello", streamed=True).steps if isinstance(step, bytes)
    )
    events = [line[6:] for line in sent.split(b"\n") if line.startswith(b"data: ")]
    return stream_reply([chunk(event) for event in events], content_type=STREAM_TYPE)
