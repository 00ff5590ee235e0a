"""What plugins hear of calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from genai_host import Host
from genai_host.api import Completion, RouteInfo, hookimpl
from genai_host.errors import Cancelled, RateLimited
from genai_host.testing import MadePlugin


class Watching(MadePlugin):
    def __init__(self) -> None:
        super().__init__()
        self.started: list[tuple[str, RouteInfo]] = []
        self.ended: list[dict[str, Any]] = []

    @hookimpl
    def genai_on_call_start(self, id: str, route: RouteInfo) -> None:
        self.started.append((id, route))

    @hookimpl
    def genai_on_call_end(
        self, id: str, result: object, error: Exception | None, seconds: float
    ) -> None:
        self.ended.append({"id": id, "result": result, "error": error, "seconds": seconds})


@pytest.fixture
def watching() -> Watching:
    return Watching()


@pytest.fixture
def host(make_host: Callable[..., Host], watching: Watching) -> Host:
    return make_host(watching=watching)


def test_a_call_is_told_when_it_starts_and_when_it_ends(host: Host, watching: Watching) -> None:
    host.open("chat", "mock").say("hi")
    [(id, route)] = watching.started
    [end] = watching.ended
    assert route == RouteInfo("mock", "mock", "plain")
    assert end["id"] == id
    assert isinstance(end["result"], Completion)
    assert end["result"].text == "hi"
    assert end["error"] is None
    assert end["seconds"] >= 0


def test_each_call_has_an_id_of_its_own(host: Host, watching: Watching) -> None:
    conversation = host.open("chat", "mock")
    for _ in range(3):
        conversation.say("hi")
    assert len({id for id, _ in watching.started}) == 3


def test_a_failed_call_is_told_with_its_error(host: Host, watching: Watching) -> None:
    host.instances.add("script", "mock", {"replies": [{"status": 429}]})
    with pytest.raises(RateLimited):
        host.open("chat", provider="script").say("hi")
    [end] = watching.ended
    assert isinstance(end["error"], RateLimited)
    assert end["result"] is None


def test_an_abandoned_call_is_told_as_cancelled(host: Host, watching: Watching) -> None:
    stream = host.open("chat", "mock").stream("a b c")
    next(stream)
    stream.close()
    assert watching.ended[0]["error"] == Cancelled("abandoned")


def test_who_asks_for_less_is_told_less(make_host: Callable[..., Host]) -> None:
    class Curt(MadePlugin):
        heard = 0

        @hookimpl
        def genai_on_call_end(self, seconds: float) -> None:
            self.heard += 1

    curt = Curt()
    make_host(curt=curt).open("chat", "mock").say("hi")
    assert curt.heard == 1


def test_an_observer_that_breaks_does_not_break_the_call(
    make_host: Callable[..., Host], caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(MadePlugin):
        @hookimpl
        def genai_on_call_start(self) -> None:
            raise RuntimeError("broken observer")

    assert make_host(broken=Broken()).open("chat", "mock").say("hi").text == "hi"
    assert "plugin broken raised in genai_on_call_start" in caplog.text
