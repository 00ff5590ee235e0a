"""Sources of tools that are wrong, each in one way, with the suite that must find it.

`fails` are the tests that must fail, and no others. test_suites.py runs them.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from attrs import field, frozen

from genai_host.api import CancelToken, Tool, ToolContext, ToolSet, ToolSource, hookimpl
from genai_host.api.settings import about
from genai_host.errors import ConfigurationError, ServiceUnavailable
from genai_host.testing.suites import ToolSourceSuite

_NEVER = threading.Event()


def _say(arguments: Mapping[str, Any], run: ToolContext) -> str:
    return "done"


def _tool(name: str, run: Any = _say, description: str = "does it", **fields: Any) -> Tool:
    return Tool(name, description, run, **fields)


class _Source(ToolSource):
    """One that is right."""

    name = "shop"
    fault: Exception | None = None

    def tools(self, limits: CancelToken) -> Iterable[Tool]:
        if self.fault is not None:
            raise self.fault
        return [_tool("look"), _tool("buy", approval="ask")]


class _Plugin:
    """Has a new source each time, as a module has."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind

    @hookimpl
    def genai_tool_sources(self) -> Iterable[Any]:
        return [self._kind()]


class _Wrong(ToolSourceSuite):
    fails: ClassVar[set[str]]
    source = "shop"
    samples = {"look": [({}, "done")], "buy": [({},)]}
    patience = 2.0  # nothing right takes long


class TestASourceThatIsRight(_Wrong):
    plugin = _Plugin(_Source)
    fails = set()

    def unusable_source(self) -> ToolSource:
        source = _Source()
        source.fault = ServiceUnavailable("the shop is closed")
        return source


@frozen
class _Settings:
    folder: str = field(metadata=about("where to look"))


def _opened(settings: _Settings) -> Iterable[Tool]:
    if settings.folder != "/shop":
        raise ConfigurationError("there is no shop", setting="folder")
    return [_tool("look"), _tool("buy", lambda arguments, run: settings.folder)]


class TestASetThatIsRight(_Wrong):
    plugin = _Plugin(lambda: ToolSet("shop", _Settings, _opened))
    settings = {"folder": "/shop"}
    unusable = {"folder": "/nothing"}
    samples = {"look": [({}, "done")], "buy": [({}, "/shop")]}
    fails = set()


@frozen
class _Silent:
    folder: str = ""


class TestSettingsThatSayNothing(_Wrong):
    plugin = _Plugin(lambda: ToolSet("shop", _Silent, lambda settings: _Source()))
    fails = {"test_its_settings_are_described"}


@frozen
class _Untyped:
    folder: Any = field(default="", metadata=about("where it looks"))


class TestSettingsWithoutAType(_Wrong):
    plugin = _Plugin(lambda: ToolSet("shop", _Untyped, lambda settings: _Source()))
    fails = {"test_its_settings_are_described"}


class TestOneThatLacksATool(_Wrong):
    plugin = _Plugin(_Source)
    samples = {"sell": [({},)]}
    fails = {
        "test_it_has_tools",
        "test_its_tools_give_what_the_samples_say",
        "test_asking_ends_when_it_is_cancelled",
        "test_calls_under_way_end_when_it_is_closed",
    }


class _Twice(_Source):
    def tools(self, limits: CancelToken) -> Iterable[Tool]:
        return [*super().tools(limits), _tool("more"), _tool("more")]


class TestTwoToolsOfOneName(_Wrong):
    plugin = _Plugin(_Twice)
    fails = {"test_it_has_tools"}


class _Long(_Source):
    def tools(self, limits: CancelToken) -> Iterable[Tool]:
        return [*super().tools(limits), _tool("x" * 64)]


class TestANameThatIsTooLong(_Wrong):
    plugin = _Plugin(_Long)
    fails = {"test_it_has_tools"}


class _Talkative(_Source):
    def tools(self, limits: CancelToken) -> Iterable[Tool]:
        return [*super().tools(limits), _tool("more", description="x" * 2000)]


class TestADescriptionThatServicesRefuse(_Wrong):
    plugin = _Plugin(_Talkative)
    fails = {"test_its_tools_are_described"}


class _Failing(_Source):
    def tools(self, limits: CancelToken) -> Iterable[Tool]:
        def fail(arguments: Mapping[str, Any], run: ToolContext) -> str:
            raise ServiceUnavailable("sold out")

        return [_tool("look", fail), _tool("buy")]


class TestACallThatFails(_Wrong):
    plugin = _Plugin(_Failing)
    fails = {"test_its_tools_give_what_the_samples_say"}


class _Counting(_Source):
    """What it has changes with each look."""

    _numbers = itertools.count()

    def tools(self, limits: CancelToken) -> Iterable[Tool]:
        return [*super().tools(limits), _tool(f"t{next(self._numbers)}")]


class TestOneWhoseToolsChangeWithEachLook(_Wrong):
    plugin = _Plugin(_Counting)
    fails = {"test_it_has_tools", "test_many_may_ask_at_once"}


class _Deaf(_Source):
    """Who was cancelled once leaves it waiting for ever."""

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


class TestOneThatHangsOnceItWasCancelled(_Wrong):
    plugin = _Plugin(_Deaf)
    fails = {"test_asking_ends_when_it_is_cancelled"}


class TestOneThatHidesThatItFails(_Wrong):
    plugin = _Plugin(_Source)
    fails = {"test_one_that_has_none_says_why"}

    def unusable_source(self) -> ToolSource:
        return _Empty()


class _Empty(ToolSource):
    name = "shop"

    def tools(self, limits: CancelToken) -> Iterable[Tool]:
        return []


class _Once(_Source):
    def __init__(self) -> None:
        self._closed = False

    def close(self) -> None:
        if self._closed:
            raise RuntimeError("it is closed")
        self._closed = True


class TestOneThatCannotBeClosedTwice(_Wrong):
    plugin = _Plugin(_Once)
    fails = {"test_it_can_be_closed_again"}


class _Staying(_Source):
    """A call of its tool minds nothing."""

    def tools(self, limits: CancelToken) -> Iterable[Tool]:
        def wait(arguments: Mapping[str, Any], run: ToolContext) -> None:
            _NEVER.wait()

        return [_tool("look", wait, seconds=0.1), _tool("buy")]


class TestACallThatDoesNotEnd(_Wrong):
    plugin = _Plugin(_Staying)
    fails = {
        "test_its_tools_give_what_the_samples_say",
        "test_calls_under_way_end_when_it_is_closed",
    }
