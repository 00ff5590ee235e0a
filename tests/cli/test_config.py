"""`genai-host config`, as users run it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import Terminal

from genai_host import paths
from genai_host.config import read_config

_GROQ = ("groq", "openai-compatible", "base_url=https://api.groq.com/openai/v1")


def shown(terminal: Terminal, *arguments: str) -> dict[str, tuple[Any, str]]:
    rows = terminal.json("config show", *arguments)
    return {row["key"]: (row["value"], row["source"]) for row in rows}


class TestInstances:
    @pytest.mark.part
    def test_any_address_is_one_command(self, terminal: Terminal) -> None:
        code, out, err = terminal("config add", *_GROQ, "models.llama=llama-3.3-70b")
        assert (code, out) == (0, "")
        assert "genai-host keys set groq" in err
        terminal.out("keys set groq", stdin="gsk-1234567890\n")
        [route] = terminal.out("routes explain llama -p groq").splitlines()
        assert route.startswith("llama\tgroq\topenai-chat\tllama-3.3-70b\tunreachable\t")
        [listed] = terminal.json("config list")
        assert listed == {
            "name": "groq",
            "type": "openai-compatible",
            "enabled": True,
            "models": {"llama": "llama-3.3-70b"},
        }

    @pytest.mark.parametrize("command", [
        "config add x openai-compatible base_url=nowhere",
        "config add x openai-compatible base_url=https://user@x.example",
        "config set providers.openai.base_url=ftp://x.example",
        "config set providers.openai.base_url=https://x.example?a",
    ])  # fmt: skip
    def test_an_invalid_address_is_refused(self, terminal: Terminal, command: str) -> None:
        code, _, err = terminal(command)
        assert (code, ".base_url: " in err) == (1, True), err
        assert not Path(paths.config_file()).exists()

    def test_a_warning_without_a_hint_is_one_line(self, terminal: Terminal) -> None:
        _, _, err = terminal("config add x openai-compatible base_url=https://x.example serves=[]")
        assert "x cannot run: serves must name at least one dialect\n" in err
        assert all(line.strip() for line in err.splitlines())

    @pytest.mark.part
    def test_so_is_one_whose_key_is_in_a_variable(self, terminal: Terminal) -> None:
        code, _, err = terminal("config add", *_GROQ, 'api_key={"env": "GROQ_API_KEY"}')
        assert (code, err) == (0, "added: groq\n")
        explain = ("routes", "explain", "groq/llama", "-p", "groq")
        assert "nothing in the environment variable GROQ_API_KEY" in terminal(*explain)[1]
        terminal.monkeypatch.setenv("GROQ_API_KEY", "gsk-1234567890")
        assert "\tunreachable\t" in terminal.out(*explain)  # and is not missing anything

    def test_they_are_listed(self, terminal: Terminal) -> None:
        terminal.out("config add", *_GROQ)
        terminal.out("config disable groq")
        assert terminal.out("config list") == "groq\topenai-compatible\tno\t\n"
        assert "is disabled" in terminal.error("ask -p groq -m x hi")
        terminal.out("config enable groq")
        assert terminal.out("config list") == "groq\topenai-compatible\tyes\t\n"
        terminal.out("config remove groq")
        assert terminal.out("config list") == ""

    def test_what_a_plugin_brings_can_be_kept_away(self, terminal: Terminal) -> None:
        terminal.out("config disable mock")
        assert "is disabled" in terminal.error("ask -p mock hi")
        assert "genai-host config disable NAME" in terminal.error("config remove local")
        terminal.out("config enable mock")
        assert terminal.out("ask -p mock hi") == "hi\n"

    @pytest.mark.parametrize(("command", "says", "hint"), [
        ("add x mok", "unknown provider type 'mok'", "did you mean mock?"),
        ("add x mock replis=1", "unknown setting 'providers.x.replis'", "replies?"),
        ("set providers.x.y=1", "unknown provider 'x'", "choose from "),
        ("set default.model=x", "unknown configuration key 'default.model'", "defaults.model?"),
        ("unset defaults.model", "defaults.model is not set", ""),
        ("remove x", "provider 'x' is not configured", ""),
        ("disable moc", "unknown provider 'moc'", "list providers: genai-host providers"),
        ("enable moc", "unknown provider 'moc'", "did you mean mock?"),
        ("show moc", "unknown provider 'moc'", "did you mean mock?"),
        ("types moc", "unknown provider type 'moc'", "did you mean mock?"),
        ("default feature cat", "unknown feature 'cat'", "chat"),
        ("default model mok", "unknown model 'mok'", "did you mean mock?"),
        ("set defaults.provider_order=mock,lcal", "unknown provider 'lcal'", "local?"),
        ("alias fast mok", "unknown model 'mok'", "did you mean mock?"),
        ("alias fast", "unknown alias 'fast'", ""),
    ])  # fmt: skip
    def test_wrong_value(self, terminal: Terminal, command: str, says: str, hint: str) -> None:
        first, *rest = terminal.error(f"config {command}").splitlines()
        assert (says in first, hint in "".join(rest)) == (True, True), (first, rest)
        assert not terminal.config.exists()

    @pytest.mark.parametrize("command", ["set x", "set =x", "set a=1 a=2", "add x mock y"])
    def test_a_wrong_use(self, terminal: Terminal, command: str) -> None:
        assert terminal(f"config {command}")[0] == 2


class TestHelp:
    def test_settings_are_told_from_their_class(self, terminal: Terminal) -> None:
        out = terminal.out("config types openai-compatible")
        assert "base_url\tstr\t\t\taddress of the service" in out
        assert "limits.first_token_timeout\tfloat\t60.0\t" in out
        [key] = [row for row in terminal.json("config types openai") if row["name"] == "api_key"]
        assert (key["secret"], key["env"]) == (True, ["OPENAI_API_KEY"])
        assert "mock\tmock\n" in terminal.out("config types")
        assert {"name": "mock", "plugin": "mock"} in terminal.json("config types")
        assert terminal.out("config path") == f"{paths.config_file()}\n"


class TestShow:
    def test_each_value_has_a_source(self, terminal: Terminal) -> None:
        terminal.out("config add", *_GROQ)
        terminal.out("config set defaults.model=mock providers.groq.limits.read_timeout=7")
        terminal.out("config alias fast mock")
        variables = {
            "GENAI_HOST_DEFAULTS__EMBEDDING_MODEL": "mock-embed",
            "GENAI_HOST_PROVIDERS__GROQ__BASE_URL": "https://other.example/v1",
        }
        for name, value in variables.items():
            terminal.monkeypatch.setenv(name, value)
        embedding, address = (f"the environment variable {name}" for name in variables)
        rows = shown(terminal)
        for key, expected, source in (
            ("defaults.feature", "chat", "default"),
            ("defaults.model", "mock", "file"),
            ("defaults.embedding_model", "mock-embed", embedding),
            ("aliases.fast", "mock", "file"),
            ("providers.groq.type", "openai-compatible", "file"),
            ("providers.groq.base_url", "https://other.example/v1", address),
            ("providers.groq.limits.read_timeout", 7.0, "file"),
        ):
            assert rows[key] == (expected, source)
        assert "providers.groq.lacks" not in rows
        assert shown(terminal, "groq")["providers.groq.lacks"] == ([], "default")
        assert shown(terminal, "mock")["providers.mock.type"] == ("mock", "default")

    def test_what_comes_before_the_file_is_told(self, terminal: Terminal) -> None:
        terminal.monkeypatch.setenv("GENAI_HOST_DEFAULTS__MODEL", "mock")
        err = terminal("config default model mock-embed")[2]
        assert "GENAI_HOST_DEFAULTS__MODEL overrides it" in err
        assert "cannot run now: mock-embed is a model for embed, not chat" in err

    def test_of_a_type_that_is_not_there_no_value_is_shown(self, terminal: Terminal) -> None:
        """Which of them are secret is not known."""
        terminal.configure("[providers.gone]\ntype = 'uninstalled'\nsome_key = 'sk-canary'\n")
        code, out, err = terminal("config show")
        assert code == 0
        assert "providers.gone.some_key\t***\tfile" in out
        assert "canary" not in out + err


@pytest.mark.part
class TestAliases:
    def test_one_holds_wherever_a_model_is_named(self, terminal: Terminal) -> None:
        terminal.out("config alias fast mock@mock")
        assert terminal.out("config alias fast") == "mock@mock\n"
        for options in ("-m fast", "-m fast@mock", "-m fast -p mock"):
            assert terminal.out(f"ask {options} hi") == "hi\n"
        assert "mock\tmock\t" in terminal.out("routes explain fast")
        rows = terminal.json("models")
        assert [row["name"] for row in rows if "fast" in row["aliases"]] == ["mock"]
        assert terminal.out("config default model") == "\n"
        terminal.out("config default model fast")
        assert terminal.out("config default model") == "fast\n"
        assert terminal.out("ask hi") == "hi\n"
        terminal.out("config default model --remove")
        assert read_config().models == {}
        terminal.out("config alias fast --remove")
        assert "unknown model 'fast'" in terminal.error("ask -m fast hi")

    def test_a_declared_name_is_redirected(self, terminal: Terminal) -> None:
        code, _, err = terminal("config alias mock-embed mock")
        assert code == 0
        assert "mock-embed is a name of the model mock-embed, and now redirects it" in err
        assert terminal.out("ask -m mock-embed hi") == "hi\n"

    def test_one_of_any_id_is_listed_and_one_of_none_is_told(self, terminal: Terminal) -> None:
        terminal.out("config alias fast mock/some-id")
        rows = terminal.json("models")
        assert [row["name"] for row in rows if "fast" in row["aliases"]] == ["mock/some-id"]
        terminal.configure("[aliases]\nmine = 'gone'\n")
        checks = json.loads(terminal("doctor --json")[1])
        [check] = [each for each in checks if each["what"] == "alias mine"]
        assert check["status"] == "failed"


class TestReadOnly:
    TEXT = (
        "read_only = true\n[defaults]\nmodel = 'mock'\n[providers.mine]\ntype = 'mock'\n"
        "[plugins]\ndisabled = ['chat']\n"
    )

    @pytest.mark.parametrize("command", [
        *("config add x mock", "config set defaults.model=mock", "config unset defaults.model"),
        *("config default model mock", "config default model --remove"),
        *("config alias fast mock", "config remove mine"),
        *("config enable mine", "config disable mine"),
        *("keys set openai", "keys remove openai", "plugins disable mock", "plugins enable chat"),
    ])  # fmt: skip
    def test_commands_that_would_write_are_refused(self, terminal: Terminal, command: str) -> None:
        terminal.configure(self.TEXT)
        file = terminal.config
        err = terminal.error(command, stdin="sk-1")
        assert err == f"error: the configuration is read-only: {file}:1 sets read_only\n"
        assert [each.name for each in file.parent.iterdir()] == ["config.toml"]
        assert file.read_text() == self.TEXT


class TestRemember:
    @pytest.fixture(autouse=True)
    def remembering(self, terminal: Terminal) -> None:
        terminal.out("config add other mock", 'replies=["other"]', "repeat=true")
        terminal.out(
            "config set defaults.model=mock defaults.provider_order=mock defaults.remember=true"
        )

    def test_what_was_used_last_is_used_again(self, terminal: Terminal) -> None:
        before = Path(paths.config_file()).read_text()
        assert terminal.out("ask hi") == "hi\n"
        assert terminal.out("ask -p other hi") == "other\n"
        assert terminal.out("ask hi") == "other\n"
        assert terminal.out("ask -m mock@mock hi") == "hi\n"
        assert terminal.out("ask -f chat hi") == "hi\n"
        assert Path(paths.config_file()).read_text() == before

    def test_what_is_gone_is_left_out(self, terminal: Terminal) -> None:
        terminal.out("ask -p other hi")
        terminal.out("config remove other")
        code, out, err = terminal("ask hi")
        assert (code, out) == (0, "hi\n")
        assert "the last used model is skipped: unknown provider 'other'" in err
        assert terminal("ask hi") == (0, "hi\n", "")
        err = terminal.error("ask -m mok hi")
        assert ("did you mean mock?" in err, "last used" in err) == (True, False)

    def test_where_it_cannot_be_saved_the_default_is_used(self, terminal: Terminal) -> None:
        Path(paths.state_dir()).parent.mkdir(parents=True, exist_ok=True)
        Path(paths.state_dir()).write_text("no folder")
        assert terminal.out("ask --no-record -p other hi") == "other\n"
        assert terminal.out("ask --no-record hi") == "hi\n"

    def test_damaged_last_used_file_is_ignored(self, terminal: Terminal) -> None:
        terminal.out("ask -p other hi")
        file = Path(paths.state_dir()) / "last-used.json"
        for content in (b"{", b"[]", b'{"model": 3}', b"\xff"):
            file.write_bytes(content)
            assert terminal("ask hi") == (0, "hi\n", "")

    def test_unless_it_is_asked_for_nothing_is_kept(self, terminal: Terminal) -> None:
        terminal.out("config set defaults.remember=false")
        assert terminal.out("ask -p other hi") == "other\n"
        assert terminal.out("ask hi") == "hi\n"
        assert not Path(paths.state_dir()).exists()
