"""OpenAI's service, as simulated for the tests of its providers: whole and streamed replies in each
dialect; and a feature that uses a tool.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from genai_host.api import (
    Answer,
    Feature,
    FeatureSteps,
    Message,
    NoSettings,
    Prompt,
    ToolResult,
    ToolSchema,
    Turn,
)
from genai_host_testing import InlinePlugin
from genai_host_testing.fake_service import Reply, json_reply, sse_reply

KEY = "sk-canary-1f9c"
USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 4,
    "prompt_tokens_details": {"cached_tokens": 3},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
USAGE_OF_RESPONSES = {
    "input_tokens": 9,
    "output_tokens": 4,
    "input_tokens_details": {"cached_tokens": 3},
    "output_tokens_details": {"reasoning_tokens": 2},
}
CALL = ("call_1", "look", '{"at":"é"}')
_EMPTY: Mapping[str, Any] = {"content": [], "arguments": ""}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}


def chat(text: str = "", *, call: bool = False, streamed: bool = False) -> Reply:
    """Return an answer in chat completions."""
    wire: dict[str, Any] = {"role": "assistant", "content": text or None}
    if call:
        id, name, arguments = CALL
        function = {"name": name, "arguments": arguments}
        wire["tool_calls"] = [{"index": 0, "id": id, "type": "function", "function": function}]
    finish = {"finish_reason": "tool_calls" if call else "stop"}
    if not streamed:
        return json_reply({"choices": [{"message": wire, **finish}], "usage": USAGE})
    chunks = [{**wire, "content": ""}, *({"content": letter} for letter in text)]
    events: list[Any] = [{"choices": [{"index": 0, "delta": chunk}]} for chunk in chunks]
    events.append({"choices": [{"index": 0, "delta": {}, **finish}]})
    events.append({"choices": [], "usage": USAGE})
    return sse_reply([*map(_written, events), b"[DONE]"])


def responses(text: str = "", *, call: bool = False, streamed: bool = False) -> Reply:
    """Return the same answer in responses, with reasoning before it."""
    output: list[dict[str, Any]] = [THOUGHT]
    if text:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        output.append({"type": "message", "role": "assistant", "content": content})
    if call:
        id, name, arguments = CALL
        output.append(
            {"type": "function_call", "call_id": id, "name": name, "arguments": arguments}
        )
    whole = {"status": "completed", "output": output, "usage": USAGE_OF_RESPONSES, "error": None}
    if not streamed:
        return json_reply(whole)
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {}}]
    for index, item in enumerate(output):
        place = {"output_index": index}
        begun = {name: _EMPTY.get(name, value) for name, value in item.items()}
        events.append({"type": "response.output_item.added", **place, "item": begun})
        if item["type"] == "message":
            events += [{"type": "response.output_text.delta", **place, "delta": c} for c in text]
        events.append({"type": "response.output_item.done", **place, "item": item})
    events.append({"type": "response.completed", "response": whole})
    return sse_reply(list(map(_written, events)))


def embeddings(*vectors: Any) -> Reply:
    data = [{"index": at, "embedding": each} for at, each in enumerate(vectors)]
    return json_reply({"data": data, "model": "m", "usage": {"prompt_tokens": 5}})


def failure(status: int, headers: Mapping[str, str] | None = None, **error: Any) -> Reply:
    return json_reply({"error": {"message": "no", **error}}, status, headers)


def _written(event: Any) -> bytes:
    return json.dumps(event).encode()


LOOK = ToolSchema(
    "look",
    "looks",
    {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
)


def _look(turn: Turn[NoSettings]) -> FeatureSteps:
    assert turn.message is not None
    messages = [*turn.history, turn.message]
    completion = yield from Prompt(messages, tools=[LOOK], tool_choice="auto")
    added = [turn.message, completion.message]
    if completion.tool_calls:
        results = [
            ToolResult(call.id, call.name, f"{call.arguments['at']} is fine")
            for call in completion.tool_calls
        ]
        added.append(Message("tool", results))
        completion = yield from Prompt([*turn.history, *added], tools=[LOOK])
        added.append(completion.message)
    return Answer(completion.text, new_messages=added)


LOOKING = InlinePlugin(features=[Feature("look", NoSettings, _look)])
"""A feature that offers the model a tool."""
