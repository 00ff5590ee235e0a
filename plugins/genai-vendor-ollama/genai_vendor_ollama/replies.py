"""Complete and streamed replies of Ollama's chat. A stream consists of the same objects, each with
a chunk of the answer; a complete reply is read as a stream of one object.

Source: Ollama's `docs/api.md` and `api/types.go`, of August 2026. `"done": true` marks the end of a
stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from attrs import evolve

from genai_host.api import (
    ChatCall,
    Completion,
    Delta,
    Image,
    Message,
    Part,
    ProviderReply,
    Reasoning,
    StreamEvent,
    Text,
    ToolCall,
    Usage,
    count_in,
    decode_base64,
    finish_word,
    id_in,
    list_in,
    malformed,
    object_in,
    read_finish,
    read_tool_call,
    string_in,
    text_in,
    weightier,
)
from genai_host.errors import IncompleteReply
from genai_vendor_ollama.form import read_event_object


def read_completion(call: ChatCall, reply: ProviderReply) -> Completion:
    """Parse a complete reply. Raises `MalformedReply`, or `IncompleteReply` if it is not done."""
    decoder = OllamaDecoder(call)
    decoder.feed(StreamEvent(reply.body))
    return decoder.finish()


class OllamaDecoder:
    """Assembles a streamed reply."""

    def __init__(self, call: ChatCall) -> None:
        self._ids = {each.id for message in call.messages for each in message.tool_calls}
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._images: list[Image] = []
        self._calls: dict[str, ToolCall] = {}
        self._has_begun = False
        self._finish = ""
        self._usage = Usage()
        self.done = False

    def feed(self, event: StreamEvent) -> Sequence[Delta]:
        if event.is_done:  # sent by some compatible servers
            self.done = True
            return ()
        data = read_event_object(event)
        message = self._message_in(data)
        text, reasoning = text_in(message, "content"), _thinking_in(message)
        calls = list(self._new_calls(message))
        self._images += [_read_image(each) for each in list_in(message, "images")]
        self._has_begun = True
        if text:
            self._text.append(text)
        if reasoning:
            self._reasoning.append(reasoning)
        if data.get("done", True) is True:
            self._finish = weightier(self._finish, finish_word(data.get("done_reason")))
        if data.get("done") is True:
            self._usage = Usage(count_in(data, "prompt_eval_count"), count_in(data, "eval_count"))
            self.done = True
        pieces = [Delta(text, reasoning)] if text or reasoning else []
        return [*pieces, *(Delta(tool_call=call) for call in calls)]

    def finish(self) -> Completion:
        text = "".join(self._text)
        if not self.done and not self._finish:
            raise IncompleteReply("the reply was interrupted before its end", text=text)
        content: list[Part] = []
        if self._reasoning:
            content.append(Reasoning("".join(self._reasoning)))
        if text:
            content.append(Text(text))
        content += [*self._images, *self._calls.values()]
        finish = read_finish(self._finish, calls=bool(self._calls), text=text)
        return Completion(
            Message("assistant", content), finish, self._usage, vendor_finish=self._finish
        )

    def _message_in(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        if data.get("done") is True and self._has_begun:  # the stream can be complete here
            data = {"message": {}, **data}
        if "message" not in data:
            raise malformed("it has no message")
        return object_in(data, "message")

    def _new_calls(self, message: Mapping[str, Any]) -> Iterator[ToolCall]:
        for data in list_in(message, "tool_calls"):
            if not isinstance(data, dict):
                raise malformed("a tool call is not an object")
            function = data if "name" in data else object_in(data, "function")
            name, arguments = string_in(function, "name"), function.get("arguments")
            call = read_tool_call(id_in(data, "id"), name, arguments)
            before = self._calls.get(call.id)
            if before == call:  # a repeated call
                continue
            if not call.id or before is not None:
                call = evolve(call, id=self._free_id())
            self._ids.add(call.id)
            self._calls[call.id] = call
            yield call

    def _free_id(self) -> str:
        """Return a conversation-wide unique id for a call from an older server without ids."""
        return next(id for at in count(len(self._ids)) if (id := f"call_{at}") not in self._ids)


def _thinking_in(message: Mapping[str, Any]) -> str:
    """The reasoning; ignored in other forms, since it is not part of the answer."""
    value = message.get("thinking")
    return value if isinstance(value, str) else ""


def _read_image(data: Any) -> Image:
    try:
        content = decode_base64(data)
    except (AttributeError, ValueError) as error:
        raise malformed("an image is not base64") from error
    if not content:
        raise malformed("an image is empty")
    return Image(content)
