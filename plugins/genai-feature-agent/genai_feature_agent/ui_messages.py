"""UI messages of the AI SDK, versions 5 and later: `useChat` of its front ends.

    from_ui_messages   messages of a request → request of the agent, and the id of the answer
    in_ui_chunks       pieces → chunks of a UI message stream

The front end sends all messages with each request. Parts for the calls of tools have their outputs,
or the decision on an approval.

Source: AI SDK, "Stream Protocols", section "Data Stream Protocol"; `UIMessage` and
`UIMessageChunk` in its reference.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from genai_host.api import JsonReader, write_json

if TYPE_CHECKING:
    from genai_feature_agent.http import Piece, PieceStream

HEADERS: Mapping[str, str] = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "x-vercel-ai-ui-message-stream": "v1",
}
_Wire = dict[str, Any]
_TOOL = "tool-"
_TOKENS = {"promptTokens": "inputTokens", "completionTokens": "outputTokens"}
_PASSED_ON = ("context", "model", "session_id")
_TEXT = {"output-error": "errorText", "output-available": "output"}
"""Field with the output of a call, by the state of its part."""
_NOT_RUN: _Wire = {"content": "the user did not approve this call", "error": True}


def from_ui_messages(body: Any, dropped: list[str]) -> tuple[_Wire, str]:
    """Return the body of a request to the agent, and the id of the message that answers it.

    Args:
        body: The request.
        dropped: Collects the paths of system messages: the agent has its own system prompt.

    Raises:
        ValidationError: The request is invalid.
    """
    given = JsonReader(body, "$")
    history: list[_Wire] = []
    approvals: dict[str, bool] = {}
    messages = given.objects("messages")
    for number, message in enumerate(messages, 1):
        if message.choice("role", ("user", "assistant", "system")) == "assistant":
            approvals = {}
            for part in message.objects("parts"):
                _read_approval(part, approvals)
            history += _of_assistant(message, is_last=number == len(messages))
        elif message.text("role") == "user":
            history.append({"role": "user", "content": _text_of(message)})
        else:
            dropped.append(message.path.removeprefix("$."))
    request = {name: given.raw(name) for name in _PASSED_ON if name in given}
    if approvals:
        request["approvals"] = approvals
    id = f"msg-{uuid.uuid4()}"
    if history and history[-1]["role"] == "user":
        request["message"] = history.pop()["content"]
    elif messages:  # the answer goes on
        id = messages[-1].text("id") or id
    return {**request, "history": history}, id


def _text_of(message: JsonReader) -> str:
    for part in message.objects("parts"):
        if part.text("type") == "file":
            raise part.wrong("type", "not supported: the agent reads text alone")
    return "\n".join(p.text("text") for p in message.objects("parts") if p.text("type") == "text")


def _of_assistant(message: JsonReader, *, is_last: bool) -> Iterator[_Wire]:
    """The messages of an answer: for each step, one with its calls, and their outputs. Calls can
    still run in the last message only."""
    texts: list[str] = []
    calls: list[_Wire] = []
    outputs: list[_Wire] = []
    for part in message.objects("parts"):
        kind = part.text("type")
        if outputs and (kind in ("step-start", "text")):
            yield from _step(texts, calls, outputs)
            texts, calls, outputs = [], [], []
        if kind == "text":
            texts.append(part.text("text"))
        elif kind == "dynamic-tool" or kind.startswith(_TOOL):
            name = part.text("toolName") or kind.removeprefix(_TOOL)
            id = part.text("toolCallId")
            calls.append({"id": id, "name": name, "arguments": part.mapping("input") or {}})
            output = _output(part, None if is_last else _NOT_RUN)
            if output is not None:
                outputs.append({"role": "tool", "tool-call-id": id, **output})
    yield from _step(texts, calls, outputs)


def _step(texts: list[str], calls: list[_Wire], outputs: list[_Wire]) -> Iterator[_Wire]:
    if texts or calls:
        more = {"tool-calls": calls} if calls else {}
        yield {"role": "assistant", "content": "".join(texts), **more}
        yield from outputs


def _output(part: JsonReader, otherwise: _Wire | None) -> _Wire | None:
    """The output of a call; `otherwise` if it has not run."""
    state = part.text("state")
    if state not in _TEXT:
        return _NOT_RUN if state == "output-denied" else otherwise
    output = part.raw(_TEXT[state])
    text = output if isinstance(output, str) else write_json(output).decode()
    return {"content": text, **({"error": True} if state == "output-error" else {})}


def _read_approval(part: JsonReader, approvals: dict[str, bool]) -> None:
    approval = part.object("approval")
    if part.text("state") == "approval-responded" and approval is not None:
        approvals[part.text("toolCallId")] = bool(approval.flag("approved"))


def in_ui_chunks(given: PieceStream) -> Generator[str, None, None]:
    """Format pieces as server-sent events with chunks of a UI message stream."""
    writer = _Chunks()
    with closing(given):
        for piece in given:
            for chunk in writer.of(piece):
                yield f"data: {write_json(chunk).decode()}\n\n"
    yield "data: [DONE]\n\n"


class _Chunks:
    """Chunks of a stream: a step for each call of the model, and in it, parts of text."""

    _in_step = _has_outputs = _in_text = False
    _texts = 0

    def of(self, piece: Piece) -> Iterator[_Wire]:
        data = piece.data
        if piece.kind in ("text", "tool-call"):
            yield from self._begin_step()
        if piece.kind not in ("start", "text"):
            yield from self._end_text()
        if piece.kind == "start":
            yield {"type": "start", **data}
        elif piece.kind == "text":
            if not self._in_text:
                self._in_text = True
                self._texts += 1
                yield {"type": "text-start", "id": self._text_id}
            yield {"type": "text-delta", "id": self._text_id, "delta": data}
        elif piece.kind == "tool-call":
            call = {"toolCallId": data["toolCallId"], "toolName": data["toolName"]}
            yield {"type": "tool-input-available", **call, "input": data["args"]}
        elif piece.kind == "tool-result":
            self._has_outputs = True
            kind, name = ("error", "errorText") if piece.is_error else ("available", "output")
            call = {"toolCallId": data["toolCallId"], name: data["result"]}
            yield {"type": f"tool-output-{kind}", **call}
        elif piece.kind == "source":
            yield {"type": "source-url", "sourceId": data["url"], **data}
        elif piece.kind == "data":
            yield from self._of_data(data)
        elif piece.kind == "error":
            yield {"type": "error", "errorText": data["message"]}
        else:
            yield from self._end_step()
            usage = {_TOKENS[name]: value for name, value in data["usage"].items()}
            reason, metadata = data["finishReason"], {"usage": usage}
            yield {"type": "finish", "finishReason": reason, "messageMetadata": metadata}

    @property
    def _text_id(self) -> str:
        return f"text-{self._texts}"

    def _of_data(self, data: Mapping[str, Any]) -> Iterator[_Wire]:
        """A reaction, the approvals in the state, or that the text so far is void."""
        if data["type"] == "state":
            for call in data["value"].get("approvals", ()):
                id = call["id"]
                yield {"type": "tool-approval-request", "approvalId": id, "toolCallId": id}
        else:
            yield {"type": f"data-{data['type']}", "data": data.get("value", {})}

    def _begin_step(self) -> Iterator[_Wire]:
        if self._has_outputs:
            yield from self._end_step()
        if not self._in_step:
            self._in_step = True
            yield {"type": "start-step"}

    def _end_step(self) -> Iterator[_Wire]:
        yield from self._end_text()
        if self._in_step:
            yield {"type": "finish-step"}
        self._in_step = self._has_outputs = False

    def _end_text(self) -> Iterator[_Wire]:
        if self._in_text:
            yield {"type": "text-end", "id": self._text_id}
        self._in_text = False
