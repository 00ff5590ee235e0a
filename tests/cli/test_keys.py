"""`genai-host keys`; no output contains a key."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import keyring
import pytest
from keyring.backend import KeyringBackend
from support import Terminal

from genai_host import paths
from genai_host.calls import retry

CANARY = "sk-canary-91be44"
_FILED, _RINGED, _SET, _OPEN = (f"{CANARY}-{kind}" for kind in ("file", "ring", "env", "open"))


class Ring(KeyringBackend):
    priority = 1

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], str] = {}
        self.breaks = False

    def get_password(self, service: str, username: str) -> str | None:
        if self.breaks:
            raise RuntimeError("locked")
        return self.held.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        if self.breaks:
            raise RuntimeError(f"cannot store {password}")
        self.held[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.held[service, username]


@pytest.fixture
def ring(monkeypatch: pytest.MonkeyPatch) -> Ring:
    backend = Ring()
    monkeypatch.setattr(keyring, "get_keyring", lambda: backend)
    return backend


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def sources(terminal: Terminal) -> dict[str, str]:
    rows = terminal.json("keys list")
    return {f"{row['provider']}.{row['setting']}": row["from"] for row in rows}


class TestKeys:
    def test_one_is_read_from_standard_input(self, terminal: Terminal) -> None:
        code, out, err = terminal("keys set openai", stdin=f"  {CANARY}\n")
        assert (code, out) == (0, "")
        assert err == f"stored in the file {paths.keys_file()}: api_key of openai\n"
        assert CANARY in Path(paths.keys_file()).read_text()
        assert sources(terminal)["openai.api_key"] == f"the file {paths.keys_file()}"
        assert terminal("keys remove openai")[0] == 0
        assert CANARY not in Path(paths.keys_file()).read_text()
        assert sources(terminal)["openai.api_key"] == "nowhere"

    def test_of_several_one_is_named(self, terminal: Terminal) -> None:
        for options in ([], ["--secret", "token"]):
            assert terminal("keys set azure-openai", *options, stdin=CANARY)[0] == 0
        file = f"the file {paths.keys_file()}"
        rows = sources(terminal)
        assert (rows["azure-openai.api_key"], rows["azure-openai.token"]) == (file, file)
        assert terminal("keys remove azure-openai --secret token")[0] == 0
        assert sources(terminal)["azure-openai.token"] == "nowhere"

    def test_what_comes_before_it_is_told(self, terminal: Terminal) -> None:
        terminal.monkeypatch.setenv("OPENAI_API_KEY", CANARY)
        err = terminal("keys set openai", stdin=CANARY)[2]
        assert "the environment variable OPENAI_API_KEY overrides it" in err

    def test_those_of_instances_that_are_gone_are_listed(self, terminal: Terminal) -> None:
        terminal("config add mine openai")
        terminal("keys set mine", stdin=CANARY)
        terminal("config remove mine")
        assert sources(terminal)["mine.api_key"].endswith("unknown provider")
        assert terminal("keys remove mine")[0] == 0
        assert "mine.api_key" not in sources(terminal)

    @pytest.mark.parametrize(("command", "stdin", "code", "says"), [
        ("set opnai", CANARY, 1, "unknown provider 'opnai'"),
        ("set mock", CANARY, 1, "provider 'mock' has no API key"),
        ("set openai --secret base_url", CANARY, 1, "unknown secret 'base_url'"),
        ("set openai", " \n", 1, "no key on standard input"),
        ("set openai", f"{CANARY}\n{CANARY}\n", 1, "several lines"),
        ("set openai", f"{CANARY}é", 1, "not printable ASCII"),
        ("set openai an-argument", CANARY, 2, "unexpected extra argument"),
        ("remove openai", "", 1, "no key of 'openai' is stored"),
    ])  # fmt: skip
    def test_what_is_wrong_is_told(
        self, terminal: Terminal, command: str, stdin: str, code: int, says: str
    ) -> None:
        err = terminal.error(f"keys {command}", stdin=stdin, code=code)
        assert (says in err, CANARY in err) == (True, False)


@pytest.mark.part
class TestDoctor:
    def test_it_says_which_source_won(self, terminal: Terminal, ring: Ring) -> None:
        terminal("keys set openai", stdin=_RINGED)
        terminal.monkeypatch.setenv("AZURE_OPENAI_API_KEY", _SET)
        rows = self.checks(terminal)
        assert rows["keys"]["found"] == "stored in the keyring"
        assert rows["key openai.api_key"]["found"] == "from the keyring"
        variable = "from the environment variable AZURE_OPENAI_API_KEY"
        assert rows["key azure-openai.api_key"]["found"] == variable
        assert rows["provider openai"]["found"].startswith("unreachable: ")  # it needs nothing

    def test_it_says_what_to_do_where_there_is_none(self, terminal: Terminal) -> None:
        terminal.monkeypatch.setitem(sys.modules, "keyring", None)
        terminal("config add mine openai")
        rows = self.checks(terminal)
        assert rows["keys"]["found"].endswith("pip install 'genai-host[keyring]'")
        assert paths.keys_file() in rows["keys"]["found"]
        assert rows["provider mine"]["found"] == "needs: no key: genai-host keys set mine"
        assert rows["provider openai"]["fix"] == "genai-host keys set openai"

    def checks(self, terminal: Terminal) -> dict[str, Any]:
        return {each["what"]: each for each in json.loads(terminal("doctor --json")[1])}


@pytest.mark.part
class TestCanary:
    """No command shows a key, wherever it is stored."""

    COMMANDS = (
        *("config show", "config show --json", "config list --json", "keys list"),
        *("keys list --json", "doctor", "doctor --json", "providers", "providers --json"),
        *("models --all --json", "routes --json", "-vv config set providers.open.project=x"),
        *(f"-vv ask -m {name}/x hi" for name in ("openai", "ringed", "filed", "open")),
        f"-vv config set providers.open.api_key={_OPEN}",
        f"-vv config add new openai api_key={_OPEN}",
    )

    @pytest.fixture(autouse=True)
    def set_keys(self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch, ring: Ring) -> None:
        nowhere = 'type = "openai"\nbase_url = "http://127.0.0.1:9/v1"\n'
        text = "".join(f"[providers.{name}]\n{nowhere}" for name in ("ringed", "filed"))
        terminal.configure(f'{text}[providers.open]\n{nowhere}api_key = "{_OPEN}"\n')
        assert terminal("keys set ringed", stdin=_RINGED)[0] == 0
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "keyring", None)
            assert terminal("keys set filed", stdin=_FILED)[0] == 0
        monkeypatch.setenv("OPENAI_API_KEY", _SET)
        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        monkeypatch.setattr(retry, "RetryPolicy", partial(retry.RetryPolicy, min_backoff=0.0))

    def test_it_is_in_no_output(self, terminal: Terminal) -> None:
        for command in self.COMMANDS:
            _, out, err = terminal(command)
            assert CANARY not in out + err, command
            assert out + err, command
        rows = sources(terminal)
        assert rows["openai.api_key"] == "the environment variable OPENAI_API_KEY"
        assert rows["ringed.api_key"] == "the keyring"
        assert rows["filed.api_key"] == f"the file {paths.keys_file()}"
        assert "config.toml:" in rows["open.api_key"]

    def test_key_is_in_no_output_of_broken_storage(self, terminal: Terminal, ring: Ring) -> None:
        ring.breaks = True
        file = Path(paths.keys_file())
        sound = file.read_text()
        for content in (sound, sound[:-4], sound.replace('"version": 1', '"version": 9')):
            file.write_text(content)
            for command in (*self.COMMANDS, "-vv keys set ringed"):
                _, out, err = terminal(command, stdin=_RINGED)
                assert CANARY not in out + err, command
            assert file.read_text() == content

    def test_one_in_the_open_is_an_error_with_its_line(self, terminal: Terminal) -> None:
        err = terminal.error("ask -m open/x hi")
        assert f"{paths.config_file()}:10: provider open: api_key is a secret" in err
        assert "genai-host keys set open --secret api_key" in err
        checks = {each["what"]: each for each in json.loads(terminal("doctor --json")[1])}
        assert checks["key open.api_key"]["status"] == "failed"
