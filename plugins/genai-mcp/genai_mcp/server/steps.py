"""What happens while a tool is called, one step after the other: a generator yields them,
as a feature does, and does not know how they reach the client."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, TypeAlias

from attrs import frozen


@frozen
class News:
    """How it goes, in a line."""

    text: str


@frozen
class Question:
    """Whether something may be done, for a human to decide; True or False is sent back.

    text      what is asked
    refusal   what the client is told that has no way to ask
    """

    text: str
    refusal: str


Result: TypeAlias = "Mapping[str, Any]"
"""What a tool gave, as MCP writes it: `content`, `isError`, `structuredContent`."""

Steps: TypeAlias = "Generator[News | Question, bool | None, Result]"
