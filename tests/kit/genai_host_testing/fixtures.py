"""Fixtures of the tests of the host and of its plugins, for each `conftest.py` to import:
pytest finds them there as if they were written there. Those that strangers' tests have as
well come from `genai_host.testing.pytest_plugin`."""

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
    """No test asks a service of others: only names of this machine are known."""
    found = socket.getaddrinfo
    own = {None, "", "localhost", socket.gethostname()}

    def getaddrinfo(host: Any, *given: Any, **more: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in own and not _is_address(str(name)):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return found(host, *given, **more)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


def _is_address(name: str) -> bool:
    """In any spelling that a system takes, as 127.1."""
    for read in (socket.inet_aton, partial(socket.inet_pton, socket.AF_INET6)):
        with suppress(OSError):
            read(name.partition("%")[0])
            return True
    return False


@pytest.fixture
def make_host(make_host: MakeHost) -> MakeHost:
    """Makes hosts of given plugins, and closes them: `make_host(extra=module)`.

    The shared dialects, the mock and the chat are in it unless set to None; `config`,
    `clock`, `patience`, `store` and `prices` go to the host, which tries calls once unless
    told otherwise.
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
    """The folder with the embedded model's weights, fetched once for all test runs."""
    from genai_vendor_local.weights import DEFAULT, pull

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
