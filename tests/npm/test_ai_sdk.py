"""The AI SDK itself, as a front end of the agent (version 4 reads the lines, `useChat` of version 6
the UI message stream), and its providers as clients of the APIs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from agent_fronts import PATHS, http_host, post
from ai_sdk_lines import read_lines
from npm.packages import NODE, install

from genai_host import Message
from genai_host.api import (
    Citation,
    Completion,
    FinishReason,
    Text,
    ToolCall,
    ToolOutput,
    ToolResult,
    Usage,
)
from genai_host.errors import ServiceUnavailable
from genai_host_testing import FakeModel, RouteServer
from genai_host_testing.fake_model import RecordedPrompt
from genai_host_testing.internal.agents import Counting, calls, in_turn
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.servers import served

pytestmark = pytest.mark.peers

HOSTILE = 'd:{}\n\ndata: x\r\n\r\u2028\u0085\x00"'
MALFORMED = Completion(
    Message("assistant", [HOSTILE, ToolCall("1\n", "lo\nok", {}, "no JSON\n0:")]), "tool_calls"
)


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ai_sdk")
    install(Path(__file__).with_name("ai_sdk"), folder)
    return folder


def failing() -> FakeModel:
    model = in_turn(calls("look"), "not reached")
    model.faults[1] = ServiceUnavailable("as told")
    return model


@pytest.mark.parametrize(
    ("model", "last"),
    [
        (in_turn(calls("look", text="I look.", at="é"), HOSTILE), "stop"),
        (in_turn(MALFORMED, calls("look"), "done"), "stop"),
        (in_turn(calls("wipe", what="all")), "tool-calls"),
        (failing(), "error"),
    ],
    ids=["tools", "malformed", "approval", "error"],
)
def test_it_reads_ours(make_host: MakeHost, sdk: Path, model: FakeModel, last: str) -> None:
    look = Counting("look", ToolOutput("found", reactions=[{"type": "x", "n": 1}]))
    host = http_host(make_host, model, look, Counting("wipe", approval="ask"))
    with RouteServer(host) as server:
        body = post(server, path=f"{PATHS[0]}-streaming").content
    read = subprocess.run(
        [NODE, "read.mjs"], input=body, cwd=sdk, capture_output=True, check=True, timeout=120
    )
    lines = [(kind, value) for kind, value in json.loads(read.stdout)]
    assert lines == [tuple(line) for line in read_lines([body])]
    assert lines[-1][1]["finishReason"] == last


LOOK = {"type": "tool-look", "toolCallId": "look-0", "state": "output-available"}
WIPE = {"type": "tool-wipe", "toolCallId": "wipe-0", "input": {"what": "all"}}
ASKED = {**WIPE, "state": "approval-requested", "approval": {"id": "wipe-0"}}
STEP = {"type": "step-start"}
CITING = Text("cold", citations=[Citation("https://a.example", "A")])
SOURCE = {
    "type": "source-url", "sourceId": "https://a.example", "url": "https://a.example", "title": "A",
}  # fmt: skip


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words, "state": "done"}


def decided(approved: bool, **more: Any) -> dict[str, Any]:
    return {**WIPE, "approval": {"id": "wipe-0", "approved": approved}, **more}


@pytest.mark.parametrize(
    ("model", "steps", "answers", "errors"),
    [
        (
            in_turn(calls("look", text="I look.", at="é"), HOSTILE, "bye"),
            ["hi", "again"],
            [
                [
                    STEP, text("I look."), {**LOOK, "input": {"at": "é"}, "output": "found"},
                    {"type": "data-reaction", "data": {"type": "x", "n": 1}}, STEP, text(HOSTILE),
                ],
                [STEP, text("bye")],
            ],
            [],
        ),
        (
            in_turn(calls("wipe", what="all"), "wiped"),
            ["go", {"approved": True}],
            [[STEP, decided(True, state="output-available", output="done"), STEP, text("wiped")]],
            [],
        ),
        (
            in_turn(calls("wipe", what="all"), "not wiped", "end"),
            ["go", {"approved": False}, "and"],
            [
                [
                    STEP,
                    decided(
                        False, state="output-error", errorText="the user did not approve this call"
                    ),
                    STEP, text("not wiped"),
                ],
                [STEP, text("end")],
            ],
            [],
        ),
        (
            in_turn(calls("wipe", what="all"), "not wiped"),
            ["go", "never mind"],
            [[STEP, ASKED], [STEP, text("not wiped")]],
            [],
        ),
        (
            FakeModel(lambda prompt: Completion(Message("assistant", CITING))),
            ["hi", "again"],
            [[STEP, text("cold"), SOURCE]] * 2,
            [],
        ),
        (failing(), ["hi"], [[STEP, {**LOOK, "input": {}, "output": "found"}]], ["as told"]),
    ],
    ids=["tools", "approved", "refused", "undecided", "cited", "error"],
)  # fmt: skip
def test_a_chat(
    make_host: MakeHost,
    sdk: Path,
    model: FakeModel,
    steps: list[Any],
    answers: list[Any],
    errors: list[str],
) -> None:
    reactions = [{"type": "x", "n": 1}] if len(steps) == 2 and not errors else []
    look = Counting("look", ToolOutput("found", reactions=reactions))
    host = http_host(make_host, model, look, Counting("wipe", approval="ask"))
    with RouteServer(host) as server:
        run = subprocess.run(
            [NODE, "chat.mjs", f"{server.url}/api/agent-chat"],
            input=json.dumps(steps).encode(), cwd=sdk, capture_output=True, check=True, timeout=120,
        )  # fmt: skip
    result = json.loads(run.stdout)
    assert result["errors"] == errors
    assert [m["parts"] for m in result["messages"] if m["role"] == "assistant"] == answers


def answer(prompt: RecordedPrompt) -> str | Completion:
    """Call the first tool, keep to the schema, or repeat the message."""
    last = prompt.messages[-1]
    content: Any = last.text
    finish: FinishReason = "stop"
    if last.role == "tool":
        (result,) = last.content
        assert isinstance(result, ToolResult)
        content = f"It is {result.content[0].text}."  # type: ignore[union-attr]  # it is a text
    elif prompt.tools:
        name = prompt.tools[0]  # a schema may be a tool, too
        arguments = {"zone": "CET"} if name == "clock" else {"x": 1}
        content, finish = [ToolCall("c1", name, arguments)], "tool_calls"
    elif prompt.schema is not None:
        content = '{"x": 1}'
    return Completion(Message("assistant", content), finish, Usage(7, 3))


def test_its_providers(make_host: MakeHost, sdk: Path) -> None:
    with served(make_host(fake=FakeModel(answer))) as server:
        run = subprocess.run(
            [NODE, "providers.mjs", server.url],
            cwd=sdk, capture_output=True, check=True, timeout=120,
        )  # fmt: skip
    failed = json.loads(run.stdout.splitlines()[-1])
    assert failed == [], "\n".join(failed)
