"""Tools that are known only once somebody has looked: those of a server, of a folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from genai_host.api.exchange import Limits
from genai_host.api.tools import Tool


class ToolSource(ABC):
    """What a plugin registers where it cannot say which tools it has.

    name   unique among all plugins; `[a-z0-9-]+`. Its tools are offered as `NAME__TOOL`
    """

    name: str

    @abstractmethod
    def tools(self, limits: Limits) -> Iterable[Tool]:
        """Those that there are now. It is asked whenever tools are offered, or one of them
        is called, from any thread: what costs time is to be done once. It may raise
        whatever says why there are none; it is left alone for a while then."""

    def close(self) -> None:
        """Give back all that it holds. Calls of its tools may be under way."""
