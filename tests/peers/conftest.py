"""Fixtures of the tests with SDKs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from peers.oracle import Clients
from served_api import api

from genai_host_testing.fake_service import FakeService

__all__ = ["api"]


@pytest.fixture(scope="module")
def service() -> Iterator[FakeService]:
    with FakeService() as fake_service:
        yield fake_service


@pytest.fixture(scope="module")
def clients(service: FakeService) -> Iterator[Clients]:
    sdk_clients = Clients(service.url)
    yield sdk_clients
    sdk_clients.close()


@pytest.fixture(scope="session")
def document() -> Any:
    from peers.openai_document import Document  # needs distributions of this environment alone

    return Document()


@pytest.fixture
def http_client(document: Any) -> Iterator[Any]:
    """A client of the `openai` SDK that compares each reply with OpenAI's own document."""
    from peers.openai_document import CheckedClient

    with CheckedClient(document) as client:
        yield client


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each case of an oracle is a test."""
    cases = getattr(metafunc.cls, "cases", None)
    if cases and "name" in metafunc.fixturenames:
        metafunc.parametrize("name", cases)
