"""Ollama, as simulated for the tests of its provider: whole and streamed replies to chat, generate
and embed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from genai_host_testing.fake_service import Reply, json_reply, stream_reply

KEY = "ollama-canary-77ab"
END: Mapping[str, Any] = {
    "done": True,
    "done_reason": "stop",
    "prompt_eval_count": 3,
    "eval_count": 2,
}
CALL: Mapping[str, Any] = {"function": {"name": "look", "arguments": {"at": "é"}}}


def event(**fields: Any) -> bytes:
    """Return one object of a reply; a reply that is not streamed has only one."""
    return json.dumps({"model": "m-1", "done": False, **fields}, ensure_ascii=False).encode()


def chat_event(text: str = "", fields: Mapping[str, Any] | None = None, **message: Any) -> bytes:
    """Return one object of a chat reply; `fields` are added beside the message."""
    return event(message={"role": "assistant", "content": text, **message}, **(fields or {}))


def chat(text: str = "", *, call: bool = False, streamed: bool = False, **message: Any) -> Reply:
    if call:
        message["tool_calls"] = [CALL]
    if not streamed:
        return json_reply(json.loads(chat_event(text, END, **message)))
    first = [chat_event(**message)] if message else []
    return ndjson_reply([*first, *map(chat_event, text), chat_event(fields=END)])


def embeddings(*vectors: Any) -> Reply:
    return json_reply({"model": "m-1", "embeddings": list(vectors), "prompt_eval_count": 5})


def failure(status: int, message: str = "no", **more: Any) -> Reply:
    return json_reply({"error": message, **more}, status)


def ndjson_reply(events: list[bytes]) -> Reply:
    return stream_reply(
        [each + b"\n" for each in events], content_type="application/x-ndjson; charset=utf-8"
    )
