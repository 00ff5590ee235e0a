"""Tools that are known only once somebody has looked."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from genai_host import Config, Host
from genai_host.api import Cancellation, CancelToken, NoSettings, Tool, ToolSet, ToolSource
from genai_host.errors import Cancelled, ConfigurationError, ServiceUnavailable
from genai_host.tools.sources import MAX
from genai_host_testing import InlinePlugin, ManualClock
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.suites.base import in_background


def tool(name: str, text: str = "done", **fields: Any) -> Tool:
    return Tool(name, "does it", lambda arguments, run: text, **fields)


class Source(ToolSource):
    """Has what a test says."""

    def __init__(self, name: str, *tools: Any) -> None:
        self.name = name
        self.has: list[Any] = list(tools)
        self.asked = 0
        self.closed = False
        self.look: Callable[[CancelToken], None] = lambda limits: None

    def tools(self, limits: CancelToken) -> Iterable[Tool]:
        self.asked += 1
        self.look(limits)
        return self.has

    def close(self) -> None:
        self.closed = True


def raising(error: BaseException) -> Callable[[CancelToken], None]:
    def look(limits: CancelToken) -> None:
        raise error

    return look


Make = Callable[..., Host]


@pytest.fixture
def source() -> Source:
    return Source("shop", tool("buy"), tool("look"))


@pytest.fixture
def make(make_host: MakeHost, clock: ManualClock) -> Make:
    def make(*sources: ToolSource, **approvals: str) -> Host:
        plugin = InlinePlugin(tools=[tool("own")], tool_sources=sources)
        return make_host(plugin=plugin, clock=clock, config=Config(approvals=approvals))

    return make


def offered(host: Host) -> dict[str, str]:
    return {each.name: each.approval for each in host.toolbox.offered({}, Cancellation())}


def test_they_are_offered_beside_the_others(make_host: MakeHost, source: Source) -> None:
    """And none takes the place of a tool of a plugin."""
    tools = [tool("own"), tool("shop__look", "mine")]
    host = make_host(plugin=InlinePlugin(tools=tools, tool_sources=[source]))
    assert list(offered(host)) == list(host.tools()) == ["own", "shop__buy", "shop__look"]
    assert [host.call_tool(f"shop__{each}").text for each in ("buy", "look")] == ["done", "mine"]


@pytest.mark.parametrize("is_set", [False, True])
@pytest.mark.parametrize(("reason", "message"), [
    ("it is closed: run open", "tool 'shop__buy' is unavailable: it is closed: run open"),
    (None, "unknown tool 'shop__buy'"),
    (RuntimeError("a bug"), "a bug"),
])  # fmt: skip
def test_why_one_has_no_tools(make_host: MakeHost, reason: Any, message: str, is_set: bool) -> None:
    class Empty(Source):
        def unavailable_reason(self) -> str | None:
            if isinstance(reason, Exception):
                raise reason
            expected: str | None = reason
            return expected

    source = Empty("shop")
    tools = ToolSet("shop", NoSettings, lambda settings: source) if is_set else source
    host = make_host(plugin=InlinePlugin(tool_sources=[tools]))
    with pytest.raises(ConfigurationError, match=message):
        host.tool("shop__buy")


def test_a_tool_of_a_plugin_of_ours_that_is_missing(make: Make) -> None:
    with pytest.raises(ConfigurationError, match="unknown tool 'sandbox__run'") as caught:
        make().tool("sandbox__run")
    assert caught.value.hint == "install its plugin: genai-host install genai-tools-sandbox"


def test_what_there_is_may_change(make: Make, source: Source) -> None:
    host = make(source)
    assert "shop__buy" in offered(host)
    schema = {"properties": {"what": {"type": "string"}}, "required": ["what"]}
    source.has = [tool("buy", parameters=schema), tool("sell")]
    assert list(offered(host)) == ["own", "shop__buy", "shop__sell"]
    output = host.call_tool("shop__buy")
    assert output.error
    assert "what" in output.text
    assert "unknown tool" in host.call_tool("shop__look").text


def test_the_user_says_whether_they_may_run(make: Make, source: Source) -> None:
    host = make(source, **{"shop__*": "ask", "shop__look": "allow"})
    assert offered(host) == {"own": "allow", "shop__buy": "ask", "shop__look": "allow"}
    assert "needs the approval" in host.call_tool("shop__buy").text
    assert host.call_tool("shop__buy", approved=True).text == "done"


@pytest.mark.parametrize("backwards", [False, True])
def test_the_longest_beginning_holds_wherever_it_stands(make: Make, backwards: bool) -> None:
    rules = [("*", "ask"), ("shop__*", "allow"), ("shop__wipe_*", "deny")]
    shop = Source("shop", tool("look"), tool("wipe_all"))
    host = make(shop, **dict(reversed(rules) if backwards else rules))
    assert offered(host) == {"own": "ask", "shop__look": "allow"}
    assert "is denied" in host.call_tool("shop__wipe_all", approved=True).text


@pytest.mark.parametrize(
    "wrong", [[5], 5, None, [tool("ok"), "no"]], ids=["no tool", "no list", "nothing", "one"]
)
def test_one_that_gives_what_is_no_tool_has_none(
    make: Make, source: Source, caplog: pytest.LogCaptureFixture, wrong: Any
) -> None:
    source.has = wrong
    other = Source("other", tool("one"))
    with caplog.at_level(logging.WARNING):
        assert list(offered(make(source, other))) == ["other__one", "own"]
    assert "the tools of shop are not there for now" in caplog.text


def test_one_that_fails_is_left_for_a_while(make: Make, source: Source, clock: ManualClock) -> None:
    host = make(source)
    source.look = raising(SystemExit("no server"))
    for _ in range(3):
        assert list(offered(host)) == ["own"]
        assert "unknown tool" in host.call_tool("shop__buy").text
    assert source.asked == 1
    source.look = lambda limits: None
    clock.advance(60)
    assert "shop__buy" in offered(host)
    source.look = raising(ServiceUnavailable("no server"))
    assert list(offered(host)) == ["own"]
    assert host.call_tool("shop__buy").text == "done"  # it was seen
    assert "shop__buy" in host.call_tool("nothing").text


def test_a_tool_that_was_seen_is_called_without_another_look(make: Make, source: Source) -> None:
    host = make(source)
    assert "shop__buy" in offered(host)
    assert host.call_tool("shop__buy").text == "done"
    assert source.asked == 1
    assert "unknown tool" in host.call_tool("shop__sell").text
    assert source.asked == 2, "it may be there by now"


def test_why_it_has_none(make: Make, source: Source, caplog: pytest.LogCaptureFixture) -> None:
    why = "/a/mcp.json:7: shop has no command"
    source.look = raising(ConfigurationError(why, file="/a/mcp.json", line=7, hint="write one"))
    host = make(source)
    with caplog.at_level(logging.WARNING):
        assert list(offered(host)) == ["own"]
    [warned] = [each.getMessage() for each in caplog.records]
    assert warned.endswith("for now: /a/mcp.json:7: shop has no command; write one")
    with pytest.raises(ConfigurationError) as caught:
        host.tool("shop__buy")
    assert "/a/mcp.json:7: shop has no command" in str(caught.value)
    assert (caught.value.file, caught.value.line) == ("/a/mcp.json", 7)
    assert caught.value.hint == "write one"


def test_one_that_hangs_is_given_up(make: Make, source: Source, clock: ManualClock) -> None:
    started, ended = threading.Event(), threading.Event()

    def hang(limits: CancelToken) -> None:
        with limits.on_cancel(ended.set):
            started.set()
            ended.wait()

    source.look = hang
    asking = in_background(offered, make(source))
    assert started.wait(30)
    clock.advance(30)
    assert asking.result(30) == {"own": "allow"}
    assert ended.wait(30)


def test_who_asks_can_give_up(make: Make, source: Source) -> None:
    started, until = threading.Event(), Cancellation()

    def hang(limits: CancelToken) -> None:
        started.set()
        threading.Event().wait(30)

    source.look = hang
    asking = in_background(make(source).toolbox.offered, {}, until)
    assert started.wait(30)
    until.cancel()
    assert isinstance(asking.exception(30), Cancelled)


def test_an_endless_list_is_cut(make: Make, source: Source) -> None:
    endless: Any = (tool(f"t{number}") for number in itertools.count())
    source.has = endless
    assert len(make(source).tools()) == MAX + 1


def test_a_name_that_is_too_long_is_left_out(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    source = Source("shop", tool("x" * 62), tool("y"))
    with caplog.at_level(logging.WARNING):
        assert list(make(source).tools()) == ["own", "shop__y"]
    assert "its name is too long" in caplog.text


def test_they_are_closed_with_the_host(make: Make, source: Source) -> None:
    failing = Source("bad")
    failing.close = lambda: 1 / 0  # type: ignore[method-assign,assignment]  # a fault
    host = make(failing, source)
    host.tools()
    host.close()
    assert source.closed


def test_two_of_one_name_are_an_error_of_the_plugin(make_host: MakeHost) -> None:
    host = make_host(plugin=InlinePlugin(tool_sources=[Source("a"), Source("a")]))
    [broken] = host.plugins.broken
    assert "declares the source of tools 'a' twice" in broken.line()
