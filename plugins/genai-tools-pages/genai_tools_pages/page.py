"""A page that was read."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

Kind = Literal["html", "pdf", "text"]

MOST_TITLE = 300
"""Characters."""

MOST_TEXT = 200_000
"""Characters that are kept of what a page says."""


@frozen
class Page:
    """What a page says, as plain text.

    title   what it calls itself, else the end of its link; one line
    link    where it was found, after redirects, without a fragment
    """

    title: str
    link: str
    text: str
    kind: Kind
