"""A request that is given up, and many at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from genai_host.api import Cancellation
from genai_host.errors import Cancelled, ProviderTimeout
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.research_engine import Scene, result


@pytest.fixture
def scene(make_host: MakeHost) -> Scene:
    return Scene(make_host)


def test_a_request_that_is_given_up_in_a_search_ends(
    scene: Scene, background: Callable[..., Future[Any]]
) -> None:
    searching, go_on = threading.Event(), threading.Event()

    def results(query: str) -> list[Any]:
        searching.set()
        go_on.wait(60)
        return []

    scene.engine.results = results
    with Cancellation() as limits:
        asked = background(scene.assistant().answer, {"input_text": "hi"}, limits)
        assert searching.wait(60)
        limits.cancel()
        assert isinstance(asked.exception(60), Cancelled)
    go_on.set()
    assert scene.prompts() == []


@pytest.mark.parametrize("why", [Cancelled("gone"), ProviderTimeout("late", deadline="timeout")])
def test_a_request_that_was_given_up_before_is_not_begun(scene: Scene, why: Any) -> None:
    limits = Cancellation()
    limits.cancel(why)
    with pytest.raises(type(why)):
        scene.assistant().answer({"input_text": "hi"}, limits)
    assert scene.model.calls == 0


def test_closing_the_events_ends_the_turn(scene: Scene) -> None:
    events = scene.assistant().stream({"input_text": "hi"})
    next(events)
    events.close()
    assert scene.prompts() == []


def test_requests_at_once_have_nothing_of_each_other(scene: Scene) -> None:
    scene.engine.results = lambda query: [result(f"Of {query}.")]
    scene.model.answer = lambda heard: heard.text.splitlines()[-1]
    assistant = scene.assistant()

    def ask(number: int) -> dict[str, Any]:
        return assistant.answer({"input_text": f"question {number:02}"})

    with ThreadPoolExecutor(8) as pool:
        given = list(pool.map(ask, range(24)))
    for number, each in enumerate(given):
        asked = f"question {number:02}"
        assert each["answer"] == asked
        assert [row["text"] for row in each["search_history"]] == [f"Of {asked}."]
        assert [row["text"] for row in each["conversation_history"]] == [asked, asked]
