"""The commands that list and check, with the installed plugins."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete
from genai_vendor_mock import MockProvider
from support import Terminal

from genai_host import __version__
from genai_host.cli.app import App
from genai_host.cli.doctor import _nearest
from genai_host.cli.main import cli, commands
from genai_host.config import read_config
from genai_host.errors import ServiceUnavailable
from genai_host.store import Store
from genai_host.util.names import COMMANDS
from genai_host_testing import make_distribution
from genai_host_testing.internal.stores import begin

_FIXED = """
from genai_host.api import Answer, Feature, NoSettings, hookimpl

def respond(turn):
    yield from ()
    return Answer("fixed")

@hookimpl
def genai_features():
    yield Feature("zz-fixed", NoSettings, respond, roles={})
"""
_D = "genai-vendor-mock:"
_BUNDLED = {"dialects", "mock", "local", "models-open", "chat", "tools-data"}


def test_the_names_that_plugins_may_not_take_are_those_of_the_commands() -> None:
    for name, command in commands():
        assert isinstance(command, click.Command), name
        assert command.help, name


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_lists_all_commands(terminal: Terminal, option: str) -> None:
    out = terminal.out(option)
    for name, help in COMMANDS.items():
        assert name in out
        assert help in out


def test_the_version(terminal: Terminal) -> None:
    assert terminal("--version") == (0, f"genai-host, version {__version__}\n", "")


class TestPlugins:
    @pytest.mark.part
    def test_they_are_listed_unchecked_until_they_were_loaded(self, terminal: Terminal) -> None:
        rows = terminal.json("plugins")
        assert {row["name"] for row in rows} >= _BUNDLED
        assert {row["status"] for row in rows} == {"unchecked"}
        terminal("models")
        rows = {row["name"]: row for row in terminal.json("plugins")}
        assert {row["status"] for row in rows.values()} == {"loaded"}
        assert rows["mock"]["provides"]["providers"] == ["mock"]
        assert rows["mock"]["distribution"] == "genai-vendor-mock"

    def test_check_loads_them(self, terminal: Terminal) -> None:
        assert {row["status"] for row in terminal.json("plugins check")} == {"loaded"}
        [row] = terminal.json("plugins check chat")
        assert row["provides"] == {"features": ["chat", "chat-model"]}

    def test_show_tells_all_of_one(self, terminal: Terminal) -> None:
        out = terminal.out("plugins show mock")
        for text in ("genai-vendor-mock", "loaded", "providers: mock", "genai_vendor_mock"):
            assert text in out
        assert terminal.json("plugins show mock")["name"] == "mock"

    def test_disable_and_enable(self, terminal: Terminal) -> None:
        assert terminal("plugins disable mock chat")[0] == 0
        assert set(read_config().disabled) == {"mock", "chat"}
        rows = {row["name"]: row for row in terminal.json("plugins")}
        assert (rows["mock"]["status"], rows["mock"]["reason"]) == ("blocked", "disabled")
        assert terminal("ask -p mock hi")[0] == 1
        assert terminal("plugins enable mock chat")[0] == 0
        assert terminal("ask -p mock hi")[:2] == (0, "hi\n")

    @pytest.mark.parametrize("action", ["check", "show", "disable", "enable"])
    def test_an_unknown_one_suggests_the_nearest(self, terminal: Terminal, action: str) -> None:
        """But for item 6: what is to be disabled is not guessed."""
        err = terminal.error("plugins", action, "moc")
        assert "unknown plugin 'moc'" in err
        assert ("did you mean mock?" in err) == (action != "disable")

    @pytest.mark.parametrize(("before", "command", "message", "after"), [
        ("mock chat mock", "enable mock", "enabled: mock", "chat"),
        ("D:mock chat x:mock", "enable mock", "enabled: D:mock, x:mock", "chat"),
        ("D:mock x:mock", "enable D:mock", "enabled: D:mock", "x:mock"),
        ("D:mock", "disable mock chat", "disabled: chat\nalready disabled: mock", "D:mock chat"),
        ("mock", "disable D:mock chat", "disabled: chat\nalready disabled: D:mock", "mock chat"),
        ("mock", "disable mock chat", "disabled: chat\nalready disabled: mock", "mock chat"),
    ])  # fmt: skip
    def test_entries_are_added_and_removed(
        self, terminal: Terminal, before: str, command: str, message: str, after: str
    ) -> None:
        """D is the distribution of the mock."""
        terminal.configure(f"[plugins]\ndisabled = {before.replace('D:', _D).split()}\n")
        ended, _, err = terminal(f"plugins {command.replace('D:', _D)}")
        assert (ended, err) == (0, message.replace("D:", _D) + "\n")
        assert list(read_config().disabled) == after.replace("D:", _D).split()

    @pytest.mark.parametrize(("before", "name", "messages"), [
        (["mock"], f"{_D}mock", [f"{_D}mock is disabled by mock", "plugins enable mock"]),
        ([], "mock", ["mock is not disabled"]),
    ])  # fmt: skip
    def test_what_cannot_be_enabled(
        self, terminal: Terminal, before: list[str], name: str, messages: list[str]
    ) -> None:
        terminal.configure(f"[plugins]\ndisabled = {before}\n")
        err = terminal.error(f"plugins enable {name}")
        assert all(each in err for each in messages), err
        assert list(read_config().disabled) == before

    def test_unwritable_configuration_has_a_hint(self, terminal: Terminal, home: Path) -> None:
        shutil.rmtree(home)
        home.write_text("no folder")
        err = terminal.error("plugins disable mock")
        assert ("cannot write" in err, "--config FILE" in err) == (True, True)

    def test_what_the_environment_disables_it_goes_on_disabling(self, terminal: Terminal) -> None:
        variable = "GENAI_HOST_PLUGINS__DISABLED"
        terminal.monkeypatch.setenv(variable, "mock")
        assert "mock is not disabled" in terminal("plugins enable mock")[2]
        assert f"{variable} overrides it" in terminal("plugins disable chat")[2]
        assert f"{variable} overrides it" in terminal("plugins enable chat")[2]

    def test_they_are_listed_whatever_the_configuration_is(self, terminal: Terminal) -> None:
        terminal.configure("[[[")
        code, out, err = terminal("plugins")
        assert (code, "mock" in out, "invalid TOML" in err) == (0, True, True)
        terminal.error("plugins disable mock")
        assert terminal.config.read_text() == "[[["

    def test_piped_lines_have_tabs_and_no_head(self, terminal: Terminal) -> None:
        lines = terminal("plugins")[1].splitlines()
        assert all(line.count("\t") == 4 for line in lines)
        assert "name\t" not in lines[0]


@pytest.mark.part
class TestProviders:
    def test_each_has_a_name_and_what_it_lacks(self, terminal: Terminal) -> None:
        rows = {row["name"]: row for row in terminal.json("providers")}
        assert {"mock", "local"} <= set(rows)
        assert rows["mock"]["status"] == "works"
        assert rows["mock"]["dialects"] == ["plain", "plain-embed", "plain-count"]
        assert [setting["name"] for setting in rows["mock"]["settings"]][:1] == ["replies"]

    def test_settings_are_told_from_their_class(self, terminal: Terminal) -> None:
        out = terminal.out("providers local")
        assert "threads\tint" in out
        assert "context window in tokens" in out

    def test_an_instance_of_an_unknown_type_is_listed_as_failed(self, terminal: Terminal) -> None:
        terminal.configure('[providers.odd]\ntype = "nonexistent"\n')
        rows = {row["name"]: row for row in terminal.json("providers")}
        assert rows["odd"]["status"] == "needs"
        assert "nonexistent" in rows["odd"]["reason"]
        code, out, _ = terminal("providers odd")
        assert (code, "unknown provider type 'nonexistent'" in out) == (0, True)
        assert "unknown provider type 'nonexistent'" in terminal.error("models --provider odd")

    def test_an_unknown_one_is_an_error(self, terminal: Terminal) -> None:
        for command in (["providers"], ["models", "--provider"]):
            err = terminal.error(*command, "nonsense")
            assert "unknown provider 'nonsense'" in err
            assert re.search(r"choose from .*\bmock\b", err)
            assert "did you mean mock?" in terminal(*command, "mok")[2]


class TestModels:
    @pytest.mark.part
    def test_those_that_run_are_listed(self, terminal: Terminal) -> None:
        rows = {row["name"]: row for row in terminal.json("models")}
        assert "mock" in rows
        assert "olmo-2-32b" not in rows  # nobody offers it
        assert rows["mock"]["providers"] == ["mock"]
        assert "temperature" in rows["mock"]["parameters"]

    @pytest.mark.part
    def test_all_of_them_can_be_listed(self, terminal: Terminal) -> None:
        rows = {row["name"]: row for row in terminal.json("models --all")}
        assert rows["olmo-2-32b"]["runs"] is False
        assert rows["smollm2-135m"]["aliases"] == ["smollm2"]

    def test_a_provider_can_be_asked(self, terminal: Terminal) -> None:
        rows = terminal.json("models --provider mock")
        assert [row["id"] for row in rows] == ["mock", "mock-embed"]
        assert terminal("models --provider mock")[1].startswith("mock\tplain")

    @pytest.mark.parametrize(("listed", "says"), [
        (KeyError("models"), "mock cannot list its models: KeyError: 'models'"),
        (ServiceUnavailable("nobody is there"), "nobody is there (mock)"),
        (None, "mock cannot list its models: TypeError"),
        ([3], "mock cannot list its models: AttributeError"),
    ])  # fmt: skip
    def test_provider_that_cannot_list(self, terminal: Terminal, listed: Any, says: str) -> None:
        def list_models(*_: object) -> Any:
            if isinstance(listed, Exception):
                raise listed
            return listed

        terminal.monkeypatch.setattr(MockProvider, "list_models", list_models)
        err = terminal.error("models --provider mock")
        assert says in err
        assert "Traceback" not in err

    def test_a_provider_that_is_asked_can_be_configured_away(self, terminal: Terminal) -> None:
        terminal.configure('[providers.mock]\ntype = "mock"\nenabled = false\n')
        assert "provider 'mock' is disabled" in terminal.error("models --provider mock")


def test_features_are_listed_with_roles_and_settings(terminal: Terminal) -> None:
    [chat] = [row for row in terminal.json("features") if row["name"] == "chat"]
    assert chat["roles"] == {"main": "chat", "support": "chat"}
    assert chat["optional"] == ["support"]
    assert "system_prompt" in [setting["name"] for setting in chat["settings"]]
    assert "chat\t" in terminal("features")[1]


@pytest.mark.part
class TestRoutes:
    def test_every_pair_is_there_with_its_reasons(self, terminal: Terminal) -> None:
        pairs = {(row["model"], row["provider"]): row for row in terminal.json("routes")}
        mock, local = pairs["mock", "mock"], pairs["mock", "local"]
        assert (mock["runs"], mock["dialect"]) == (True, "plain")
        assert (local["runs"], local["reasons"]) == (False, ["local does not offer mock"])
        assert "genai-host local pull" in pairs["smollm2-135m", "local"]["reasons"][0]
        assert "mock\tmock\tplain\tmock\tworks" in terminal("routes")[1]
        assert "did you mean smollm2" in terminal.error("routes explain smolm2")

    def test_at_a_terminal_they_are_a_matrix(self, terminal: Terminal) -> None:
        def shown(*options: str) -> tuple[dict[str, dict[str, str]], str]:
            code, out, err = terminal.interactive("routes", *options)
            assert code == 0
            head, *rows = [re.split("  +", line.strip()) for line in out.splitlines()]
            assert head[0] == "model"
            return {row[0]: dict(zip(head, row, strict=True)) for row in rows}, err

        rows, err = shown()
        assert (rows["mock"]["mock"], rows["mock"]["local"]) == ("plain", "-")
        assert rows["smollm2-135m"]["local"] == "(needs)"
        assert "olmo-2-32b" not in rows
        assert "show them: --all" in err
        rows, err = shown("--all")
        assert set(rows["olmo-2-32b"].values()) == {"olmo-2-32b", "-"}
        assert err == ""

    def test_explain_shows_each_candidate(self, terminal: Terminal) -> None:
        out = terminal.out("routes explain smollm2")
        assert "the weights of smollm2-135m are missing" in out
        assert "mock does not offer smollm2-135m" in out
        rows = terminal.json("routes explain mock")
        assert [row["runs"] for row in rows] == [True, *[False] * (len(rows) - 1)]
        [row] = terminal.json("routes explain mock-embed@mock --operation embed")
        assert row["dialect"] == "plain-embed"


@pytest.mark.part
class TestDoctor:
    def test_interrupted_installers(self, terminal: Terminal, tmp_path: Path) -> None:
        folder = tmp_path / "site" / "~lugin-1.0.dist-info"
        folder.mkdir(parents=True)
        terminal.monkeypatch.syspath_prepend(str(folder.parent))
        checks = json.loads(terminal("doctor --json")[1])
        [check] = [each for each in checks if each["what"] == "distributions"]
        assert check == {
            "what": "distributions",
            "status": "warning",
            "found": f"{folder}: left by an interrupted installer",
            "fix": "remove these directories",
        }

    def test_what_is_not_in_order_comes_with_a_fix(self, terminal: Terminal) -> None:
        code, out, _ = terminal("doctor --json")
        checks = {check["what"]: check for check in json.loads(out)}
        assert checks["plugins"]["status"] == "ok"
        assert checks["default"]["status"] == "failed"
        assert "genai-host local pull" in checks["default"]["found"]
        assert code == 1

    def test_all_is_well_with_a_default_that_runs(self, terminal: Terminal) -> None:
        terminal.configure('[defaults]\nmodel = "mock"\n')
        assert "chat with mock@mock" in terminal.out("doctor")

    def test_item_6_a_misspelt_provider_that_is_preferred_is_told(self, terminal: Terminal) -> None:
        terminal.configure('[defaults]\nmodel = "mock"\nprovider_order = ["mock", "lcal"]\n')
        code, out, err = terminal("doctor")
        assert code == 0
        assert "defaults.provider_order\twarning\tunknown provider 'lcal'\n" in out
        assert "defaults.provider_order: did you mean local?" in err

    @pytest.mark.parametrize(("options", "expected"), [
        (
            [],
            [
                ("provider odd", "failed", "unknown provider type 'nonexistent'"),
                ("plugin zz-broken", "failed", "ZeroDivisionError"),
                ("distributions", "warning", "~e-1.0.dist-info"),
                ("distributions", "warning", "; 2 more"),
                ("store", "failed", "not a database"),
                ("default", "ok", "zz-fixed with no model"),
            ],
        ),
        (["--repair"], [("repair", "failed", "not a database")]),
    ])  # fmt: skip
    def test_each_problem_is_reported(
        self, terminal: Terminal, tmp_path: Path, options: list[str],
        expected: list[tuple[str, str, str]],
    ) -> None:  # fmt: skip
        database = tmp_path / "store.db"
        database.write_bytes(b"other data" * 100)
        terminal.configure(
            f"[conversations]\ndatabase = '{database}'\n[defaults]\nfeature = 'zz-fixed'\n"
            "[providers.odd]\ntype = 'nonexistent'\n"
        )
        site = tmp_path / "site"
        make_distribution(site, "zz-broken", files={"zz_broken.py": "1 / 0"})
        make_distribution(site, "zz-fixed", files={"zz_fixed.py": _FIXED})
        for letter in "abcdefg":
            (site / f"~{letter}-1.0.dist-info").mkdir()
        terminal.monkeypatch.syspath_prepend(str(site))
        code, out, _ = terminal("doctor", *options, "--json")
        assert code == 1
        checks = {check["what"]: check for check in json.loads(out)}
        for what, status, text in expected:
            assert (checks[what]["status"], text in checks[what]["found"]) == (status, True), what

    def test_unwritable_directories_warn(self, terminal: Terminal, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        terminal.monkeypatch.setenv("GENAI_HOST_HOME", str(tmp_path / "file" / "home"))
        out = terminal("doctor")[1]
        for name in ("cache", "data"):
            assert re.search(f"^{name}\twarning\t{tmp_path}.* is not writable$", out, re.M), name

    def test_relative_home(self, terminal: Terminal, tmp_path: Path) -> None:
        terminal.monkeypatch.chdir(tmp_path)
        terminal.monkeypatch.setenv("GENAI_HOST_HOME", "rel/x")
        assert f"cache\tok\t{tmp_path / 'rel' / 'x' / 'cache'}\n" in terminal("doctor")[1]

    def test_a_configuration_that_is_not_read(self, terminal: Terminal, tmp_path: Path) -> None:
        terminal.monkeypatch.setenv("GENAI_HOST_HOME", str(tmp_path))
        (tmp_path / "config.toml").touch()
        line = f"configuration\twarning\t{tmp_path / 'config.toml'} is not read"
        assert line in terminal("doctor")[1]

    def test_a_drive_that_is_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As on a drive that is not mounted."""
        monkeypatch.setattr("os.path.exists", lambda path: False)
        assert _nearest(os.path.join(os.sep, "a", "b")) == os.sep

    def test_a_wrong_configuration_does_not_stop_it(self, terminal: Terminal) -> None:
        terminal.configure("nonsense = 1")
        code, out, _ = terminal("doctor --json")
        checks = {check["what"]: check for check in json.loads(out)}
        assert code == 1
        assert checks["configuration"]["status"] == "failed"
        assert checks["plugins"]["status"] == "ok"


@pytest.mark.smoke
@pytest.mark.process
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(terminal: Terminal, shell: str) -> None:
    assert "_GENAI_HOST_COMPLETE" in terminal.out("completion", shell)


@pytest.mark.part
@pytest.mark.parametrize(("words", "typed", "names"), [
    ("ask --provider", "mo", ["mock"]),
    ("ask --model", "mock-", ["mock-embed"]),
    ("ask --model", "zzz", []),
    ("ask --feature", "ch", ["chat", "chat-model"]),
    ("ask --feature", "x", []),
    ("local", "pu", ["pull"]),
    ("", "plug", ["plugins"]),
    ("conversations show", "ID", ["ID"]),
])  # fmt: skip
def test_names_are_completed(home: Path, words: str, typed: str, names: list[str]) -> None:
    with Store() as store:
        id = begin(store).id
    with App() as app:
        completer = ShellComplete(cli, {"obj": app}, "genai-host", "_X")
        completions = completer.get_completions(words.split(), typed.replace("ID", id[:3]))
    assert [item.value.replace(id, "ID") for item in completions] == names


def test_commands_of_plugins_are_there(terminal: Terminal) -> None:
    assert terminal.json("local list")[0]["model"] == "smollm2-135m"
    assert "Download and list the weights" in terminal("--help")[1]
