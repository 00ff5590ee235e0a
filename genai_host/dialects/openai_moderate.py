"""OpenAI's moderation: whether a text breaks the service's rules.

Source: OpenAI API reference, "Create moderation", OpenAPI document 2.3.0.
"""

from __future__ import annotations

from genai_host.api import (
    Dialect,
    ModerateCall,
    ProviderReply,
    ProviderRequest,
    Serve,
    Verdict,
)
from genai_host.dialects.openai_form import explain_error, read_object
from genai_host.errors import GenaiError, MalformedReply


class OpenAIModerate(Dialect[ModerateCall, Verdict]):
    name = "openai-moderate"
    operation = "moderate"
    endpoint = Serve(path="/moderations")

    def prepare_request(self, call: ModerateCall) -> ProviderRequest:
        body = {"model": call.model_id, "input": call.text}
        return ProviderRequest("moderate", self.name, call.model_id, body)

    def extract_result(self, call: ModerateCall, reply: ProviderReply) -> Verdict:
        data = read_object(reply.body)
        try:
            (result,) = data["results"]
            flagged = result["flagged"]
            scores = result.get("category_scores") or {}
            categories = {str(name): _share(score) for name, score in scores.items()}
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
            raise MalformedReply(f"the reply holds no verdict: {error!r}") from error
        if not isinstance(flagged, bool):
            raise MalformedReply("the reply holds no verdict: it does not say whether")
        return Verdict(flagged, categories, str(data.get("model") or ""))

    def explain_error(self, reply: ProviderReply) -> GenaiError | None:
        return explain_error(reply)


def _share(score: object) -> float:
    if isinstance(score, bool) or not isinstance(score, (int, float)) or not 0 <= score <= 1:
        raise ValueError(f"{score!r} is no share")
    return float(score)
