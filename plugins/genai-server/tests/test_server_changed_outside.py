"""Changes of models, defaults and providers by other processes while the server runs."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
import tomlkit
from genai_server.config_watcher import ConfigWatcher

from genai_host import Config, Host, SecretStore
from genai_host.api import Secret
from genai_host.config import read_config

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


def look(changed: ConfigWatcher) -> None:
    """Look twice: a change is applied once the file is the same both times."""
    changed.look()
    changed.look()


def test_providers_that_are_added_changed_and_removed_in_the_file(file: Path) -> None:
    with Host() as host:
        changed = ConfigWatcher(host)
        look(changed)
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


def test_what_this_process_has_changed_itself_stays_as_it_is(file: Path) -> None:
    with Host() as host:
        changed = ConfigWatcher(host)
        look(changed)
        host.instances.add("mine", TYPE, {"base_url": "http://127.0.0.1:9/v1"})
        write(file, one="http://127.0.0.1:2/v1")
        host.instances.configure("one", read_config().providers["one"])
        before = host.instances["one"]
        look(changed)
        assert host.instances["one"] is before
        assert "mine" in host.instances


def test_it_waits_until_a_file_is_written(file: Path) -> None:
    with Host() as host:
        changed = ConfigWatcher(host)
        look(changed)
        whole = file.read_text("utf-8")
        file.write_text("", encoding="utf-8")
        changed.look()
        assert "one" in host.instances
        file.write_text(f"{whole}\n", encoding="utf-8")
        look(changed)
        assert "one" in host.instances


def test_one_that_is_wrong_changes_nothing_and_is_told_of_once(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Host() as host:
        changed = ConfigWatcher(host)
        look(changed)
        file.write_text("providers = 1", encoding="utf-8")
        with caplog.at_level(logging.WARNING, "genai_host"):
            for _ in range(5):
                changed.look()
        [told] = [each for each in caplog.messages if "was not reloaded" in each]
        assert "providers must be a table" in told
        assert "one" in host.instances
        write(file, two="http://127.0.0.1:2/v1")
        look(changed)
        assert "two" in host.instances


def test_keys_that_are_set_elsewhere(file: Path) -> None:
    with Host() as host:
        changed = ConfigWatcher(host)
        look(changed)
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
