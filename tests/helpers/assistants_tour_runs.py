"""Runs and their steps: an official SDK starts them, polls them and submits outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import openai
import pytest
from assistants_tour import (
    CALL,
    CLOCK,
    NOON,
    POLL,
    Holding,
    Side,
    Tour,
    calling,
    completion,
    ids,
    results,
)

from genai_host.api import Completion, Message, ToolCall, Usage
from genai_host.errors import GenaiError, RateLimited, ServiceUnavailable
from genai_host_testing.clock import ManualClock
from genai_host_testing.fake_service import HANG

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
            Message("system", "be kind"),
            Message("user", "hi"),
            Message("user", "there"),
        )
        assert prompt.parameters == {"temperature": 0.5, "top_p": 0.25}

        messages = side.beta.threads.messages.list(thread)
        newest = messages.data[0]
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
            thread,
            assistant,
            instructions="be brief",
            additional_instructions="and clear",
            additional_messages=[{"role": "user", "content": "f"}],
            max_completion_tokens=500,
            max_prompt_tokens=5000,
            parallel_tool_calls=False,
            response_format=form,
            temperature=0,
            tool_choice="none",
            tools=[],
            truncation_strategy={"type": "last_messages", "last_messages": 2},
        )
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
        listed = list(side.runs.list(thread, limit=2))
        assert listed == runs[::-1]
        assert ids(side.runs.list(thread, order="asc", after=runs[0].id, limit=1).data) == [
            runs[1].id
        ]
        assert ids(side.runs.list(thread, before=runs[0].id).data) == ids(runs[:0:-1])
        assert [side.texts(each) for each in runs] == [["answer 0"], ["answer 1"], ["answer 2"]]
        changed = side.runs.update(runs[0].id, thread_id=thread, metadata={"a": "b"})
        assert changed.metadata == {"a": "b"}
        assert side.runs.retrieve(runs[0].id, thread_id=thread) == changed

    def test_item_11_queued_and_in_progress(self, side: Side) -> None:
        side.fake.answer = holding = Holding()
        assistant, thread = side.assistant(), side.thread()
        run = side.runs.create(thread, assistant_id=assistant)
        assert (run.status, run.started_at, run.usage) == ("queued", None, None)
        assert run.expires_at == run.created_at + 600
        assert holding.called.wait(30)
        now = side.runs.retrieve(run.id, thread_id=thread)
        assert now.status == "in_progress"
        assert now.started_at
        refusals: list[Callable[[], object]] = [
            lambda: side.runs.create(thread, assistant_id=assistant),
            lambda: side.beta.threads.messages.create(thread, role="user", content="more"),
            lambda: side.beta.threads.delete(thread),
            lambda: side.runs.submit_tool_outputs(run.id, thread_id=thread, tool_outputs=NOON),
        ]
        for refused in refusals:
            with pytest.raises(openai.BadRequestError):
                refused()
        holding.may.set()
        assert side.polled(run).status == "completed"
        assert side.texts(run) == ["at last"]

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

    def test_item_11_calls_that_are_answered_wrong(self, side: Side) -> None:
        side.fake.answer = calling(*TWICE)
        run = side.ran(side.thread(), side.assistant(tools=[CLOCK]))
        for outputs in ([], NOON, [*NOON, {"tool_call_id": "c3", "output": ""}]):
            with pytest.raises(openai.BadRequestError) as caught:
                side.runs.submit_tool_outputs(run.id, thread_id=run.thread_id, tool_outputs=outputs)
            assert caught.value.param == "tool_outputs"
        assert side.runs.retrieve(run.id, thread_id=run.thread_id) == run

    def test_item_11_a_function_that_there_is_not(self, side: Side) -> None:
        """The model receives an error. The client is not asked, and does not see the call."""
        unknown = ToolCall("c2", "magic", {})
        side.fake.answer = calling(CALL, unknown)
        run = side.ran(side.thread(), side.assistant(tools=[CLOCK]))
        (call,) = run.required_action.submit_tool_outputs.tool_calls
        assert call.id == "c1"
        run = side.submitted(run, NOON)
        assert side.texts(run) == ["It gave noon, unknown function 'magic'."]
        _, step = side.runs.steps.list(run.id, thread_id=run.thread_id)
        assert ids(step.step_details.tool_calls) == ["c1"]
        side.fake.answer = calling(unknown)
        run = side.ran(side.thread(), run.assistant_id)
        assert side.texts(run) == ["It gave unknown function 'magic'."]

    def test_item_11_a_chosen_function(self, side: Side) -> None:
        side.fake.answer = lambda prompt: completion(*TWICE) if prompt.number == 0 else "so"
        chosen: Any = {"type": "function", "function": {"name": "clock"}}
        thread, assistant = side.thread(), side.assistant(tools=[CLOCK])
        run = side.ran(thread, assistant, tool_choice=chosen, parallel_tool_calls=False)
        assert run.tool_choice.to_dict() == chosen
        (call,) = run.required_action.submit_tool_outputs.tool_calls  # one output at a time
        assert call.id == "c1"
        with pytest.raises(openai.BadRequestError):
            side.ran(side.thread(), side.assistant(), tool_choice=chosen)

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

    def test_item_11_cancelling(self, side: Side) -> None:
        side.fake.answer = lambda prompt: HANG
        thread = side.thread()
        run = side.runs.create(thread, assistant_id=side.assistant())
        assert side.fake.hanging.wait(30)
        assert side.runs.cancel(run.id, thread_id=thread).status == "cancelling"
        run = side.polled(run)
        assert run.status == "cancelled"
        assert run.cancelled_at
        assert side.texts(run) == []
        with pytest.raises(openai.BadRequestError, match="cancelled"):
            side.runs.cancel(run.id, thread_id=thread)
        side.fake.answer = lambda prompt: "again"
        assert side.texts(side.ran(thread, run.assistant_id)) == ["again"]

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

    @pytest.mark.parametrize(
        ("fault", "code"),
        [
            (RateLimited("slowly", retry_after=7), "rate_limit_exceeded"),
            (ServiceUnavailable("it is down"), "server_error"),
        ],
    )
    def test_item_11_failed(self, side: Side, fault: GenaiError, code: str) -> None:
        side.fake.faults[0] = fault
        run = side.ran(side.thread(), side.assistant())
        assert (run.status, run.last_error.code) == ("failed", code)
        assert fault.message in run.last_error.message
        assert run.failed_at
        assert run.completed_at is None
        assert side.texts(run) == []

    def test_item_11_failed_after_a_call(self, side: Side) -> None:
        side.fake.answer = calling(CALL)
        side.fake.faults[1] = ServiceUnavailable("it is down")
        run = side.ran(side.thread(), side.assistant(tools=[CLOCK]))
        run = side.submitted(run, NOON)
        assert (run.status, run.last_error.code) == ("failed", "server_error")
        (step,) = side.runs.steps.list(run.id, thread_id=run.thread_id)
        assert step.status == "completed"  # the failure occurred after it

    def test_item_11_incomplete(self, side: Side) -> None:
        cut = Completion(Message("assistant", "and so"), "length", Usage(7, 300))
        side.fake.answer = lambda prompt: cut
        run = side.ran(side.thread(), side.assistant(), max_completion_tokens=300)
        assert side.fake.prompts[0].parameters == {"max_tokens": 300}
        assert (run.status, run.incomplete_details.reason) == (
            "incomplete", "max_completion_tokens",
        )  # fmt: skip
        (message,) = side.beta.threads.messages.list(run.thread_id, run_id=run.id)
        assert (message.status, message.incomplete_details.reason) == ("incomplete", "max_tokens")
        assert (message.completed_at, message.incomplete_at is None) == (None, False)
        assert message.content[0].text.value == "and so"
        with pytest.raises(openai.BadRequestError):
            side.ran(run.thread_id, run.assistant_id, max_completion_tokens=255)

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

    def test_item_11_expired_at_work(self, late: Side, clock: ManualClock) -> None:
        late.fake.answer = lambda prompt: HANG
        run = late.runs.create(late.thread(), assistant_id=late.assistant())
        assert late.fake.hanging.wait(30)
        clock.advance(601)
        assert late.polled(run).status == "expired"

    def test_item_11_a_conversation(self, side: Side) -> None:
        """The messages and calls of one run are part of the following runs."""
        side.fake.answer = calling(CALL, then=lambda prompt: f"It is {results(prompt)[0]}.")
        thread, assistant = side.thread("when?"), side.assistant(tools=[CLOCK])
        run = side.ran(thread, assistant)
        side.submitted(run, NOON)
        side.fake.answer = lambda prompt: "yes"
        side.beta.threads.messages.create(thread, role="user", content="sure?")
        assert side.texts(side.ran(thread, assistant)) == ["yes"]
        assert [(each.role, each.text) for each in side.fake.prompts[-1].messages] == [
            ("user", "when?"), ("assistant", "It is noon."), ("user", "sure?"),
        ]  # fmt: skip
