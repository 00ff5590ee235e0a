"""Definitions and options as JSON, and back: strictly, as the host does it."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from genai_host.api import Codec

T = TypeVar("T")


@cache
def _codec() -> Codec:
    from genai_feature_assistants.agents.content import PARTS
    from genai_host.api.messages import PARTS as USUAL

    return Codec((*USUAL, *PARTS))


def to_json(value: Any) -> Any:
    """A JSON value; what equals its default is left out, and so are keys and sessions."""
    public = getattr(value, "public", None)
    return _codec().to_json(public() if callable(public) else value)


def from_json(data: Any, form: type[T]) -> T:
    """An object of a class from its JSON. Raises `ValidationError`, for an unknown key too."""
    read: T = _codec().from_json(data, form)
    return read
