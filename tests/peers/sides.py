"""Two sides that speak to one service, which writes down what it is sent: an SDK and ours."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar

import pytest
from fixtures import MakeHost

from genai_host.api import Answer, NoSettings, Step, Story, Turn
from genai_host.testing.fake_service import FakeService, Received, Reply

Telling = Callable[[Turn[NoSettings]], Story]


class BothSides:
    """Lets both sides speak to one service, and gives what it was sent.

    variables   of the environment, that may say something to either side
    """

    variables: ClassVar[Collection[str]]

    def __init__(
        self, service: FakeService, make_host: MakeHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.service = service
        self.make_host = make_host
        self._monkeypatch = monkeypatch

    def set_up(self, environment: Mapping[str, str]) -> None:
        for name in self.variables:
            self._monkeypatch.delenv(name, raising=False)
            self._monkeypatch.delenv(name.lower(), raising=False)
        for name, value in environment.items():
            self._monkeypatch.setenv(name, value.format(url=self.service.url))

    def sent(self, replies: list[Reply], speak: Callable[[], object]) -> list[Received]:
        """The requests that come while one side speaks."""
        self.service.requests.clear()
        self.service.replies[:] = replies
        speak()
        return list(self.service.requests)


def telling(step: Step[Any]) -> Telling:
    """A feature that takes this one step."""

    def tell(turn: Turn[NoSettings]) -> Story:
        yield from step
        return Answer("")

    return tell
