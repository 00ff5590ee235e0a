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
from genai_host.dialects.openai_replies import explain_error, read_object, read_usage
from genai_host.dialects.vectors import must_be_vectors, read_vector
from genai_host.errors import GenaiError, MalformedReply


class OpenAIEmbed(Dialect[EmbedCall, Vectors]):
    """variant:

    purpose   name of the field that says whether the texts are queries or
              documents; empty if the service knows no difference
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
    variant = {"purpose": ""}

    def prepare_request(self, call: EmbedCall) -> ProviderRequest:
        variant = {**self.variant, **call.variant}
        body: dict[str, Any] = {
            "model": call.model_id,
            "input": list(call.texts),
            "encoding_format": "float",
            **call.parameters,
        }
        if variant["purpose"]:
            body[variant["purpose"]] = call.purpose
        return ProviderRequest("embed", self.name, call.model_id, body)

    def extract_result(self, call: EmbedCall, reply: ProviderReply) -> Vectors:
        data = read_object(reply.body)
        try:
            items = sorted(data["data"], key=lambda item: int(item["index"]))
            vectors = [read_vector(item["embedding"]) for item in items]
        except (ValueError, LookupError, TypeError, OverflowError) as error:
            raise MalformedReply(f"the reply holds no embeddings: {error!r}") from error
        must_be_vectors(vectors, len(call.texts))
        model = data.get("model")
        return Vectors(vectors, str(model or ""), read_usage(data.get("usage")))

    def explain_error(self, reply: ProviderReply) -> GenaiError | None:
        return explain_error(reply)
