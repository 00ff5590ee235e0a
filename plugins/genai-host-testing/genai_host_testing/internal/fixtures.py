"""Fixtures of the tests of the host and of its plugins: hosts, scripted models, the embedded model,
Pyodide, a function in the background.

Import them in a `conftest.py`, where pytest finds them. The fixtures that third-party tests also
use come from `genai_host_testing.pytest_plugin`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from genai_host import Config, Host, StaticPlugins
from genai_host.api import Cancellation, Model, Offering
from genai_host.errors import ServiceUnavailable
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.plugins import InlinePlugin, installed_wires
from genai_host_testing.pytest_plugin import MakeHost
from genai_host_testing.suites.base import in_background

if TYPE_CHECKING:
    from genai_vendor_mock import MockProvider

__all__ = [
    "IN_ONE_PIECE",
    "NO_HTTP",
    "Background",
    "MakeHost",
    "background",
    "host",
    "local_host",
    "make_host",
    "make_local_host",
    "mock_of",
    "offline",
    "pyodide",
    "requests_of",
    "scripted",
    "weights",
]

Background = Callable[..., Future[Any]]
"""The fixture `background`, which calls a function in a thread."""

NO_HTTP: Any = None
"""The transport of a provider that needs none."""
IN_ONE_PIECE = InlinePlugin(
    models=[Model("whole", dialects=["plain"], capabilities={"tools", "schema", "reasoning"})],
    offerings=[Offering("whole", "mock", "mock", unsupported={"stream"})],
)
"""The mock under the name `whole`, without streaming."""


def mock_of(host: Host, name: str = "mock") -> MockProvider:
    from genai_vendor_mock import MockProvider

    provider = host.instances[name].provider
    assert isinstance(provider, MockProvider)
    return provider


def requests_of(host: Host, name: str = "mock") -> list[dict[str, Any]]:
    """Return what the mock was sent."""
    return list(mock_of(host, name).requests)


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolve only names of this machine, so that no test reaches an external service."""
    resolve = socket.getaddrinfo
    own = {None, "", "localhost", socket.gethostname()}

    def getaddrinfo(host: Any, *arguments: Any, **more: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in own and not _is_address(str(name)):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve(host, *arguments, **more)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


def _is_address(name: str) -> bool:
    """Return whether a name is an address in any form that a system accepts, for example 127.1."""
    for read in (socket.inet_aton, partial(socket.inet_pton, socket.AF_INET6)):
        with suppress(OSError):
            read(name.partition("%")[0])
            return True
    return False


@pytest.fixture
def make_host(make_host: MakeHost) -> MakeHost:
    """Create hosts of given plugins, and close them: `make_host(extra=module)`.

    The shared dialects, the mock and the chat are included unless set to None. `config`, `clock`,
    `patience`, `store` and `prices` are arguments of the host. By default the host makes one
    attempt per call.
    """
    import genai_feature_chat
    import genai_vendor_mock

    def make(**settings: Any) -> Host:
        return make_host(**{"mock": genai_vendor_mock, "chat": genai_feature_chat, **settings})

    return make


@pytest.fixture
def host(make_host: MakeHost) -> Host:
    """A host with the shared dialects, the mock and the chat."""
    return make_host()


@pytest.fixture(scope="session")
def weights(pytestconfig: pytest.Config) -> Path:
    """The directory with the embedded model's weights, downloaded once for all test runs."""
    from genai_vendor_local.downloads import pull
    from genai_vendor_local.weights import DEFAULT

    named = os.environ.get("GENAI_HOST_TEST_WEIGHTS")
    folder = Path(named) if named else pytestconfig.rootpath / ".cache" / "weights"
    try:
        pull(DEFAULT, folder)
    except ServiceUnavailable as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"the weights of the embedded model cannot be fetched: {error}")
    return folder


@pytest.fixture
def scripted(make_host: MakeHost) -> MakeHost:
    """Create hosts with a scripted mock: `scripted("one", Reply("two"), repeat=True)`.

    The model `mock` streams, the model `whole` does not. `clock` and `plugins` are arguments of the
    host, all others are settings of the mock.
    """

    def make(*replies: Any, clock: Any = None, plugins: Any = None, **settings: Any) -> Host:
        mock = provider_config("mock", **{"replies": list(replies), **settings})
        config = Config(providers={"mock": mock})
        return make_host(config=config, clock=clock, whole=IN_ONE_PIECE, **(plugins or {}))

    return make


@pytest.fixture
def background() -> Background:
    """Run a function in a separate thread: `background(conversation.say, "hi")`.

    A thread of a failed test is not joined.
    """

    return in_background


@pytest.fixture(scope="module")
def local_host(
    request: pytest.FixtureRequest, weights: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Host]:
    """A host with the embedded model, loaded once for all tests of a module.

    The model `smollm2` streams, the model `whole` does not. The module can add plugins, as
    `PLUGINS`.
    """
    folder = tmp_path_factory.mktemp("local")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GENAI_HOST_HOME", str(folder))
        plugins = getattr(request.module, "PLUGINS", None)
        shared = _real_host(folder, weights, {"threads": 1, "window": 1024}, plugins)
        _ = shared.instances["local"].provider  # opened while its home is the current one
        yield shared
        shared.close()


@pytest.fixture
def make_local_host(home: Path, weights: Path) -> Iterator[MakeHost]:
    """Create hosts like `local_host`, for one test: `make_local_host(window=2048)`.

    `plugins` and `store` are arguments of the host, all others are settings of the local provider.
    """
    hosts = []

    def make(*, plugins: Any = None, store: Any = None, **settings: Any) -> Host:
        values = {"threads": 1, "window": 1024, **settings}
        hosts.append(_real_host(home, weights, values, plugins, store))
        return hosts[-1]

    yield make
    for each in hosts:
        each.close()


def _real_host(
    home: Path, weights: Path, settings: Any, plugins: Any = None, store: Any = None
) -> Host:
    import genai_feature_chat
    import genai_models_open
    import genai_vendor_local
    from genai_vendor_local.weights import DEFAULT

    own = DEFAULT.file(home / "data" / "local")
    own.parent.mkdir(parents=True, exist_ok=True)
    if not own.exists():
        own.symlink_to(DEFAULT.file(weights))
    whole = InlinePlugin(
        models=[
            Model(
                "whole",
                dialects=["openai-chat"],
                capabilities={"tools", "schema"},
                defaults={"temperature": 0},
            )
        ],
        offerings=[Offering("whole", "local", DEFAULT.name, unsupported={"stream"})],
    )
    usual = {
        "whole": whole,
        **installed_wires(),
        "chat": genai_feature_chat,
        "models": genai_models_open,
        "local": genai_vendor_local,
    }
    return Host(
        config=Config(providers={"local": provider_config("local", **settings)}),
        discovery=StaticPlugins({**usual, **(plugins or {})}),
        store=store,
    )


@pytest.fixture(scope="session")
def pyodide(pytestconfig: pytest.Config) -> Path:
    """The directory with Pyodide and its snapshot, made once for all test runs."""
    from genai_tools_sandbox.process import can_run, save_snapshot
    from genai_tools_sandbox.pyodide import KNOWN, pull, registry

    named = os.environ.get("GENAI_HOST_TEST_PYODIDE")
    folder = Path(named) if named else pytestconfig.rootpath / ".cache" / KNOWN.name
    try:
        pull(KNOWN, folder, registry(os.environ, Path.home()), lambda size, total: None)
    except ServiceUnavailable as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"Pyodide cannot be fetched: {error}")
    if can_run():
        save_snapshot(folder, Cancellation())
    return folder
