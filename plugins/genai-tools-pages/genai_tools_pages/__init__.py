"""The tool `pages__read`: a web page or a PDF as text.

Pages are untrusted, and links come from a model. Each page is read in a separate process with
limited time and memory, which connects to no private address.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from genai_host.api import Tool, ToolSet, hookimpl
from genai_tools_pages.settings import PagesSettings


@hookimpl
def genai_tool_sources() -> Iterable[ToolSet[Any]]:
    yield ToolSet("pages", PagesSettings, _page_tools)


def _page_tools(settings: PagesSettings) -> Sequence[Tool]:
    from genai_tools_pages.page_tools import PageTools

    return PageTools(settings).tools()
