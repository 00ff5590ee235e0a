"""OpenAI's embeddings.

Source: OpenAI API reference, "Create embeddings", OpenAPI document 2.3.0.
"""

from __future__ import annotations

import json
from typing import Any

from genai_host.api import (
    Dialect,
    EmbedCall,
    ProviderReply,
    ProviderRequest,
    Serve,
    Usage,
    Vectors,
)
from genai_host.dialects.openai_replies import explain_error
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
        try:
            data = json.loads(reply.body)
            items = sorted(data["data"], key=lambda item: item["index"])
            vectors = [[float(number) for number in item["embedding"]] for item in items]
            used = int((data.get("usage") or {}).get("prompt_tokens") or 0)
            model = str(data.get("model", ""))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise MalformedReply(f"the reply holds no embeddings: {error!r}") from error
        if len(vectors) != len(call.texts) or len({len(vector) for vector in vectors}) > 1:
            raise MalformedReply(
                f"{len(call.texts)} texts came back as {len(vectors)} vectors, or of several sizes"
            )
        return Vectors(vectors, model, Usage(input=used))

    def explain_error(self, reply: ProviderReply) -> GenaiError | None:
        return explain_error(reply)
