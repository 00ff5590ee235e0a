"""Fixtures for tests of plugins. Enable them in the top-level `conftest.py` of your tests:

    pytest_plugins = ["genai_host_testing.pytest_plugin"]

They are not enabled automatically, because `home` is an autouse fixture, and projects that only use
the host do not need it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from genai_host.api import Clock
from genai_host.calls.retry import RetryPolicy
from genai_host.catalog.prices import Prices
from genai_host.config import Config
from genai_host.host import Host
from genai_host.plugins.discovery import StaticPlugins
from genai_host_testing.clock import ManualClock
from genai_host_testing.fake_service import FakeService
from genai_host_testing.plugins import installed_wires

if TYPE_CHECKING:  # imported lazily
    from genai_host.store import Store

MakeHost = Callable[..., Host]
_ONCE = RetryPolicy(max_attempts=1, max_total_attempts=1)


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Base directories; unlike with `tmp_path`, the directory of a test is created on first
    write."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def home(_homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Data directory of the test's hosts, so that they do not use your files."""
    folder = next(_homes)
    monkeypatch.setenv("GENAI_HOST_HOME", str(folder))
    monkeypatch.delenv("GENAI_HOST_CONFIG", raising=False)
    # nor your keyring
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    return folder


@pytest.fixture
def clock() -> ManualClock:
    """A clock controlled by the test: `make_host(clock=clock)`."""
    return ManualClock()


@pytest.fixture
def make_host() -> Iterator[MakeHost]:
    """A function that makes hosts with the given plugins, and closes them:
    `make_host(mine=my_module)`.

    Installed API formats are included; a plugin that is None is left out. `config`, `clock`,
    `patience`, `store` and `prices` are passed to the host. By default, calls are attempted once.
    """
    hosts = []

    def make(
        *,
        config: Config | None = None,
        clock: Clock | None = None,
        patience: RetryPolicy | None = None,
        store: Store | None = None,
        prices: Prices | None = None,
        **plugins: object,
    ) -> Host:
        given = {**installed_wires(), **plugins}
        found = {name: plugin for name, plugin in given.items() if plugin is not None}
        host = Host(
            config=config or Config(),
            discovery=StaticPlugins(found),
            clock=clock,
            retry_policy=patience or _ONCE,
            store=store,
            prices=prices,
        )
        hosts.append(host)
        return host

    yield make
    for host in hosts:
        host.close()


@pytest.fixture
def service() -> Iterator[FakeService]:
    """An HTTP service on this machine, which sends `service.replies`."""
    with FakeService() as made:
        yield made
