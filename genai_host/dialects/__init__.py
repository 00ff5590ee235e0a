"""What the host itself declares, through the hooks, as plugins do: the dialect `plain`, for
providers in this process, and the reaction type `sources`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from genai_host.api import Dialect, ReactionType, hookimpl
from genai_host.api.features import SOURCES


@hookimpl
def genai_dialects() -> Iterable[Dialect[Any, Any]]:
    from genai_host.dialects.plain import Plain, PlainCount, PlainEmbed

    return [Plain(), PlainEmbed(), PlainCount()]


@hookimpl
def genai_reactions() -> Iterable[ReactionType]:
    text = {"type": "string"}
    source = {
        "type": "object",
        "properties": {"number": {"type": "integer"}, "title": text, "link": text},
        "required": ["number", "title", "link"],
        "additionalProperties": False,
    }
    schema = {
        "type": "object",
        "properties": {SOURCES: {"type": "array", "items": source}},
        "required": [SOURCES],
        "additionalProperties": False,
    }
    yield ReactionType(SOURCES, schema, text_view="genai_host.tools.reactions:sources")
