"""OpenAI's responses, as the tests of their dialect write and read them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from genai_wire_openai.dialect.responses import OpenAIResponses

from genai_host.api import (
    ChatCall,
    Completion,
    Delta,
    Message,
    ProviderReply,
    StreamEvent,
    ToolCall,
    VendorPart,
)

DIALECT = OpenAIResponses()
CALL = ChatCall(model_id="m", messages=[Message("user", "hi")])
LOOK = ToolCall("1", "look", {"at": "é"})
WIRE_LOOK = {
    "id": "fc_1", "type": "function_call", "call_id": "1", "name": "look",
    "arguments": '{"at":"é"}', "status": "completed",
}  # fmt: skip
THOUGHT = {
    "id": "rs_1", "type": "reasoning", "encrypted_content": "gAAA",
    "summary": [{"type": "summary_text", "text": "hm"}, {"type": "summary_text", "text": "so"}],
}  # fmt: skip
OPAQUE = VendorPart("openai-responses", THOUGHT)


REFUSAL = {"type": "refusal", "refusal": "no"}


def read(reply: Any) -> Completion:
    data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
    return DIALECT.extract_result(CALL, ProviderReply(data))


def sent_again(completion: Completion) -> Any:
    """Return the items of a request that sends an answer back."""
    call = ChatCall(model_id="m", messages=[completion.message])
    return json.loads(DIALECT.prepare_request(call).data())["input"]


def output_text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


def message(*content: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "msg_1", "type": "message", "role": "assistant", "content": [*content], **more}


def response(*output: dict[str, Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    return {"id": "resp_1", "status": status, "output": [*output], "error": None, **more}


def event(kind: str, **fields: Any) -> StreamEvent:
    return StreamEvent(json.dumps({"type": kind, "sequence_number": 1, **fields}).encode())


def stream(events: Sequence[StreamEvent]) -> tuple[list[Delta], Completion]:
    decoder = DIALECT.decoder(CALL)
    pieces = [piece for each in events for piece in decoder.feed(each)]
    return pieces, decoder.finish()


def of(*parts: Any) -> Message:
    return Message("assistant", parts)
