"""Reactions (client actions) for people: as text and images, as declared by their types.

Reactions come from tools, and the text from code of plugins. Errors are not raised, and results are
bounded; the text can contain any characters.
"""

from __future__ import annotations

import copy
import importlib
import itertools
import logging
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

from genai_host.api import Clock, Image, ReactionType
from genai_host.api.cancellation import Cancellation
from genai_host.errors import LimitExceeded
from genai_host.tools.threads import run_within
from genai_host.util.text import decode_base64

MAX_LINES = 1000
"""Maximum number of lines per reaction; the rest is replaced by a note."""

MAX_LETTERS = 10
"""Maximum number of characters of a line per terminal column, since combining characters take no
column."""

_SECONDS = 5.0  # timeout of a view

_log = logging.getLogger(__name__)


class ReactionViews:
    """Renders reactions as text.

    Args:
        seconds: Timeout of a view.
    """

    def __init__(
        self, kinds: Mapping[str, ReactionType], clock: Clock, seconds: float = _SECONDS
    ) -> None:
        self._kinds = kinds
        self._clock = clock
        self._seconds = seconds

    def lines(self, reaction: Mapping[str, Any], width: int) -> list[str] | None:
        """A reaction as lines of text for a terminal of some columns, not truncated; None if its
        type has no view or the view fails, which is logged."""
        kind = self._kinds.get(reaction["type"])
        if kind is None or not kind.text_view:
            return None

        def view(_: Cancellation) -> list[str] | None:
            return _viewed(kind.text_view, copy.deepcopy(dict(reaction)), width)

        def failed(error: BaseException) -> None:
            _log.warning("cannot render a reaction %s", kind.name, exc_info=error)

        slow = LimitExceeded(f"the view took longer than {self._seconds:g} s", limit="seconds")
        try:
            return run_within(slow, self._clock, self._seconds, kind.name, view, failed)
        except LimitExceeded as error:
            failed(error)
            return None

    def pictures(self, reaction: Mapping[str, Any]) -> list[Image]:
        """Images in the fields that the type declares; invalid ones are omitted."""
        kind = self._kinds.get(reaction["type"])
        fields = () if kind is None else kind.pictures
        found = (_picture(reaction.get(field), reaction) for field in fields)
        return [each for each in found if each is not None]


def _viewed(address: str, reaction: dict[str, Any], width: int) -> list[str]:
    module, _, name = address.partition(":")
    view: Any = importlib.import_module(module)
    for part in name.split("."):
        view = getattr(view, part)
    given = view(reaction, width)
    lines = _lines([given] if type(given) is str else given, MAX_LETTERS * width)
    kept = list(itertools.islice(lines, MAX_LINES + 1))
    return kept if len(kept) <= MAX_LINES else [*kept[:MAX_LINES], "(there is more)"]


def _lines(given: Any, most: int) -> Iterator[str]:
    for each in given:
        if type(each) is not str:  # a subclass may do anything
            raise TypeError(f"a view returns lines, not one of {type(each).__name__}")
        for line in each.split("\n"):
            yield line[:most]


def _picture(value: Any, reaction: Mapping[str, Any]) -> Image | None:
    try:
        if isinstance(value, Mapping):
            return _encoded(value.get("data"), value.get("media_type"))
        if not isinstance(value, str):
            return None
        if value.startswith(("https://", "http://")):
            return Image(url=value)
        if value.startswith("data:"):
            return _of_data_url(value)
        return _encoded(value, reaction.get("media_type"))
    except ValueError:
        return None


def _of_data_url(url: str) -> Image | None:
    """Parse a `data:` URL (RFC 2397)."""
    head, comma, body = url[len("data:") :].partition(",")
    media_type, *parameters = head.lower().split(";")
    if not comma or not media_type.startswith("image/"):
        return None
    if parameters and parameters[-1].strip() == "base64":
        data = decode_base64(urllib.parse.unquote(body))
    else:
        data = urllib.parse.unquote_to_bytes(body)
    return Image(data, media_type) if data else None


def _encoded(data: Any, media_type: Any) -> Image | None:
    if not isinstance(data, str) or not isinstance(media_type, str):
        return None
    decoded = decode_base64(data)
    return Image(decoded, media_type) if decoded and media_type.startswith("image/") else None
