"""Changes of models, defaults and providers by other processes while the server runs."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from genai_server.config_watcher import ConfigWatcher

from genai_host import Config, Host, SecretStore
from genai_host.api import Secret
from genai_host.config import read_config
from genai_host_testing.fake_service import FakeService, Received, Reply, json_reply
from genai_host_testing.internal.servers import Client, client_of, serving, wait_until
from genai_host_testing.services.openai import chat

TYPE = "openai-compatible"


@pytest.fixture
def file(home: Path) -> Path:
    file = home / "config" / "config.toml"
    file.parent.mkdir(parents=True)
    write(file, one="http://127.0.0.1:1/v1")
    return file


def write(file: Path, **addresses: str) -> None:
    """Replace the file, as editors do."""
    instances = {name: {"type": TYPE, "base_url": url} for name, url in addresses.items()}
    other = file.with_suffix(".new")
    other.write_text(tomlkit.dumps({"providers": instances}), encoding="utf-8")
    os.replace(other, file)


Watched = tuple[Host, ConfigWatcher]


@pytest.fixture
def watched(file: Path) -> Iterator[Watched]:
    with Host() as host:
        changed = ConfigWatcher(host)
        look(changed)
        yield host, changed


def look(changed: ConfigWatcher) -> None:
    """Look twice: a change is applied once the file is the same both times."""
    changed.check()
    changed.check()


def test_providers_that_are_changed_in_the_file(file: Path, watched: Watched) -> None:
    host, changed = watched
    before = host.instances["one"]
    write(file, one="http://127.0.0.1:1/v1", two="http://127.0.0.1:2/v1")
    look(changed)
    assert host.instances["two"].config.settings["base_url"].endswith(":2/v1")
    assert host.instances["one"] is before
    write(file, two="http://127.0.0.1:3/v1")
    look(changed)
    assert host.instances["two"].config.settings["base_url"].endswith(":3/v1")
    assert "one" not in host.instances


def test_item_3_models_and_defaults_that_are_changed_in_the_file(file: Path) -> None:
    """The configuration file may not exist at the start."""
    file.unlink()
    with Host() as host:
        changed = ConfigWatcher(host)
        look(changed)
        file.write_text("[models.mine]\nof = 'mock'\n[defaults]\nmodel = 'mine'\n")
        look(changed)
        assert host.open("chat").say("hi").details[0].data["configuration"] == "mine"
        file.write_text("[aliases]\nmine = 'mock-embed'\n")
        look(changed)
        assert host.catalog.model_named("mine").name == "mock-embed"
        file.unlink()
        look(changed)
        assert host.config.configurations == {}


def test_a_configuration_that_was_given_is_not_looked_for(file: Path) -> None:
    with Host(config=Config(aliases={"mine": "mock"})) as host:
        changed = ConfigWatcher(host)
        look(changed)
        write(file, two="http://127.0.0.1:2/v1")
        look(changed)
        assert "two" not in host.instances
        assert host.catalog.model_named("mine").name == "mock"


def test_what_this_process_has_changed_itself_stays_as_it_is(file: Path, watched: Watched) -> None:
    host, changed = watched
    host.instances.add("mine", TYPE, {"base_url": "http://127.0.0.1:9/v1"})
    write(file, one="http://127.0.0.1:2/v1")
    host.instances.configure("one", read_config().providers["one"])
    before = host.instances["one"]
    look(changed)
    assert host.instances["one"] is before
    assert "mine" in host.instances


def test_it_waits_until_a_file_is_written(file: Path, watched: Watched) -> None:
    host, changed = watched
    content = file.read_text("utf-8")
    file.write_text("", encoding="utf-8")
    changed.check()
    assert "one" in host.instances
    file.write_text(f"{content}\n", encoding="utf-8")
    look(changed)
    assert "one" in host.instances


def test_invalid_configuration_is_logged_once(
    file: Path, watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    host, changed = watched
    file.write_text("providers = 1", encoding="utf-8")
    with caplog.at_level(logging.WARNING, "genai_host"):
        for _ in range(5):
            changed.check()
    [message] = [each for each in caplog.messages if "was not reloaded" in each]
    assert "providers must be a table" in message
    assert "one" in host.instances
    write(file, two="http://127.0.0.1:2/v1")
    look(changed)
    assert "two" in host.instances


def test_keys_that_are_set_elsewhere(file: Path, watched: Watched) -> None:
    host, changed = watched
    before = host.instances["one"]
    SecretStore().set("one", "api_key", Secret("sk-other"))
    look(changed)
    now = host.instances["one"]
    assert now is not before
    SecretStore().set("one", "api_key", Secret("sk-mine"))
    host.instances.configure("one", now.config)  # as who sets it here does
    mine = host.instances["one"]
    look(changed)
    assert host.instances["one"] is mine


def behind(received: Received) -> Reply:
    if received.method == "GET":  # for its models, to see whether it answers
        return json_reply({"data": []})
    return chat("hello", streamed=received.json().get("stream", False))


@pytest.fixture
def service(home: Path) -> Iterator[FakeService]:
    with FakeService(answer=behind) as service:
        yield service


def change(*arguments: str) -> None:
    command = [sys.executable, "-m", "genai_host", *arguments]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def answers(client: Client, status: int, **more: Any) -> bool:
    body = {"messages": [{"role": "user", "content": "hi"}], **more}
    return client.send("POST", "/v1/chat/completions", body).status_code == status


def is_opened_with(client: Client, models: Any) -> bool:
    """Whether these are the defaults of a conversation that names no model."""
    reply = client.send("POST", "/api/v1/conversations", {}).json()
    return bool(reply.get("models") == models)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_item_3_models_defaults_and_providers(service: FakeService, workers: str) -> None:
    """A running server and all its workers apply changes made with the command line, of which the
    first creates the file."""
    with serving("--workers", workers) as server, ExitStack() as stack:
        pids = server.workers()
        contexts = [server.at(each) for each in pids] or [client_of(server.url)]
        clients = [stack.enter_context(each) for each in contexts]

        def all_answer(status: int, **more: Any) -> None:
            for client in clients:
                wait_until(partial(answers, client, status, **more))

        assert read_config().file == ""
        address = f"base_url={service.url}/v1"
        change("config", "add", "other", "openai-compatible", address)
        change("models", "add", "precise", "--of", "other/m", "--param", "temperature=0")
        all_answer(200, model="precise")
        assert service.requests[-1].json()["temperature"] == 0
        # agents ask for fixed names
        change("models", "add", "gpt-5.5", "--of", "precise")
        all_answer(200, model="gpt-5.5")
        assert service.requests[-1].json()["model"] == "m"
        for client in clients:
            rows = client.get("/v1/models")["data"]
            assert {"precise", "gpt-5.5"} <= {row["id"] for row in rows}
        change("config", "default", "model", "precise")
        for client in clients:
            wait_until(partial(is_opened_with, client, {"main": "other/m"}))
        change("models", "remove", "gpt-5.5")
        change("config", "default", "model", "--remove")
        change("models", "remove", "precise")
        all_answer(404, model="precise")
        # a file that is wrong changes nothing
        Path(read_config().file).write_text("[models.precise]\n")
        assert server.process.stderr is not None
        assert "the configuration was not reloaded" in server.process.stderr.readline()
        all_answer(200, model="other/m")
        assert set(server.workers()) == set(pids)
