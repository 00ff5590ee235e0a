"""The reaction type `sources`: web pages that an answer cites."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from genai_host.api import ReactionType
from genai_host.api.features import SOURCES


def sources(reaction: Mapping[str, Any], width: int) -> Iterator[str]:
    """The view of reactions of the type `sources`: titles, and below them links."""
    for each in reaction["sources"]:
        mark, title, link = f"[{each['number']}] ", each["title"], each["link"]
        indent = " " * len(mark)
        if title:
            yield from textwrap.wrap(
                f"{mark}{title}", max(width, 20), subsequent_indent=indent, break_on_hyphens=False
            )
        if link:
            yield f"{indent if title else mark}{link}"


_TEXT = {"type": "string"}
_SOURCE = {
    "type": "object",
    "properties": {"number": {"type": "integer"}, "title": _TEXT, "link": _TEXT},
    "required": ["number", "title", "link"],
    "additionalProperties": False,
}
_SCHEMA = {
    "type": "object",
    "properties": {SOURCES: {"type": "array", "items": _SOURCE}},
    "required": [SOURCES],
    "additionalProperties": False,
}
SOURCES_TYPE = ReactionType(SOURCES, _SCHEMA, text_view=f"{__name__}:sources")
