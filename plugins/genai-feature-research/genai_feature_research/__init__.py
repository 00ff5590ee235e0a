"""The feature `research`, an assistant that searches, reads pages and answers from the results; and
the Assistant microservice, for callers that store the state themselves.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from genai_feature_research.settings import Settings
from genai_host.api import Feature, FeatureSteps, HttpRoute, Operation, ReactionType, Turn, hookimpl

__all__ = ["Settings", "respond"]

ROLES: Mapping[str, Operation] = {
    "main": "chat",
    "query": "chat",
    "style": "chat",
    "embed": "embed",
    "moderate": "moderate",
}
"""`main` writes the answer. It also takes the roles `query` and `style` if they have no model."""

_BODY = 256 * 2**20  # bytes: tables with vectors are large


def respond(turn: Turn[Settings]) -> FeatureSteps:
    """See `research.respond`, which is imported on first use."""
    from genai_feature_research import research

    return (yield from research.respond(turn))


_WARNINGS = {
    "type": "object",
    "properties": {"warnings": {"type": "array", "items": {"type": "string"}}},
    "required": ["warnings"],
    "additionalProperties": False,
}
WARNINGS = ReactionType("warnings", _WARNINGS, text_view="genai_feature_research:warnings")


def warnings(reaction: Mapping[str, Any], width: int) -> list[str]:
    """Return the text view of warnings, which are untrusted data."""
    lines: list[str] = []
    for warning in reaction["warnings"]:
        lines += textwrap.wrap(
            f"! {warning}", max(width, 20), subsequent_indent="  ", break_on_hyphens=False
        )
    return lines


@hookimpl
def genai_features() -> Iterable[Feature[Any]]:
    yield Feature(
        "research",
        Settings,
        respond,
        roles=ROLES,
        optional_roles=ROLES.keys() - {"main"},
        help="an assistant that searches, reads pages and remembers",
    )


@hookimpl
def genai_reactions() -> Iterable[ReactionType]:
    yield WARNINGS


@hookimpl
def genai_http_routes() -> Iterable[HttpRoute]:
    yield HttpRoute(
        "POST", "/api/assistant", "genai_feature_research.assistant:answer", max_body_size=_BODY
    )
