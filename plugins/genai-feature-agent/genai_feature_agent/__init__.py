"""The feature `agent`: a model that uses the tools of all plugins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import frozen, validators as must

from genai_feature_agent.reactions import BUILT_IN
from genai_host.api import (
    Feature,
    FeatureSteps,
    HttpRoute,
    ReactionType,
    Turn,
    hookimpl,
    setting,
)

__all__ = ["Settings", "respond"]

_PATHS = ("/api/agent", "/api/ee/metabot-v3/agent")
_BODY = 16 * 2**20  # bytes: a history includes the images returned by tools


@frozen
class Settings:
    system_prompt: str = setting(
        "You are a helpful assistant. Use the tools you are given where they help.",
        "system prompt; empty for the built-in instructions only",
    )
    round_trips: int = setting(6, "maximum number of model calls in a turn", validator=must.ge(1))
    cost: float | None = setting(
        None,
        "cost in US dollars after which a turn makes no further model call; no limit if not set",
        validator=must.optional(must.gt(0)),
    )
    history_messages: int = setting(
        1000,
        "maximum number of earlier messages that the model receives, the last ones; a request over "
        "HTTP with more is refused",
        validator=must.ge(1),
    )
    characters: int = setting(
        1_000_000,
        "maximum number of characters of a model call, including history and context",
        validator=must.ge(1),
    )


def respond(turn: Turn[Settings]) -> FeatureSteps:
    """See `loop.respond`, which is imported on first use."""
    from genai_feature_agent import loop

    return (yield from loop.respond(turn))


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
