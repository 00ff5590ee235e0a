"""Tools that search the web: `ddgs__search` uses search engines without a key, and
`searxng__search` a SearXNG server that the user configures.

Both take a query, a region and a limit, and return JSON: a list of `{"title", "link", "text"}`,
best first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from attrs import field, frozen, validators as must

from genai_host.api import Must, Secret, Tool, ToolSet, about, hookimpl, setting

SafeSearch = Literal["on", "moderate", "off"]

_SAFE = about("safe search: on, moderate or off")
_IS_ADDRESS = Must(
    "a URL that begins with http:// or https://",
    lambda value: not value or value.startswith(("http://", "https://")),
)


@frozen
class DdgsSettings:
    """Those of the table `[tools.ddgs]`."""

    backend: str = setting(
        "auto", "search engines, for example duckduckgo,mojeek; auto tries all in turn"
    )
    safesearch: SafeSearch = field(default="moderate", metadata=_SAFE)
    seconds: float = setting(
        10.0, "timeout of a search engine in seconds", validator=must.and_(must.gt(0), must.le(300))
    )
    proxy: str = setting("", "proxy URL; if not set, from the environment")
    certificates: str = setting("", "file of trusted certificates (PEM), for a proxy with its own")


@frozen
class SearxngSettings:
    """Those of the table `[tools.searxng]`."""

    base_url: str = setting(
        "",
        "address of the SearXNG server, for example http://127.0.0.1:8888",
        env="GENAI_SEARXNG_BASE_URL",
        validator=_IS_ADDRESS,
    )
    key: Secret | None = setting(
        None,
        "bearer token, if a proxy in front of the server requires one",
        env="GENAI_SEARXNG_KEY",
    )
    categories: str = setting("", "SearXNG categories, for example general,science")
    safesearch: SafeSearch = field(default="moderate", metadata=_SAFE)
    seconds: float = setting(
        10.0, "timeout in seconds", validator=must.and_(must.gt(0), must.le(300))
    )


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
