"""Reactions that a front end can show beside an answer: its sources and warnings.

    {"type": "sources", "sources": [{"number": 1, "title": "...", "link": "https://..."}]}
    {"type": "warnings", "warnings": ["the search failed: ..."]}

All values are untrusted data: titles and links come from third-party pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genai_host.api import ReactionType

_TEXT = {"type": "string"}
_SOURCE = {
    "type": "object",
    "properties": {"number": {"type": "integer"}, "title": _TEXT, "link": _TEXT},
    "required": ["number", "title", "link"],
    "additionalProperties": False,
}


def _kind(name: str, items: Mapping[str, Any]) -> ReactionType:
    schema = {
        "type": "object",
        "properties": {name: {"type": "array", "items": items}},
        "required": [name],
        "additionalProperties": False,
    }
    return ReactionType(name, schema, text_view=f"genai_feature_research.text_views:{name}")


KINDS = (_kind("sources", _SOURCE), _kind("warnings", _TEXT))
