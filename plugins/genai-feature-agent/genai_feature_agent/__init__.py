"""The feature `agent`: a model that uses the tools of all plugins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from genai_feature_agent.agent import Settings, respond
from genai_feature_agent.reactions import BUILT_IN
from genai_host.api import Feature, HttpRoute, ReactionType, hookimpl

__all__ = ["Settings", "respond"]

_PATHS = ("/api/agent", "/api/ee/metabot-v3/agent")
_BODY = 16 * 2**20  # bytes: a history includes the images returned by tools


@hookimpl
def genai_features() -> Iterable[Feature[Any]]:
    yield Feature("agent", Settings, respond, help="a model that uses tools")


@hookimpl
def genai_reactions() -> Iterable[ReactionType]:
    return BUILT_IN


@hookimpl
def genai_http_routes() -> Iterable[HttpRoute]:
    for path in _PATHS:
        yield HttpRoute("POST", path, "genai_feature_agent.http:answer", max_body_size=_BODY)
        yield HttpRoute(
            "POST", f"{path}-streaming", "genai_feature_agent.http:stream", max_body_size=_BODY
        )
    yield HttpRoute("POST", "/api/agent-chat", "genai_feature_agent.http:chat", max_body_size=_BODY)
