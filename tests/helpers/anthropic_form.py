"""Parts of Anthropic's messages, for its tests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from genai_wire_anthropic.dialect.messages import AnthropicMessages

from genai_host.api import ChatCall, Completion, Delta, Message, ProviderReply, StreamEvent

DIALECT = AnthropicMessages()
CALL = ChatCall(model_id="m", messages=[Message("user", "hi")])
STREAMED = ChatCall(model_id="m", messages=[Message("user", "hi")], stream=True)


def written(*messages: Message, **call: Any) -> Any:
    """Return the request body for a conversation."""
    said = messages or CALL.messages
    return json.loads(DIALECT.prepare_request(ChatCall(model_id="m", messages=said, **call)).data())


def message(*content: Any, reason: str = "end_turn", **fields: Any) -> dict[str, Any]:
    """Return a whole reply."""
    return {"type": "message", "role": "assistant", "content": [*content],
            "stop_reason": reason, **fields}  # fmt: skip


def text(said: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **fields}


def thinking(thought: str, signature: str = "c2ln") -> dict[str, Any]:
    return {"type": "thinking", "thinking": thought, "signature": signature}


def tool_use(id: str, name: str, given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": given}


def read(reply: Any) -> Completion:
    return DIALECT.extract_result(CALL, ProviderReply(json.dumps(reply).encode()))


def event(kind: str, **fields: Any) -> StreamEvent:
    return StreamEvent(json.dumps({"type": kind, **fields}).encode(), kind)


START = event("message_start", message=message(reason=""))
STOP = event("message_stop")


def begins(index: int, block: Any) -> StreamEvent:
    return event("content_block_start", index=index, content_block=block)


def piece(index: int, kind: str, **fields: Any) -> StreamEvent:
    return event("content_block_delta", index=index, delta={"type": f"{kind}_delta", **fields})


def ends(index: int) -> StreamEvent:
    return event("content_block_stop", index=index)


def finishes(reason: str, **usage: Any) -> StreamEvent:
    return event("message_delta", delta={"stop_reason": reason}, usage=usage)


def stream(events: Iterable[StreamEvent]) -> tuple[list[Delta], Completion]:
    """Return the chunks of a stream, and the whole reply."""
    decoder = DIALECT.decoder(STREAMED)
    assert decoder is not None
    pieces = [each for one in events for each in decoder.feed(one)]
    return pieces, decoder.finish()


def sent_again(completion: Completion) -> Any:
    """Return the model's message as it is sent back; None if it is empty."""
    before, after = Message("user", "hi"), Message("user", "so?")
    messages: Sequence[Any] = written(before, completion.message, after)["messages"]
    return messages[1]["content"] if len(messages) > 2 else None
