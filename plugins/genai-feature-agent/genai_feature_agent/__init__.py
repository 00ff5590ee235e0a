"""The feature `agent`: a model that uses the tools of all plugins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from genai_feature_agent.agent import Settings, respond
from genai_feature_agent.reactions import BUILT_IN
from genai_host.api import Feature, ReactionType, hookimpl

__all__ = ["Settings", "respond"]


@hookimpl
def genai_features() -> Iterable[Feature[Any]]:
    yield Feature("agent", Settings, respond, help="a model that uses tools")


@hookimpl
def genai_reactions() -> Iterable[ReactionType]:
    return BUILT_IN
