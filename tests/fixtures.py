"""Fixtures of the tests of the host and of its plugins, for each `conftest.py` to import:
pytest finds them there as if they were written there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from genai_host import Config, Given, Host, Patience
from genai_host.testing import ManualClock

__all__ = ["NO_HTTP", "MakeHost", "clock", "home", "host", "make_host", "weights"]

MakeHost = Callable[..., Host]
ONCE = Patience(tries=1, calls=1)
NO_HTTP: Any = None
"""The transport of a provider that needs none."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where this test's host keeps its files."""
    folder = tmp_path / "home"
    monkeypatch.setenv("GENAI_HOST_HOME", str(folder))
    monkeypatch.delenv("GENAI_HOST_CONFIG", raising=False)
    return folder


@pytest.fixture
def make_host() -> Iterator[MakeHost]:
    """Makes hosts of given plugins, and closes them: `make_host(extra=module)`.

    The shared dialects, the mock and the chat are in it unless set to None; `config`,
    `clock` and `patience` go to the host, which tries calls once unless told otherwise.
    """
    import genai_feature_chat
    import genai_vendor_mock

    import genai_host.dialects

    hosts = []

    def make(
        *,
        config: Config | None = None,
        clock: Any = None,
        patience: Patience | None = None,
        **plugins: object,
    ) -> Host:
        usual = {
            "dialects": genai_host.dialects,
            "mock": genai_vendor_mock,
            "chat": genai_feature_chat,
        }
        found = {name: plugin for name, plugin in {**usual, **plugins}.items() if plugin}
        host = Host(
            config=config or Config(),
            discovery=Given(found),
            clock=clock,
            patience=patience or ONCE,
        )
        hosts.append(host)
        return host

    yield make
    for host in hosts:
        host.close()


@pytest.fixture
def host(make_host: MakeHost) -> Host:
    """A host with the shared dialects, the mock and the chat."""
    return make_host()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="session")
def weights(pytestconfig: pytest.Config) -> Path:
    """The folder with the embedded model's weights, fetched once for all test runs."""
    from genai_vendor_local.weights import DEFAULT, pull

    from genai_host.errors import Unavailable

    named = os.environ.get("GENAI_HOST_TEST_WEIGHTS")
    folder = Path(named) if named else pytestconfig.rootpath / ".cache" / "weights"
    try:
        pull(DEFAULT, folder, quiet=True)
    except Unavailable as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"the weights of the embedded model cannot be fetched: {error}")
    return folder
