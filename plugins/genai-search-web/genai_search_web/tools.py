"""The search tools, and results for a model: texts without markup, and unique web links.

Searches run in a separate process: replies of search engines are untrusted, and are decompressed
and parsed by libraries that have no limits and cannot be interrupted.
"""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from itertools import islice
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

from attrs import asdict

from genai_host.api import CancelToken, ChildLimits, Tool, ToolContext, run_in_child, tool
from genai_host.errors import GenaiError, MalformedReply, ServiceUnavailable, ValidationError
from genai_search_web import DdgsSettings, SearxngSettings

MAX_TITLE = 300
MAX_TEXT = 1000
MAX_LINK = 2000
"""Maximum number of characters of a title, link and text; longer links are omitted."""

MAX_WRITTEN = 90_000
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
    room = MAX_WRITTEN
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
        title = plain(each.title, MAX_TITLE)
        yield WebResult(title or link[:MAX_TITLE], link, plain(each.text, MAX_TEXT))


def plain(text: Any, most: int) -> str:
    """Remove tags, entities and invisible characters; return an empty text for another type."""
    if not isinstance(text, str):
        return ""
    bare = html.unescape(_MARKUP.sub("", text[: most * _RAW]))
    shown = "".join(each if each.isprintable() else " " for each in bare)
    joined = " ".join(shown.split())
    return joined if len(joined) <= most else f"{joined[: most - 1]}…"


def _leads_into_the_web(link: str) -> bool:
    if not link or len(link) > MAX_LINK or not link.isprintable() or " " in link:
        return False
    try:
        parts = urlsplit(link)
        return parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


MAX_MEMORY = 2**30
"""Bytes beyond the initial size of the process; mostly unused address space of threads."""

_MAX_SECONDS = 60  # CPU seconds
_PROXIES = frozenset({"ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"})


def search_apart(engine: str, asked: Mapping[str, Any], limits: CancelToken) -> list[WebResult]:
    """Search with an engine, `ddgs` or `searxng`, in a separate process. `asked` has query, region
    and limit, and the settings of the engine. Raises `GenaiError`, also if `limits` cancel it."""
    found: list[WebResult] = run_in_child(
        f"{__name__}:search",
        engine,
        asked,
        returns=list[WebResult],
        cancel=limits,
        limits=ChildLimits(memory=MAX_MEMORY, cpu_seconds=_MAX_SECONDS, may_write=True),
        exceeded=ServiceUnavailable(
            "the search exceeded its memory or time limit", retryable=False
        ),
        environment={k: value for k, value in os.environ.items() if k.upper() in _PROXIES},
    )
    return found


def search(engine: str, asked: Mapping[str, Any]) -> list[WebResult]:
    """Search with an engine in this process. Raises `GenaiError`: the search failed."""
    try:
        found = import_module(f"genai_search_web.by_{engine}").search
        return [*islice(sound(found(asked)), asked["limit"])]
    except (GenaiError, MemoryError):
        raise
    except Exception as error:  # any exception of a library that parses untrusted data
        kind = type(error).__name__
        raise MalformedReply(f"the search returned unreadable results ({kind})") from error


MAX_QUERY = 1000
"""Maximum number of characters of a query; search engines reject or truncate longer ones."""

MAX_RESULTS = 50

_ENGINES_IN_TURN = 4  # factor: timeout of a whole search per timeout of one engine
_REGION = re.compile(r"[a-z]{2}-[a-z]{2,3}")

WebQuery = Annotated[str, f"what to search for, at most {MAX_QUERY} characters"]
Region = Annotated[str, "country and language, for example us-en, de-de or ch-fr; wt-wt for any"]
ResultLimit = Annotated[int, f"number of results, 1 to {MAX_RESULTS}"]


def ddgs_tool(settings: DdgsSettings) -> Tool:
    return _search_tool("ddgs", asdict(settings))


def searxng_tool(settings: SearxngSettings) -> Tool:
    key = settings.key.reveal() if settings.key else ""
    asked = {**asdict(settings, recurse=False), "key": key}
    return _search_tool("searxng", asked, applies=lambda context: bool(settings.base_url))


def _search_tool(
    engine: str,
    asked: Mapping[str, Any],
    applies: Callable[[Mapping[str, Any]], bool] | None = None,
) -> Tool:
    """Return the search tool of an engine; `applies` is whether it is available in a context."""

    def search(
        query: WebQuery, run: ToolContext, region: Region = "wt-wt", limit: ResultLimit = 10
    ) -> str:
        """Search the web. The results are JSON: title, link and some text of each."""
        _check(query, region, limit)
        given = {**asked, "query": query, "region": region, "limit": limit}
        return written(search_apart(engine, given, run.limits), limit)

    return tool(
        search, idempotent=True, timeout=_ENGINES_IN_TURN * asked["seconds"], available_when=applies
    )


def _check(query: str, region: str, limit: int) -> None:
    if not query.strip():
        raise ValidationError("the query is empty")
    if len(query) > MAX_QUERY:
        raise ValidationError(f"the query is longer than {MAX_QUERY} characters")
    if not _REGION.fullmatch(region):
        raise ValidationError(
            f"{region[:50]!r} is not a region: use for example us-en, or wt-wt for any"
        )
    if not 1 <= limit <= MAX_RESULTS:
        raise ValidationError(f"limit must be a number from 1 to {MAX_RESULTS}")
