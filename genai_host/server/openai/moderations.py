"""`/v1/moderations`.

Source: OpenAI API reference, "Create moderation".
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from genai_host.api import RouteReply, RouteRequest, Verdict, json_reply
from genai_host.api.given import Given, body_of
from genai_host.errors import InvalidData
from genai_host.host import Host

_CATEGORIES = (
    "hate",
    "hate/threatening",
    "harassment",
    "harassment/threatening",
    "illicit",
    "illicit/violent",
    "self-harm",
    "self-harm/intent",
    "self-harm/instructions",
    "sexual",
    "sexual/minors",
    "violence",
    "violence/graphic",
)
"""What the format has a place for; others that a service tells of stand beside these."""

_LIKELY = 0.5
_MOST = 32  # texts in one request: each is a call


def moderate(request: RouteRequest, host: Host) -> RouteReply:
    """A judgement of each text, in order."""
    body = body_of(request)
    model = body.text("model") or None
    texts = _texts(body)
    body.nothing_else()
    limits, user = request.limits, request.user
    verdicts = [host.moderate(text, model=model, limits=limits, owner=user) for text in texts]
    return json_reply(
        {
            "id": f"modr-{os.urandom(12).hex()}",
            "model": model or verdicts[0].model,
            "results": [_result(verdict) for verdict in verdicts],
        }
    )


def _texts(body: Given) -> Sequence[str]:
    given = body.raw("input")
    if isinstance(given, str):
        return [given]
    values = body.values("input")
    if not 0 < len(values) <= _MOST:
        raise InvalidData(f"there are 1 to {_MOST} texts", path=body.at("input"))
    if all(isinstance(each, str) for each in values):
        return values
    parts = body.objects("input")
    for part in parts:
        if part.text("type") != "text":
            raise InvalidData("texts are judged here, and nothing else", path=part.at("type"))
    return ["\n".join(part.text("text") for part in parts)]  # they are judged together


def _result(verdict: Verdict) -> dict[str, Any]:
    scores = {**dict.fromkeys(_CATEGORIES, 0.0), **verdict.categories}
    surest = max(scores.values())
    broken = {
        name: verdict.flagged and score > 0 and (score >= _LIKELY or score == surest)
        for name, score in scores.items()
    }
    return {
        "flagged": verdict.flagged,
        "categories": broken,
        "category_scores": scores,
        "category_applied_input_types": {name: ["text"] for name in scores},
    }
