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


def done(terminal: Terminal, *arguments: str, stdin: str = "") -> str:
    code, out, err = terminal(*arguments, stdin=stdin)
    assert code == 0, err
    return out


def refused(terminal: Terminal, *arguments: str) -> str:
    code, out, err = terminal(*arguments)
    assert (code, out) == (1, ""), err
    return err


def shown(terminal: Terminal, *arguments: str) -> dict[str, tuple[Any, str]]:
    rows = json.loads(done(terminal, "config", "show", *arguments, "--json"))
    return {row["key"]: (row["value"], row["source"]) for row in rows}


class TestInstances:
    @pytest.mark.part
    def test_any_address_is_one_command(self, terminal: Terminal) -> None:
        code, out, err = terminal("config", "add", *_GROQ, "models.llama=llama-3.3-70b")
        assert (code, out) == (0, "")
        assert "genai-host keys set groq" in err
        done(terminal, "keys", "set", "groq", stdin="gsk-1234567890\n")
        [route] = done(terminal, "routes", "explain", "llama", "-p", "groq").splitlines()
        assert route.startswith("llama\tgroq\topenai-chat\tllama-3.3-70b\tunreachable\t")
        [listed] = json.loads(done(terminal, "config", "list", "--json"))
        assert listed == {
            "name": "groq",
            "type": "openai-compatible",
            "enabled": True,
            "models": {"llama": "llama-3.3-70b"},
        }

    @pytest.mark.part
    def test_so_is_one_whose_key_is_in_a_variable(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        code, _, err = terminal("config", "add", *_GROQ, 'api_key={"env": "GROQ_API_KEY"}')
        assert (code, err) == (0, "added: groq\n")
        explain = ("routes", "explain", "groq/llama", "-p", "groq")
        assert "nothing in the environment variable GROQ_API_KEY" in terminal(*explain)[1]
        monkeypatch.setenv("GROQ_API_KEY", "gsk-1234567890")
        assert "\tunreachable\t" in done(terminal, *explain)  # and is not missing anything

    def test_they_are_listed(self, terminal: Terminal) -> None:
        done(terminal, "config", "add", *_GROQ)
        done(terminal, "config", "disable", "groq")
        assert done(terminal, "config", "list") == "groq\topenai-compatible\tno\t\n"
        assert "is disabled" in refused(terminal, "ask", "-p", "groq", "-m", "x", "hi")
        done(terminal, "config", "enable", "groq")
        assert done(terminal, "config", "list") == "groq\topenai-compatible\tyes\t\n"
        done(terminal, "config", "remove", "groq")
        assert done(terminal, "config", "list") == ""

    def test_what_a_plugin_brings_can_be_kept_away(self, terminal: Terminal) -> None:
        done(terminal, "config", "disable", "mock")
        assert "is disabled" in refused(terminal, "ask", "-p", "mock", "hi")
        assert "genai-host config disable NAME" in refused(terminal, "config", "remove", "local")
        done(terminal, "config", "enable", "mock")
        assert done(terminal, "ask", "-p", "mock", "hi") == "hi\n"

    @pytest.mark.parametrize(
        ("arguments", "says", "hint"),
        [
            (("add", "x", "mok"), "unknown provider type 'mok'", "did you mean mock?"),
            (("add", "x", "mock", "replis=1"), "unknown setting 'providers.x.replis'", "replies?"),
            (("set", "providers.x.y=1"), "unknown provider 'x'", "choose from "),
            (
                ("set", "default.model=x"),
                "unknown configuration key 'default.model'",
                "defaults.model?",
            ),
            (("unset", "defaults.model"), "defaults.model is not set", ""),
            (("remove", "x"), "provider 'x' is not configured", ""),
            (("disable", "moc"), "unknown provider 'moc'", "list providers: genai-host providers"),
            (("enable", "moc"), "unknown provider 'moc'", "did you mean mock?"),
            (("show", "moc"), "unknown provider 'moc'", "did you mean mock?"),
            (("types", "moc"), "unknown provider type 'moc'", "did you mean mock?"),
            (("default", "feature", "cat"), "unknown feature 'cat'", "chat"),
            (("default", "model", "mok"), "unknown model 'mok'", "did you mean mock?"),
            (("set", "defaults.provider_order=mock,lcal"), "unknown provider 'lcal'", "local?"),
            (("alias", "fast", "mok"), "unknown model 'mok'", "did you mean mock?"),
            (("alias", "fast"), "unknown alias 'fast'", ""),
        ],
    )
    def test_what_is_wrong_is_one_line_and_the_next_step(
        self, terminal: Terminal, arguments: tuple[str, ...], says: str, hint: str
    ) -> None:
        first, *rest = refused(terminal, "config", *arguments).splitlines()
        assert says in first
        assert hint in "".join(rest)
        assert not Path(paths.config_file()).exists()

    @pytest.mark.parametrize(
        "arguments", [("set", "x"), ("set", "=x"), ("set", "a=1", "a=2"), ("add", "x", "mock", "y")]
    )
    def test_a_wrong_use(self, terminal: Terminal, arguments: tuple[str, ...]) -> None:
        assert terminal("config", *arguments)[0] == 2


class TestHelp:
    def test_settings_are_told_from_their_class(self, terminal: Terminal) -> None:
        out = done(terminal, "config", "types", "openai-compatible")
        assert "base_url\tstr\t\t\taddress of the service" in out
        assert "limits.first_token_timeout\tfloat\t60.0\t" in out
        rows = json.loads(done(terminal, "config", "types", "openai", "--json"))
        [key] = [row for row in rows if row["name"] == "api_key"]
        assert (key["secret"], key["env"]) == (True, ["OPENAI_API_KEY"])

    def test_types_are_listed(self, terminal: Terminal) -> None:
        assert "mock\tmock\n" in done(terminal, "config", "types")
        rows = json.loads(done(terminal, "config", "types", "--json"))
        assert {"name": "mock", "plugin": "mock"} in rows

    def test_where_it_is(self, terminal: Terminal) -> None:
        assert done(terminal, "config", "path") == f"{paths.config_file()}\n"


class TestShow:
    def test_each_value_has_a_source(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        done(terminal, "config", "add", *_GROQ)
        done(
            terminal, "config", "set", "defaults.model=mock", "providers.groq.limits.read_timeout=7"
        )
        done(terminal, "config", "alias", "fast", "mock")
        monkeypatch.setenv("GENAI_HOST_DEFAULTS__EMBEDDING_MODEL", "mock-embed")
        monkeypatch.setenv("GENAI_HOST_PROVIDERS__GROQ__BASE_URL", "https://other.example/v1")
        rows = shown(terminal)
        for key, value, source in (
            ("defaults.feature", "chat", "default"),
            ("defaults.model", "mock", "file"),
            (
                "defaults.embedding_model",
                "mock-embed",
                "the environment variable GENAI_HOST_DEFAULTS__EMBEDDING_MODEL",
            ),
            ("aliases.fast", "mock", "file"),
            ("providers.groq.type", "openai-compatible", "file"),
            (
                "providers.groq.base_url",
                "https://other.example/v1",
                "the environment variable GENAI_HOST_PROVIDERS__GROQ__BASE_URL",
            ),
            ("providers.groq.limits.read_timeout", 7.0, "file"),
        ):
            assert rows[key] == (value, source)
        assert "providers.groq.lacks" not in rows
        assert shown(terminal, "groq")["providers.groq.lacks"] == ([], "default")
        assert shown(terminal, "mock")["providers.mock.type"] == ("mock", "default")

    def test_what_comes_before_the_file_is_told(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GENAI_HOST_DEFAULTS__MODEL", "mock")
        err = terminal("config", "default", "model", "mock-embed")[2]
        assert "GENAI_HOST_DEFAULTS__MODEL overrides it" in err
        assert "cannot run now: mock-embed is a model for embed, not chat" in err

    def test_of_a_type_that_is_not_there_no_value_is_shown(
        self, terminal: Terminal, home: Path
    ) -> None:
        """Which of them are secret is not known."""
        file = home / "config" / "config.toml"
        file.parent.mkdir(parents=True)
        file.write_text("[providers.gone]\ntype = 'uninstalled'\nsome_key = 'sk-canary'\n")
        code, out, err = terminal("config", "show")
        assert code == 0
        assert "providers.gone.some_key\t***\tfile" in out
        assert "canary" not in out + err


class TestDefaults:
    def test_one_is_chosen_printed_and_removed(self, terminal: Terminal) -> None:
        assert done(terminal, "config", "default", "model") == "\n"
        done(terminal, "config", "default", "model", "mock")
        assert done(terminal, "config", "default", "model") == "mock\n"
        assert done(terminal, "ask", "hi") == "hi\n"
        done(terminal, "config", "default", "model", "--remove")
        assert read_config().models == {}


@pytest.mark.part
class TestAliases:
    def test_one_holds_wherever_a_model_is_named(self, terminal: Terminal) -> None:
        done(terminal, "config", "alias", "fast", "mock@mock")
        assert done(terminal, "config", "alias", "fast") == "mock@mock\n"
        for arguments in (["-m", "fast"], ["-m", "fast@mock"], ["-m", "fast", "-p", "mock"]):
            assert done(terminal, "ask", *arguments, "hi") == "hi\n"
        assert "mock\tmock\t" in done(terminal, "routes", "explain", "fast")
        rows = json.loads(done(terminal, "models", "--json"))
        assert [row["name"] for row in rows if "fast" in row["aliases"]] == ["mock"]
        done(terminal, "config", "default", "model", "fast")
        assert done(terminal, "ask", "hi") == "hi\n"
        done(terminal, "config", "alias", "fast", "--remove")
        assert "unknown model 'fast'" in refused(terminal, "ask", "-m", "fast", "hi")

    def test_one_of_an_id_that_nobody_declared_is_listed(self, terminal: Terminal) -> None:
        done(terminal, "config", "alias", "fast", "mock/some-id")
        rows = json.loads(done(terminal, "models", "--json"))
        assert [row["name"] for row in rows if "fast" in row["aliases"]] == ["mock/some-id"]

    def test_a_declared_name_is_redirected(self, terminal: Terminal) -> None:
        code, _, err = terminal("config", "alias", "mock-embed", "mock")
        assert code == 0
        assert "mock-embed is a name of the model mock-embed, and now redirects it" in err
        assert done(terminal, "ask", "-m", "mock-embed", "hi") == "hi\n"

    def test_one_that_leads_nowhere_is_told(self, terminal: Terminal, home: Path) -> None:
        file = home / "config" / "config.toml"
        file.parent.mkdir(parents=True)
        file.write_text("[aliases]\nmine = 'gone'\n")
        checks = json.loads(terminal("doctor", "--json")[1])
        [check] = [each for each in checks if each["what"] == "alias mine"]
        assert check["status"] == "failed"


class TestReadOnly:
    @pytest.mark.parametrize(
        "arguments",
        [
            ("config", "add", "x", "mock"),
            ("config", "set", "defaults.model=mock"),
            ("config", "unset", "defaults.model"),
            ("config", "default", "model", "mock"),
            ("config", "default", "model", "--remove"),
            ("config", "alias", "fast", "mock"),
            ("config", "remove", "mine"),
            ("config", "enable", "mine"),
            ("config", "disable", "mine"),
            ("keys", "set", "openai"),
            ("keys", "remove", "openai"),
            ("plugins", "disable", "mock"),
            ("plugins", "enable", "chat"),
        ],
        ids=" ".join,
    )
    def test_whatever_would_write_says_so_in_one_line(
        self, terminal: Terminal, home: Path, arguments: tuple[str, ...]
    ) -> None:
        file = home / "config" / "config.toml"
        file.parent.mkdir(parents=True)
        text = (
            "read_only = true\n[defaults]\nmodel = 'mock'\n[providers.mine]\ntype = 'mock'\n"
            "[plugins]\ndisabled = ['chat']\n"
        )
        file.write_text(text)
        code, out, err = terminal(*arguments, stdin="sk-1")
        assert (code, out) == (1, "")
        assert err == f"error: the configuration is read-only: {file}:1 sets read_only\n"
        assert [each.name for each in file.parent.iterdir()] == ["config.toml"]
        assert file.read_text() == text


class TestRemember:
    @pytest.fixture(autouse=True)
    def remembering(self, terminal: Terminal) -> None:
        done(terminal, "config", "add", "other", "mock", 'replies=["other"]', "repeat=true")
        done(terminal, "config", "set", "defaults.model=mock", "defaults.remember=true")

    def test_what_was_used_last_is_used_again(self, terminal: Terminal) -> None:
        before = Path(paths.config_file()).read_text()
        assert done(terminal, "ask", "hi") == "hi\n"
        assert done(terminal, "ask", "-p", "other", "hi") == "other\n"
        assert done(terminal, "ask", "hi") == "other\n"
        assert done(terminal, "ask", "-m", "mock@mock", "hi") == "hi\n"
        assert done(terminal, "ask", "-f", "chat", "hi") == "hi\n"
        assert Path(paths.config_file()).read_text() == before

    def test_what_is_gone_is_left_out(self, terminal: Terminal) -> None:
        done(terminal, "ask", "-p", "other", "hi")
        done(terminal, "config", "remove", "other")
        code, out, err = terminal("ask", "hi")
        assert (code, out) == (0, "hi\n")
        assert "the last used model is skipped: unknown provider 'other'" in err
        assert terminal("ask", "hi") == (0, "hi\n", "")

    def test_where_it_cannot_be_saved_the_default_is_used(
        self, terminal: Terminal, home: Path
    ) -> None:
        Path(paths.state_dir()).parent.mkdir(parents=True, exist_ok=True)
        Path(paths.state_dir()).write_text("no folder")
        assert done(terminal, "ask", "--no-record", "-p", "other", "hi") == "other\n"
        assert done(terminal, "ask", "--no-record", "hi") == "hi\n"

    def test_a_wrong_name_is_an_error(self, terminal: Terminal) -> None:
        code, out, err = terminal("ask", "-m", "mok", "hi")
        assert (code, out, "last used" in err) == (1, "", False)
        assert "did you mean mock?" in err

    def test_what_is_damaged_is_nothing(self, terminal: Terminal) -> None:
        done(terminal, "ask", "-p", "other", "hi")
        file = Path(paths.state_dir()) / "last-used.json"
        for content in (b"{", b"[]", b'{"model": 3}', b"\xff"):
            file.write_bytes(content)
            assert terminal("ask", "hi") == (0, "hi\n", "")

    def test_unless_it_is_asked_for_nothing_is_kept(self, terminal: Terminal) -> None:
        done(terminal, "config", "set", "defaults.remember=false")
        assert done(terminal, "ask", "-p", "other", "hi") == "other\n"
        assert done(terminal, "ask", "hi") == "hi\n"
        assert not Path(paths.state_dir()).exists()
