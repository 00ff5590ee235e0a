"""Tools that a plugin cannot name beforehand: they have settings, or somebody has to look."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from attrs import field, frozen

from genai_host.api.exchange import Limits
from genai_host.api.settings import SETTINGS
from genai_host.api.tools import Tool
from genai_host.api.validators import CALLABLE, TEXT

S = TypeVar("S")


class ToolSource(ABC):
    """What a plugin registers where it cannot say which tools it has: those of a server, of
    a folder.

    name   unique among all plugins; `[a-z0-9-]+`. Its tools are offered as `NAME__TOOL`
    """

    name: str

    @abstractmethod
    def tools(self, limits: Limits) -> Iterable[Tool]:
        """Those that there are now. It is asked whenever tools are offered, and where one is
        called that it has not named, from any thread: what costs time is to be done once. It
        may raise whatever says why there are none; it is left alone for a while then, and
        none is offered, but those that it has named before can be called."""

    def close(self) -> None:
        """Give back all that it holds. Calls of its tools may be under way."""


@frozen
class ToolSet(Generic[S]):
    """What a plugin registers where its tools have settings: those of a table `[tools.NAME]`.

        ToolSet("files", Settings, lambda settings: [reader(settings.folder)])

    name       unique among all plugins and their sources; `[a-z0-9-]+`. Its tools are offered
               as `NAME__TOOL`
    settings   attrs class of its settings; see `genai_host.api.settings`
    open       makes the tools, or where they may change a source of them, whose name is not
               asked for. It is called once, when tools are first wanted; a
               `ConfigurationError` says what is wrong with the settings, and which `setting`
               it is
    """

    name: str = field(validator=TEXT)
    settings: type[S] = field(validator=SETTINGS)
    open: Callable[[S], Iterable[Tool] | ToolSource] = field(validator=CALLABLE)
