"""The dialect `gemini-embed`: `batchEmbedContents`, of the Gemini API and of Vertex AI.

Source: Gemini API reference, "Embeddings"; google-genai 3.4 for the different format on Vertex AI;
both as of November 2026.
"""

from __future__ import annotations

from typing import Any

from genai_host.api import (
    Dialect,
    DialectEndpoint,
    EmbedCall,
    Embeddings,
    ProviderReply,
    ProviderRequest,
    must_be_vectors,
    read_vector,
)
from genai_host.errors import GenaiError
from genai_wire_gemini.dialect.failures import explain_error, objects_in, read_object
from genai_wire_gemini.dialect.replies import read_usage


class EmbedContent(Dialect[EmbedCall, Embeddings]):
    """Dialect for `batchEmbedContents`. Variant:
    - `purpose`: whether the request contains the purpose of the vectors
    - `nested`: whether the options of a text are in a nested object and without the model, as on
      Vertex AI
    """

    name = "gemini-embed"
    operation = "embed"
    endpoint = DialectEndpoint(path="/models/{model}:batchEmbedContents")
    parameters = {
        "dimensions": {
            "type": "integer",
            "minimum": 1,
            "description": "size of the vectors, if the model supports it",
        },
        "task_type": {
            "type": "string",
            "enum": [
                "RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT", "SEMANTIC_SIMILARITY", "CLASSIFICATION",
                "CLUSTERING", "QUESTION_ANSWERING", "FACT_VERIFICATION", "CODE_RETRIEVAL_QUERY",
            ],
            "description": "purpose of the vectors",
        },
    }  # fmt: skip
    variant = {"purpose": True, "nested": False}

    def prepare_request(self, call: EmbedCall) -> ProviderRequest:
        variant = {**self.variant, **call.variant}
        asked: dict[str, Any] = {}
        if variant["purpose"]:
            asked["taskType"] = f"RETRIEVAL_{call.purpose.upper()}"
        if "task_type" in call.parameters:
            asked["taskType"] = call.parameters["task_type"]
        if "dimensions" in call.parameters:
            asked["outputDimensionality"] = call.parameters["dimensions"]
        if variant["nested"]:
            more: dict[str, Any] = {"embedContentConfig": asked} if asked else {}
        else:
            more = {"model": f"models/{call.model_id}", **asked}
        requests = [{"content": {"parts": [{"text": text}]}, **more} for text in call.texts]
        return ProviderRequest("embed", self.name, call.model_id, {"requests": requests})

    def extract_result(self, call: EmbedCall, reply: ProviderReply) -> Embeddings:
        data = read_object(reply.body)
        vectors = [read_vector(each.get("values")) for each in objects_in(data, "embeddings")]
        must_be_vectors(vectors, len(call.texts))
        return Embeddings(vectors, usage=read_usage(data.get("usageMetadata")))

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        return explain_error(reply)
