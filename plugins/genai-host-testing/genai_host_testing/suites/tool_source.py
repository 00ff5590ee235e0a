"""Suite for tool sources: listing tools and closing, from any thread and after failures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pytest

from genai_host.api import CancelToken, SchemaValidator, Tool, ToolSet, ToolSource
from genai_host.api.cancellation import Cancellation
from genai_host.config import Config, SetConfig
from genai_host.host import Host
from genai_host.secrets.keys import SecretStore
from genai_host.tools.sources import BETWEEN, ConfiguredToolSource
from genai_host_testing.plugins import InlinePlugin
from genai_host_testing.suites.base import PluginSuite, in_background
from genai_host_testing.suites.tool import (
    Run,
    Sample,
    check_description,
    check_output,
    check_parameters,
    check_services_take,
)

_AT_ONCE = 8


class ToolSourceSuite(PluginSuite):
    """Suite for a `ToolSource` or a `ToolSet`.

        class TestShop(ToolSourceSuite):
            plugin = genai_tools_shop
            source = "shop"
            settings = {"folder": "/srv/shop"}
            samples = {"look": [({"at": "shoes"}, "3 pairs")]}

    For values from fixtures, use an autouse fixture: `self.settings = ...`. A source that does not
    fail because of its settings overrides `unusable_source`.

    Attributes:
        source: Name of the source.
        settings: Settings of a tool set, with which it has tools.
        samples: Arguments for each tool, by its own name, as in `ToolSuite.samples`; optional tools
            and those that must not be called are omitted.
        unusable: Settings with which listing fails; None if there are none.
        context: Context in which the tools are available.
    """

    source: str
    samples: Mapping[str, Sequence[Sample]]
    settings: Mapping[str, Any] = {}
    unusable: Mapping[str, Any] | None = None
    context: Mapping[str, Any] = {}

    @pytest.fixture(autouse=True)
    def _closing_sources(self) -> Iterator[None]:
        self._sources: list[ToolSource] = []
        yield
        for each in self._sources:
            with suppress(Exception):  # a failure here is found by a test
                each.close()

    # descriptions

    def test_it_has_tools(self) -> None:
        """Each tool has a unique name that a host can offer."""
        assert self.samples, "it has no samples"
        tools = self.listed(self.opened())
        names = [tool.name for tool in tools]
        assert len(names) == len(set(names)), f"several of one name: {sorted(names)}"
        assert set(self.samples) <= set(names), f"it has {sorted(names)}"
        host = self.host()
        full = {f"{self.source}{BETWEEN}{name}" for name in names}
        assert full <= set(host.tools()), "some are left out: their names are too long"

    def test_its_tools_are_described(self) -> None:
        """Descriptions are as services require; `ToolSuite` tests a single tool in detail."""
        host = self.host()
        for tool in self.listed(self.opened()):
            check_description(tool)
            check_parameters(tool)
            check_services_take(tool, host)
            assert isinstance(tool.available_when(dict(self.context)), bool)

    # results

    def test_samples_of_tools_return_expected_output(self) -> None:
        host = self.host()
        tools = host.tools()
        for name, samples in self.samples.items():
            full = f"{self.source}{BETWEEN}{name}"
            checker = SchemaValidator(tools[full].schema.parameters)
            for arguments, *expected in samples:
                checker.check(arguments)
                output = host.call_tool(full, arguments, context=self.context, approved=True)
                check_output(output, arguments, expected, host)

    # concurrency and failures

    def test_tools_can_be_listed_concurrently(self) -> None:
        source = self.opened()
        asked = [in_background(self.listed, source) for _ in range(_AT_ONCE)]
        found = []
        for each in asked:
            error = self.ended(each)
            assert error is None, f"{error}"
            found.append([tool.name for tool in each.result()])
        assert all(names == found[0] for names in found)

    def test_asking_ends_when_it_is_cancelled(self) -> None:
        """Listing can be cancelled at any time. Other callers get the list then."""
        source = self.opened()
        before = Cancellation()
        before.cancel()
        self.ended(in_background(self.listed, source, before))
        limits = Cancellation()
        ended = self.launched(self.listed, source, limits)
        limits.cancel()
        self.ended(ended)
        again = in_background(self.listed, source)
        assert self.ended(again) is None
        assert {tool.name for tool in again.result()} >= set(self.samples)

    def test_failed_listing_raises_an_error(self) -> None:
        """Listing raises an error, instead of hanging or returning an empty list. Tools of other
        sources remain."""
        source = self.unusable_source()
        if source is None:
            pytest.skip("no way to fail: set `unusable` or override `unusable_source`")
        error = self.ended(in_background(self.listed, source))
        assert error is not None, "it does not fail"
        assert str(error).strip(), "the error has no message"
        other = Tool("other", "stays", lambda arguments, run: "there")
        failing = InlinePlugin(tools=[other], tool_sources=[source])
        host = self.host(tested=failing)
        listing = in_background(host.tools)
        assert self.ended(listing) is None
        assert list(listing.result()) == ["other"]

    # closing

    def test_it_can_be_closed_again(self) -> None:
        """It can be closed before and after listing, and twice. Listing then raises or returns the
        earlier tools, and does not block."""
        self.opened().close()
        source = self.opened()
        self.listed(source)
        for _ in range(2):
            error = self.ended(in_background(source.close))
            assert error is None, f"{error}"
        self.ended(in_background(self.listed, source))

    def test_calls_under_way_end_when_it_is_closed(self) -> None:
        """Calls of a source end with it; those of a list of tools with their limits."""
        for name, samples in self.samples.items():
            for arguments, *_ in samples:
                source = self.opened()
                [tool] = [each for each in self.listed(source) if each.name == name]
                limits = Cancellation()
                ended = self.launched(tool.run, dict(arguments), Run(dict(self.context), limits))
                source.close()
                if isinstance(source, ConfiguredToolSource) and not source.holds_a_source:
                    limits.cancel()
                self.ended(ended)

    # building blocks

    def found(self) -> ToolSource | ToolSet[Any]:
        """The declaration, newly created by the plugin each time."""
        by_name = {each.name: each for each in self.declared().tool_sources}
        assert self.source in by_name, f"the plugin declares {sorted(by_name)}"
        return by_name[self.source]

    def opened(self, settings: Mapping[str, Any] | None = None) -> ToolSource:
        """The source opened by a host, with its settings or with others."""
        declared = self.found()
        source = declared
        if isinstance(declared, ToolSet):
            config = SetConfig(self.settings if settings is None else settings)
            source = ConfiguredToolSource(declared, config, SecretStore(), "")
        assert isinstance(source, ToolSource)
        self._sources.append(source)
        return source

    def unusable_source(self) -> ToolSource | None:
        """A source whose listing fails; None if there is none."""
        return None if self.unusable is None else self.opened(self.unusable)

    def listed(self, source: ToolSource, limits: CancelToken | None = None) -> list[Tool]:
        """The listed tools, checked by type."""
        tools = list(source.tools(limits or Cancellation()))
        assert all(isinstance(tool, Tool) for tool in tools), f"{tools}"
        return tools

    def host(self, **plugins: Any) -> Host:
        """A host with the plugin, or with another one instead."""
        tables = {self.source: SetConfig(self.settings)} if self.settings else {}
        return self.opened_host(Config(tools=tables), discovery=self.plugins(**plugins))
