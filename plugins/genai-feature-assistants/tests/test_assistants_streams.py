"""What happens in runs, as server-sent events."""

from __future__ import annotations

from typing import Any

import pytest

from genai_host.errors import ServiceUnavailable
from genai_host.store.jobs import JobQueue, JobWorker
from genai_host_testing import RecordedPrompt
from genai_host_testing.internal.assistants_api import (
    SEARCH,
    WEATHER,
    MakeApi,
    calls,
    outputs_in,
    path_of,
    says,
)

pytestmark = pytest.mark.part

MESSAGE = [
    "thread.run.step.created",
    "thread.run.step.in_progress",
    "thread.message.created",
    "thread.message.in_progress",
    "thread.message.delta",
    "thread.message.completed",
    "thread.run.step.completed",
]
BEGUN = ["thread.run.created", "thread.run.queued", "thread.run.in_progress"]
END = ["thread.run.completed", "done"]


def names_of(events: list[tuple[str, Any]]) -> list[str]:
    """Of pieces that follow one another, one."""
    names = [name for name, _ in events]
    return [name for at, name in enumerate(names) if at == 0 or name != names[at - 1]]


def text_of(events: list[tuple[str, Any]]) -> str:
    pieces = [data["delta"]["content"] for name, data in events if name == "thread.message.delta"]
    return "".join(part["text"]["value"] for content in pieces for part in content)


def test_item_11_a_message_is_told_as_it_is_written(make_api: MakeApi) -> None:
    api = make_api(lambda heard: "many words, in several pieces")
    thread = api.thread("hi")
    events = api.events(f"/threads/{thread}/runs", {"assistant_id": api.assistant()})
    assert names_of(events) == [*BEGUN, *MESSAGE, *END]
    assert text_of(events) == "many words, in several pieces"
    assert sum(name == "thread.message.delta" for name, _ in events) > 1
    assert events[-1] == ("done", "[DONE]")
    last = dict(events)["thread.run.completed"]
    assert last == api.get(path_of(last))
    [message] = api.get(f"/threads/{thread}/messages", run_id=last["id"])["data"]
    assert message == dict(events)["thread.message.completed"]
    assert api.steps(last) == [dict(events)["thread.run.step.completed"]]


def test_item_11_a_stream_ends_where_the_client_is_to_call_and_goes_on_after(
    make_api: MakeApi,
) -> None:
    def answer(heard: RecordedPrompt) -> Any:
        given = outputs_in(heard)
        if given:
            return says(f"it is {given[0]}")
        return calls(("c1", "weather", {"city": "Oslo"}), text="Let me see.")

    api = make_api(answer)
    thread = api.thread("the weather?")
    events = api.events(f"/threads/{thread}/runs", {"assistant_id": api.assistant(WEATHER)})
    assert names_of(events) == [
        *BEGUN,
        *MESSAGE,
        "thread.run.step.created",
        "thread.run.step.in_progress",
        "thread.run.step.delta",
        "thread.run.requires_action",
        "done",
    ]
    [call] = dict(events)["thread.run.step.delta"]["delta"]["step_details"]["tool_calls"]
    assert call["function"] == {"name": "weather", "arguments": '{"city":"Oslo"}', "output": None}
    run = dict(events)["thread.run.requires_action"]
    outputs = {"tool_outputs": [{"tool_call_id": "c1", "output": "cold"}]}
    events = api.events(f"{path_of(run)}/submit_tool_outputs", outputs)
    assert names_of(events) == [
        "thread.run.queued",
        "thread.run.in_progress",
        "thread.run.step.completed",
        *MESSAGE,
        *END,
    ]
    assert text_of(events) == "it is cold"


def test_item_11_a_thread_and_a_run_in_one_stream(make_api: MakeApi) -> None:
    api = make_api()
    said = {"messages": [{"role": "user", "content": "hello"}], "metadata": {"a": "b"}}
    events = api.events("/threads/runs", {"assistant_id": api.assistant(), "thread": said})
    assert names_of(events) == ["thread.created", *BEGUN, *MESSAGE, *END]
    thread = events[0][1]["id"]
    assert api.texts(thread) == [("user", "hello"), ("assistant", "hello")]
    assert api.get(f"/threads/{thread}")["metadata"] == {"a": "b"}


def test_item_11_a_run_that_fails_says_so_in_its_stream(make_api: MakeApi) -> None:
    api = make_api()
    api.fake.faults[0] = ServiceUnavailable("it is down")
    events = api.events(f"/threads/{api.thread('hi')}/runs", {"assistant_id": api.assistant()})
    assert names_of(events) == [*BEGUN, "thread.run.failed", "done"]
    assert "it is down" in dict(events)["thread.run.failed"]["last_error"]["message"]


def test_what_cannot_begin_has_a_status_of_its_own(make_api: MakeApi) -> None:
    api = make_api()
    body = {"assistant_id": api.assistant(), "model": "nobody", "stream": True}
    refused = api.post(f"/threads/{api.thread('hi')}/runs", body, 400)
    assert "nobody" in api.error(refused)


def test_item_12_annotations_come_with_their_marks(make_api: MakeApi) -> None:
    def answer(heard: RecordedPrompt) -> Any:
        given = outputs_in(heard)
        if not given:
            return calls(("c1", "file_search", {"query": "the sea"}))
        return says(f"Blue {given[0].splitlines()[0]}.")

    api = make_api(answer)
    store = api.store_of(notes="the sea")
    resources = {"file_search": {"vector_store_ids": [store]}}
    assistant = api.assistant(SEARCH, tool_resources=resources)
    events = api.events(f"/threads/{api.thread('?')}/runs", {"assistant_id": assistant})
    told = [data["delta"]["content"][0]["text"] for name, data in events if "e.delta" in name]
    assert "annotations" not in told[0]
    [[annotation]] = [piece["annotations"] for piece in told if "annotations" in piece]
    whole = dict(events)["thread.message.completed"]["content"][0]["text"]
    assert {key: annotation[key] for key in annotation if key != "index"} == whole["annotations"][0]
    assert annotation["text"] in whole["value"] == text_of(events)


def test_a_run_that_has_just_come_is_not_taken_for_lost(
    make_api: MakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker looks after its jobs at any time: also just before one is in the store."""
    add = JobQueue.add
    workers: list[JobWorker] = []

    def looked_after(queue: JobQueue, *given: Any, **named: Any) -> bool:
        workers[-1]._keep()
        return add(queue, *given, **named)

    start = JobWorker.start

    def known(worker: JobWorker, works: Any) -> None:
        workers.append(worker)
        start(worker, works)

    monkeypatch.setattr(JobWorker, "start", known)
    monkeypatch.setattr(JobQueue, "add", looked_after)
    api = make_api()
    events = api.events(f"/threads/{api.thread('hi')}/runs", {"assistant_id": api.assistant()})
    assert names_of(events)[-2:] == END
