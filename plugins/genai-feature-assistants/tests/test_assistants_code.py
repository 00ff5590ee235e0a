"""The code interpreter: without a sandbox, and with one that does what a test says. The real
one is in tests/project/test_assistants_sandbox.py."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Annotated, Any

import pytest

from genai_host.api import CancelToken, Image, Text, Tool, ToolOutput, ToolSource, tool
from genai_host_testing import InlinePlugin, RecordedPrompt
from genai_host_testing.internal.assistants_api import CODE, MakeApi, calls, outputs_in, says

pytestmark = pytest.mark.part

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Sandbox:
    """A tool `sandbox__run` that gives what it is told to.

    asked   the arguments of its calls
    """

    def __init__(self, output: ToolOutput) -> None:
        self.asked: list[dict[str, Any]] = []
        self._output = output

    def plugin(self) -> InlinePlugin:
        def run(
            code: Annotated[str, "Python"],
            session: Annotated[str, "of which calls share files"] = "",
            files: Annotated[list[dict[str, str]], "put into /mnt/data"] = [],  # noqa: B006
        ) -> ToolOutput:
            """Run it."""
            self.asked.append({"code": code, "session": session, "files": files})
            return self._output

        return InlinePlugin(tools=[tool(run, name="sandbox__run")])


def runs_code(prompt: RecordedPrompt) -> Any:
    outputs = outputs_in(prompt)
    return (
        says(f"done: {outputs[0]}")
        if outputs
        else calls(("c1", "code_interpreter", {"input": "1"}))
    )


def test_item_13_without_a_sandbox_it_is_off(make_api: MakeApi) -> None:
    api = make_api(runs_code)
    thread = api.thread("count")
    refused = api.post(f"/threads/{thread}/runs", {"assistant_id": api.assistant(CODE)}, 400)
    assert "code_interpreter is unavailable" in api.error(refused)
    assert "genai-host install genai-tools-sandbox" in api.error(refused)


def test_a_sandbox_without_its_tool_says_what_is_missing(make_api: MakeApi) -> None:
    class Source(ToolSource):
        name = "sandbox"

        def tools(self, limits: CancelToken) -> Iterable[Tool]:
            return ()

        def unavailable_reason(self) -> str:
            return "the sandbox is not downloaded: run genai-host sandbox pull"

    api = make_api(runs_code, sandbox=InlinePlugin(tool_sources=[Source()]))
    thread = api.thread("count")
    refused = api.post(f"/threads/{thread}/runs", {"assistant_id": api.assistant(CODE)}, 400)
    assert "genai-host sandbox pull" in api.error(refused)
    assert "genai-host install" not in api.error(refused)


def test_item_13_logs_and_images_stand_in_the_steps(make_api: MakeApi) -> None:
    sandbox = Sandbox(ToolOutput([Text("printed"), Image(PNG, "image/png")]))
    api = make_api(runs_code, sandbox=sandbox.plugin())
    resources = {"code_interpreter": {"file_ids": [api.upload("data.csv", b"a,b")]}}
    thread = api.thread("count")
    run = api.run(thread, api.assistant(CODE, tool_resources=resources))
    assert run["status"] == "completed", run
    [call] = api.steps(run)[0]["step_details"]["tool_calls"]
    logs, image = call["code_interpreter"]["outputs"]
    assert call["code_interpreter"]["input"] == "1"
    assert logs == {"type": "logs", "logs": "printed"}
    assert api.ask("GET", f"/files/{image['image']['file_id']}/content").content == PNG
    [request] = sandbox.asked
    assert request["files"] == [{"name": "data.csv", "data": base64.b64encode(b"a,b").decode()}]
    assert thread in request["session"]
    assert "done: printed" in api.texts(thread)[-1][1]


def test_item_13_files_that_code_writes_are_cited(make_api: MakeApi) -> None:
    written = {"name": "sum.csv", "data": base64.b64encode(b"3").decode()}
    wrong = [{"name": "a"}, "b", {"name": "c", "data": "?"}]
    reaction = {"type": "sandbox_files", "files": [written, *wrong]}
    sandbox = Sandbox(ToolOutput("ok", reactions=[reaction]))

    def answer(prompt: RecordedPrompt) -> Any:
        outputs = outputs_in(prompt)
        reply = "See [it](sandbox:/mnt/data/sum.csv), not sandbox:/mnt/data/other.csv."
        return says(reply) if outputs else calls(("c1", "code_interpreter", {"input": "1"}))

    api = make_api(answer, sandbox=sandbox.plugin())
    thread = api.thread("count")
    assert api.run(thread, api.assistant(CODE))["status"] == "completed"
    text = api.get(f"/threads/{thread}/messages")["data"][0]["content"][0]["text"]
    [annotation] = text["annotations"]
    cut = text["value"][annotation["start_index"] : annotation["end_index"]]
    assert cut == annotation["text"] == "sandbox:/mnt/data/sum.csv"
    file_id = annotation["file_path"]["file_id"]
    assert api.ask("GET", f"/files/{file_id}/content").content == b"3"
    assert api.get(f"/files/{file_id}")["purpose"] == "assistants_output"


def test_calls_without_code_are_told_so(make_api: MakeApi) -> None:
    sandbox = Sandbox(ToolOutput("never"))

    def answer(prompt: RecordedPrompt) -> Any:
        outputs = outputs_in(prompt)
        return says(outputs[0]) if outputs else calls(("c1", "code_interpreter", {"x": 1}))

    api = make_api(answer, sandbox=sandbox.plugin())
    thread = api.thread("count")
    assert api.run(thread, api.assistant(CODE))["status"] == "completed"
    assert "code is missing" in api.texts(thread)[-1][1]
    assert sandbox.asked == []


@pytest.mark.parametrize("number", [0, 21])
def test_code_has_at_most_20_files(make_api: MakeApi, number: int) -> None:
    api = make_api()
    ids = [api.upload(f"{at}.txt", b"a") for at in range(number)] or ["file_1"]
    body = {"model": "fake", "tool_resources": {"code_interpreter": {"file_ids": ids}}}
    refused = api.post("/assistants", body, 400)
    assert ("at most 20" if number else "file_1") in api.error(refused)
