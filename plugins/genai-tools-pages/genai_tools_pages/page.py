"""The result of reading a page, without characters that are unsafe in text."""

from __future__ import annotations

import re
from typing import Literal, get_args

from attrs import field, frozen
from attrs.validators import in_, instance_of

from genai_host.api import well_formed

_ENDS = re.compile("\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f"  # control characters
    "\u200b\u2060\ufeff"  # zero width; joiners are allowed
    "\u202a-\u202e\u2066-\u2069"  # bidirectional formatting
    "\U000e0000-\U000e0fff"  # tags: invisible to humans but read by models
    "]"
)
_BLANKS = re.compile(r"[ \t\xa0]+$", re.M)
_GAPS = re.compile(r"\n{3,}")


def tidy(text: str) -> str:
    """Remove control and invisible characters, and reduce empty lines to one."""
    text = _UNSEEN.sub("", _ENDS.sub("\n", text))
    text = _BLANKS.sub("", well_formed(text))
    return _GAPS.sub("\n\n", text).strip()


def one_line(text: str, most: int) -> str:
    return " ".join(tidy(text).split())[:most]


PageKind = Literal["html", "pdf", "text"]

MAX_TITLE = 300
"""Maximum number of characters of a title."""

MAX_TEXT = 200_000
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
