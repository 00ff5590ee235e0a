"""OpenAI's embeddings.

Source: OpenAI API reference, "Create embeddings", OpenAPI document 2.3.0.
"""

from __future__ import annotations

from typing import Any

from genai_host.api import (
    Dialect,
    EmbedCall,
    ProviderReply,
    ProviderRequest,
    Serve,
    Vectors,
)
from genai_host.api.reply_vectors import decode_vector, must_be_vectors, read_vector
from genai_host.dialects.openai_form import explain_error, read_object
from genai_host.dialects.openai_replies import read_usage
from genai_host.errors import GenaiError, MalformedReply


class OpenAIEmbed(Dialect[EmbedCall, Vectors]):
    """Vectors may come as numbers, or as base64 of 4-byte floats, which is shorter.

    variant:

    purpose    name of the field that says whether the texts are queries or
               documents; empty if the service knows no difference
    encoding   how the vectors are asked for, `float` or `base64`; empty to leave it to
               the service
    """

    name = "openai-embed"
    operation = "embed"
    endpoint = Serve(path="/embeddings")
    parameters = {
        "dimensions": {
            "type": "integer",
            "minimum": 1,
            "description": "size of the vectors, where the model can shorten them",
        }
    }
    variant = {"purpose": "", "encoding": "float"}

    def prepare_request(self, call: EmbedCall) -> ProviderRequest:
        variant = {**self.variant, **call.variant}
        body: dict[str, Any] = {
            "model": call.model_id,
            "input": list(call.texts),
            **call.parameters,
        }
        if variant["encoding"]:
            body["encoding_format"] = variant["encoding"]
        if variant["purpose"]:
            body[variant["purpose"]] = call.purpose
        return ProviderRequest("embed", self.name, call.model_id, body)

    def extract_result(self, call: EmbedCall, reply: ProviderReply) -> Vectors:
        data = read_object(reply.body)
        try:
            items = sorted(data["data"], key=lambda item: int(item["index"]))
            vectors = [_vector(item["embedding"]) for item in items]
        except (ValueError, LookupError, TypeError, OverflowError) as error:
            raise MalformedReply(f"the reply holds no embeddings: {error!r}") from error
        must_be_vectors(vectors, len(call.texts))
        model = data.get("model")
        return Vectors(vectors, str(model or ""), read_usage(data.get("usage")))

    def explain_error(self, reply: ProviderReply) -> GenaiError | None:
        return explain_error(reply)


def _vector(embedding: Any) -> list[float]:
    """It need not come as it was asked for."""
    return decode_vector(embedding) if isinstance(embedding, str) else read_vector(embedding)
