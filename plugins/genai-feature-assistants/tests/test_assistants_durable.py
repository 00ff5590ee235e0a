"""Runs that outlive who works at them: killed before each of their writes, taken over, given
up, too late."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import pytest
from genai_feature_assistants.service.threads import Messages

from genai_host.api import Cancellation, Job
from genai_host.api.storage import MAX_TRIES
from genai_host.errors import StoreError
from genai_host.store.documents import Documents
from genai_host.store.jobs import JobWorker
from genai_host_testing import ManualClock, RecordedPrompt
from genai_host_testing.fake_service import HANG
from genai_host_testing.internal.assistants_api import (
    SEARCH,
    WEATHER,
    Api,
    MakeApi,
    api_of,
    calls,
    outputs_in,
    path_of,
    says,
    until,
)
from genai_host_testing.internal.faults import ByHand
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.stores import MakeStore

pytestmark = pytest.mark.part

JOBS = "assistants/jobs"
WITHOUT_WORKERS = patch.object(JobWorker, "_start", lambda self, job: None)
"""A context in which no job is begun."""


def with_tools(prompt: RecordedPrompt) -> Any:
    """It searches, has a function called, and answers."""
    rounds = [message for message in prompt.messages if message.role == "tool"]
    if not rounds:
        return calls(("c1", "file_search", {"query": "the sea"}), text="I look.")
    if len(rounds) == 1:
        return calls(("c2", "weather", {"city": "Oslo"}))
    return says(f"the sea 【0:0†sea.txt】 is {outputs_in(prompt)[0]}")


def test_item_14_a_run_killed_before_any_write_goes_on_and_says_nothing_twice(
    make_host: MakeHost, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever works at it first is killed one write later each time, until it is not; the next
    goes on from what is in the store, and clients see what they would have seen."""
    by_hand = ByHand(monkeypatch, "run")
    with api_of(make_host, make_store(), with_tools) as api:
        resources = {"file_search": {"vector_store_ids": [api.store_of(sea="the sea")]}}
        assistant = api.assistant(SEARCH, WEATHER, tool_resources=resources)

        def seen(number: int | None) -> tuple[Any, bool]:
            thread = api.thread("?")
            run = api.post(f"/threads/{thread}/runs", {"assistant_id": assistant})
            is_killed = by_hand.do(number)
            outputs = {"tool_outputs": [{"tool_call_id": "c2", "output": "cold"}]}
            api.post(f"{path_of(run)}/submit_tool_outputs", outputs)
            is_killed = by_hand.do(number) or is_killed
            return shown(api, api.get(path_of(run))), is_killed

        uninterrupted, _ = seen(None)
        expected = [("assistant", "I look."), ("assistant", "the sea 【0:0†sea.txt】 is cold")]
        assert uninterrupted["texts"][1:] == expected
        number, is_killed = 0, True
        while is_killed:
            resumed, is_killed = seen(number)
            assert resumed == uninterrupted, f"killed before write {number}"
            number += 1
        assert number > 15


def shown(api: Api, run: Any) -> dict[str, Any]:
    """What a client sees of a run, but for what differs from run to run."""
    messages = api.get(f"/threads/{run['thread_id']}/messages", order="asc")["data"]
    return {
        "run": (run["status"], run["usage"], run["required_action"]),
        "texts": api.texts(run["thread_id"]),
        "cited": [len(each["content"][0]["text"]["annotations"]) for each in messages],
        "steps": [
            (step["type"], step["status"], step["usage"], outputs_of(step))
            for step in api.steps(run)
        ],
    }


def outputs_of(step: Any) -> list[Any]:
    calls = step["step_details"].get("tool_calls", ())
    return [call[call["type"]].get("output", len(call[call["type"]])) for call in calls]


def test_item_14_others_take_over_runs(make_host: MakeHost, make_store: MakeStore) -> None:
    with ExitStack() as first, api_of(make_host, make_store()) as other:
        api = first.enter_context(api_of(make_host, make_store()))
        api.fake.faults[0] = HANG
        thread = api.thread("hi")
        run = api.begin(thread, api.assistant())
        assert api.fake.hanging.wait(30)
        assert other.get(path_of(run))["status"] == "in_progress"
        first.close()
        assert other.ended(run)["status"] == "completed"
        assert other.texts(thread) == [("user", "hi"), ("assistant", "hi")]


@pytest.mark.parametrize(
    ("tries", "status", "reason"),
    [(1, "completed", "None"), (MAX_TRIES, "failed", "ended repeatedly")],
)
def test_item_14_run_of_a_killed_worker(
    make_api: MakeApi, tries: int, status: str, reason: str
) -> None:
    """As if a worker had taken its job, and had not been heard of since; a run that ends those who
    do it is given up."""
    api = make_api()
    with WITHOUT_WORKERS:
        run = api.begin(api.thread("hi"), api.assistant())
    other = make_api()
    abandon(api, tries)
    run = other.ended(run)
    assert run["status"] == status
    assert reason in str(run["last_error"])
    assert other.run(run["thread_id"], run["assistant_id"])["status"] == "completed"


def abandon(api: Api, tries: int) -> None:
    documents = api.store.for_owner("").documents(JOBS)
    [document] = documents.list()
    gone = {"worker": "killed", "until": 0.0, "tries": tries}
    documents.put(document.id, {**document.value, **gone})


def test_item_14_a_run_nobody_can_do_expires(make_api: MakeApi, clock: ManualClock) -> None:
    api = make_api(clock=clock)
    with WITHOUT_WORKERS:
        thread = api.thread("hi")
        run = api.begin(thread, api.assistant())
        clock.advance(601)
        assert api.get(path_of(run))["status"] == "queued"
        clock.advance(60)
        run = api.get(path_of(run))
        assert (run["status"], run["expires_at"]) == ("expired", None)
        api.post(f"/threads/{thread}/messages", {"role": "user", "content": "more"})


def test_a_run_without_a_job_is_continued(make_api: MakeApi, clock: ManualClock) -> None:
    """The store fails after the run was stored, and before its job is."""
    api = make_api(clock=clock)
    thread, body = api.thread("hi"), {"assistant_id": api.assistant()}
    with patch.object(JobWorker, "submit", fail):
        assert api.ask("POST", f"/threads/{thread}/runs", body).status_code >= 500
    api.post(f"/threads/{thread}/runs", body, 400)  # it may still be added
    clock.advance(61)
    [run] = api.get(f"/threads/{thread}/runs")["data"]
    assert api.ended(run)["status"] == "completed"
    assert api.run(thread, body["assistant_id"])["status"] == "completed"


def test_a_run_that_cannot_be_created_does_not_lock_its_thread(make_api: MakeApi) -> None:
    api = make_api()
    thread, assistant = api.thread("hi"), api.assistant()
    more = [{"role": "user", "content": "more"}]
    body = {"assistant_id": assistant, "additional_messages": more}
    with patch.object(Messages, "add", fail):
        assert api.ask("POST", f"/threads/{thread}/runs", body).status_code >= 500
    assert api.run(thread, assistant, additional_messages=more)["status"] == "completed"


def test_an_interrupted_deletion_of_a_thread_can_be_repeated(make_api: MakeApi) -> None:
    api = make_api(with_asking)
    thread = api.thread("secret")
    run = api.run(thread, api.assistant(WEATHER))
    api.post(f"{path_of(run)}/cancel")
    with patch.object(Documents, "clear", fail):
        assert api.ask("DELETE", f"/threads/{thread}").status_code >= 500
    api.get(f"/threads/{thread}", 404)
    api.post(f"/threads/{thread}/messages", {"role": "user", "content": "more"}, 404)
    api.delete(f"/threads/{thread}")
    api.delete(f"/threads/{thread}", 404)
    for kind in (f"message/{thread}", f"run/{thread}", f"step/{run['id']}", "thread"):
        assert api.store.for_owner("").documents(f"assistants/{kind}").count() == 0


def fail(*args: Any, **named: Any) -> Any:
    raise StoreError("the disk is full")


def test_item_11_run_expires_while_the_model_thinks(make_api: MakeApi, clock: ManualClock) -> None:
    api = make_api(clock=clock)
    api.fake.faults[0] = HANG
    run = api.begin(api.thread("hi"), api.assistant())
    assert api.fake.hanging.wait(30)
    clock.advance(601)
    assert api.ended(run)["status"] == "expired"


def test_item_11_run_expires_that_waits_for_client(make_api: MakeApi, clock: ManualClock) -> None:
    api = make_api(with_asking, clock=clock)
    run = api.run(api.thread("hi"), api.assistant(WEATHER))
    assert run["status"] == "requires_action"
    clock.advance(600)
    outputs = {"tool_outputs": [{"tool_call_id": "c1", "output": ""}]}
    assert "expired" in api.error(api.post(f"{path_of(run)}/submit_tool_outputs", outputs, 400))
    run = api.get(path_of(run))
    assert (run["status"], run["expires_at"]) == ("expired", None)
    [step] = api.steps(run)
    assert (step["status"], step["expired_at"] is None) == ("expired", False)


def with_asking(prompt: RecordedPrompt) -> Any:
    return calls(("c1", "weather", {"city": "Oslo"}))


def test_item_14_all_is_there_after_a_restart(make_host: MakeHost, make_store: MakeStore) -> None:
    with api_of(make_host, make_store()) as api:
        assistant, file = api.assistant(name="A", metadata={"a": "b"}), api.upload("a.txt", b"hi")
        thread = api.thread("hello")
        run = path_of(api.run(thread, assistant))
        store = api.store_of(sea="the sea is blue")
        paths = [f"/assistants/{assistant}", f"/threads/{thread}", f"/threads/{thread}/messages"]
        paths += [run, f"{run}/steps", f"/files/{file}", f"/vector_stores/{store}/files"]
        before = [api.get(path) for path in paths]
    with api_of(make_host, make_store()) as api:
        assert [api.get(path) for path in paths] == before
        assert api.ask("GET", f"/files/{file}/content").content == b"hi"
        results = api.post(f"/vector_stores/{store}/search", {"query": "the sea is blue"})
        assert results["data"][0]["filename"] == "sea.txt"


def test_a_file_that_was_left_is_made_searchable_by_others(make_api: MakeApi) -> None:
    api = make_api()
    with WITHOUT_WORKERS:
        file = api.upload("a.txt", b"the sea")
        store = api.post("/vector_stores", {"file_ids": [file]})["id"]
    abandon(api, 0)
    other = make_api()
    until(lambda: other.get(f"/vector_stores/{store}")["status"] == "completed")


def test_added_again_is_indexed_last(make_api: MakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[tuple[JobWorker, Job]] = []
    monkeypatch.setattr(JobWorker, "_start", lambda *job: waiting.append(job))
    api = make_api()
    file, store = api.upload("a.txt", b"hello"), api.post("/vector_stores")["id"]
    for _ in range(2):
        api.post(f"/vector_stores/{store}/files", {"file_id": file})
    (worker, first), (_, last) = waiting
    with Cancellation() as ending:
        ending.cancel()  # as the first job is, while it runs
        worker._works[first.kind](first, ending)
    worker._works[last.kind](last, Cancellation())
    assert api.get(f"/vector_stores/{store}/files/{file}")["status"] == "completed"
    [hit] = api.post(f"/vector_stores/{store}/search", {"query": "hello"})["data"]
    assert hit["content"][0]["text"] == "hello"
