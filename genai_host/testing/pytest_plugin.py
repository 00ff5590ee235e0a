"""Fixtures for the tests of plugins. Enable them in the `conftest.py` at the top of your
tests:

    pytest_plugins = ["genai_host.testing.pytest_plugin"]

They are not enabled by being installed: `home` is there for every test, and a project
that merely uses the host has tests that it would be of no use to.
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
from genai_host.testing.clock import ManualClock
from genai_host.testing.fake_service import FakeService

if TYPE_CHECKING:  # it is imported where it is used
    from genai_host.store import Store

MakeHost = Callable[..., Host]
_ONCE = RetryPolicy(max_attempts=1, max_total_attempts=1)


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders that are made by who writes into them: `tmp_path` would make one for each test."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def home(_homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where this test's hosts keep their files, so that none touches yours."""
    folder = next(_homes)
    monkeypatch.setenv("GENAI_HOST_HOME", str(folder))
    monkeypatch.delenv("GENAI_HOST_CONFIG", raising=False)
    # nor your keyring
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    return folder


@pytest.fixture
def clock() -> ManualClock:
    """Time that passes when the test says so: `make_host(clock=clock)`."""
    return ManualClock()


@pytest.fixture
def make_host() -> Iterator[MakeHost]:
    """Makes hosts of given plugins, and closes them: `make_host(mine=my_module)`.

    The host's own dialects are in it; a plugin that is None is left out. `config`,
    `clock`, `patience`, `store` and `prices` go to the host, which tries calls once unless
    told otherwise.
    """
    import genai_host.dialects

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
        given = {"dialects": genai_host.dialects, **plugins}
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
    """A service over HTTP on this machine; `service.replies` says what it answers."""
    with FakeService() as made:
        yield made
