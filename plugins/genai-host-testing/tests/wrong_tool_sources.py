"""Incorrect sources of tools, each with one defect, with the tests that must fail."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen

from genai_host.api import CancelToken, Tool, ToolContext, ToolSet, ToolSource, about, hookimpl
from genai_host.errors import ConfigurationError, ServiceUnavailable
from genai_host_testing.suites import ToolSourceSuite

from .wrong import add, fail

_NEVER = threading.Event()


def _say(arguments: Mapping[str, Any], run: ToolContext) -> str:
    return "done"


def _tool(name: str, run: Any = _say, description: str = "does it", **fields: Any) -> Tool:
    return Tool(name, description, run, **fields)


class _Source(ToolSource):
    """A correct source."""

    name = "shop"
    more: Iterable[Tool] = ()
    fault: Exception | None = None

    def tools(self, limits: CancelToken) -> Iterable[Tool]:
        if self.fault is not None:
            raise self.fault
        return [_tool("look"), _tool("buy", approval="ask"), *self.more]


class _Plugin:
    """A plugin that creates a new source each time, as a module does."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind

    @hookimpl
    def genai_tool_sources(self) -> Iterable[Any]:
        return [self._kind()]


class Shop(ToolSourceSuite):
    made = _Plugin
    source = "shop"
    samples = {"look": [({}, "done")], "buy": [({},)]}
    patience = 2.0  # correct sources take little time


def _unusable(self: Any) -> ToolSource:
    source = _Source()
    source.fault = ServiceUnavailable("the shop is closed")
    return source


add(Shop, "a_source_that_is_right", plugin=_Plugin(_Source), unusable_source=_unusable)


@frozen
class _Settings:
    folder: str = field(metadata=about("where to look"))


def _opened(settings: _Settings) -> Iterable[Tool]:
    if settings.folder != "/shop":
        raise ConfigurationError("there is no shop", setting="folder")
    return [_tool("look"), _tool("buy", lambda arguments, run: settings.folder)]


add(
    Shop, "a_set_that_is_right", plugin=_Plugin(lambda: ToolSet("shop", _Settings, _opened)),
    settings={"folder": "/shop"}, unusable={"folder": "/nothing"},
    samples={"look": [({}, "done")], "buy": [({}, "/shop")]},
)  # fmt: skip


@frozen
class _Silent:
    folder: str = ""


@frozen
class _Untyped:
    folder: Any = field(default="", metadata=about("where it looks"))


for _kind in (_Silent, _Untyped):
    _set = ToolSet("shop", _kind, lambda settings: _Source())
    _made = _Plugin(lambda made=_set: made)
    add(Shop, f"settings{_kind.__name__.lower()}", "its_settings_are_described", plugin=_made)
add(
    Shop,
    "one_that_lacks_a_tool",
    "it_has_tools samples_of_tools_return_expected_output asking_ends_when_it_is_cancelled "
    "calls_under_way_end_when_it_is_closed",
    plugin=_Plugin(_Source),
    samples={"sell": [({},)]},
)


@fail(Shop, "it_has_tools")
class TwoToolsOfOneName(_Source):
    more = [_tool("more"), _tool("more")]


@fail(Shop, "it_has_tools")
class ANameThatIsTooLong(_Source):
    more = [_tool("x" * 64)]


@fail(Shop, "its_tools_are_described")
class ADescriptionThatServicesRefuse(_Source):
    more = [_tool("more", description="x" * 2000)]


@fail(Shop, "samples_of_tools_return_expected_output")
class ACallThatFails(_Source):
    def tools(self, limits: CancelToken) -> Iterable[Tool]:
        def fail(arguments: Mapping[str, Any], run: ToolContext) -> str:
            raise ServiceUnavailable("sold out")

        return [_tool("look", fail), _tool("buy")]


@fail(Shop, "it_has_tools tools_can_be_listed_concurrently")
class OneWhoseToolsChangeWithEachLook(_Source):
    _numbers = itertools.count()

    def tools(self, limits: CancelToken) -> Iterable[Tool]:
        return [*super().tools(limits), _tool(f"t{next(self._numbers)}")]


@fail(Shop, "asking_ends_when_it_is_cancelled")
class OneThatHangsOnceItWasCancelled(_Source):
    """After one cancellation, the source waits forever."""

    def __init__(self) -> None:
        self._is_over = False

    def tools(self, limits: CancelToken) -> Iterable[Tool]:
        try:
            limits.check()
        except Exception:
            self._is_over = True
            raise
        if self._is_over:
            _NEVER.wait()
        return super().tools(limits)


class _Empty(ToolSource):
    name = "shop"

    def tools(self, limits: CancelToken) -> Iterable[Tool]:
        return []


add(
    Shop, "one_that_hides_that_it_fails", "failed_listing_raises_an_error", plugin=_Plugin(_Source),
    unusable_source=lambda self: _Empty(),
)  # fmt: skip


@fail(Shop, "it_can_be_closed_again")
class OneThatCannotBeClosedTwice(_Source):
    def __init__(self) -> None:
        self._closed = False

    def close(self) -> None:
        if self._closed:
            raise RuntimeError("it is closed")
        self._closed = True


@fail(Shop, "samples_of_tools_return_expected_output calls_under_way_end_when_it_is_closed")
class ACallThatDoesNotEnd(_Source):
    """A call of its tool ignores cancellation."""

    def tools(self, limits: CancelToken) -> Iterable[Tool]:
        def wait(arguments: Mapping[str, Any], run: ToolContext) -> None:
            _NEVER.wait()

        return [_tool("look", wait, timeout=0.1), _tool("buy")]
