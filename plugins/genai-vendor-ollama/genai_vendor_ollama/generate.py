"""Ollama's generate, `/api/generate`: one prompt, one answer. `chat` is for conversations.

Source: Ollama's `docs/api.md`, `docs/openapi.yaml` and `api/types.go`, of August 2026.

What the system says goes into `system`, wherever it stands. A single message of the user
is the prompt as it is; a conversation becomes one text, as

    User: hi

    Assistant: hello

    User: and now?

    Assistant:

and its pictures go beside it, in their order. Reasoning, and opaque parts of other
dialects, are left out. `replies` reads what comes back.
"""

from __future__ import annotations

from typing import Any

from genai_host.api import (
    ChatCall,
    Completion,
    Dialect,
    DialectEndpoint,
    Image,
    Message,
    ProviderReply,
    ProviderRequest,
    Reasoning,
    StreamDecoder,
    Text,
    VendorPart,
)
from genai_host.api.dialects import unsupported
from genai_host.errors import GenaiError
from genai_vendor_ollama.form import (
    PARAMETERS,
    VARIANT,
    add_parameters,
    explain_error,
    wire_image,
)
from genai_vendor_ollama.replies import OllamaDecoder, read_completion

_NAME = "ollama-generate"


class OllamaGenerate(Dialect[ChatCall, Completion]):
    """variant: see `form.VARIANT`."""

    name = _NAME
    endpoint = DialectEndpoint(path="/api/generate")
    capabilities = frozenset({"stream", "schema", "images", "reasoning"})
    parameters = PARAMETERS
    reserved = frozenset({"context", "images", "model", "prompt", "stream", "system"})
    variant = VARIANT

    def prepare_request(self, call: ChatCall) -> ProviderRequest:
        told = [_text(message) for message in call.messages if message.role == "system"]
        said = [message for message in call.messages if message.role != "system"]
        body: dict[str, Any] = {"model": call.model_id, "prompt": _prompt(said)}
        if told:
            body["system"] = "\n\n".join(told)
        images = [
            wire_image(part, _NAME)
            for message in said
            for part in message.content
            if isinstance(part, Image)
        ]
        if images:
            body["images"] = images
        if call.schema is not None:
            body["format"] = call.schema
        add_parameters(body, call, {**self.variant, **call.variant})
        body["stream"] = call.stream
        return ProviderRequest("chat", self.name, call.model_id, body, call.stream)

    def extract_result(self, call: ChatCall, reply: ProviderReply) -> Completion:
        return read_completion(call, reply, "response")

    def decoder(self, call: ChatCall) -> StreamDecoder[Completion]:
        return OllamaDecoder(call, "response")

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        return explain_error(reply)


def _prompt(said: list[Message]) -> str:
    if len(said) == 1 and said[0].role == "user":
        return _text(said[0])
    return "\n\n".join([*(f"{each.role.title()}: {_text(each)}" for each in said), "Assistant:"])


def _text(message: Message) -> str:
    """Raises `UnsupportedPart` for what is no text, but for pictures, which go elsewhere."""
    for part in message.content:
        if isinstance(part, Image) and message.role != "system":
            continue
        if not isinstance(part, (Text, Reasoning, VendorPart)):
            raise unsupported(part, f"in a message of role {message.role}", _NAME)
    return message.text
