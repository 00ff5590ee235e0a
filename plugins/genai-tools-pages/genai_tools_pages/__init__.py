"""The tool `pages__read`: a web page or a PDF as text.

Pages are untrusted, and links come from a model. Each page is read in a separate process with
limited time and memory, which connects to no private address.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from attrs import frozen, validators

from genai_host.api import Tool, ToolSet, hookimpl, setting

MAX_MEGABYTES = 100
MAX_SECONDS = 300


@frozen
class PagesSettings:
    """Those of the table `[tools.pages]`."""

    private: bool = setting(False, "allow pages at private addresses, for example of your network")
    megabytes: int = setting(
        10,
        f"maximum size of a page in MiB, 1 to {MAX_MEGABYTES}",
        validator=[validators.ge(1), validators.le(MAX_MEGABYTES)],
    )
    seconds: float = setting(
        20.0,
        f"timeout of a page in seconds, 1 to {MAX_SECONDS}",
        validator=[validators.ge(1), validators.le(MAX_SECONDS)],
    )


@hookimpl
def genai_tool_sources() -> Iterable[ToolSet[Any]]:
    yield ToolSet("pages", PagesSettings, _page_tools)


def _page_tools(settings: PagesSettings) -> Sequence[Tool]:
    from genai_tools_pages.page_tools import PageTools

    return PageTools(settings).tools()
