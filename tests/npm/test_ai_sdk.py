"""What the AI SDK itself, version 4, reads of the lines of the agent."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from agent_fronts import PATHS, http_host, post
from ai_sdk_lines import read_lines
from npm.packages import NODE, install

from genai_host import Message
from genai_host.api import Completion, ToolCall, ToolOutput
from genai_host.errors import ServiceUnavailable
from genai_host_testing import FakeModel, RouteServer
from genai_host_testing.internal.agents import Counting, calls, in_turn
from genai_host_testing.internal.fixtures import MakeHost

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
def test_it_reads_what_we_wrote(
    make_host: MakeHost, sdk: Path, model: FakeModel, last: str
) -> None:
    look = Counting("look", ToolOutput("found", reactions=[{"type": "x", "n": 1}]))
    host = http_host(make_host, model, look, Counting("wipe", approval="ask"))
    with RouteServer(host) as server:
        body = post(server, path=f"{PATHS[0]}-streaming").content
    read = subprocess.run(
        [NODE, "read.mjs"], input=body, cwd=sdk, capture_output=True, check=True, timeout=120
    )
    heard = [(kind, value) for kind, value in json.loads(read.stdout)]
    assert heard == [tuple(line) for line in read_lines([body])]
    assert heard[-1][1]["finishReason"] == last
