"""Streams of runs, as an official SDK receives them: events in order, and hooks of its handler;
also of runs that execute code."""

from __future__ import annotations

import base64
from typing import Annotated, Any

import openai
from assistants_tour import (
    CALL,
    CLOCK,
    FOUND,
    NOON,
    NOTE,
    SEARCH,
    Side,
    Tour,
    calling,
    cites,
    completion,
    results,
)
from attrs import frozen

from genai_host import api
from genai_host.errors import ServiceUnavailable
from genai_host_testing import InlinePlugin
from genai_host_testing.fake_model import RecordedPrompt
from genai_host_testing.fake_service import HANG

BEGINS = ["thread.run.created", "thread.run.queued", "thread.run.in_progress"]
GOES_ON = ["thread.run.queued", "thread.run.in_progress"]
STEP_BEGINS = ["thread.run.step.created", "thread.run.step.in_progress"]
MESSAGE_BEGINS = [*STEP_BEGINS, "thread.message.created", "thread.message.in_progress"]
DELTA, STEP_DELTA = "thread.message.delta", "thread.run.step.delta"
MESSAGE_ENDS = ["thread.message.completed", "thread.run.step.completed"]


class Hooks(openai.AssistantEventHandler):  # type: ignore[misc]  # the SDK is in few environments
    """Records each call of a hook with its argument: its text, or its most specific value."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[tuple[str, Any]] = []
        self.events: list[str] = []
        self.deltas: list[Any] = []

    def on_event(self, event: Any) -> None:
        self.events.append(event.event)

    def on_end(self) -> None:
        self.noted.append(("end", None))

    def on_exception(self, exception: Exception) -> None:
        self.noted.append(("exception", exception))

    def on_timeout(self) -> None:
        self.noted.append(("timeout", None))

    def on_run_step_created(self, run_step: Any) -> None:
        self.noted.append(("step created", run_step.type))

    def on_run_step_delta(self, delta: Any, snapshot: Any) -> None:
        self.noted.append(("step delta", (delta, snapshot)))

    def on_run_step_done(self, run_step: Any) -> None:
        self.noted.append(("step done", run_step.status))

    def on_tool_call_created(self, tool_call: Any) -> None:
        self.noted.append(("call created", tool_call))

    def on_tool_call_delta(self, delta: Any, snapshot: Any) -> None:
        self.noted.append(("call delta", (delta, snapshot)))

    def on_tool_call_done(self, tool_call: Any) -> None:
        self.noted.append(("call done", tool_call))

    def on_message_created(self, message: Any) -> None:
        self.noted.append(("message created", message.status))

    def on_message_delta(self, delta: Any, snapshot: Any) -> None:
        self.deltas.append(delta)
        self.noted.append(("message delta", snapshot.content[0].text.value))

    def on_message_done(self, message: Any) -> None:
        self.noted.append(("message done", message.status))

    def on_text_created(self, text: Any) -> None:
        self.noted.append(("text created", text.value))

    def on_text_delta(self, delta: Any, snapshot: Any) -> None:
        self.noted.append(("text delta", (delta.value, snapshot.value)))

    def on_text_done(self, text: Any) -> None:
        self.noted.append(("text done", text.value))

    def of(self, hook: str) -> list[Any]:
        """Return the arguments of each call of a hook."""
        return [value for name, value in self.noted if name == hook]

    def order(self) -> list[str]:
        """Return the names of the hooks, with repeated calls in a row merged."""
        names = [name for name, _ in self.noted]
        return [name for at, name in enumerate(names) if at == 0 or names[at - 1] != name]


def kinds(events: list[str]) -> list[str]:
    """Return the kinds of events, with the deltas of a message in a row merged."""
    return [
        event for at, event in enumerate(events) if event != DELTA or events[at - 1] != DELTA
    ]  # fmt: skip


class StreamsTour(Tour):
    def test_item_11_a_handler_hears_all(self, side: Side) -> None:
        side.fake.answer = lambda prompt: "hello there, you"
        thread, assistant, hooks = side.thread(), side.assistant(), Hooks()
        with side.streaming(hooks, thread, assistant) as stream:
            assert "".join(stream.text_deltas) == "hello there, you"
            run = stream.get_final_run()
            (message,) = stream.get_final_messages()
            (step,) = stream.get_final_run_steps()
        assert run.status == "completed"
        assert message.content[0].text.value == "hello there, you"
        assert step.step_details.message_creation.message_id == message.id
        assert hooks.order()[:3] == ["step created", "message created", "text created"]
        assert hooks.order()[-4:] == ["text done", "message done", "step done", "end"]
        assert hooks.of("step created") == ["message_creation"]
        assert hooks.of("text done") == ["hello there, you"]
        assert (hooks.of("message created"), hooks.of("message done")) == (
            ["in_progress"], ["completed"],
        )  # fmt: skip
        text = ""
        for value, snapshot in hooks.of("text delta"):
            text += value
            assert snapshot == text
        assert hooks.of("message delta")[-1] == text
        assert (hooks.of("exception"), hooks.of("timeout")) == ([], [])

    def test_item_11_calls_in_a_stream(self, side: Side) -> None:
        side.fake.answer = calling(CALL, api.ToolCall("c2", "clock", {}), text="Let me see.")
        thread, assistant = side.thread("when?"), side.assistant(tools=[CLOCK])
        first, second = Hooks(), Hooks()
        with side.streaming(first, thread, assistant) as stream:
            run = stream.get_final_run()
            _, step = stream.get_final_run_steps()
        assert kinds(first.events) == [
            *BEGINS, *MESSAGE_BEGINS, DELTA, *MESSAGE_ENDS, *STEP_BEGINS, STEP_DELTA,
            "thread.run.requires_action",
        ]  # fmt: skip
        assert run.status == "requires_action"
        calls = run.required_action.submit_tool_outputs.tool_calls
        assert [call.id for call in calls] == ["c1", "c2"]
        # the assembled deltas
        assert [call.id for call in step.step_details.tool_calls] == ["c1", "c2"]
        assert step.step_details.tool_calls[0].function.arguments == '{"zone":"CET"}'
        assert [call.id for call in first.of("call created")] == ["c1", "c2"]
        assert [call.id for call in first.of("call done")] == ["c1", "c2"]

        with side.runs.submit_tool_outputs_stream(
            run_id=run.id,
            thread_id=thread,
            tool_outputs=[*NOON, {"tool_call_id": "c2", "output": "ten"}],
            event_handler=second,
        ) as stream:
            stream.until_done()
            assert stream.get_final_run().status == "completed"
        assert kinds(second.events) == [
            *GOES_ON, "thread.run.step.completed", *MESSAGE_BEGINS, DELTA, *MESSAGE_ENDS,
            "thread.run.completed",
        ]  # fmt: skip
        assert second.of("text done") == ["It gave noon, ten."]
        (called,) = [
            each
            for each in side.runs.steps.list(run.id, thread_id=thread)
            if each.type == "tool_calls"
        ]
        assert [call.function.output for call in called.step_details.tool_calls] == ["noon", "ten"]

    def test_item_11_a_search_in_a_stream(self, side: Side) -> None:
        side.fake.answer = calling(FOUND, then=cites)
        resources: Any = {"file_search": {"vector_store_ids": [side.store(harbour=NOTE)]}}
        assistant = side.assistant(tools=[SEARCH], tool_resources=resources)
        thread, hooks = side.thread("when?"), Hooks()
        with side.streaming(hooks, thread, assistant) as stream:
            run = stream.get_final_run()
            step, _ = stream.get_final_run_steps()
            (message,) = stream.get_final_messages()
        assert run.status == "completed"
        assert kinds(hooks.events) == [
            *BEGINS, *STEP_BEGINS, STEP_DELTA, STEP_DELTA, "thread.run.step.completed",
            *MESSAGE_BEGINS, DELTA, *MESSAGE_ENDS, "thread.run.completed",
        ]  # fmt: skip
        # the assembled deltas: no text is repeated
        (call,) = step.step_details.tool_calls
        assert (call.id, call.type) == ("s1", "file_search")
        assert [each.file_name for each in call.file_search.results] == ["harbour.txt"]
        assert call.file_search.ranking_options.score_threshold == 0
        ((_, snapshot),) = hooks.of("call delta")
        assert snapshot.id == "s1"
        assert [each.id for each in hooks.of("call done")][-1] == "s1"
        (annotation,) = message.content[0].text.annotations
        assert (annotation.type, annotation.text) == ("file_citation", "【0:0†harbour.txt】")
        (cited,) = [
            block for event in hooks.deltas for block in event.content if block.text.annotations
        ]
        # some clients only accept an annotation that comes with its text
        assert cited.text.value == cited.text.annotations[0].text == annotation.text
        assert cited.text.annotations[0].index == 0

    def test_item_11_create_and_run_in_a_stream(self, side: Side) -> None:
        thread: Any = {"messages": [{"role": "user", "content": "hi"}]}
        assistant, hooks = side.assistant(), Hooks()
        with side.beta.threads.create_and_run_stream(
            assistant_id=assistant, thread=thread, event_handler=hooks
        ) as stream:
            run = stream.get_final_run()
        assert kinds(hooks.events) == [
            "thread.created", *BEGINS, *MESSAGE_BEGINS, DELTA, *MESSAGE_ENDS,
            "thread.run.completed",
        ]  # fmt: skip
        created, *_ = side.beta.threads.create_and_run(
            assistant_id=assistant, thread=thread, stream=True
        )
        assert (created.event, created.data.object) == ("thread.created", "thread")
        assert side.texts(run) == ["hi"]

    def test_item_11_failing_in_a_stream(self, side: Side) -> None:
        side.fake.faults[0] = ServiceUnavailable("it is down")
        hooks = Hooks()
        with side.streaming(hooks, side.thread(), side.assistant()) as stream:
            run = stream.get_final_run()
        assert hooks.events == [*BEGINS, "thread.run.failed"]
        assert (run.status, run.last_error.code) == ("failed", "server_error")

    def test_item_11_cut_in_a_stream(self, side: Side) -> None:
        cut = api.Completion(api.Message("assistant", "and so"), "length", api.Usage(7, 300))
        side.fake.answer = lambda prompt: cut
        hooks = Hooks()
        with side.streaming(hooks, side.thread(), side.assistant()) as stream:
            run = stream.get_final_run()
        assert kinds(hooks.events) == [
            *BEGINS, *MESSAGE_BEGINS, DELTA, "thread.message.incomplete",
            "thread.run.step.completed", "thread.run.incomplete",
        ]  # fmt: skip
        assert hooks.of("message done") == ["incomplete"]
        assert run.incomplete_details.reason == "max_completion_tokens"

    def test_item_11_cancelled_in_a_stream(self, side: Side) -> None:
        side.fake.answer = lambda prompt: HANG
        hooks = Hooks()
        with side.streaming(hooks, side.thread(), side.assistant()) as stream:
            for event in stream:
                if event.event == "thread.run.in_progress":
                    assert side.fake.hanging.wait(30)
                    run = side.runs.cancel(event.data.id, thread_id=event.data.thread_id)
                    assert run.status == "cancelling"
            run = stream.get_final_run()
        assert hooks.events == [*BEGINS, "thread.run.cancelling", "thread.run.cancelled"]
        assert run.status == "cancelled"

    def test_item_11_a_stream_that_is_left(self, side: Side) -> None:
        """The run continues."""
        side.fake.answer = lambda prompt: "hello there, you"
        stream = side.runs.create(side.thread(), assistant_id=side.assistant(), stream=True)
        for event in stream:
            if event.event == "thread.run.in_progress":
                break
        stream.close()
        assert side.polled(event.data).status == "completed"
        assert side.texts(event.data) == ["hello there, you"]


PNG = b"\x89PNG\r\n\x1a\n and so on"
CODE: Any = {"type": "code_interpreter"}
RUNS = api.ToolCall("k1", "code_interpreter", {"input": "print(6 * 7)"})
LINK = "sandbox:/mnt/data/table.csv"


@frozen
class GivenFile:
    name: str
    data: str


def run(
    code: Annotated[str, "Python"],
    session: str = "",
    files: Annotated[list[GivenFile], "to be read"] = [],  # noqa: B006
) -> api.ToolOutput:
    """Run Python: not really, but with the outputs of it."""
    names = ", ".join(each.name for each in files)
    table = {"name": "table.csv", "data": base64.b64encode(b"a,b").decode()}
    return api.ToolOutput(
        [api.Text(f"ran {code} with {names}"), api.Image(PNG, "image/png")],
        reactions=[{"type": "sandbox_files", "files": [table]}],
    )


SANDBOX = InlinePlugin(
    tool_sources=[api.ToolSet("sandbox", api.NoSettings, lambda settings: [api.tool(run)])],
    reactions=[api.ReactionType("sandbox_files", {"type": "object"})],
)
"""A fake sandbox: it returns outputs without running the code."""


def links(prompt: RecordedPrompt) -> api.Completion:
    """Answer with a link to the created file."""
    assert LINK in results(prompt)[0]
    return completion(f"See [the table]({LINK}), please.")


class CodeTour(Tour):
    plugins = {"sandbox": SANDBOX}

    def test_item_11_code_in_a_stream(self, side: Side) -> None:
        side.fake.answer = calling(RUNS, then=links)
        thread, assistant = side.thread("how many?"), side.assistant(tools=[CODE])
        side.beta.threads.messages.create(
            thread, role="user", content="of these",
            attachments=[{"file_id": side.file("given.txt"), "tools": [CODE]}],
        )  # fmt: skip
        hooks = Hooks()
        with side.streaming(hooks, thread, assistant) as stream:
            step, _ = stream.get_final_run_steps()
            (message,) = stream.get_final_messages()
            run = stream.get_final_run()
        assert kinds(hooks.events) == [
            *BEGINS, *STEP_BEGINS, STEP_DELTA, STEP_DELTA, "thread.run.step.completed",
            *MESSAGE_BEGINS, DELTA, *MESSAGE_ENDS, "thread.run.completed",
        ]  # fmt: skip
        # the assembled delta equals the stored step
        (call,) = step.step_details.tool_calls
        _, stored_step = side.runs.steps.list(run.id, thread_id=thread)
        (done,) = stored_step.step_details.tool_calls
        assert (done.id, done.code_interpreter.input) == ("k1", "print(6 * 7)")
        assert (call.id, call.code_interpreter.input) == ("k1", "print(6 * 7)")
        outputs = [each.to_dict() for each in call.code_interpreter.outputs]
        stored = [each.to_dict() for each in done.code_interpreter.outputs]
        assert [{**each, "index": number} for number, each in enumerate(stored)] == outputs
        assert stored[0] == {"type": "logs", "logs": "ran print(6 * 7) with given.txt"}
        assert side.client.files.content(stored[1]["image"]["file_id"]).read() == PNG
        (path,) = [
            block for delta in hooks.deltas for block in delta.content if block.text.annotations
        ]
        assert LINK in path.text.value
        assert path.text.annotations[0].text == message.content[0].text.annotations[0].text == LINK
