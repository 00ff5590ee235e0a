"""The code interpreter of assistants with the real sandbox."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import genai_tools_sandbox
import pytest
from genai_tools_sandbox.process import can_run

from genai_host_testing import RecordedPrompt
from genai_host_testing.internal.assistants_api import (
    CODE,
    CONFIG,
    MakeApi,
    calls,
    make_api,
    outputs_in,
    says,
)
from genai_host_testing.internal.configs import tools_config
from genai_host_testing.internal.fixtures import pyodide

__all__ = ["make_api", "pyodide"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not can_run(), reason="the sandbox is one of Linux"),
]

PLOT = """
class Picture:
    def _repr_png_(self):
        return b"\\x89PNG of this test"
rows = open("/mnt/data/data.csv").read().splitlines()
print(sum(int(row) for row in rows))
open("/mnt/data/sum.txt", "w").write("6")
Picture()
"""
AGAIN = "print(len(rows), open('/mnt/data/sum.txt').read())"
OUT = """
import os, socket
print(os.listdir("/"))
socket.create_connection(("127.0.0.1", 80))
"""


def test_item_13_code_reads_files_prints_draws_and_writes(make_api: MakeApi, pyodide: Path) -> None:
    def answer(prompt: RecordedPrompt) -> Any:
        if outputs_in(prompt):
            return says("It is in sandbox:/mnt/data/sum.txt.")
        code = {"add": PLOT, "again": AGAIN, "out": OUT}[prompt.text]
        return calls(("c1", "code_interpreter", {"input": code}))

    config = CONFIG._replace(tools={"sandbox": tools_config(folder=str(pyodide))})
    api = make_api(answer, sandbox=genai_tools_sandbox, config=config)
    resources = {"code_interpreter": {"file_ids": [api.upload("data.csv", b"1\n2\n3\n")]}}
    assistant = api.assistant(CODE, tool_resources=resources)
    thread = api.thread("add")
    run = api.run(thread, assistant)
    assert run["status"] == "completed", run
    [call] = api.steps(run)[0]["step_details"]["tool_calls"]
    logs, image = call["code_interpreter"]["outputs"]
    assert logs["logs"].startswith("6")
    content = api.ask("GET", f"/files/{image['image']['file_id']}/content").content
    assert content.startswith(b"\x89PNG")
    [message] = api.get(f"/threads/{thread}/messages", run_id=run["id"])["data"]
    [path] = message["content"][0]["text"]["annotations"]
    assert api.ask("GET", f"/files/{path['file_path']['file_id']}/content").content == b"6"

    run = api.run(thread, assistant, additional_messages=[{"role": "user", "content": "again"}])
    [call] = api.steps(run)[0]["step_details"]["tool_calls"]
    assert call["code_interpreter"]["outputs"][0]["logs"].startswith("3 6")

    run = api.run(api.thread("out"), assistant)
    [call] = api.steps(run)[0]["step_details"]["tool_calls"]
    logs = call["code_interpreter"]["outputs"][0]["logs"]
    assert "Error" in logs
    assert os.uname().nodename not in logs
