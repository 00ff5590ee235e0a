"""Reactions that a front end can show beside an answer: its sources and warnings; and as text.

    {"type": "sources", "sources": [{"number": 1, "title": "...", "link": "https://..."}]}
    {"type": "warnings", "warnings": ["the search failed: ..."]}

All values are untrusted data: titles and links come from third-party pages.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
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
    return ReactionType(name, schema, text_view=f"genai_feature_research.reactions:{name}")


KINDS = (_kind("sources", _SOURCE), _kind("warnings", _TEXT))


def sources(reaction: Mapping[str, Any], width: int) -> Iterator[str]:
    for source in reaction["sources"]:
        yield from _folded(f"[{source['number']}] ", source["title"] or source["link"], width)
        if source["title"] and source["link"]:
            yield f"    {source['link']}"


def warnings(reaction: Mapping[str, Any], width: int) -> Iterator[str]:
    for warning in reaction["warnings"]:
        yield from _folded("! ", warning, width)


def _folded(mark: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(
        f"{mark}{text}",
        max(width, 20),
        subsequent_indent=" " * len(mark),
        break_on_hyphens=False,
    )
