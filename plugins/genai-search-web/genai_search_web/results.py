"""Conversion of search results for a model: texts without markup, and unique web links."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

MOST_TITLE = 300
MOST_TEXT = 1000
MOST_LINK = 2000
"""Maximum number of characters of a title, link and text; longer links are omitted."""

MOST_WRITTEN = 90_000
"""Maximum number of characters of all results; the host truncates at 100,000."""

_MARKUP = re.compile(r"</?[a-zA-Z!][^<>]*>")
_RAW = 10  # factor: raw characters to process per character of a text
_SCHEMES = ("http", "https")


class WebResult(NamedTuple):
    """One result of a search engine."""

    title: Any
    link: Any
    text: Any


def written(found: Iterable[WebResult], limit: int) -> str:
    """Return at most `limit` valid results as JSON."""
    items: list[str] = []
    room = MOST_WRITTEN
    for each in found:
        item = json.dumps(each._asdict(), ensure_ascii=False)
        room -= len(item) + 2
        if len(items) == limit or room < 0:
            break
        items.append(item)
    return f"[{', '.join(items)}]"


def sound(found: Iterable[WebResult]) -> Iterator[WebResult]:
    """Yield the results with a valid link, without duplicates, as plain text."""
    seen: set[str] = set()
    for each in found:
        link = each.link.strip() if isinstance(each.link, str) else ""
        if link in seen or not _leads_into_the_web(link):
            continue
        seen.add(link)
        title = plain(each.title, MOST_TITLE)
        yield WebResult(title or link[:MOST_TITLE], link, plain(each.text, MOST_TEXT))


def plain(text: Any, most: int) -> str:
    """Remove tags, entities and invisible characters; return an empty text for another type."""
    if not isinstance(text, str):
        return ""
    bare = html.unescape(_MARKUP.sub("", text[: most * _RAW]))
    shown = "".join(each if each.isprintable() else " " for each in bare)
    joined = " ".join(shown.split())
    return joined if len(joined) <= most else f"{joined[: most - 1]}…"


def _leads_into_the_web(link: str) -> bool:
    if not link or len(link) > MOST_LINK or not link.isprintable() or " " in link:
        return False
    try:
        parts = urlsplit(link)
        return parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
