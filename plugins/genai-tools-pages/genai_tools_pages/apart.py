"""Reading of a page in a separate process: name resolution, download and extraction of text. The
HTML libraries contain C code.

No proxy is used, because a proxy resolves names itself and bypasses the address check.
"""

from __future__ import annotations

import math

from genai_host.api import CancelToken, ChildLimits, run_in_child
from genai_host.errors import ProviderTimeout, ValidationError
from genai_tools_pages.page import Page
from genai_tools_pages.settings import PagesSettings

MOST_MEMORY = 768 * 2**20
"""Bytes beyond the initial size of the process, where the system supports limits."""

_MOST_ANSWER = 4 * 2**20  # bytes: more than a text of `MOST_TEXT` with every character escaped


def read_apart(link: str, settings: PagesSettings, limits: CancelToken) -> Page:
    """Read the page at a link in a separate process.

    Raises:
        ProviderTimeout: Reading takes longer than the settings permit.
        ValidationError: Reading takes too much memory.
        GenaiError: The page cannot be read, or the call ended.
    """
    seconds = settings.seconds
    page: Page = run_in_child(
        "genai_tools_pages.process:read_page",
        link,
        settings.private,
        settings.megabytes * 2**20,
        seconds,
        returns=Page,
        cancel=limits,
        limits=ChildLimits(MOST_MEMORY, math.ceil(seconds), seconds, _MOST_ANSWER),
        exceeded=ValidationError("reading the page exceeded the memory or time limit"),
        timeout=ProviderTimeout(
            f"the page took more than {seconds:g} seconds",
            deadline="timeout",
            hint="raise tools.pages.seconds",
        ),
    )
    return page
