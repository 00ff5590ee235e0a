"""The events that the scripted service of assistants streams.

Source: OpenAI's OpenAPI document 2.3.0, `AssistantStreamEvent`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from genai_host_testing.fake_service import CUT, Reply, stream_reply

Wire = dict[str, Any]


def streamed(events: Sequence[tuple[str, Any]], cut: int | None) -> Reply:
    """Return a stream of events, split into chunks at arbitrary bytes.

    The stream is cut after a number of events; None for all of them.
    """
    written = [
        f"event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
        for kind, data in events
    ]
    if cut is not None:
        return stream_reply([*written[:cut], CUT])
    whole = b"".join(written)
    pieces = [whole[at : at + 7] for at in range(0, len(whole), 7)]
    return stream_reply([*pieces, b"event: done\ndata: [DONE]\n\n"])


def events_of(step: Wire, messages: Sequence[Wire]) -> list[tuple[str, Any]]:
    """Return the events of a completed step."""
    if step["type"] == "tool_calls":
        events: list[tuple[str, Any]] = []
        for index, call in enumerate(step["step_details"]["tool_calls"]):
            if call["type"] == "code_interpreter":
                piece = {
                    "index": index, "type": "code_interpreter",
                    "code_interpreter": {"input": call["code_interpreter"]["input"]},
                }  # fmt: skip
                details = {"type": "tool_calls", "tool_calls": [piece]}
                delta = {
                    "id": step["id"], "object": "thread.run.step.delta",
                    "delta": {"step_details": details},
                }  # fmt: skip
                events.append(("thread.run.step.delta", delta))
        return [*events, ("thread.run.step.completed", step)]
    id = step["step_details"]["message_creation"]["message_id"]
    message = next(each for each in messages if each["id"] == id)
    text = message["content"][0]["text"]["value"]
    pieces = [text[:3], text[3:]]
    parts = [{"index": 0, "type": "text", "text": {"value": each}} for each in pieces if each]
    deltas = [
        {"id": id, "object": "thread.message.delta", "delta": {"content": [part]}} for part in parts
    ]
    return [
        *(("thread.message.delta", delta) for delta in deltas),
        ("thread.message.completed", message),
        ("thread.run.step.completed", step),
    ]
