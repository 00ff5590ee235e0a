"""Acceptance of the host's configuration, item by item of source document 000."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import Terminal

from genai_host import Host, paths
from genai_host.config import edit_config, read_config
from genai_host.errors import ConfigurationError, ProviderRemoved
from genai_host_testing.fake_service import FakeService
from genai_host_testing.services.openai import chat

KEYS = {"one": "sk-canary-one-83", "two": "sk-canary-two-83"}


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, FakeService]]:
    monkeypatch.setenv("NO_PROXY", "*")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with FakeService([chat("one")]) as one, FakeService([chat("two")]) as two:
        yield {"one": one, "two": two}


@pytest.mark.part
def test_item_02_instances_of_a_type(terminal: Terminal, services: dict[str, FakeService]) -> None:
    """Over HTTP and on a page they are what is built on this."""
    for name, service in services.items():
        done(terminal, "config", "add", name, "openai-compatible", f"base_url={service.url}/v1")
        done(terminal, "keys", "set", name, stdin=KEYS[name])
    for name, service in services.items():
        service.replies = [chat(name, streamed=True)]
        assert done(terminal, "ask", "-p", name, "-m", "llama", "hi") == f"{name}\n"
        [sent] = service.requests
        assert sent.headers["authorization"] == f"Bearer {KEYS[name]}"
    listed = json.loads(done(terminal, "config", "list", "--json"))
    assert [row["name"] for row in listed] == ["one", "two"]
    done(terminal, "config", "set", "providers.one.default_model=llama")
    assert read_config().providers["one"].settings["default_model"] == "llama"
    done(terminal, "config", "disable", "one")
    assert "provider 'one' is disabled" in refused(terminal, "ask", "-p", "one", "hi")
    done(terminal, "config", "enable", "one")
    done(terminal, "config", "remove", "two")
    assert "unknown provider 'two'" in refused(terminal, "ask", "-p", "two", "hi")
    help = done(terminal, "config", "types", "openai-compatible")
    assert "default_model\tstr\t\t\tdefault model for chat" in help


class TestItem03:
    def test_item_03_saved_whole_versioned_with_a_backup(self, terminal: Terminal) -> None:
        done(terminal, "config", "default", "model", "mock")
        done(terminal, "config", "default", "model", "mock-embed")
        file = Path(paths.config_file())
        assert file.read_text().startswith("version = 2\n")
        assert 'model = "mock"\n' in file.with_name("config.toml.bak").read_text()
        file.write_text("version = 3\n")
        for command in (["config", "default", "model", "mock"], ["ask", "-p", "mock", "hi"]):
            assert f"{file}:1: version 3 is newer than this genai-host" in refused(
                terminal, *command
            )
        file.write_text("version = [")
        assert "invalid TOML" in refused(terminal, "config", "default", "model", "mock")
        assert file.read_text() == "version = ["

    @pytest.mark.parametrize("how", ["file", "environment", "mode"])
    def test_item_03_it_can_be_read_only(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch, how: str
    ) -> None:
        done(terminal, "config", "default", "model", "mock")
        file = Path(paths.config_file())
        if how == "file":
            done(terminal, "config", "set", "read_only=true")
        elif how == "environment":
            monkeypatch.setenv("GENAI_HOST_READ_ONLY", "yes")
        else:
            os.chmod(file, 0o400)
        before = file.read_text()
        err = refused(terminal, "config", "set", "defaults.model=mock-embed")
        assert err.startswith("error: the configuration is read-only: ")
        assert err.count("\n") == 1
        with pytest.raises(ConfigurationError, match="read-only"), edit_config():
            pytest.fail("it was opened for editing")
        assert file.read_text() == before
        assert done(terminal, "ask", "hi") == "hi\n"

    @pytest.mark.part
    def test_item_03_secrets_are_never_in_it_and_doctor_says_which_source_won(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, key in KEYS.items():
            done(terminal, "config", "add", name, "openai")
            assert "is a secret" in refused(
                terminal, "config", "set", f"providers.{name}.api_key={key}"
            )
            done(terminal, "keys", "set", name, stdin=key)
        monkeypatch.setenv("GENAI_HOST_PROVIDERS__TWO__API_KEY", KEYS["two"])
        _, out, err = terminal("doctor", "--json")
        checks = {each["what"]: each["found"] for each in json.loads(out)}
        assert checks["key one.api_key"] == f"from the file {paths.keys_file()}"
        variable = "GENAI_HOST_PROVIDERS__TWO__API_KEY"
        assert checks["key two.api_key"] == f"from the environment variable {variable}"
        configured = Path(paths.config_file()).read_text()
        assert not any(key in out + err + configured for key in KEYS.values())
        assert os.stat(paths.keys_file()).st_mode & 0o777 == 0o600


def test_item_04_defaults_and_what_was_used_last_are_remembered(terminal: Terminal) -> None:
    done(terminal, "config", "default", "model", "mock")
    assert done(terminal, "ask", "hi") == "hi\n"
    done(terminal, "config", "add", "other", "mock", 'replies=["other"]', "repeat=true")
    done(terminal, "config", "set", "defaults.provider_order=mock")
    done(terminal, "ask", "-p", "other", "hi")
    assert done(terminal, "ask", "hi") == "hi\n"
    done(terminal, "config", "set", "defaults.remember=true")
    done(terminal, "ask", "-p", "other", "hi")
    assert done(terminal, "ask", "hi") == "other\n"


def test_item_12_a_configured_instance_can_be_removed_in_use(terminal: Terminal) -> None:
    """By the same name as in the file; see `test_host.py` for calls under way."""
    done(terminal, "config", "add", "mine", "mock")
    with Host() as host:
        conversation = host.open("chat", provider="mine")
        conversation.say("x")
        host.instances.remove("mine")
        with pytest.raises(ProviderRemoved, match="provider 'mine' was removed"):
            conversation.say("y")
        assert len(conversation.history) == 2
    assert "mine" in read_config().providers


def done(terminal: Terminal, *arguments: str, stdin: str = "") -> str:
    code, out, err = terminal(*arguments, stdin=stdin)
    assert code == 0, err
    return out


def refused(terminal: Terminal, *arguments: str) -> Any:
    code, out, err = terminal(*arguments)
    assert (code, out) == (1, ""), err
    return err
