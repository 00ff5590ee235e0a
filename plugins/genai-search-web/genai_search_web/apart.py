"""Searches in a separate process.

Replies of search engines are untrusted, and are decompressed and parsed by libraries that have no
limits and cannot be interrupted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from genai_host.api import CancelToken, ChildLimits, run_in_child
from genai_host.errors import GenaiError, MalformedReply, ServiceUnavailable
from genai_search_web.results import WebResult, sound

MOST_MEMORY = 2**30
"""Bytes beyond the initial size of the process; mostly unused address space of threads."""

_MOST_SECONDS = 60  # CPU seconds
_PROXIES = frozenset({"ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"})


def search_apart(engine: str, asked: Mapping[str, Any], limits: CancelToken) -> list[WebResult]:
    """Search with an engine in a separate process.

    Args:
        engine: `ddgs` or `searxng`.
        asked: Query, region and limit, and the settings of the engine.
        limits: Cancels the search.

    Raises:
        GenaiError: The search failed or was cancelled.
    """
    found: list[WebResult] = run_in_child(
        f"{__name__}:search",
        engine,
        asked,
        returns=list[WebResult],
        cancel=limits,
        limits=ChildLimits(memory=MOST_MEMORY, cpu_seconds=_MOST_SECONDS, may_write=True),
        exceeded=ServiceUnavailable(
            "the search exceeded its memory or time limit", retryable=False
        ),
        environment={k: value for k, value in os.environ.items() if k.upper() in _PROXIES},
    )
    return found


def search(engine: str, asked: Mapping[str, Any]) -> list[WebResult]:
    """Search with an engine in this process.

    Raises:
        GenaiError: The search failed.
    """
    try:
        return [*islice(sound(_engine(engine)(asked)), asked["limit"])]
    except (GenaiError, MemoryError):
        raise
    except Exception as error:  # any exception of a library that parses untrusted data
        kind = type(error).__name__
        raise MalformedReply(f"the search returned unreadable results ({kind})") from error


def _engine(name: str) -> Callable[[Mapping[str, Any]], Iterable[WebResult]]:
    if name == "ddgs":
        from genai_search_web.by_ddgs import search as search_ddgs

        return search_ddgs
    from genai_search_web.by_searxng import search as search_searxng

    return search_searxng
