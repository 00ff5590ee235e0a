"""Fixtures of the host's tests."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from environments import base, environment, wheels
from support import Terminal

from genai_host.plugins import trial
from genai_host.plugins.index import PluginIndex
from genai_host_testing.internal.fixtures import host, make_host, offline, weights

__all__ = ["base", "environment", "host", "make_host", "offline", "weights", "wheels"]


@pytest.fixture(autouse=True, scope="session")
def interruptible() -> Iterator[None]:
    """A shell starts what runs in its background with SIGINT ignored, and that is
    inherited; a handler is not, so that what is started here can be interrupted."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def loaded_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that may start no process load the plugins that they make without a trial."""
    if not any(map(request.node.get_closest_marker, ("process", "far"))):
        monkeypatch.setattr(trial, "has_interpreter", lambda: False)


@pytest.fixture(scope="session")
def plugin_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the index of the plugins that are installed here."""
    folder = tmp_path_factory.mktemp("plugins")
    PluginIndex(folder=str(folder)).plugins()
    return folder


@pytest.fixture
def terminal(
    home: Path,
    plugin_index: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Terminal:
    """Runs the command line in this process. It need not look for the plugins at each start."""
    shutil.copytree(plugin_index, home / "cache" / "plugins", dirs_exist_ok=True)
    return Terminal(home, capsys, monkeypatch)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on `sys.path`; what is imported from it is forgotten afterwards."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment names no proxy."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def script(home: Path) -> Callable[..., None]:
    """Configures an instance `script` of the mock that says these replies."""

    def configure(replies: Sequence[Any], **settings: Any) -> None:
        file = home / "config" / "config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        instance = {"type": "mock", "replies": list(replies), **settings}
        file.write_text(tomlkit.dumps({"providers": {"script": instance}}), encoding="utf-8")

    return configure
