"""The host's own JSON form as an API format, for providers in this process.

Request: `{"messages": [...], "parameters": {...}, "tools": [...], "schema": {...}}`. Reply: a
`Completion` in JSON form. Events: `{"delta": {...}}`, and at the end `{"end": {...}}` with a
`Completion`. An embedding request is `{"texts": [...], "purpose": "query"}`, its reply `Embeddings`
in JSON form. Token counts use messages, tools and schema; the reply is `{"tokens": 12}`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from genai_host.api import (
    ChatCall,
    Completion,
    CountDialect,
    Delta,
    Dialect,
    EmbedCall,
    Embeddings,
    Message,
    ProviderReply,
    ProviderRequest,
    StreamEvent,
    interrupted,
    must_be_vectors,
    read_object,
)
from genai_host.api.codec import default_codec
from genai_host.api.json_text import write_long_json
from genai_host.api.models import STANDARD
from genai_host.errors import MalformedReply, ValidationError


class Plain(Dialect[ChatCall, Completion]):
    name = "plain"
    capabilities = frozenset({"stream", "tools", "schema", "images", "files", "reasoning"})
    parameters = STANDARD
    images_in_answers = True

    def prepare_request(self, call: ChatCall) -> ProviderRequest:
        body: dict[str, Any] = {
            "messages": call.written(self.name, self._write),
            "parameters": dict(call.parameters),
        }
        if call.tools:
            body["tools"] = default_codec().to_json(call.tools)
        if call.tool_choice is not None:
            body["tool_choice"] = call.tool_choice
        if call.schema is not None:
            body["schema"] = call.schema
        return ProviderRequest("chat", self.name, call.model_id, body, call.stream)

    def extract_result(self, call: ChatCall, reply: ProviderReply) -> Completion:
        completion: Completion = _structure(read_object(reply.body), Completion)
        return completion

    def decoder(self, call: ChatCall) -> _PlainDecoder:
        return _PlainDecoder()

    def _write(self, message: Message) -> bytes:
        return write_long_json(default_codec().to_json(message))


class _PlainDecoder:
    def __init__(self) -> None:
        self._text: list[str] = []
        self._end: Completion | None = None

    @property
    def done(self) -> bool:
        return self._end is not None

    def feed(self, event: StreamEvent) -> Sequence[Delta]:
        data = read_object(event.data)
        if "end" in data:
            self._end = _structure(data["end"], Completion)
            return ()
        delta = _structure(data.get("delta"), Delta)
        self._text.append(delta.text)
        return (delta,)

    def finish(self) -> Completion:
        if self._end is None:
            text = "".join(self._text)
            raise interrupted(text)
        return self._end


class PlainCount(CountDialect):
    name = "plain-count"
    of = Plain
    fields = frozenset({"messages", "tools", "schema"})
    tokens = "tokens"


class PlainEmbed(Dialect[EmbedCall, Embeddings]):
    name = "plain-embed"
    operation = "embed"

    def prepare_request(self, call: EmbedCall) -> ProviderRequest:
        body: dict[str, Any] = {"texts": list(call.texts)}
        if call.purpose:
            body["purpose"] = call.purpose
        return ProviderRequest("embed", self.name, call.model_id, body)

    def extract_result(self, call: EmbedCall, reply: ProviderReply) -> Embeddings:
        found: Embeddings = _structure(read_object(reply.body), Embeddings)
        must_be_vectors(found.vectors, len(call.texts))
        return found


def _structure(data: Any, form: Any) -> Any:
    try:
        return default_codec().from_json(data, form)
    except ValidationError as error:
        raise MalformedReply(f"the reply is malformed: {error}") from error
