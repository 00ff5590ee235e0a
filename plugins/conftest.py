"""Fixtures of the plugins' tests: those of all tests, scripted hosts, the real model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from genai_host import Config, Given, Host
from genai_host.api import Model, Offering, hookimpl
from genai_host.config import InstanceConfig
from genai_host.testing.pytest_plugin import MakeHost, clock, home, host, make_host, weights

__all__ = ["clock", "home", "host", "make_host", "weights"]


class InOnePiece:
    """The mock under the name `whole`, where it does not stream."""

    @hookimpl
    def genai_models(self) -> Iterable[Model]:
        yield Model("whole", dialects=["plain"], capabilities={"tools", "schema", "reasoning"})

    @hookimpl
    def genai_offerings(self) -> Iterable[Offering]:
        yield Offering("whole", "mock", "mock", lacks={"stream"})


@pytest.fixture
def scripted(make_host: MakeHost) -> MakeHost:
    """Makes hosts whose mock has a script: `scripted("one", Reply("two"), repeat=True)`.

    The model `mock` streams, the model `whole` is the same in one piece. `clock` and
    `plugins` go to the host, all else to the settings of the mock.
    """

    def make(*replies: Any, clock: Any = None, plugins: Any = None, **settings: Any) -> Host:
        mock = InstanceConfig("mock", settings={"replies": list(replies), **settings})
        config = Config(providers={"mock": mock})
        return make_host(config=config, clock=clock, whole=InOnePiece(), **(plugins or {}))

    return make


@pytest.fixture
def background() -> Iterator[Callable[..., Future[Any]]]:
    """Runs a function in a thread of its own: `background(conversation.say, "hi")`."""
    pool = ThreadPoolExecutor(40, "background")
    yield pool.submit
    pool.shutdown(wait=False)  # what a failed test left there ends with its host


@pytest.fixture(scope="module")
def local_host(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host with the embedded model, loaded once for all tests of a module."""
    folder = tmp_path_factory.mktemp("local")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GENAI_HOST_HOME", str(folder))
        shared = _real_host(folder, weights, {"threads": 1, "window": 1024})
        assert shared.instances["local"].provider  # it is opened where its home is
        yield shared
        shared.close()


@pytest.fixture
def make_local_host(home: Path, weights: Path) -> Iterator[MakeHost]:
    """Makes hosts with the embedded model in the home of the test; names go to the
    settings of `local`, `plugins` to the host."""
    made = []

    def make(*, plugins: Any = None, **settings: Any) -> Host:
        given = {"threads": 1, "window": 1024, **settings}
        made.append(_real_host(home, weights, given, plugins))
        return made[-1]

    yield make
    for each in made:
        each.close()


def _real_host(home: Path, weights: Path, settings: Any, plugins: Any = None) -> Host:
    import genai_feature_chat
    import genai_models_open
    import genai_vendor_local
    from genai_vendor_local.weights import DEFAULT

    import genai_host.dialects

    own = DEFAULT.file(home / "data" / "local")
    own.parent.mkdir(parents=True, exist_ok=True)
    if not own.exists():
        own.symlink_to(DEFAULT.file(weights))
    usual = {
        "dialects": genai_host.dialects,
        "chat": genai_feature_chat,
        "models": genai_models_open,
        "local": genai_vendor_local,
    }
    return Host(
        config=Config(providers={"local": InstanceConfig("local", settings=settings)}),
        discovery=Given({**usual, **(plugins or {})}),
    )
