"""Fixtures of the tests of the host and of its plugins.

Import them in a `conftest.py`, where pytest finds them. The fixtures that third-party tests also
use come from `genai_host.testing.pytest_plugin`.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from genai_host import Host
from genai_host.testing.pytest_plugin import MakeHost

__all__ = ["NO_HTTP", "MakeHost", "host", "make_host", "offline", "weights"]

NO_HTTP: Any = None
"""The transport of a provider that needs none."""


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolve only names of this machine, so that no test reaches an external service."""
    found = socket.getaddrinfo
    own = {None, "", "localhost", socket.gethostname()}

    def getaddrinfo(host: Any, *given: Any, **more: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in own and not _is_address(str(name)):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return found(host, *given, **more)

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

    def make(**given: Any) -> Host:
        return make_host(**{"mock": genai_vendor_mock, "chat": genai_feature_chat, **given})

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

    from genai_host.errors import ServiceUnavailable

    named = os.environ.get("GENAI_HOST_TEST_WEIGHTS")
    folder = Path(named) if named else pytestconfig.rootpath / ".cache" / "weights"
    try:
        pull(DEFAULT, folder)
    except ServiceUnavailable as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"the weights of the embedded model cannot be fetched: {error}")
    return folder
