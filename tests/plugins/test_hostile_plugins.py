"""Plugins that load and then say what they must not: each costs itself, and nobody else."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from stand_ins import UnaskedProvider

from genai_host import Host
from genai_host.api import (
    Cancellation,
    Model,
    NoSettings,
    Offering,
    Provider,
    ProviderType,
    Services,
    Tool,
    ToolOutput,
)
from genai_host.api.settings import describe
from genai_host.errors import NoRoute
from genai_host_testing import InlinePlugin


def _raise(*_: Any) -> Any:
    raise RuntimeError("oh")


def _open(**attributes: Any) -> Callable[[Any, Services], Provider]:
    return type("Odd", (UnaskedProvider,), attributes)


@pytest.mark.parametrize("open", [
    _open(serves=["plain"]),
    _open(serves={"plain": None}),
    _open(serves=property(_raise)),
    _open(default_models=["mock"]),
    _open(default_models={"chat": "mock@mock"}),
    _open(default_models={"chat": object()}),
    _open(unavailable_reason=lambda self: ["a", "b"]),
    _open(unavailable_reason=_raise),
    _open(unavailable_models=lambda self: ["mock"]),
    _open(preparation=_raise),
    _open(preparation=lambda self, id: "soon"),
    _open(call_limits=["first_token_timeout"]),
    _open(call_limits={"first_token_timeout": "soon"}),
    _open(__init__=_raise),
    lambda settings, services: None,
    lambda: None,
])  # fmt: skip
def test_the_others_run_and_it_says_why_not(make_host: Callable[..., Host], open: Any) -> None:
    odd = InlinePlugin(
        providers=[ProviderType("odd", NoSettings, open)],
        models=[Model("own", ["plain"], at={"odd": "o"})],
        offerings=[Offering("mock", "odd", "m")],
    )
    host = make_host(aaa=odd)
    assert not host.plugins.broken
    assert host.open("chat", model="mock@mock").say("hi").text == "hi"
    assert host.open("chat", provider="mock").say("hi").text == "hi"
    assert {each.provider for each in host.routes()} == {"mock", "odd"}
    assert host.catalog.served["mock"].unavailable_reason == ""
    assert host.instances["odd"].preparation() is None
    with pytest.raises(NoRoute, match=r"no default model|odd"):
        host.open("chat")
    if host.catalog.served["odd"].unavailable_reason:
        assert {each.provider for each in host.catalog.resolve("mock")} == {"mock"}
        with pytest.raises(NoRoute):
            host.open("chat", model="own")


def test_odd_tools_disturb_no_other(make_host: Callable[..., Host]) -> None:
    def give(result: Any) -> Callable[..., Any]:
        return lambda *_: result

    takes_nothing: Any = _nothing
    odd = {
        "raises": Tool("raises", "x", _raise),
        "exits": Tool("exits", "x", _exit),
        "takes": Tool("takes", "x", takes_nothing),
        "gives": Tool("gives", "x", give(object())),
        "mute": Tool("mute", "x", give(_Mute())),
        "floods": Tool("floods", "x", give(itertools.repeat("x"))),
        "applies": Tool("applies", "x", give(""), available_when=_raise),
        "mutely": Tool("mutely", "x", give(""), available_when=give(_Mute())),
        "described": Tool("described", "x", give(""), _raise),
        "schema": Tool("schema", "x", give(""), {"$ref": "https://a.example/"}),
        "deep": Tool("deep", "x", give(""), {"properties": _deep()}),
    }
    host = make_host(odd=InlinePlugin(tools=odd.values()), fine=InlinePlugin(tools=[_FINE]))
    assert not host.plugins.broken
    for name in odd:
        output = host.call_tool(name, {"a": 1})
        assert output.error, name
        assert "\n" not in output.text
    assert host.call_tool("fine") == ToolOutput("fine")
    offered = {each.name for each in host.toolbox.offered({}, Cancellation())}
    assert offered == {"fine", "raises", "exits", "takes", "gives", "mute", "floods", "schema"}


def _nothing() -> str:
    return ""


def _exit(*_: Any) -> Any:
    raise SystemExit(3)


class _Mute:
    def __repr__(self) -> str:
        raise SystemError


def _deep() -> Any:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"not": deep}
    return deep


_FINE = Tool("fine", "x", lambda *_: "fine")


def test_whatever_the_settings_are_they_are_listed_as_json(make_host: Callable[..., Host]) -> None:
    @attrs.frozen
    class Settings:
        odd: Any = attrs.field(default=_raise)

    host = make_host(odd=InlinePlugin(providers=[ProviderType("odd", Settings, _open())]))
    for instance in host.instances:
        json.dumps([attrs.asdict(each) for each in describe(instance.type.settings)])
