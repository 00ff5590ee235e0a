"""Tools that search the web: `ddgs__search` uses search engines without a key, and
`searxng__search` a SearXNG server that the user configures.

Both take a query, a region and a limit, and return JSON: a list of `{"title", "link", "text"}`,
best first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from genai_host.api import Tool, ToolSet, hookimpl
from genai_search_web.settings import DdgsSettings, SearxngSettings


@hookimpl
def genai_tool_sources() -> Iterable[ToolSet[Any]]:
    yield ToolSet("ddgs", DdgsSettings, _ddgs_tools)
    yield ToolSet("searxng", SearxngSettings, _searxng_tools)


def _ddgs_tools(settings: DdgsSettings) -> Sequence[Tool]:
    from genai_search_web.tools import ddgs_tool

    return [ddgs_tool(settings)]


def _searxng_tools(settings: SearxngSettings) -> Sequence[Tool]:
    from genai_search_web.tools import searxng_tool

    return [searxng_tool(settings)]
