"""`genai-host`: global options, and the display of errors."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from screens import Full
from support import Terminal

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
        assert terminal("local", "list")[0] == 0
        code, _, err = terminal("--config", str(mine), "local", "list")
        assert (code, "No such command 'local'" in err) == (2, True)

    def test_it_holds_for_the_commands_of_plugins(self, terminal: Terminal, mine: Path) -> None:
        mine.write_text("nonsense = 1")
        code, _, err = terminal("--config", str(mine), "local", "list")
        assert (code, "unknown key 'nonsense'" in err) == (1, True)

    def test_one_host_is_made_and_closed(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made: list[str] = []
        usual = App.__init__

        def make(self: App, *given: Any) -> None:
            made.append("made")
            usual(self, *given)

        monkeypatch.setattr(App, "__init__", make)
        monkeypatch.setattr("genai_host.host.Host.close", lambda self: made.append("closed"))
        assert terminal("local", "list")[0] == 0
        assert terminal("-v", "nonsense")[0] == 2
        assert terminal("plugins")[0] == 0
        assert made == ["made", "closed", "made", "closed", "made"]

    @pytest.mark.parametrize("name", ["typo.toml", "."])
    @pytest.mark.parametrize("command", [["ask", "hi"], ["plugins"], ["plugins", "disable", "x"]])
    def test_one_that_is_none_is_a_wrong_use(
        self, terminal: Terminal, tmp_path: Path, command: list[str], name: str
    ) -> None:
        code, out, err = terminal("--config", str(tmp_path / name), *command)
        assert (code, out) == (2, "")
        assert "Invalid value for '--config'" in err

    def test_its_name_holds_wherever_something_is_started(
        self, terminal: Terminal, mine: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mine.write_text("")
        monkeypatch.chdir(mine.parent)
        terminal("--config", mine.name, "--version")
        terminal("--config", mine.name, "plugins")
        assert os.environ["GENAI_HOST_CONFIG"] == str(mine)

    def test_one_that_the_environment_names_must_be_there(
        self, terminal: Terminal, mine: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GENAI_HOST_CONFIG", str(mine))
        code, _, err = terminal("ask", "-p", "mock", "x")
        assert (code, f"cannot read {mine}: no such file" in err) == (1, True)
        assert terminal("plugins")[0] == 0


class TestSafeMode:
    """Without plugins of third parties, which are not even imported."""

    @pytest.fixture(autouse=True)
    def theirs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        site = tmp_path / "site"
        make_distribution(site, "theirs", files={"theirs.py": "raise KeyboardInterrupt"})
        monkeypatch.syspath_prepend(str(site))
        monkeypatch.setenv("GENAI_HOST_SAFE", "")

    def statuses(self, out: str) -> dict[str, str]:
        return {row["name"]: row["status"] for row in json.loads(out)}

    @pytest.mark.parametrize("command", [("plugins",), ("plugins", "check")])
    def test_they_are_blocked(self, terminal: Terminal, command: tuple[str, ...]) -> None:
        code, out, _ = terminal("--safe", *command, "--json")
        assert code == 0
        assert self.statuses(out)["theirs"] == "blocked"
        assert self.statuses(out)["mock"] != "blocked"

    def test_it_holds_for_what_a_command_starts(self, terminal: Terminal) -> None:
        assert terminal("--safe", "ask", "-p", "mock", "hi") == (0, "hi\n", "")
        assert os.environ["GENAI_HOST_SAFE"] == "1"

    def test_it_holds_where_the_configuration_is_not_in_order(
        self, terminal: Terminal, home: Path
    ) -> None:
        file = home / "config" / "config.toml"
        file.parent.mkdir(parents=True)
        file.write_text("nonsense = 1")
        _, out, _ = terminal("--safe", "plugins", "check", "--json")
        assert self.statuses(out)["theirs"] == "blocked"


class TestHelp:
    @pytest.fixture
    def remembered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Two plugins with commands, as an index that somebody else wrote has them."""
        found = [InstalledPlugin("one", "x", "dist-one"), InstalledPlugin("two", "x", "dist-two")]
        commands = {
            "one": [("first", "The \x1b[2Jfirst\x9b command.", "x:y")],
            "two": [("second", "The second command.", "x:y"), ("ask", "Ask someone else.", "x:y")],
        }
        outcomes = {
            each.key: LoadResult("loaded", commands=commands[each.name]) for each in found
        } | {"gone:gone::": LoadResult("loaded", commands=[("third", "The third command.", "x:y")])}
        monkeypatch.setattr(PluginIndex, "plugins", lambda self: found)
        monkeypatch.setattr(PluginIndex, "outcomes", lambda self: outcomes)

    @pytest.mark.usefixtures("remembered")
    def test_what_plugins_say_of_their_commands_is_safe(self, terminal: Terminal) -> None:
        out = terminal("--help")[1]
        assert "The ␛[2Jfirst<009B> command." in out
        assert "The second command." in out
        assert "Ask someone else." not in out
        assert "The third command." not in out

    @pytest.mark.usefixtures("remembered")
    def test_commands_of_disabled_plugins_are_left_out(
        self, terminal: Terminal, mine: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """At any position of the option."""
        mine.write_text('[plugins]\ndisabled = ["dist-one:one"]\n')
        for arguments in (["--config", str(mine), "--help"], ["-h", "--config", str(mine)],
                          ["--help", "-v", f"--config={mine}"]):  # fmt: skip
            monkeypatch.delenv("GENAI_HOST_CONFIG", raising=False)
            out = terminal(*arguments)[1]
            assert "first" not in out
            assert "second" in out

    def test_a_file_that_is_none_is_told_after_it_as_well(
        self, terminal: Terminal, mine: Path
    ) -> None:
        for arguments in (["--help", "--config", str(mine)], ["--version", "--config", str(mine)]):
            code, out, err = terminal(*arguments)
            assert (code, out) == (2, "")
            assert "Invalid value for '--config'" in err

    @pytest.mark.usefixtures("remembered")
    def test_it_is_there_whatever_the_configuration_is(
        self, terminal: Terminal, mine: Path
    ) -> None:
        mine.write_text("[[[")
        code, out, err = terminal("--config", str(mine), "--help")
        assert (code, "first" in out, err) == (0, True, "")


class TestVerbose:
    def test_the_cause_of_an_error_is_shown_with_its_place(
        self, terminal: Terminal, script: Any
    ) -> None:
        """As the hint promises."""
        script([{"fault": "crash"}, {"fault": "crash"}])
        code, _, err = terminal("ask", "-p", "script", "x")
        assert (code, "-v shows where" in err) == (1, True)
        assert "Traceback" not in err
        code, _, err = terminal("-v", "ask", "-p", "script", "x")
        assert code == 1
        assert "Traceback" in err
        assert "provider.py" in err
        assert "RuntimeError: the mock crashed as configured" in err

    def test_in_a_chat_as_well(self, terminal: Terminal, script: Any) -> None:
        script([{"fault": "crash"}, "two"])
        code, out, err = terminal("-v", "chat", "-p", "script", stdin="one\ntwo\n")
        assert (code, out) == (0, "two\n")
        assert err.count("Traceback") == 1

    def test_twice_shows_each_call(self, terminal: Terminal) -> None:
        assert "calling mock@mock" in terminal("-vv", "ask", "-p", "mock", "x")[2]
        assert "calling" not in terminal("-v", "ask", "-p", "mock", "x")[2]

    def test_it_ends_with_its_command(self, terminal: Terminal, script: Any) -> None:
        terminal("-vv", "plugins")
        assert terminal("ask", "-p", "mock", "x")[2] == ""
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
    def test_what_libraries_say_of_a_call_is_not_repeated(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Error messages quote addresses and headers, which can contain keys."""
        inner = caught(ValueError("Invalid header value b'Bearer canary'"), KeyError("canary"))
        log_cause(caught(ServiceUnavailable("it broke"), inner))
        err = capsys.readouterr().err
        assert "canary" not in err
        assert err.index("KeyError\n") < err.index("ValueError\n")
        assert "test_main.py" in err

    def test_what_a_plugin_says_is(self, capsys: pytest.CaptureFixture[str]) -> None:
        log_cause(caught(PluginError("it broke"), KeyError("the key of a mapping")))
        assert "KeyError: 'the key of a mapping'" in capsys.readouterr().err

    def test_an_error_without_a_cause_adds_nothing(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        log_cause(GenaiError("alone"))
        assert capsys.readouterr().err == ""

    def test_it_drives_no_terminal(self, capsys: pytest.CaptureFixture[str]) -> None:
        log_cause(caught(GenaiError("a"), ValueError("\x1b[2J")))
        log_error(ValueError("\x1b[3J"))
        logging.getLogger("genai_host.x").warning("\x1b]0;title\x07")
        assert "\x1b" not in capsys.readouterr().err


@pytest.mark.part
class TestErrors:
    @pytest.mark.parametrize(
        ("error", "line"),
        [
            (OSError(28, "No space left on device", "/x/y"), "/x/y: No space left on device"),
            (OSError(28, "No space left on device"), "No space left on device"),
            (PermissionError("just so"), "just so"),
        ],
    )
    def test_what_the_system_refuses_is_one_line(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch, error: OSError, line: str
    ) -> None:
        def refused(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr("genai_host.host.Host.open", refused)
        assert terminal("ask", "-p", "mock", "x") == (1, "", f"error: {line}\n")
        assert "Traceback" in terminal("-v", "ask", "-p", "mock", "x")[2]

    def test_a_wrong_use_that_cannot_be_shown_is_one(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "stderr", Full())
        assert terminal("nonsense")[:2] == (2, "")

    def test_without_an_output_there_is_nobody_to_answer(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "stdout", None)
        for command in (["plugins"], ["plugins", "--json"], ["ask", "-p", "mock", "x"], ["routes"]):
            code, _, err = terminal(*command)
            assert (code, err) == (1, "error: standard output: it is closed\n"), command
        assert terminal("plugins", "check", "--help")[0] == 0


@pytest.mark.part
def test_a_broken_plugin_is_a_warning(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_distribution(tmp_path / "site", "zz-broken", files={"zz_broken.py": "1 / 0"})
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    code, out, err = terminal("ask", "-p", "mock", "hi")
    assert (code, out, "Traceback" in err) == (0, "hi\n", False)
    warning, fix = err.splitlines()
    assert warning.startswith("warning: ")
    assert "zz-broken" in warning
    assert "genai-host" in fix
    code, out, err = terminal("-v", "ask", "-p", "mock", "hi")
    assert (code, out, "ZeroDivisionError: division by zero" in err) == (0, "hi\n", True)
    assert "Traceback" in err


def test_a_command_of_a_plugin_that_cannot_be_imported_breaks_no_other(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "genai_vendor_local.cli", None)
    code, _, err = terminal("local", "list")
    assert code == 1
    assert "cannot load command 'local' of plugin 'local'" in err
    assert "genai-host plugins show local" in err


def test_what_a_plugin_calls_a_command_must_be_one(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    import genai_vendor_local.cli

    monkeypatch.setattr(genai_vendor_local.cli, "local", print)
    code, _, err = terminal("local", "list")
    assert (code, "is not a click command" in err) == (1, True)
    assert not isinstance(print, click.Command)
