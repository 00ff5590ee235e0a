"""The settings of tools: a table of the configuration for each set of them."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from attrs import field, frozen
from support import Terminal

from genai_host import Config, Host
from genai_host.api import CancelToken, Secret, Tool, ToolSet, ToolSource, about
from genai_host.config import read_config
from genai_host.errors import ConfigurationError
from genai_host.tools.sources import MAX
from genai_host_testing import InlinePlugin, make_distribution
from genai_host_testing.internal.configs import tools_config
from genai_host_testing.internal.fixtures import MakeHost


@frozen
class Settings:
    folder: str = field(default="", metadata=about("where to look", env="SHOP_FOLDER"))
    most: int = field(default=3, metadata=about("how many"))
    key: Secret | None = field(default=None, metadata=about("its key", env="SHOP_KEY"))


def tools_of(settings: Settings) -> Iterable[Tool]:
    key = "none" if settings.key is None else settings.key.reveal()
    text = f"{settings.folder} {settings.most} {key}"
    yield Tool("look", "looks", lambda arguments, run: text)


def tool(name: str) -> Tool:
    return Tool(name, "does it", lambda arguments, run: "done")


SHOP = ToolSet("shop", Settings, tools_of)


Make = Callable[..., Host]


@pytest.fixture
def file(home: Path) -> Path:
    path = home / "config" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def make(make_host: MakeHost) -> Make:
    def make(*sets: ToolSet[Any] | ToolSource, config: Config | None = None) -> Host:
        plugin = InlinePlugin(tools=[tool("own")], tool_sources=sets or [SHOP])
        return make_host(plugin=plugin, config=read_config() if config is None else config)

    return make


def looked(host: Host) -> str:
    output = host.call_tool("shop__look")
    assert not output.error, output.text
    return output.text


def test_they_have_defaults_and_come_from_the_file(make: Make, file: Path) -> None:
    host = make()
    assert sorted(host.tools()) == ["own", "shop__look"]
    assert looked(host) == " 3 none"
    file.write_text("[tools.shop]\nfolder = '/a'\nmost = 5\n")
    assert looked(make()) == "/a 5 none"


def test_the_environment_is_first(make: Make, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("[tools.shop]\nmost = 5\n")
    monkeypatch.setenv("SHOP_FOLDER", "/usual")
    assert looked(make()) == "/usual 5 none"
    monkeypatch.setenv("GENAI_HOST_TOOLS__SHOP__FOLDER", "/own")
    monkeypatch.setenv("GENAI_HOST_TOOLS__SHOP__MOST", "7")
    assert looked(make()) == "/own 7 none"


def test_where_a_secret_is_from(make: Make, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", "usual")
    assert looked(make()) == " 3 usual"
    file.write_text("[tools.shop]\nkey = { env = 'OTHER' }\n")
    monkeypatch.setenv("OTHER", "referred")
    assert looked(make()) == " 3 referred"
    monkeypatch.setenv("GENAI_HOST_TOOLS__SHOP__KEY", "own")
    assert looked(make()) == " 3 own"


@pytest.mark.parametrize(("text", "line", "message", "hint"), [
    ("[tools.shop]\nmost = 5\nfoldr = '/a'", 3, "unknown setting 'foldr'", "did you mean folder?"),
    ("[tools.shop]\n\nmost = 'x'", 3, "most: ", "how many"),
    ("[tools.shop]\nkey = 'sesame'", 2, "key is a secret", "env ="),
])  # fmt: skip
def test_a_wrong_table_is_told_with_its_place_and_keeps_no_other_tool_away(
    make: Make, file: Path, caplog: pytest.LogCaptureFixture,
    text: str, line: int, message: str, hint: str,
) -> None:  # fmt: skip
    file.write_text(text)
    host = make()
    with caplog.at_level(logging.WARNING):
        assert list(host.tools()) == ["own"]
    [warned] = [each.getMessage() for each in caplog.records]
    assert f"{file}:{line}: tools.shop: {message}" in warned
    assert hint in warned
    assert "sesame" not in warned
    with pytest.raises(ConfigurationError) as caught:
        host.tool("shop__look")
    assert f"unknown tool 'shop__look': {file}:{line}: tools.shop" in str(caught.value)
    assert hint in caught.value.hint


def test_a_wrong_variable_is_told(make: Make, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("[tools.shop]\nfolder = '/a'\n")
    monkeypatch.setenv("GENAI_HOST_TOOLS__SHOP__MOST", "many")
    with pytest.raises(ConfigurationError, match="GENAI_HOST_TOOLS__SHOP__MOST") as caught:
        make().tool("shop__look")
    assert str(file) not in str(caught.value)


def test_what_only_the_plugin_knows_to_be_wrong_has_its_place_too(make: Make, file: Path) -> None:
    def refuse(settings: Settings) -> Iterable[Tool]:
        raise ConfigurationError("there is no /a", hint="make it", setting="folder")

    file.write_text("[tools.shop]\nmost = 5\nfolder = '/a'\n")
    with pytest.raises(ConfigurationError) as caught:
        make(ToolSet("shop", Settings, refuse)).tool("shop__look")
    assert f"{file}:3: tools.shop: there is no /a" in str(caught.value)
    assert caught.value.hint == "make it"


def test_an_unknown_table_is_told(make: Make, file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.write_text("[tools.shop]\nmost = 5\n[tools.shp]\nmost = 5\n")
    with caplog.at_level(logging.WARNING):
        assert looked(make()) == " 5 none"
    assert f"{file}:3: unknown tool set 'shp'; choose from: shop" in caplog.text


class Watched(ToolSource):
    """As a set opens one where its tools may change."""

    name = "nobody asks for it"

    def __init__(self) -> None:
        self.has = ["one"]
        self.closed = 0

    def tools(self, limits: CancelToken) -> Iterable[Tool]:
        return map(tool, self.has)

    def close(self) -> None:
        self.closed += 1


def test_a_set_may_open_a_source(make: Make) -> None:
    source = Watched()
    host = make(ToolSet("shop", Settings, lambda settings: source))
    assert list(host.tools()) == ["own", "shop__one"]
    source.has = ["two"]
    assert list(host.tools()) == ["own", "shop__two"]
    host.close()
    assert source.closed


def test_a_set_is_opened_once_and_late_or_never(make: Make) -> None:
    opened = []

    def open_it(settings: Settings) -> Iterable[Tool]:
        opened.append(settings)
        return [tool("one")]

    shop = ToolSet("shop", Settings, open_it)
    host = make(shop)
    assert host.call_tool("own").text == "done"
    host.close()
    host = make(shop)
    assert host.registry.tool_sets
    assert not opened
    with ThreadPoolExecutor(8) as pool:
        for each in [pool.submit(host.tools) for _ in range(8)]:
            each.result(30)
    host.call_tool("shop__one")
    assert len(opened) == 1


def test_an_endless_set_is_cut(make: Make) -> None:
    endless = (tool(f"t{number}") for number in itertools.count())
    assert len(make(ToolSet("shop", Settings, lambda settings: endless)).tools()) == MAX + 1


def test_a_set_and_a_source_of_one_name_are_an_error(make: Make) -> None:
    source = Watched()
    source.name = "shop"
    [broken] = make(SHOP, source, config=Config(tools={"shop": tools_config()})).plugins.broken
    assert "declares the source of tools 'shop' twice" in broken.line()


_SOURCE = """
from attrs import field, frozen

from genai_host.api import Secret, Tool, ToolSet, hookimpl
from genai_host.api.settings import about


@frozen
class Settings:
    folder: str = field(default="", metadata=about("where to look", env="SHOP_FOLDER"))
    most: int = field(default=3, metadata=about("how many"))
    key: Secret | None = field(default=None, metadata=about("its key", env="SHOP_KEY"))


@hookimpl
def genai_tool_sources():
    yield ToolSet("shop", Settings, lambda settings: [
        Tool("look", "Look.", lambda arguments, run: settings.folder)
    ])
"""


class TestCommands:
    @pytest.fixture(autouse=True)
    def _installed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        make_distribution(tmp_path, "zz-shop", files={"zz_shop.py": _SOURCE})
        monkeypatch.syspath_prepend(str(tmp_path))

    def test_they_are_set_shown_and_unset(self, terminal: Terminal, file: Path) -> None:
        assert terminal("config", "set", "tools.shop.folder=/a", "tools.shop.most=5")[0] == 0
        assert file.read_text().endswith('[tools.shop]\nfolder = "/a"\nmost = 5\n')
        assert terminal("tools", "call", "shop__look")[:2] == (0, "/a\n")
        _, out, _ = terminal("config", "show")
        assert "tools.shop.folder\t/a\tfile" in out
        assert "tools.shop.most\t5\tfile" in out
        assert terminal("config", "unset", "tools.shop.most")[0] == 0
        assert "tools.shop.most\t3\tdefault" in terminal("config", "show")[1]

    def test_variables_are_shown(self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
        variable = "GENAI_HOST_TOOLS__SHOP__MOST"
        monkeypatch.setenv("SHOP_KEY", "sesame")
        monkeypatch.setenv(variable, "9")
        assert f"{variable} overrides it" in terminal("config", "set", "tools.shop.most=5")[2]
        shown = {
            row["key"]: (row["value"], row["source"].removeprefix("the environment variable "))
            for row in terminal.json("config", "show")
        }
        assert shown["tools.shop.most"] == ("9", variable)
        assert shown["tools.shop.key"] == ("***", "SHOP_KEY")

    @pytest.mark.parametrize(("value", "message"), [
        ("tools.shop.foldr=/a", "did you mean folder?"),
        ("tools.shop.most=many", "tools.shop.most: "),
        ("tools.shp.most=5", "did you mean shop?"),
        ("tools.shop=5", "unknown configuration key 'tools.shop'"),
        ("tools.shop.key=sesame", "is a secret"),
    ])  # fmt: skip
    def test_wrong_value(self, terminal: Terminal, file: Path, value: str, message: str) -> None:
        assert message in terminal.error("config", "set", value)
        assert not file.exists()

    def test_an_absent_one_is_shown_without_values(self, terminal: Terminal, file: Path) -> None:
        file.write_text("[tools.gone]\nkey = 'sesame'\n")
        _, out, _ = terminal("config", "show")
        assert "tools.gone.key\t***\tfile" in out
