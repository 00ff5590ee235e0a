"""The dialect for Ollama's `/api/generate`, for texts with a suffix.

Source: Ollama's `docs/api.md`, "Generate a completion", `docs/openapi.yaml` and `api/types.go`, of
August 2026. Models without the capability `insert` refuse a suffix.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genai_host.api import (
    CompleteCall,
    Completion,
    Dialect,
    DialectEndpoint,
    ProviderReply,
    ProviderRequest,
    StreamEvent,
    malformed,
)
from genai_host.errors import GenaiError, UnsupportedPart
from genai_wire_ollama.dialect.chat import OllamaChat, OllamaDecoder
from genai_wire_ollama.dialect.form import (
    KEEP_ALIVE,
    OPTIONS,
    TRUNCATE,
    VARIANT,
    add_parameters,
    explain_error,
)


class OllamaGenerate(Dialect[CompleteCall, Completion]):
    """Dialect for `/api/generate`. For the variant, see `form.VARIANT`.

    Ollama puts the text into the template of the model.
    """

    name = "ollama-generate"
    operation = "complete"
    endpoint = DialectEndpoint(path="/api/generate")
    capabilities = frozenset({"stream"})
    parameters = {**OPTIONS, "keep_alive": KEEP_ALIVE, "truncate": TRUNCATE}
    variant = VARIANT

    @property
    def models_of(self) -> str:
        return OllamaChat.name

    def prepare_request(self, call: CompleteCall) -> ProviderRequest:
        if len(call.prompts) != 1 or not isinstance(call.prompts[0], str):
            raise UnsupportedPart(
                f"{self.name} supports only one text", part="prompts", dialect=self.name
            )
        body: dict[str, Any] = {"model": call.model_id, "prompt": call.prompts[0]}
        if call.suffix:
            body["suffix"] = call.suffix
        add_parameters(body, call, {**self.variant, **call.variant})
        body["stream"] = call.stream
        return ProviderRequest("complete", self.name, call.model_id, body, call.stream)

    def extract_result(self, call: CompleteCall, reply: ProviderReply) -> Completion:
        decoder = _Decoder()
        decoder.feed(StreamEvent(reply.body))
        return decoder.finish()

    def decoder(self, call: CompleteCall) -> _Decoder:
        return _Decoder()

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        return explain_error(reply)


class _Decoder(OllamaDecoder):
    """Assembles a streamed reply, whose objects have the text instead of a message."""

    def message_in(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        if "response" not in data and not (data.get("done") is True and self.has_begun):
            raise malformed("it has no response")
        return {"content": data.get("response"), "thinking": data.get("thinking")}
