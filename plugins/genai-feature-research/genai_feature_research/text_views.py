"""The reactions of this feature as text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any


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
