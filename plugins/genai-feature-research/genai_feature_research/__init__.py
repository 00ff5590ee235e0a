"""The feature `research`: an assistant that searches, reads pages, and answers from what it
has found; and the Assistant microservice, for callers that keep the state themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from genai_feature_research.reactions import KINDS
from genai_feature_research.research import ROLES, respond
from genai_feature_research.settings import Settings
from genai_host.api import Feature, HttpRoute, ReactionType, hookimpl

__all__ = ["Settings", "respond"]

_BODY = 256 * 2**20  # bytes: tables with vectors are large


@hookimpl
def genai_features() -> Iterable[Feature[Any]]:
    yield Feature(
        "research",
        Settings,
        respond,
        roles=ROLES,
        optional=ROLES.keys() - {"main"},
        help="an assistant that searches, reads pages and remembers",
    )


@hookimpl
def genai_reactions() -> Iterable[ReactionType]:
    return KINDS


@hookimpl
def genai_http_routes() -> Iterable[HttpRoute]:
    yield HttpRoute("POST", "/api/assistant", "genai_feature_research.http:answer", size=_BODY)
