"""OpenAI's embeddings and moderations.

Source: OpenAI API reference, "Create embeddings" and "Create moderation", OpenAPI document 2.3.0.
"""

from __future__ import annotations

from typing import Any

from genai_host.api import (
    Dialect,
    DialectEndpoint,
    EmbedCall,
    Embeddings,
    ModerateCall,
    ModerationResult,
    ProviderReply,
    ProviderRequest,
    decode_vector,
    index_in,
    must_be_vectors,
    parameter,
    read_vector,
)
from genai_host.errors import GenaiError, MalformedReply
from genai_wire_openai.dialect.chat_replies import read_usage
from genai_wire_openai.dialect.common import explain_error, read_object


class OpenAIEmbed(Dialect[EmbedCall, Embeddings]):
    """OpenAI's embeddings. Vectors are lists of numbers, or base64 of 4-byte floats, which is
    shorter.

    `variant` has these options:

    - `purpose`: field for the purpose of the texts; empty if the service makes no difference
    - `encoding`: form of the vectors to request, `float` or `base64`; empty for the default of the
      service
    """

    name = "openai-embed"
    operation = "embed"
    endpoint = DialectEndpoint(path="/embeddings")
    parameters = {
        "dimensions": parameter(
            "integer", "size of the vectors, if the model can shorten them", minimum=1
        )
    }
    variant = {"purpose": "", "encoding": "float"}
    accepts_tokens = True

    def prepare_request(self, call: EmbedCall) -> ProviderRequest:
        variant = {**self.variant, **call.variant}
        body: dict[str, Any] = {
            "model": call.model_id,
            "input": list(call.texts),
            **call.parameters,
        }
        if variant["encoding"]:
            body["encoding_format"] = variant["encoding"]
        if variant["purpose"] and call.purpose:
            body[variant["purpose"]] = call.purpose
        return ProviderRequest("embed", self.name, call.model_id, body)

    def extract_result(self, call: EmbedCall, reply: ProviderReply) -> Embeddings:
        data = read_object(reply.body, "data")
        try:
            vectors = [_vector(item["embedding"]) for item in _in_order(data["data"])]
        except (LookupError, TypeError, AttributeError) as error:
            raise MalformedReply(f"the reply has no embeddings: {error!r}") from error
        must_be_vectors(vectors, len(call.texts))
        model = data.get("model")
        return Embeddings(vectors, str(model or ""), read_usage(data.get("usage")))

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        return explain_error(reply)


def _in_order(items: list[Any]) -> list[Any]:
    """Items in the order of their indexes, which some servers omit."""
    indexes = [index_in(item, "index") for item in items]
    if all(index is None for index in indexes):
        return items
    places = sorted(range(len(items)), key=indexes.__getitem__)  # type: ignore[arg-type]  # raises
    return [items[place] for place in places]


def _vector(embedding: Any) -> list[float]:
    """Read a vector in either form, whatever was requested."""
    return decode_vector(embedding) if isinstance(embedding, str) else read_vector(embedding)


class OpenAIModerate(Dialect[ModerateCall, ModerationResult]):
    name = "openai-moderate"
    operation = "moderate"
    endpoint = DialectEndpoint(path="/moderations")

    def prepare_request(self, call: ModerateCall) -> ProviderRequest:
        body = {"model": call.model_id, "input": call.text}
        return ProviderRequest("moderate", self.name, call.model_id, body)

    def extract_result(self, call: ModerateCall, reply: ProviderReply) -> ModerationResult:
        data = read_object(reply.body, "results")
        try:
            (result,) = data["results"]
            flagged = result["flagged"]
            scores = result.get("category_scores") or {}
            categories = {str(name): _share(score) for name, score in scores.items()}
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
            raise MalformedReply(f"the reply has no moderation result: {error!r}") from error
        if not isinstance(flagged, bool):
            raise MalformedReply("the reply has no moderation result: flagged is not a boolean")
        return ModerationResult(flagged, categories, str(data.get("model") or ""))

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        return explain_error(reply)


def _share(score: object) -> float:
    if isinstance(score, bool) or not isinstance(score, (int, float)) or not 0 <= score <= 1:
        raise ValueError(f"{score!r} is not a number from 0 to 1")
    return float(score)
