"""Kinds of contributions: a new one is a hook and a row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from attrs import frozen

from genai_host import Config, Host, StaticPlugins
from genai_host.api import hookimpl, hooks
from genai_host.plugins.contributions import KINDS, _Kind
from genai_host.plugins.results import LoadedPlugin


@frozen
class Greeting:
    name: str


class Greeter:
    """A plugin that implements the new hook."""

    def __init__(self, *declared: Any) -> None:
        self._declared = declared

    @hookimpl
    def genai_greetings(self) -> Iterable[Any]:
        return self._declared


@pytest.fixture
def greetings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host with a new kind of contribution: one hook and one row."""

    def genai_greetings() -> Iterable[Greeting]:
        """Declare greetings."""
        return ()

    monkeypatch.setattr(hooks, "genai_greetings", hooks.hookspec(genai_greetings), raising=False)
    monkeypatch.setitem(KINDS, "greetings", _Kind("greeting", (Greeting,)))


def _host(**plugins: Greeter) -> Host:
    return Host(config=Config(), discovery=StaticPlugins(plugins))


@pytest.mark.usefixtures("greetings")
def test_a_new_kind_is_registered_listed_and_owned() -> None:
    hello = Greeting("hello")
    with _host(polite=Greeter(hello)) as host:
        (loaded,) = host.plugins.results
        assert isinstance(loaded, LoadedPlugin)
        assert loaded.declared.names() == {"greetings": ["hello"]}
        assert vars(host.registry)["greetings"] == {"hello": hello}
        assert host.registry.owner("greeting", "hello") == "polite"


@pytest.mark.usefixtures("greetings")
@pytest.mark.parametrize(("declared", "reason"), [
    (Greeting("hello"), "the greeting 'hello' is"),
    (Greeting("no name"), "'no name' is not a valid name for a greeting"),
    ("hello", "'hello', which is not of type Greeting"),
])  # fmt: skip
def test_names_and_types_of_a_new_kind_are_checked(declared: Any, reason: str) -> None:
    with _host(polite=Greeter(Greeting("hello")), rude=Greeter(declared)) as host:
        (broken,) = host.plugins.broken
        assert broken.found.name == "rude"
        assert reason in broken.line()
        assert list(vars(host.registry)["greetings"]) == ["hello"]


def test_a_hook_without_a_row_is_unknown() -> None:
    with _host(polite=Greeter(Greeting("hello"))) as host:
        (broken,) = host.plugins.broken
        assert "genai_greetings" in broken.line()
