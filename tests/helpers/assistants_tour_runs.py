"""Assistants, threads, messages, files, runs and their steps, with an official SDK."""

from __future__ import annotations

import base64
from typing import Any

import openai
import pytest
from assistants_tour import (
    CALL,
    CLOCK,
    NOON,
    POLL,
    SEARCH,
    Side,
    Tour,
    calling,
    completion,
    ids,
    results,
)

from genai_host.api import Message, ToolCall, Usage
from genai_host.errors import ServiceUnavailable
from genai_host_testing.clock import ManualClock

TWICE = [CALL, ToolCall("c2", "clock", {"zone": "UTC"})]


class RunsTour(Tour):
    def test_item_11_a_run(self, side: Side) -> None:
        side.fake.answer = lambda prompt: completion("hello", usage=Usage(7, 3))
        assistant = side.assistant(
            instructions="be kind", temperature=0.5, top_p=0.25, metadata={"of": "assistant"}
        )
        thread = side.thread("hi", "there")
        run = side.ran(thread, assistant, metadata={"of": "run"})
        assert run.id.startswith("run_")
        assert (run.object, run.status) == ("thread.run", "completed")
        assert (run.thread_id, run.assistant_id) == (thread, assistant)
        assert (run.model, run.instructions, run.tools) == ("fake", "be kind", [])
        assert (run.temperature, run.top_p, run.metadata) == (0.5, 0.25, {"of": "run"})
        assert run.usage.to_dict() == {
            "prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10,
        }  # fmt: skip
        assert run.created_at <= run.started_at <= run.completed_at
        assert (run.expires_at, run.failed_at, run.cancelled_at) == (None, None, None)
        assert (run.last_error, run.required_action, run.incomplete_details) == (None,) * 3
        (prompt,) = side.fake.prompts
        assert prompt.messages == (
            Message("system", "be kind"), Message("user", "hi"), Message("user", "there"),
        )  # fmt: skip
        assert prompt.parameters == {"temperature": 0.5, "top_p": 0.25}

        newest = side.beta.threads.messages.list(thread).data[0]
        assert (newest.role, newest.status, newest.run_id) == ("assistant", "completed", run.id)
        assert newest.assistant_id == assistant
        assert newest.content[0].text.value == "hello"
        (step,) = side.runs.steps.list(run.id, thread_id=thread)
        assert step.step_details.message_creation.message_id == newest.id
        assert (step.object, step.type, step.status) == (
            "thread.run.step", "message_creation", "completed",
        )  # fmt: skip
        assert step.usage.total_tokens == 10
        assert side.runs.steps.retrieve(step.id, run_id=run.id, thread_id=thread) == step

    def test_item_11_a_run_that_says_more_than_its_assistant(self, side: Side) -> None:
        side.fake.answer = lambda prompt: '{"x": 1}'
        assistant = side.assistant(instructions="be kind", tools=[CLOCK])
        thread = side.thread(*"abcde")
        form = {"type": "json_schema", "json_schema": {"name": "p", "schema": {"type": "object"}}}
        run = side.ran(
            thread, assistant, instructions="be brief", additional_instructions="and clear",
            additional_messages=[{"role": "user", "content": "f"}],
            max_completion_tokens=500, max_prompt_tokens=5000, parallel_tool_calls=False,
            response_format=form, temperature=0, tool_choice="none", tools=[],
            truncation_strategy={"type": "last_messages", "last_messages": 2},
        )  # fmt: skip
        assert run.status == "completed"
        assert run.instructions == "be brief\nand clear"
        assert (run.max_completion_tokens, run.max_prompt_tokens) == (500, 5000)
        assert (run.parallel_tool_calls, run.tool_choice, run.tools) == (False, "none", [])
        assert run.response_format.to_dict() == form
        assert run.truncation_strategy.to_dict() == {"type": "last_messages", "last_messages": 2}
        (prompt,) = side.fake.prompts
        assert [each.text for each in prompt.messages] == ["be brief\nand clear", "e", "f"]
        assert prompt.parameters == {"temperature": 0, "max_tokens": 500}
        assert prompt.schema == {"type": "object"}
        assert prompt.tools == ()

    def test_item_11_pages_of_runs(self, side: Side) -> None:
        side.fake.answer = lambda prompt: f"answer {prompt.number}"
        assistant, thread = side.assistant(), side.thread()
        runs = [side.ran(thread, assistant) for _ in range(3)]
        assert list(side.runs.list(thread, limit=2)) == runs[::-1]
        assert ids(side.runs.list(thread, order="asc", after=runs[0].id, limit=1).data) == [
            runs[1].id
        ]
        assert ids(side.runs.list(thread, before=runs[0].id).data) == ids(runs[:0:-1])
        assert [side.texts(each) for each in runs] == [["answer 0"], ["answer 1"], ["answer 2"]]
        changed = side.runs.update(runs[0].id, thread_id=thread, metadata={"a": "b"})
        assert changed.metadata == {"a": "b"}
        assert side.runs.retrieve(runs[0].id, thread_id=thread) == changed

    @pytest.mark.parametrize("polls", [False, True], ids=["submit", "and_poll"])
    def test_item_11_requires_action(self, side: Side, polls: bool) -> None:
        side.fake.answer = calling(*TWICE, text="Let me see.")
        assistant, thread = side.assistant(tools=[CLOCK]), side.thread("when?")
        run = side.ran(thread, assistant)
        assert (run.status, run.required_action.type) == ("requires_action", "submit_tool_outputs")
        calls = run.required_action.submit_tool_outputs.tool_calls
        assert [(call.id, call.type, call.function.name) for call in calls] == [
            ("c1", "function", "clock"), ("c2", "function", "clock"),
        ]  # fmt: skip
        assert [call.function.arguments for call in calls] == ['{"zone":"CET"}', '{"zone":"UTC"}']
        step, message_step = side.runs.steps.list(run.id, thread_id=thread)  # newest first
        assert (message_step.type, message_step.status) == ("message_creation", "completed")
        assert (step.type, step.status, step.usage) == ("tool_calls", "in_progress", None)
        assert step.step_details.tool_calls[0].function.output is None

        outputs = [*NOON, {"tool_call_id": "c2", "output": "eleven"}]
        if polls:
            run = side.submitted(run, outputs)
        else:
            run = side.runs.submit_tool_outputs(run.id, thread_id=thread, tool_outputs=outputs)
            assert (run.status, run.required_action) == ("queued", None)
            run = side.polled(run)
        assert (run.status, run.usage.total_tokens) == ("completed", 20)
        assert side.texts(run) == ["Let me see.", "It gave noon, eleven."]
        _, called, _ = steps = list(side.runs.steps.list(run.id, thread_id=thread))
        assert (called.status, called.usage.total_tokens) == ("completed", 10)
        functions = [call.function for call in called.step_details.tool_calls]
        assert [each.output for each in functions] == ["noon", "eleven"]
        assert list(side.runs.steps.list(run.id, thread_id=thread, limit=1)) == steps
        oldest = side.runs.steps.list(run.id, thread_id=thread, order="asc", after=steps[2].id)
        assert list(oldest) == [called, steps[0]]

    @pytest.mark.parametrize("polls", [False, True], ids=["create", "and_poll"])
    def test_item_11_create_and_run(self, side: Side, polls: bool) -> None:
        thread: Any = {"messages": [{"role": "user", "content": "hi"}], "metadata": {"a": "b"}}
        fields = {"assistant_id": side.assistant(), "thread": thread, "instructions": "be brief"}
        if polls:
            run = side.beta.threads.create_and_run_poll(**fields, poll_interval_ms=POLL)
        else:
            run = side.beta.threads.create_and_run(**fields)
            assert run.status == "queued"
            run = side.polled(run)
        assert (run.status, run.instructions) == ("completed", "be brief")
        assert side.beta.threads.retrieve(run.thread_id).metadata == {"a": "b"}
        assert side.texts(run) == ["hi"]

    def test_item_11_cancelling_what_waits(self, side: Side) -> None:
        side.fake.answer = calling(CALL)
        run = side.ran(side.thread(), side.assistant(tools=[CLOCK]))
        run = side.runs.cancel(run.id, thread_id=run.thread_id)
        assert run.status in ("cancelling", "cancelled")
        run = side.polled(run)
        assert (run.status, run.required_action) == ("cancelled", None)
        assert run.usage.total_tokens == 0
        (step,) = side.runs.steps.list(run.id, thread_id=run.thread_id)
        assert step.status == "cancelled"
        assert step.cancelled_at

    def test_item_11_failed_after_a_call(self, side: Side) -> None:
        side.fake.answer = calling(CALL)
        side.fake.faults[1] = ServiceUnavailable("it is down")
        run = side.ran(side.thread(), side.assistant(tools=[CLOCK]))
        run = side.submitted(run, NOON)
        assert (run.status, run.last_error.code) == ("failed", "server_error")
        (step,) = side.runs.steps.list(run.id, thread_id=run.thread_id)
        assert step.status == "completed"  # the failure occurred after it

    @pytest.mark.parametrize("bound", ["max_prompt_tokens", "max_completion_tokens"])
    def test_item_11_incomplete_after_calls(self, side: Side, bound: str) -> None:
        side.fake.answer = lambda prompt: completion(CALL, usage=Usage(300, 300))
        limits: Any = {bound: 300}
        run = side.ran(side.thread(), side.assistant(tools=[CLOCK]), **limits)
        assert (run.status, run.incomplete_details.reason) == ("incomplete", bound)

    def test_item_11_expired(self, late: Side, clock: ManualClock) -> None:
        late.fake.answer = calling(CALL)
        run = late.ran(late.thread(), late.assistant(tools=[CLOCK]))
        assert run.status == "requires_action"
        clock.advance(601)
        run = late.runs.retrieve(run.id, thread_id=run.thread_id)
        assert (run.status, run.expires_at) == ("expired", None)
        assert late.polled(run) == run == late.runs.list(run.thread_id).data[0]
        (step,) = late.runs.steps.list(run.id, thread_id=run.thread_id)
        assert step.status == "expired"
        assert step.expired_at
        with pytest.raises(openai.BadRequestError, match="expired"):
            late.runs.submit_tool_outputs(run.id, thread_id=run.thread_id, tool_outputs=NOON)

    def test_item_11_a_conversation(self, side: Side) -> None:
        """The messages and calls of one run are part of the following runs."""
        side.fake.answer = calling(CALL, then=lambda prompt: f"It is {results(prompt)[0]}.")
        thread, assistant = side.thread("when?"), side.assistant(tools=[CLOCK])
        side.submitted(side.ran(thread, assistant), NOON)
        side.fake.answer = lambda prompt: "yes"
        side.beta.threads.messages.create(thread, role="user", content="sure?")
        assert side.texts(side.ran(thread, assistant)) == ["yes"]
        assert [(each.role, each.text) for each in side.fake.prompts[-1].messages] == [
            ("user", "when?"), ("assistant", "It is noon."), ("user", "sure?"),
        ]  # fmt: skip


PNG = b"\x89PNG\r\n\x1a\n and so on"
PIXEL = "data:image/png;base64," + base64.b64encode(PNG).decode()
FORM: Any = {
    "type": "json_schema",
    "json_schema": {"name": "point", "schema": {"type": "object"}, "strict": True},
}


class ObjectsTour(Tour):
    def test_item_11_assistants(self, side: Side) -> None:
        store, file = side.store(), side.file()
        resources: Any = {
            "code_interpreter": {"file_ids": [file]},
            "file_search": {"vector_store_ids": [store]},
        }
        settings: Any = {
            "name": "Ada", "description": "knows much", "instructions": "be brief",
            "tools": [CLOCK, SEARCH, {"type": "code_interpreter"}], "tool_resources": resources,
            "metadata": {"a": "b"}, "temperature": 0.5, "top_p": 0.25, "response_format": FORM,
        }  # fmt: skip
        assistant = side.beta.assistants.create(model="fake", **settings)
        assert assistant.id.startswith("asst_")
        assert (assistant.object, assistant.model) == ("assistant", "fake")
        # the SDK converts nested values to objects; compare them in the form in which it sends them
        fields = assistant.to_dict()
        assert {name: fields[name] for name in settings} == settings
        assert side.beta.assistants.retrieve(assistant.id) == assistant

        changed = side.beta.assistants.update(
            assistant.id, name="Bea", tools=[], tool_resources={}, response_format="auto",
            metadata={},
        )  # fmt: skip
        assert (changed.id, changed.name, changed.tools) == (assistant.id, "Bea", [])
        assert changed.instructions == "be brief"
        assert changed.response_format == "auto"
        assert side.beta.assistants.retrieve(assistant.id) == changed

        gone = side.beta.assistants.delete(assistant.id)
        assert (gone.id, gone.object, gone.deleted) == (assistant.id, "assistant.deleted", True)
        with pytest.raises(openai.NotFoundError):
            side.beta.assistants.retrieve(assistant.id)

    def test_item_11_what_an_assistant_is_without_more(self, side: Side) -> None:
        assistant = side.beta.assistants.create(model="fake")
        assert (assistant.name, assistant.description, assistant.instructions) == (None, None, None)
        assert (assistant.tools, assistant.metadata) == ([], {})
        assert side.beta.assistants.retrieve(assistant.id) == assistant
        assistant = side.beta.assistants.create(model="fake", name=None, tools=[], metadata=None)
        assert (assistant.name, assistant.tools, assistant.metadata) == (None, [], {})

    def test_item_11_lists_of_nothing(self, side: Side) -> None:
        thread = side.beta.threads.create().id
        for listed in (
            side.beta.assistants.list(), side.client.files.list(), side.stores.list(),
            side.beta.threads.messages.list(thread), side.runs.list(thread),
            side.stores.files.list(side.store()),
        ):  # fmt: skip
            assert list(listed) == []

    def test_item_11_pages(self, side: Side) -> None:
        a, b, c, d, e = assistants = [side.assistant(name=name) for name in "abcde"]
        listed = side.beta.assistants.list
        assert ids(listed().data) == assistants[::-1]
        first = listed(limit=2)
        assert (ids(first.data), first.has_more) == ([e, d], True)
        assert (first.first_id, first.last_id) == (e, d)
        second = first.get_next_page()
        assert (ids(second.data), second.has_more) == ([c, b], True)
        last = second.get_next_page()
        assert (ids(last.data), last.has_more, last.has_next_page()) == ([a], False, False)
        assert ids(list(listed(limit=2))) == assistants[::-1]  # all pages, in order
        assert ids(list(listed(limit=2, order="asc"))) == assistants
        assert ids(listed(order="asc", after=b, limit=2).data) == [c, d]
        assert ids(listed(after=d).data) == [c, b, a]
        before = listed(before=b, limit=2)
        assert (ids(before.data), before.has_more) == ([d, c], True)
        assert ids(listed(order="asc", before=c).data) == [a, b]

    def test_item_11_threads(self, side: Side) -> None:
        store, file = side.store(), side.file()
        empty = side.beta.threads.create()
        assert empty.id.startswith("thread_")
        assert (empty.object, empty.metadata) == ("thread", {})
        assert list(side.beta.threads.messages.list(empty.id)) == []
        messages: Any = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        code = {"code_interpreter": {"file_ids": [file]}}
        thread = side.beta.threads.create(
            messages=messages, metadata={"a": "b"}, tool_resources=code
        )
        assert thread.tool_resources.code_interpreter.file_ids == [file]
        stored = side.beta.threads.messages.list(thread.id, order="asc")
        assert [(each.role, each.content[0].text.value) for each in stored] == [
            ("user", "a"), ("assistant", "b"),
        ]  # fmt: skip
        assert side.beta.threads.retrieve(thread.id) == thread
        search = {"file_search": {"vector_store_ids": [store]}}
        changed = side.beta.threads.update(thread.id, metadata={"c": "d"}, tool_resources=search)
        assert changed.metadata == {"c": "d"}
        assert changed.tool_resources.file_search.vector_store_ids == [store]
        assert side.beta.threads.retrieve(thread.id) == changed
        gone = side.beta.threads.delete(thread.id)
        assert (gone.id, gone.object, gone.deleted) == (thread.id, "thread.deleted", True)
        for missing in (side.beta.threads.retrieve, side.beta.threads.messages.list):
            with pytest.raises(openai.NotFoundError):
                missing(thread.id)

    def test_item_11_messages(self, side: Side) -> None:
        messages, thread, file = side.beta.threads.messages, side.thread("first"), side.file()
        picture = side.client.files.create(file=("a.png", PNG), purpose="vision").id
        content: Any = [
            {"type": "text", "text": "look"},
            {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}},
            {"type": "image_url", "image_url": {"url": "https://localhost/a.png"}},
            {"type": "image_file", "image_file": {"file_id": picture}},
        ]
        attached: Any = [{"file_id": file, "tools": [SEARCH]}]
        message = messages.create(
            thread, role="user", content=content, attachments=attached, metadata={"a": "b"}
        )
        assert message.id.startswith("msg_")
        assert (message.object, message.thread_id) == ("thread.message", thread)
        assert (message.role, message.status, message.run_id) == ("user", "completed", None)
        text, data, link, image = message.content
        assert (text.type, text.text.value, text.text.annotations) == ("text", "look", [])
        assert (data.image_url.url, data.image_url.detail) == (PIXEL, "low")
        assert link.image_url.detail == "auto"
        assert (image.type, image.image_file.file_id) == ("image_file", picture)
        assert [each.to_dict() for each in message.attachments] == attached
        assert messages.retrieve(message.id, thread_id=thread) == message

        changed = messages.update(message.id, thread_id=thread, metadata={"c": "d"})
        assert changed.metadata == {"c": "d"}
        assert messages.retrieve(message.id, thread_id=thread) == changed
        gone = messages.delete(message.id, thread_id=thread)
        assert (gone.object, gone.deleted) == ("thread.message.deleted", True)
        with pytest.raises(openai.NotFoundError):
            messages.retrieve(message.id, thread_id=thread)
        assert [each.content[0].text.value for each in messages.list(thread)] == ["first"]

    def test_item_11_pages_of_messages(self, side: Side) -> None:
        thread = side.thread(*"abcde")
        listed = side.beta.threads.messages.list
        oldest = list(listed(thread, limit=2, order="asc"))
        assert [each.content[0].text.value for each in oldest] == list("abcde")
        after = listed(thread, order="asc", after=oldest[1].id, limit=2)
        assert ids(after.data) == ids(oldest[2:4])
        assert ids(listed(thread, order="asc", before=oldest[1].id).data) == ids(oldest[:1])
        assert list(listed(thread, run_id="run_1")) == []

    def test_item_11_files(self, side: Side) -> None:
        files = side.client.files
        one = files.create(file=("größe.txt", b"one"), purpose="assistants")
        assert one.id.startswith("file")
        assert (one.object, one.filename, one.bytes) == ("file", "größe.txt", 3)
        assert (one.purpose, one.status) == ("assistants", "processed")
        two = files.create(file=("b.bin", bytes(range(256))), purpose="user_data")
        assert files.retrieve(one.id) == files.wait_for_processing(one.id) == one
        assert files.content(two.id).read() == bytes(range(256))
        assert ids(list(files.list())) == [two.id, one.id]
        assert ids(list(files.list(order="asc", limit=1))) == [one.id, two.id]
        assert ids(list(files.list(purpose="user_data"))) == [two.id]
        assert ids(list(files.list(after=two.id))) == [one.id]
        gone = files.delete(one.id)
        assert (gone.id, gone.object, gone.deleted) == (one.id, "file", True)
        for missing in (files.retrieve, files.content, files.delete):
            with pytest.raises(openai.NotFoundError):
                missing(one.id)

    def test_item_11_what_is_wrong(self, side: Side) -> None:
        with pytest.raises(openai.BadRequestError) as caught:
            side.assistant(tools=[{"type": "magic"}])
        assert (caught.value.param, caught.value.type) == ("tools[0].type", "invalid_request_error")
        assert caught.value.response.json()["error"]["message"]
