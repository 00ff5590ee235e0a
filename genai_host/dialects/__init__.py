"""What the host itself declares, through the hooks, as plugins do: the dialect `plain`, for
providers in this process, and the reaction type `sources`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from genai_host.api import Dialect, ReactionType, hookimpl


@hookimpl
def genai_dialects() -> Iterable[Dialect[Any, Any]]:
    from genai_host.dialects.plain import Plain, PlainCount, PlainEmbed

    return [Plain(), PlainEmbed(), PlainCount()]


@hookimpl
def genai_reactions() -> Iterable[ReactionType]:
    from genai_host.dialects.sources import SOURCES_TYPE

    return [SOURCES_TYPE]
