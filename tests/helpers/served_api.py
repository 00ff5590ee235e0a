"""Clients of our APIs, for their tests, and the fixture `api` of these tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import pytest
import requests
from attrs import frozen

from genai_host import Config, Host
from genai_host.api import HttpRoute
from genai_host_testing import FakeModel, RouteServer
from genai_host_testing.internal.fixtures import MakeHost


@frozen
class ServedApi:
    """An API over HTTP, in front of a model.

    Attributes:
        client: Closed with it.
        config: Configuration of the host, if none is given.
        routes: Further routes of the server.
    """

    url: str
    fake: FakeModel
    host: Host
    client: requests.Session
    config: ClassVar[Config]
    routes: ClassVar[Sequence[HttpRoute]] = ()

    @classmethod
    @contextmanager
    def serving(
        cls, make_host: MakeHost, fake: FakeModel | None = None, **settings: Any
    ) -> Iterator[Self]:
        fake = fake or FakeModel()
        host = make_host(fake=fake, **{"config": cls.config, **settings})
        with RouteServer(host, cls.routes) as server, requests.Session() as client:
            yield cls(server.url, fake, host, client)


def body_of(reply: requests.Response) -> dict[str, Any]:
    """Return the body of a successful reply."""
    assert reply.status_code == 200, reply.text
    body: dict[str, Any] = reply.json()
    return body


@pytest.fixture
def api(make_host: MakeHost, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A server in front of a model, and a client: the class `Api` of the module of the test."""
    with request.module.Api.serving(make_host) as api:
        yield api
