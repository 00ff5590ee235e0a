"""A reaction that a front end can show beside an answer, and as text:

    {"type": "warnings", "warnings": ["the search failed: ..."]}

Warnings are untrusted data.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from genai_host.api import ReactionType

_SCHEMA = {
    "type": "object",
    "properties": {"warnings": {"type": "array", "items": {"type": "string"}}},
    "required": ["warnings"],
    "additionalProperties": False,
}
WARNINGS = ReactionType("warnings", _SCHEMA, text_view="genai_feature_research.reactions:warnings")


def warnings(reaction: Mapping[str, Any], width: int) -> list[str]:
    lines: list[str] = []
    for warning in reaction["warnings"]:
        lines += textwrap.wrap(
            f"! {warning}", max(width, 20), subsequent_indent="  ", break_on_hyphens=False
        )
    return lines
