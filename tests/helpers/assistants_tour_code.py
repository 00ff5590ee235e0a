"""Runs that execute code, as seen by an official SDK: printed output and created files."""

from __future__ import annotations

import base64
from typing import Annotated, Any

from assistants_tour import Side, Tour, calling, completion, results
from assistants_tour_streams import (
    BEGINS,
    DELTA,
    MESSAGE_BEGINS,
    MESSAGE_ENDS,
    STEP_BEGINS,
    STEP_DELTA,
    Hooks,
    kinds,
)
from attrs import frozen

from genai_host.api import (
    Completion,
    Image,
    NoSettings,
    ReactionType,
    Text,
    ToolCall,
    ToolOutput,
    ToolSet,
    tool,
)
from genai_host_testing import InlinePlugin
from genai_host_testing.fake_model import RecordedPrompt

PNG = b"\x89PNG\r\n\x1a\n and so on"
CODE: Any = {"type": "code_interpreter"}
RUNS = ToolCall("k1", "code_interpreter", {"input": "print(6 * 7)"})
LINK = "sandbox:/mnt/data/table.csv"


@frozen
class GivenFile:
    name: str
    data: str


def run(
    code: Annotated[str, "Python"],
    session: str = "",
    files: Annotated[list[GivenFile], "to be read"] = [],  # noqa: B006
) -> ToolOutput:
    """Run Python: not really, but with the outputs of it."""
    names = ", ".join(each.name for each in files)
    table = {"name": "table.csv", "data": base64.b64encode(b"a,b").decode()}
    return ToolOutput(
        [Text(f"ran {code} with {names}"), Image(PNG, "image/png")],
        reactions=[{"type": "sandbox_files", "files": [table]}],
    )


SANDBOX = InlinePlugin(
    tool_sources=[ToolSet("sandbox", NoSettings, lambda settings: [tool(run)])],
    reactions=[ReactionType("sandbox_files", {"type": "object"})],
)
"""A fake sandbox: it returns outputs without running the code."""


def links(prompt: RecordedPrompt) -> Completion:
    """Answer with a link to the created file."""
    assert LINK in results(prompt)[0]
    return completion(f"See [the table]({LINK}), please.")


class CodeTour(Tour):
    plugins = {"sandbox": SANDBOX}

    def thread_and_assistant(self, side: Side) -> tuple[Any, Any]:
        """Return a thread with a file for code, and an assistant."""
        side.fake.answer = calling(RUNS, then=links)
        thread = side.thread("how many?")
        side.beta.threads.messages.create(
            thread, role="user", content="of these",
            attachments=[{"file_id": side.file("given.txt"), "tools": [CODE]}],
        )  # fmt: skip
        return thread, side.assistant(tools=[CODE])

    def test_item_11_a_run_with_code(self, side: Side) -> None:
        thread, assistant = self.thread_and_assistant(side)
        run = side.ran(thread, assistant)
        assert run.status == "completed"
        _, step = side.runs.steps.list(run.id, thread_id=thread)
        (call,) = step.step_details.tool_calls
        assert (call.id, call.code_interpreter.input) == ("k1", "print(6 * 7)")
        logs, picture = call.code_interpreter.outputs
        assert (logs.type, logs.logs) == ("logs", "ran print(6 * 7) with given.txt")
        assert side.client.files.content(picture.image.file_id).read() == PNG

        (message,) = side.beta.threads.messages.list(thread, run_id=run.id)
        text = message.content[0].text
        (path,) = text.annotations
        assert (path.type, path.text) == ("file_path", LINK)
        assert text.value[path.start_index : path.end_index] == LINK
        file = side.client.files.retrieve(path.file_path.file_id)
        assert (file.filename, file.purpose) == ("table.csv", "assistants_output")
        assert side.client.files.content(file.id).read() == b"a,b"

    def test_item_11_code_in_a_stream(self, side: Side) -> None:
        thread, assistant = self.thread_and_assistant(side)
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
        assert (call.id, call.code_interpreter.input) == (done.id, done.code_interpreter.input)
        outputs = [each.to_dict() for each in call.code_interpreter.outputs]
        stored = [each.to_dict() for each in done.code_interpreter.outputs]
        assert [{**each, "index": number} for number, each in enumerate(stored)] == outputs
        (path,) = [
            block for delta in hooks.deltas for block in delta.content if block.text.annotations
        ]
        assert LINK in path.text.value
        assert path.text.annotations[0].text == message.content[0].text.annotations[0].text
