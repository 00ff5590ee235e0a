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
    code, out, err = terminal("keys", "list", "--json")
    assert code == 0, err
    return {f"{row['provider']}.{row['setting']}": row["from"] for row in json.loads(out)}


class TestKeys:
    def test_one_is_read_from_standard_input(self, terminal: Terminal) -> None:
        code, out, err = terminal("keys", "set", "openai", stdin=f"  {CANARY}\n")
        assert (code, out) == (0, "")
        assert err == f"stored in the file {paths.keys_file()}: api_key of openai\n"
        assert CANARY in Path(paths.keys_file()).read_text()
        assert sources(terminal)["openai.api_key"] == f"the file {paths.keys_file()}"
        assert terminal("keys", "remove", "openai")[0] == 0
        assert CANARY not in Path(paths.keys_file()).read_text()
        assert sources(terminal)["openai.api_key"] == "nowhere"

    def test_of_several_one_is_named(self, terminal: Terminal) -> None:
        for options in ([], ["--secret", "token"]):
            assert terminal("keys", "set", "azure-openai", *options, stdin=CANARY)[0] == 0
        file = f"the file {paths.keys_file()}"
        found = sources(terminal)
        assert (found["azure-openai.api_key"], found["azure-openai.token"]) == (file, file)
        assert terminal("keys", "remove", "azure-openai", "--secret", "token")[0] == 0
        assert sources(terminal)["azure-openai.token"] == "nowhere"

    def test_what_comes_before_it_is_told(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", CANARY)
        err = terminal("keys", "set", "openai", stdin=CANARY)[2]
        assert "the environment variable OPENAI_API_KEY overrides it" in err

    def test_those_of_instances_that_are_gone_are_listed(self, terminal: Terminal) -> None:
        terminal("config", "add", "mine", "openai")
        terminal("keys", "set", "mine", stdin=CANARY)
        terminal("config", "remove", "mine")
        assert sources(terminal)["mine.api_key"].endswith("unknown provider")
        assert terminal("keys", "remove", "mine")[0] == 0
        assert "mine.api_key" not in sources(terminal)

    @pytest.mark.parametrize(
        ("arguments", "stdin", "says"),
        [
            (("set", "opnai"), CANARY, "unknown provider 'opnai'"),
            (("set", "mock"), CANARY, "provider 'mock' has no API key"),
            (("set", "openai", "--secret", "base_url"), CANARY, "unknown secret 'base_url'"),
            (("set", "openai"), " \n", "no key on standard input"),
            (("set", "openai"), f"{CANARY}\n{CANARY}\n", "several lines"),
            (("remove", "openai"), "", "no key of 'openai' is stored"),
        ],
    )
    def test_what_is_wrong_is_told(
        self, terminal: Terminal, arguments: tuple[str, ...], stdin: str, says: str
    ) -> None:
        code, out, err = terminal("keys", *arguments, stdin=stdin)
        assert (code, out) == (1, "")
        assert says in err
        assert CANARY not in err

    def test_none_is_taken_from_an_argument(self, terminal: Terminal) -> None:
        assert terminal("keys", "set", "openai", CANARY)[0] == 2


@pytest.mark.part
class TestDoctor:
    def test_it_says_which_source_won(
        self, terminal: Terminal, ring: Ring, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        terminal("keys", "set", "openai", stdin=_RINGED)
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", _SET)
        found = self.checks(terminal)
        assert found["keys"]["found"] == "stored in the keyring"
        assert found["key openai.api_key"]["found"] == "from the keyring"
        variable = "from the environment variable AZURE_OPENAI_API_KEY"
        assert found["key azure-openai.api_key"]["found"] == variable
        assert found["provider openai"]["found"].startswith("unreachable: ")  # it needs nothing

    def test_it_says_what_to_do_where_there_is_none(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "keyring", None)
        terminal("config", "add", "mine", "openai")
        found = self.checks(terminal)
        assert found["keys"]["found"].endswith("pip install 'genai-host[keyring]'")
        assert paths.keys_file() in found["keys"]["found"]
        assert found["provider mine"]["found"] == "needs: no key: genai-host keys set mine"
        assert found["provider openai"]["fix"] == "genai-host keys set openai"

    def checks(self, terminal: Terminal) -> dict[str, Any]:
        return {each["what"]: each for each in json.loads(terminal("doctor", "--json")[1])}


@pytest.mark.part
class TestCanary:
    """No command shows a key, wherever it is stored."""

    COMMANDS = (
        ("config", "show"),
        ("config", "show", "--json"),
        ("config", "list", "--json"),
        ("keys", "list"),
        ("keys", "list", "--json"),
        ("doctor",),
        ("doctor", "--json"),
        ("providers",),
        ("providers", "--json"),
        ("models", "--all", "--json"),
        ("routes", "--json"),
        ("-vv", "ask", "-m", "openai/x", "hi"),
        ("-vv", "ask", "-m", "ringed/x", "hi"),
        ("-vv", "ask", "-m", "filed/x", "hi"),
        ("-vv", "ask", "-m", "open/x", "hi"),
        ("-vv", "config", "set", f"providers.open.api_key={_OPEN}"),
        ("-vv", "config", "add", "new", "openai", f"api_key={_OPEN}"),
        ("-vv", "config", "set", "providers.open.project=x"),
    )

    @pytest.fixture(autouse=True)
    def keys_everywhere(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch, ring: Ring, home: Path
    ) -> None:
        nowhere = 'type = "openai"\nbase_url = "http://127.0.0.1:9/v1"\n'
        text = "".join(f"[providers.{name}]\n{nowhere}" for name in ("ringed", "filed"))
        file = home / "config" / "config.toml"
        file.parent.mkdir(parents=True)
        file.write_text(f'{text}[providers.open]\n{nowhere}api_key = "{_OPEN}"\n')
        assert terminal("keys", "set", "ringed", stdin=_RINGED)[0] == 0
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "keyring", None)
            assert terminal("keys", "set", "filed", stdin=_FILED)[0] == 0
        monkeypatch.setenv("OPENAI_API_KEY", _SET)
        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        monkeypatch.setattr(retry, "RetryPolicy", partial(retry.RetryPolicy, min_backoff=0.0))

    def test_it_is_in_no_output(self, terminal: Terminal) -> None:
        for arguments in self.COMMANDS:
            _, out, err = terminal(*arguments)
            assert CANARY not in out + err, arguments
            assert out + err, arguments
        found = sources(terminal)
        assert found["openai.api_key"] == "the environment variable OPENAI_API_KEY"
        assert found["ringed.api_key"] == "the keyring"
        assert found["filed.api_key"] == f"the file {paths.keys_file()}"
        assert "config.toml:" in found["open.api_key"]

    def test_nor_where_what_keeps_them_is_broken(self, terminal: Terminal, ring: Ring) -> None:
        ring.breaks = True
        file = Path(paths.keys_file())
        sound = file.read_text()
        for content in (sound, sound[:-4], sound.replace('"version": 1', '"version": 9')):
            file.write_text(content)
            for arguments in self.COMMANDS:
                _, out, err = terminal(*arguments)
                assert CANARY not in out + err, arguments
            _, out, err = terminal("-vv", "keys", "set", "ringed", stdin=_RINGED)
            assert CANARY not in out + err
            assert file.read_text() == content

    def test_one_in_the_open_is_an_error_with_its_line(self, terminal: Terminal) -> None:
        code, _, err = terminal("ask", "-m", "open/x", "hi")
        assert code == 1
        assert f"{paths.config_file()}:10: provider open: api_key is a secret" in err
        assert "genai-host keys set open --secret api_key" in err
        checks = {each["what"]: each for each in json.loads(terminal("doctor", "--json")[1])}
        assert checks["key open.api_key"]["status"] == "failed"
