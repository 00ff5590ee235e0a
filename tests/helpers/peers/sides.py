"""What lets both sides speak to one service, whoever's client stands on the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Protocol

import pytest

from genai_host import Config, Host
from genai_host.api import Answer, Feature, FeatureSteps, NoSettings, Operation, Step, Turn
from genai_host.config import InstanceConfig
from genai_host.testing import InlinePlugin
from genai_host.testing.fake_service import FakeService, Received, Reply
from genai_host_testing.fixtures import MakeHost


class SetUp(Protocol):
    """How a client is set up.

    environment   `{url}` stands for the recording service
    client        makes it
    """

    @property
    def environment(self) -> Mapping[str, str]: ...

    @property
    def client(self) -> Callable[[str], Any]: ...


class Clients:
    """The SDK's clients for one service, each made once, as that takes long."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._made: dict[Any, Any] = {}

    def of(self, way: SetUp) -> Any:
        """To be called while the way's environment is set up."""
        key = (way.client, *way.environment.items())
        if key not in self._made:
            self._made[key] = way.client(self._url)
        return self._made[key]

    def close(self) -> None:
        for client in self._made.values():
            client.close()


class Sides:
    """Lets both sides speak to one service, and gives what it was sent.

    variables   the environment variables that either side heeds
    plugins     those that our side takes
    """

    variables: ClassVar[set[str]]
    plugins: ClassVar[Mapping[str, Any]]

    def __init__(
        self,
        service: FakeService,
        clients: Clients,
        make_host: MakeHost,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self.clients = clients
        self._service = service
        self._make_host = make_host
        self._monkeypatch = monkeypatch

    def set_up(self, environment: Mapping[str, str]) -> None:
        for name in self.variables:
            self._monkeypatch.delenv(name, raising=False)
            self._monkeypatch.delenv(name.lower(), raising=False)
        for name, value in environment.items():
            self._monkeypatch.setenv(name, value.format(url=self._service.url))

    def host(self, tell: Callable[[Turn[NoSettings]], FeatureSteps], operation: Operation) -> Host:
        """A host whose feature `tell` tells this story, with a model for this operation."""
        feature = Feature("tell", NoSettings, tell, roles={"main": operation})
        return self._make_host(
            config=Config(providers=dict(self.instances(self._service.url))),
            tell=InlinePlugin(features=[feature]),
            **self.plugins,
        )

    def instances(self, url: str) -> Mapping[str, InstanceConfig]:
        """Named instances beside those that the environment sets up."""
        return {}

    def sent(self, replies: list[Reply], speak: Callable[[], object]) -> list[Received]:
        """The requests that come while one side speaks."""
        self._service.requests.clear()
        self._service.replies[:] = replies
        speak()
        return list(self._service.requests)


def telling(step: Step[Any]) -> Callable[[Turn[NoSettings]], FeatureSteps]:
    """A feature that takes this one step."""

    def tell(turn: Turn[NoSettings]) -> FeatureSteps:
        yield from step
        return Answer("")

    return tell


@pytest.fixture(scope="module")
def service() -> Iterator[FakeService]:
    with FakeService() as made:
        yield made


@pytest.fixture(scope="module")
def clients(service: FakeService) -> Iterator[Clients]:
    made = Clients(service.url)
    yield made
    made.close()
