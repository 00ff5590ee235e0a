"""A page that was read."""

from __future__ import annotations

from typing import Literal, get_args

from attrs import field, frozen
from attrs.validators import in_, instance_of

Kind = Literal["html", "pdf", "text"]

MOST_TITLE = 300
"""Characters."""

MOST_TEXT = 200_000
"""Characters that are kept of what a page says."""


@frozen
class Page:
    """What a page says, as plain text.

    Attributes:
        title: What it calls itself, else the end of its link; one line.
        link: Where it was found, after redirects, without a fragment.
    """

    title: str = field(validator=instance_of(str))
    link: str = field(validator=instance_of(str))
    text: str = field(validator=instance_of(str))
    kind: Kind = field(validator=in_(get_args(Kind)))
