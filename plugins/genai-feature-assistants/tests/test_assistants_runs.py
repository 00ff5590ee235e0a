"""Runs over HTTP: the loop with tools, their ends, what they refuse, and their events."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from genai_feature_assistants.service.run_states import Streams

from genai_host.errors import RateLimited, ServiceUnavailable
from genai_host.store.jobs import JobQueue, JobWorker
from genai_host_testing import RecordedPrompt
from genai_host_testing.fake_service import CUT, HANG
from genai_host_testing.internal.assistants_api import (
    SEARCH,
    WEATHER,
    Api,
    MakeApi,
    calls,
    outputs_in,
    path_of,
    says,
    until,
)

pytestmark = pytest.mark.part


def with_weather(prompt: RecordedPrompt) -> Any:
    outputs = outputs_in(prompt)
    if outputs:
        return says(f"it is {' and '.join(outputs)}")
    return calls(("c1", "weather", {"city": "Oslo"}), ("c2", "weather", {"city": "Rome"}))


def test_item_11_a_run_answers_and_its_steps_and_usage_are_told(make_api: MakeApi) -> None:
    api = make_api(lambda prompt: says(f"you said {prompt.text}"))
    assistant = api.assistant(instructions="Be kind.", metadata={"a": "1"})
    thread = api.thread("hello")
    run = api.run(thread, assistant, additional_instructions="And short.")
    assert run["status"] == "completed", run
    assert run["usage"] == {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    assert run["instructions"] == "Be kind.\nAnd short."
    assert run["expires_at"] is None
    assert run["started_at"] is not None
    assert run["completed_at"] is not None
    assert not [name for name in run if name.startswith("_")]
    assert api.texts(thread) == [("user", "hello"), ("assistant", "you said hello")]
    [step] = api.steps(run)
    [message] = api.get(f"/threads/{thread}/messages", run_id=run["id"])["data"]
    assert step["step_details"]["message_creation"] == {"message_id": message["id"]}
    assert message["assistant_id"] == assistant
    system, user = api.fake.prompts[0].messages
    assert (system.role, system.text) == ("system", "Be kind.\nAnd short.")
    assert user.text == "hello"


def test_item_11_functions_are_called_by_the_client(make_api: MakeApi) -> None:
    api = make_api(with_weather)
    thread = api.thread("the weather?")
    run = api.run(thread, api.assistant(WEATHER))
    assert run["status"] == "requires_action"
    action = run["required_action"]["submit_tool_outputs"]["tool_calls"]
    expected = [("c1", "weather"), ("c2", "weather")]
    assert [(call["id"], call["function"]["name"]) for call in action] == expected
    [step] = api.steps(run)
    assert step["status"] == "in_progress"
    run = api.submit(run, c1="cold", c2="warm")
    assert run["status"] == "completed"
    assert run["required_action"] is None
    assert api.texts(thread)[-1] == ("assistant", "it is cold and warm")
    called, message = api.steps(run)
    assert [call["function"]["output"] for call in called["step_details"]["tool_calls"]] == [
        "cold",
        "warm",
    ]
    assert called["status"] == message["status"] == "completed"
    assert run["usage"]["total_tokens"] == 40


def test_item_11_outputs_are_for_the_calls_that_were_asked_for(make_api: MakeApi) -> None:
    api = make_api(with_weather)
    run = api.run(api.thread("the weather?"), api.assistant(WEATHER))
    path = f"{path_of(run)}/submit_tool_outputs"

    def refusal(*ids: str) -> str:
        outputs = [{"tool_call_id": id, "output": ""} for id in ids]
        error = api.post(path, {"tool_outputs": outputs}, 400)["error"]
        assert error["param"] == "tool_outputs"
        return str(error["message"])

    refusal()
    assert "c2" in refusal("c1")
    assert "c3" in refusal("c1", "c2", "c3")
    assert api.get(path_of(run)) == run
    assert api.submit(run, c1="cold", c2="warm")["status"] == "completed"
    assert "completed" in api.error(api.post(path, {"tool_outputs": []}, 400))


def test_ids_of_calls_are_told_apart_over_all_rounds(make_api: MakeApi) -> None:
    def answer(prompt: RecordedPrompt) -> Any:
        rounds = sum(message.role == "tool" for message in prompt.messages)
        return calls(("c", "weather", {})) if rounds < 2 else says("done")

    api = make_api(answer)
    run = api.run(api.thread("the weather?"), api.assistant(WEATHER))
    ids = []
    while run["status"] == "requires_action":
        [call] = run["required_action"]["submit_tool_outputs"]["tool_calls"]
        ids.append(call["id"])
        run = api.submit(run, **{call["id"]: "cold"})
    assert run["status"] == "completed"
    assert len(ids) == len(set(ids)) == 2


def test_functions_that_there_are_not_are_refused_to_the_model(make_api: MakeApi) -> None:
    """The client is not asked, and does not see the call."""
    unknown: tuple[str, str, Any] = ("c", "wether", {})
    asked = [unknown, ("d", "weather", {})]

    def answer(prompt: RecordedPrompt) -> Any:
        outputs = outputs_in(prompt)
        return says(" ".join(outputs)) if outputs else calls(*asked)

    api = make_api(answer)
    thread, assistant = api.thread("hi"), api.assistant(WEATHER)
    run = api.run(thread, assistant)
    [call] = run["required_action"]["submit_tool_outputs"]["tool_calls"]
    run = api.submit(run, d="cold")
    [shown] = api.steps(run)[0]["step_details"]["tool_calls"]
    assert call["id"] == shown["id"] == "d"
    assert api.texts(thread)[-1] == ("assistant", "unknown function 'wether' cold")
    asked[:] = [unknown]
    assert api.run(thread, assistant)["status"] == "completed"
    assert api.texts(thread)[-1] == ("assistant", "unknown function 'wether'")


def test_item_11_a_run_is_cancelled_while_the_model_thinks(make_api: MakeApi) -> None:
    api = make_api()
    api.fake.faults[0] = HANG
    thread = api.thread("hi")
    run = api.begin(thread, api.assistant())
    assert (run["status"], run["started_at"], run["usage"]) == ("queued", None, None)
    assert run["expires_at"] == run["created_at"] + 600
    assert api.fake.hanging.wait(30)
    now = api.get(path_of(run))
    assert (now["status"], now["started_at"] is None) == ("in_progress", False)
    api.post(f"{path_of(run)}/submit_tool_outputs", {"tool_outputs": []}, 400)
    assert api.post(f"{path_of(run)}/cancel")["status"] in ("cancelling", "cancelled")
    run = api.ended(run)
    assert run["status"] == "cancelled"
    assert run["cancelled_at"] is not None
    assert "cancelled" in api.error(api.post(f"{path_of(run)}/cancel", status=400))
    assert api.texts(thread) == [("user", "hi")]
    assert api.run(thread, run["assistant_id"])["status"] == "completed"


def test_item_11_a_run_that_waits_for_its_client_is_cancelled_at_once(make_api: MakeApi) -> None:
    api = make_api(with_weather)
    run = api.run(api.thread("the weather?"), api.assistant(WEATHER))
    run = api.post(f"{path_of(run)}/cancel")
    assert (run["status"], run["required_action"]) == ("cancelled", None)


@pytest.mark.parametrize(("fault", "code"), [
    (RateLimited("too many", retry_after=1), "rate_limit_exceeded"),
    (ServiceUnavailable("it is down"), "server_error"),
])  # fmt: skip
def test_item_11_what_goes_wrong_fails_the_run(make_api: MakeApi, fault: Any, code: str) -> None:
    api = make_api()
    api.fake.faults[0] = fault
    thread = api.thread("hi")
    run = api.run(thread, api.assistant())
    assert (run["status"], run["last_error"]["code"]) == ("failed", code)
    assert fault.message in run["last_error"]["message"]
    assert (run["failed_at"] is None, run["completed_at"]) == (False, None)
    assert api.texts(thread) == [("user", "hi")]
    assert api.run(thread, run["assistant_id"])["status"] == "completed"


def test_item_11_bounds_on_tokens_leave_a_run_incomplete(make_api: MakeApi) -> None:
    api = make_api(lambda prompt: says("so far", finish="length"))
    thread = api.thread("hi")
    run = api.run(thread, api.assistant(), max_completion_tokens=256)
    assert run["status"] == "incomplete"
    assert run["incomplete_details"] == {"reason": "max_completion_tokens"}
    [message] = api.get(f"/threads/{thread}/messages", run_id=run["id"])["data"]
    expected = ("incomplete", {"reason": "max_tokens"})
    assert (message["status"], message["incomplete_details"]) == expected
    assert (message["completed_at"], message["incomplete_at"] is None) == (None, False)
    assert message["content"][0]["text"]["value"] == "so far"
    assert api.fake.prompts[0].parameters == {"max_tokens": 256}


def test_what_a_run_sees_of_its_thread(make_api: MakeApi) -> None:
    api = make_api(lambda prompt: " | ".join(message.text for message in prompt.messages))
    thread = api.thread("one", "two", "three")
    more = [{"role": "user", "content": "four"}]
    strategy = {"type": "last_messages", "last_messages": 2}
    run = api.run(thread, api.assistant(), additional_messages=more, truncation_strategy=strategy)
    assert run["truncation_strategy"] == strategy
    assert api.texts(thread)[3:] == [("user", "four"), ("assistant", "three | four")]


def test_a_thread_has_one_run_at_a_time(make_api: MakeApi) -> None:
    api = make_api(with_weather)
    thread = api.thread("the weather?")
    assistant = api.assistant(WEATHER)
    run = api.run(thread, assistant)
    again = api.post(f"/threads/{thread}/runs", {"assistant_id": assistant}, 400)
    assert f"already has an active run {run['id']}" in api.error(again)
    message = {"role": "user", "content": "more"}
    assert run["id"] in api.error(api.post(f"/threads/{thread}/messages", message, 400))
    assert run["id"] in api.error(api.delete(f"/threads/{thread}", 400))
    assert len(api.get(f"/threads/{thread}/runs")["data"]) == 1
    api.submit(run, c1="a", c2="b")
    api.post(f"/threads/{thread}/messages", message)


CHOSEN = {"type": "function", "function": {"name": "weather"}}


def test_a_tool_choice_holds_for_the_first_prompt(make_api: MakeApi) -> None:
    api = make_api(with_weather)
    chosen = {"tool_choice": CHOSEN, "parallel_tool_calls": False}
    run = api.run(api.thread("the weather?"), api.assistant(WEATHER), **chosen)
    assert run["tool_choice"] == CHOSEN
    [call] = run["required_action"]["submit_tool_outputs"]["tool_calls"]  # one at a time
    assert call["id"] == "c1"
    assert api.submit(run, c1="a")["status"] == "completed"


def test_answers_in_json_are_checked(make_api: MakeApi) -> None:
    api = make_api(lambda prompt: '{"city": "Oslo"}' if prompt.schema else "no")
    thread = api.thread("where?")
    run = api.run(thread, api.assistant(response_format={"type": "json_object"}))
    assert run["status"] == "completed"
    assert api.texts(thread)[-1][1] == '{"city": "Oslo"}'
    assert api.fake.prompts[0].schema == {"type": "object"}


@pytest.mark.parametrize(("fields", "path"), [
    ({"model": "nobody"}, "model"), ({"tools": [{"type": "retrieval"}]}, "tools[0].type"),
    ({"temperature": 3}, "temperature"),
    ({"max_completion_tokens": 255}, "max_completion_tokens"),
    ({"metadata": {"a": 1}}, "metadata.a"), ({"tool_choice": "always"}, "tool_choice"),
    ({"tool_choice": "required"}, "tool_choice"), ({"tool_choice": CHOSEN}, "tool_choice"),
    ({"truncation_strategy": {"type": "last_messages"}}, "last_messages"),
    ({"additional_messages": [{"role": "system", "content": "a"}]}, "role"),
    ({"nonsense": 1}, "nonsense"),
    ({"assistant_id": ""}, "assistant_id"),
    ({"stream": "yes"}, "stream"),
])  # fmt: skip
def test_what_a_run_must_not_ask_for(make_api: MakeApi, fields: Any, path: str) -> None:
    api = make_api()
    thread = api.thread("hi")
    body = {"assistant_id": api.assistant(), **fields}
    refused = api.post(f"/threads/{thread}/runs", body, 400)
    error = refused["error"]
    assert path in f"{error['param']} {error['message']}", refused
    assert api.get(f"/threads/{thread}/runs")["data"] == []
    assert api.texts(thread) == [("user", "hi")]


def test_a_model_that_says_nothing_fails_the_run(make_api: MakeApi) -> None:
    api = make_api(lambda prompt: says("  "))
    run = api.run(api.thread("hi"), api.assistant())
    assert run["status"] == "failed"
    assert "empty answer" in run["last_error"]["message"]


def test_users_have_their_own(make_api: MakeApi) -> None:
    ann, bob = make_api(user="ann"), make_api(user="bob")
    assistant, thread = ann.assistant(), ann.thread("hi")
    file = ann.upload("a.txt", b"a")
    for path in (f"/assistants/{assistant}", f"/threads/{thread}", f"/files/{file}"):
        ann.get(path)
        bob.get(path, 404)
    assert bob.get("/assistants")["data"] == []
    run = ann.run(thread, assistant)
    assert run["status"] == "completed"
    bob.get(path_of(run), 404)


def test_records_of_runs_are_not_kept_nor_among_conversations(make_api: MakeApi) -> None:
    api = make_api()
    api.run(api.thread("hi"), api.assistant())
    until(lambda: not api.store.for_owner("assistants/").conversations())
    assert api.store.conversations() == []
    until(lambda: not api.store.for_owner("").documents("assistants/jobs").list())


MESSAGE = [
    "thread.run.step.created", "thread.run.step.in_progress", "thread.message.created",
    "thread.message.in_progress", "thread.message.delta", "thread.message.completed",
    "thread.run.step.completed",
]  # fmt: skip
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
    api = make_api(lambda prompt: "many words, in several pieces")
    thread = api.thread("hi")
    events = api.events(f"/threads/{thread}/runs", {"assistant_id": api.assistant()})
    assert names_of(events) == [*BEGUN, *MESSAGE, *END]
    assert [run["status"] for _, run in events[:3]] == ["queued", "queued", "in_progress"]
    assert text_of(events) == "many words, in several pieces"
    deltas = [data for name, data in events if name == "thread.message.delta"]
    assert len(deltas) > 1
    assert events[-1] == ("done", "[DONE]")
    last = dict(events)["thread.run.completed"]
    assert last == api.get(path_of(last))
    [message] = api.get(f"/threads/{thread}/messages", run_id=last["id"])["data"]
    assert message == dict(events)["thread.message.completed"]
    begun = dict(events)["thread.message.created"]
    assert (begun["id"], begun["content"], begun["status"]) == (message["id"], [], "in_progress")
    assert {(each["id"], each["object"]) for each in deltas} == {
        (message["id"], "thread.message.delta")
    }
    assert api.steps(last) == [dict(events)["thread.run.step.completed"]]


def test_item_11_stream_ends_at_calls_and_goes_on_after(make_api: MakeApi) -> None:
    def answer(prompt: RecordedPrompt) -> Any:
        results = outputs_in(prompt)
        if results:
            return says(f"it is {results[0]}")
        return calls(("c1", "weather", {"city": "Oslo"}), text="Let me see.")

    api = make_api(answer)
    thread = api.thread("the weather?")
    events = api.events(f"/threads/{thread}/runs", {"assistant_id": api.assistant(WEATHER)})
    assert names_of(events) == [
        *BEGUN, *MESSAGE, "thread.run.step.created", "thread.run.step.in_progress",
        "thread.run.step.delta", "thread.run.requires_action", "done",
    ]  # fmt: skip
    [call] = dict(events)["thread.run.step.delta"]["delta"]["step_details"]["tool_calls"]
    assert call["function"] == {"name": "weather", "arguments": '{"city":"Oslo"}', "output": None}
    run = dict(events)["thread.run.requires_action"]
    outputs = {"tool_outputs": [{"tool_call_id": "c1", "output": "cold"}]}
    events = api.events(f"{path_of(run)}/submit_tool_outputs", outputs)
    assert names_of(events) == [
        "thread.run.queued", "thread.run.in_progress", "thread.run.step.completed", *MESSAGE, *END,
    ]  # fmt: skip
    assert text_of(events) == "it is cold"


def test_item_11_a_thread_and_a_run_in_one_stream(make_api: MakeApi) -> None:
    api = make_api()
    new_thread = {"messages": [{"role": "user", "content": "hello"}], "metadata": {"a": "b"}}
    events = api.events("/threads/runs", {"assistant_id": api.assistant(), "thread": new_thread})
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


class TestARunThatEndsWhileItsMessageIsStreamed:
    """The message has what was streamed."""

    def events(
        self, api: Api, monkeypatch: pytest.MonkeyPatch, end: Callable[[Any], None]
    ) -> list[tuple[str, Any]]:
        """The events of a run whose stream waits after its first chunk until `end` has ended it."""
        api.fake.faults[0] = CUT
        begun: queue.SimpleQueue[Any] = queue.SimpleQueue()
        has_ended = threading.Event()

        def waits(events: Iterator[Any]) -> Iterator[Any]:
            yield next(events)
            assert has_ended.wait(60)
            yield from events

        publish = Streams.publish

        def published(streams: Streams, run: str, event: str, value: Any) -> None:
            publish(streams, run, event, value)
            if event == "thread.run.in_progress":
                begun.put(value)
            if event == "thread.message.delta":
                has_shown.set()

        has_shown = threading.Event()
        monkeypatch.setattr("genai_host_testing.fake_model._cut", waits)
        monkeypatch.setattr(Streams, "publish", published)

        def ends() -> None:
            run = begun.get(timeout=60)
            assert has_shown.wait(60)
            end(run)
            has_ended.set()

        ending = threading.Thread(target=ends)
        ending.start()
        thread = api.thread("hi")
        try:
            return api.events(f"/threads/{thread}/runs", {"assistant_id": api.assistant()})
        finally:
            ending.join()

    def test_item_11_cancelled(self, make_api: MakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
        api = make_api(lambda prompt: "many words, in several pieces")
        events = self.events(api, monkeypatch, lambda run: api.post(f"{path_of(run)}/cancel"))
        names = [name for name in names_of(events) if name != "thread.run.cancelling"]
        assert names == [
            *BEGUN, *MESSAGE[:-2], "thread.message.incomplete", "thread.run.step.cancelled",
            "thread.run.cancelled", "done",
        ]  # fmt: skip
        run = dict(events)["thread.run.cancelled"]
        message = dict(events)["thread.message.incomplete"]
        assert (message["status"], message["completed_at"]) == ("incomplete", None)
        assert message["incomplete_details"] == {"reason": "run_cancelled"}
        assert message["incomplete_at"] is not None
        assert message["content"][0]["text"]["value"] == text_of(events) == "many wor"
        path = f"/threads/{run['thread_id']}/messages"
        assert api.get(path, run_id=run["id"])["data"] == [message]
        [step] = api.steps(run)
        assert step == dict(events)["thread.run.step.cancelled"]
        assert step["cancelled_at"] is not None
        assert step["step_details"]["message_creation"] == {"message_id": message["id"]}
        assert run["usage"]["total_tokens"] == 0
        api.run(run["thread_id"], run["assistant_id"])
        assert [each.text for each in api.fake.prompts[-1].messages] == ["hi", "many wor", "Go on."]

    def test_item_11_it_fails(self, make_api: MakeApi) -> None:
        api = make_api(lambda prompt: "many words, in several pieces")
        api.fake.faults = dict.fromkeys(range(9), CUT)
        events = api.events(f"/threads/{api.thread('hi')}/runs", {"assistant_id": api.assistant()})
        message = dict(events)["thread.message.incomplete"]
        assert message["incomplete_details"] == {"reason": "run_failed"}
        assert message["content"][0]["text"]["value"] == "many wor"
        assert dict(events)["thread.run.step.failed"]["last_error"]["code"] == "server_error"
        assert names_of(events)[-2:] == ["thread.run.failed", "done"]

    def test_item_11_it_fails_before_it_has_a_word(self, make_api: MakeApi) -> None:
        """The message was announced, and so it ends. The model is not shown it."""
        api = make_api(lambda prompt: " " * 8 + "words")
        api.fake.faults[0] = CUT
        events = api.events(f"/threads/{api.thread('hi')}/runs", {"assistant_id": api.assistant()})
        message = dict(events)["thread.message.incomplete"]
        assert message["id"] == dict(events)["thread.message.created"]["id"]
        assert message["content"] == []
        run = dict(events)["thread.run.failed"]
        path = f"/threads/{run['thread_id']}/messages"
        assert api.get(path, run_id=run["id"])["data"] == [message]
        api.run(run["thread_id"], run["assistant_id"])
        assert [each.text for each in api.fake.prompts[-1].messages] == ["hi"]


def test_what_cannot_begin_has_a_status_of_its_own(make_api: MakeApi) -> None:
    api = make_api()
    body = {"assistant_id": api.assistant(), "model": "nobody", "stream": True}
    assert "nobody" in api.error(api.post(f"/threads/{api.thread('hi')}/runs", body, 400))


def test_item_12_annotations_come_with_their_marks(make_api: MakeApi) -> None:
    def answer(prompt: RecordedPrompt) -> Any:
        outputs = outputs_in(prompt)
        if not outputs:
            return calls(("c1", "file_search", {"query": "the sea"}))
        return says(f"Blue {outputs[0].splitlines()[0]}.")

    api = make_api(answer)
    resources = {"file_search": {"vector_store_ids": [api.store_of(notes="the sea")]}}
    assistant = api.assistant(SEARCH, tool_resources=resources)
    events = api.events(f"/threads/{api.thread('?')}/runs", {"assistant_id": assistant})
    pieces = [data["delta"]["content"][0]["text"] for name, data in events if "e.delta" in name]
    assert "annotations" not in pieces[0]
    [[annotation]] = [piece["annotations"] for piece in pieces if "annotations" in piece]
    text = dict(events)["thread.message.completed"]["content"][0]["text"]
    assert {key: annotation[key] for key in annotation if key != "index"} == text["annotations"][0]
    assert annotation["text"] in text["value"] == text_of(events)


def test_new_run_is_not_taken_for_lost(make_api: MakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker looks after its jobs at any time: also just before one is in the store."""
    add = JobQueue.add
    workers: list[JobWorker] = []

    def looked_after(queue: JobQueue, *args: Any, **named: Any) -> bool:
        workers[-1]._keep()
        return add(queue, *args, **named)

    start = JobWorker.start

    def known(worker: JobWorker, works: Any) -> None:
        workers.append(worker)
        start(worker, works)

    monkeypatch.setattr(JobWorker, "start", known)
    monkeypatch.setattr(JobQueue, "add", looked_after)
    api = make_api()
    events = api.events(f"/threads/{api.thread('hi')}/runs", {"assistant_id": api.assistant()})
    assert names_of(events)[-2:] == END
