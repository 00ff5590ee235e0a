"""The dialect `word-list`: requests and replies of the word list.

Request: `{"text": "..."}`. Reply: `{"flagged": true, "categories": {"profanity": 1.0}}`.
"""

from __future__ import annotations

from typing import Any

from genai_host.api import (
    Dialect,
    ModerateCall,
    ModerationResult,
    ProviderReply,
    ProviderRequest,
    read_json,
)
from genai_host.errors import MalformedReply


class WordList(Dialect[ModerateCall, ModerationResult]):
    name = "word-list"
    operation = "moderate"

    def prepare_request(self, call: ModerateCall) -> ProviderRequest:
        return ProviderRequest("moderate", self.name, call.model_id, {"text": call.text})

    def extract_result(self, call: ModerateCall, reply: ProviderReply) -> ModerationResult:
        try:
            data = read_json(reply.body)
            flagged = data["flagged"]
            categories = {str(name): _share(score) for name, score in data["categories"].items()}
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise MalformedReply(f"invalid moderation reply: {error!r}") from error
        if not isinstance(flagged, bool):
            raise MalformedReply("invalid moderation reply: flagged must be a boolean")
        return ModerationResult(flagged, categories, call.model_id)


def _share(score: Any) -> float:
    if isinstance(score, bool) or not isinstance(score, (int, float)) or not 0 <= score <= 1:
        raise ValueError(f"{score!r} is not a number from 0 to 1")
    return float(score)
