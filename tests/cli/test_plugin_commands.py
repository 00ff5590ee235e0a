"""Commands of plugins from the index of plugins."""

from __future__ import annotations

from collections.abc import Callable

import click
import pytest
from support import Terminal

from genai_host import Config, Host, StaticPlugins
from genai_host.cli.app import App
from genai_host.plugins.index import InstalledPlugin, LoadResult, PluginIndex

Index = Callable[[str, str], None]


@click.command()
def do() -> None:
    click.echo("done")


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Index:
    """Make an index with one plugin, which has the command `do`."""

    def make(distribution: str, load: str) -> None:
        found = InstalledPlugin("one", "x", distribution)
        outcome = LoadResult("loaded", commands=[("do", "Do it.", load)])
        monkeypatch.setattr(PluginIndex, "plugins", lambda self: [found])
        monkeypatch.setattr(PluginIndex, "outcomes", lambda self: {found.key: outcome})

    return make


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> list[Host]:
    """The hosts that commands open; they have no commands of plugins."""
    opened: list[Host] = []

    def host(app: App) -> Host:
        opened.append(Host(config=Config(), discovery=StaticPlugins({})))
        return opened[-1]

    monkeypatch.setattr(App, "host", property(host))
    return opened


def test_one_of_this_project_runs_without_the_host(
    index: Index, hosts: list[Host], terminal: Terminal
) -> None:
    index("genai-batch", f"{__name__}:do")
    assert terminal("do") == (0, "done\n", "")
    assert not hosts


@pytest.mark.parametrize(
    ("distribution", "load"),
    [
        ("somebody-elses", f"{__name__}:do"),
        ("genai-batch", "no_module:do"),
        ("genai-batch", f"{__name__}:gone"),
        ("genai-batch", f"{__name__}:__name__"),
    ],
    ids=["of a third party", "no such module", "no such name", "no command"],
)
def test_others_are_those_that_the_host_has_loaded(
    index: Index, hosts: list[Host], terminal: Terminal, distribution: str, load: str
) -> None:
    index(distribution, load)
    code, _, err = terminal("do")
    assert (code, bool(hosts)) == (2, True)
    assert "No such command 'do'" in err
