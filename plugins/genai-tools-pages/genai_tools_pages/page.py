"""The result of reading a page."""

from __future__ import annotations

from typing import Literal, get_args

from attrs import field, frozen
from attrs.validators import in_, instance_of

PageKind = Literal["html", "pdf", "text"]

MOST_TITLE = 300
"""Maximum number of characters of a title."""

MOST_TEXT = 200_000
"""Maximum number of characters of a text."""


@frozen
class Page:
    """Content of a page as plain text.

    Attributes:
        title: Title on one line; by default the end of the link.
        link: Final link, after redirects, without a fragment.
    """

    title: str = field(validator=instance_of(str))
    link: str = field(validator=instance_of(str))
    text: str = field(validator=instance_of(str))
    kind: PageKind = field(validator=in_(get_args(PageKind)))
