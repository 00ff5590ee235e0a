"""`genai-host`: global options, and the display of errors."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from screens import Full
from support import Terminal

from genai_host import Config, Host, StaticPlugins
from genai_host.cli.app import App
from genai_host.cli.log import log_cause, log_error, show_log
from genai_host.errors import GenaiError, PluginError, ServiceUnavailable
from genai_host.plugins.index import InstalledPlugin, LoadResult, PluginIndex
from genai_host_testing import make_distribution


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """Return a configuration file outside the usual directory."""
    return tmp_path / "mine.toml"


class TestConfig:
    def test_it_decides_which_commands_there_are(self, terminal: Terminal, mine: Path) -> None:
        mine.write_text('[plugins]\ndisabled = ["local"]\n')
        assert terminal("local list")[0] == 0
        err = terminal.error("--config", str(mine), "local", "list", code=2)
        assert "No such command 'local'" in err

    def test_it_holds_for_the_commands_of_plugins(self, terminal: Terminal, mine: Path) -> None:
        mine.write_text("nonsense = 1")
        assert "unknown key 'nonsense'" in terminal.error("--config", str(mine), "local", "list")

    def test_one_host_is_made_and_closed(self, terminal: Terminal) -> None:
        calls: list[str] = []
        usual = App.__init__

        def make(self: App, *args: Any) -> None:
            calls.append("made")
            usual(self, *args)

        terminal.monkeypatch.setattr(App, "__init__", make)
        terminal.monkeypatch.setattr(
            "genai_host.host.Host.close", lambda self: calls.append("closed")
        )
        assert terminal("local list")[0] == 0
        assert terminal("-v nonsense")[0] == 2
        assert terminal("plugins")[0] == 0
        assert calls == ["made", "closed", "made", "closed", "made"]

    @pytest.mark.parametrize("name", ["typo.toml", "."])
    @pytest.mark.parametrize("command", ["ask hi", "plugins", "plugins disable x"])
    def test_no_file(self, terminal: Terminal, tmp_path: Path, command: str, name: str) -> None:
        terminal.monkeypatch.chdir(tmp_path)
        err = terminal.error(f"--config {name} {command}", code=2)
        assert "Invalid value for '--config'" in err

    def test_it_is_passed_to_child_processes(self, terminal: Terminal, mine: Path) -> None:
        mine.write_text("")
        terminal.monkeypatch.chdir(mine.parent)
        terminal("--config", mine.name, "--version")
        terminal("--config", mine.name, "plugins")
        assert os.environ["GENAI_HOST_CONFIG"] == str(mine)

    def test_the_environment_names_a_missing_file(self, terminal: Terminal, mine: Path) -> None:
        terminal.monkeypatch.setenv("GENAI_HOST_CONFIG", str(mine))
        assert f"cannot read {mine}: no such file" in terminal.error("ask -p mock x")
        assert terminal("plugins")[0] == 0


class TestSafeMode:
    """Without plugins of third parties, which are not even imported."""

    @pytest.fixture(autouse=True)
    def theirs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        site = tmp_path / "site"
        make_distribution(site, "theirs", files={"theirs.py": "raise KeyboardInterrupt"})
        monkeypatch.syspath_prepend(str(site))
        monkeypatch.setenv("GENAI_HOST_SAFE", "")

    @pytest.mark.parametrize("configuration", ["", "nonsense = 1"])
    @pytest.mark.parametrize("command", ["plugins", "plugins check"])
    def test_they_are_blocked(self, terminal: Terminal, command: str, configuration: str) -> None:
        terminal.configure(configuration)
        rows = json.loads(terminal(f"--safe {command} --json")[1])
        statuses = {row["name"]: row["status"] for row in rows}
        assert (statuses["theirs"], statuses["mock"] == "blocked") == ("blocked", False)

    def test_it_holds_for_what_a_command_starts(self, terminal: Terminal) -> None:
        assert terminal("--safe ask -p mock hi") == (0, "hi\n", "")
        assert os.environ["GENAI_HOST_SAFE"] == "1"


class TestHelp:
    @pytest.fixture
    def remembered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Two plugins with commands, as an index that somebody else wrote has them."""
        plugins = [InstalledPlugin("one", "x", "dist-one"), InstalledPlugin("two", "x", "dist-two")]
        commands = {
            "one": [("first", "The \x1b[2Jfirst\x9b command.", "x:y")],
            "two": [("second", "The second command.", "x:y"), ("ask", "Ask someone else.", "x:y")],
        }
        outcomes = {
            each.key: LoadResult("loaded", commands=commands[each.name]) for each in plugins
        } | {"gone:gone::": LoadResult("loaded", commands=[("third", "The third command.", "x:y")])}
        monkeypatch.setattr(PluginIndex, "plugins", lambda self: plugins)
        monkeypatch.setattr(PluginIndex, "outcomes", lambda self: outcomes)

    @pytest.mark.usefixtures("remembered")
    def test_what_plugins_say_of_their_commands_is_safe(self, terminal: Terminal) -> None:
        out = terminal("--help")[1]
        assert "The ␛[2Jfirst<009B> command." in out
        assert "The second command." in out
        assert "Ask someone else." not in out
        assert "The third command." not in out

    @pytest.mark.usefixtures("remembered")
    def test_commands_of_disabled_plugins_are_hidden(self, terminal: Terminal, mine: Path) -> None:
        """At any position of the option."""
        mine.write_text('[plugins]\ndisabled = ["dist-one:one"]\n')
        for arguments in (["--config", str(mine), "--help"], ["-h", "--config", str(mine)],
                          ["--help", "-v", f"--config={mine}"]):  # fmt: skip
            terminal.monkeypatch.delenv("GENAI_HOST_CONFIG", raising=False)
            out = terminal(*arguments)[1]
            assert "first" not in out
            assert "second" in out

    def test_missing_file_after_help(self, terminal: Terminal, mine: Path) -> None:
        for arguments in (["--help", "--config", str(mine)], ["--version", "--config", str(mine)]):
            assert "Invalid value for '--config'" in terminal.error(*arguments, code=2)

    @pytest.mark.usefixtures("remembered")
    def test_help_with_a_wrong_configuration(self, terminal: Terminal, mine: Path) -> None:
        mine.write_text("[[[")
        code, out, err = terminal("--config", str(mine), "--help")
        assert (code, "first" in out, err) == (0, True, "")


class TestVerbose:
    def test_the_cause_has_its_place(self, terminal: Terminal, script: Any) -> None:
        """As the hint promises."""
        script([{"fault": "crash"}, {"fault": "crash"}])
        assert "-v shows where" in terminal.error("ask -p script x")
        code, _, err = terminal("-v ask -p script x")
        assert (code, "provider.py" in err) == (1, True)
        assert "RuntimeError: the mock crashed as configured" in err
        script([{"fault": "crash"}, "two"])
        code, out, err = terminal("-v chat -p script", stdin="one\ntwo\n")
        assert (code, out, err.count("Traceback")) == (0, "two\n", 1)

    def test_twice_shows_each_call(self, terminal: Terminal) -> None:
        assert "calling mock@mock" in terminal("-vv ask -p mock x")[2]
        assert "calling" not in terminal("-v ask -p mock x")[2]
        assert terminal("ask -p mock x")[2] == ""
        assert not logging.getLogger("genai_host").handlers


@pytest.fixture
def log() -> Iterator[None]:
    end = show_log(1)
    yield
    end()


def caught(error: Exception, cause: Exception) -> Exception:
    """An error as it is when it is caught: raised, because of another."""
    with pytest.raises(type(error)) as raised:
        try:
            raise cause
        except type(cause) as first:
            raise error from first
    return raised.value


@pytest.mark.usefixtures("log")
class TestLog:
    def test_messages_of_libraries_are_hidden(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Error messages quote addresses and headers, which can contain keys."""
        inner = caught(ValueError("Invalid header value b'Bearer canary'"), KeyError("canary"))
        log_cause(caught(ServiceUnavailable("it broke"), inner))
        err = capsys.readouterr().err
        assert "canary" not in err
        assert err.index("KeyError\n") < err.index("ValueError\n")
        assert "test_main.py" in err

    def test_messages_of_plugins_are_shown(self, capsys: pytest.CaptureFixture[str]) -> None:
        log_cause(GenaiError("alone"))  # without a cause, it adds nothing
        assert capsys.readouterr().err == ""
        log_cause(caught(PluginError("it broke"), KeyError("the key of a mapping")))
        assert "KeyError: 'the key of a mapping'" in capsys.readouterr().err

    def test_it_drives_no_terminal(self, capsys: pytest.CaptureFixture[str]) -> None:
        log_cause(caught(GenaiError("a"), ValueError("\x1b[2J")))
        log_error(ValueError("\x1b[3J"))
        logging.getLogger("genai_host.x").warning("\x1b]0;title\x07")
        assert "\x1b" not in capsys.readouterr().err


@pytest.mark.part
class TestErrors:
    @pytest.mark.parametrize(("error", "line"), [
        (OSError(28, "No space left on device", "/x/y"), "/x/y: No space left on device"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (PermissionError("just so"), "just so"),
    ])  # fmt: skip
    def test_os_error_is_one_line(self, terminal: Terminal, error: OSError, line: str) -> None:
        def refused(*_: object, **__: object) -> None:
            raise error

        terminal.monkeypatch.setattr("genai_host.host.Host.open", refused)
        assert terminal("ask -p mock x") == (1, "", f"error: {line}\n")
        assert "Traceback" in terminal("-v ask -p mock x")[2]

    def test_without_an_output_there_is_nobody_to_answer(self, terminal: Terminal) -> None:
        with terminal.monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", Full())
            assert terminal("nonsense")[:2] == (2, "")
        terminal.monkeypatch.setattr(sys, "stdout", None)
        for command in ("plugins", "plugins --json", "ask -p mock x", "routes"):
            assert terminal.error(command) == "error: standard output: it is closed\n"
        assert terminal("plugins check --help")[0] == 0


@pytest.mark.part
def test_a_broken_plugin_is_a_warning(terminal: Terminal, tmp_path: Path) -> None:
    make_distribution(tmp_path / "site", "zz-broken", files={"zz_broken.py": "1 / 0"})
    terminal.monkeypatch.syspath_prepend(str(tmp_path / "site"))
    code, out, err = terminal("ask -p mock hi")
    assert (code, out, "Traceback" in err) == (0, "hi\n", False)
    warning, fix = err.splitlines()
    assert re.match("warning: .*zz-broken", warning)
    assert "genai-host" in fix
    code, out, err = terminal("-v ask -p mock hi")
    assert (code, out, "Traceback" in err) == (0, "hi\n", True)
    assert "ZeroDivisionError: division by zero" in err


def test_wrong_commands_of_plugins(terminal: Terminal) -> None:
    import genai_vendor_local.cli

    terminal.monkeypatch.setattr(genai_vendor_local.cli, "local", print)
    assert "is not a click command" in terminal.error("local list")
    terminal.monkeypatch.setitem(sys.modules, "genai_vendor_local.cli", None)
    err = terminal.error("local list")
    assert "cannot load command 'local' of plugin 'local'" in err
    assert "genai-host plugins show local" in err


Index = Callable[[str, str], None]


@click.command()
def do() -> None:
    click.echo("done")


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Index:
    """Make an index with one plugin, which has the command `do`."""

    def make(distribution: str, load: str) -> None:
        plugin = InstalledPlugin("one", "x", distribution)
        outcome = LoadResult("loaded", commands=[("do", "Do it.", load)])
        monkeypatch.setattr(PluginIndex, "plugins", lambda self: [plugin])
        monkeypatch.setattr(PluginIndex, "outcomes", lambda self: {plugin.key: outcome})

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


def test_ours_runs_without_the_host(index: Index, hosts: list[Host], terminal: Terminal) -> None:
    index("genai-batch", f"{__name__}:do")
    assert terminal("do") == (0, "done\n", "")
    assert not hosts


@pytest.mark.parametrize(("distribution", "load"), [
    ("somebody-elses", f"{__name__}:do"),
    ("genai-batch", "no_module:do"),
    ("genai-batch", f"{__name__}:gone"),
    ("genai-batch", f"{__name__}:__name__"),
], ids=["of a third party", "no such module", "no such name", "no command"])  # fmt: skip
def test_others_are_those_that_the_host_has_loaded(
    index: Index, hosts: list[Host], terminal: Terminal, distribution: str, load: str
) -> None:
    index(distribution, load)
    code, _, err = terminal("do")
    assert (code, bool(hosts)) == (2, True)
    assert "No such command 'do'" in err
