"""`llm-comply`, a public suite of the four APIs, against our server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from thinking_model import ThinkingModel

from genai_host import Config
from genai_host.api import Completion, Message, Part, Reasoning, Text, ToolCall, Usage
from genai_host_testing.fake_model import RecordedPrompt
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.servers import served

pytestmark = pytest.mark.peers

MODELS = {
    "open-responses": "gpt-5", "openai-chat": "gpt-5", "anthropic": "claude-sonnet-4-5",
    "google-genai": "gemini-3-pro",
}  # fmt: skip
"""The suite requests reasoning of models with certain names."""


def answer(prompt: RecordedPrompt) -> Completion:
    """Call the first tool, if there is one. Think where reasoning is checked: the suite knows
    other names of its events than the specification."""
    last: Part = Text("Hello there, Alice.")
    if prompt.tools:
        last = ToolCall("call_1", prompt.tools[0], {"location": "San Francisco"})
    thoughts = [Reasoning("let me think")] if "Show your reasoning" in prompt.text else []
    message = Message("assistant", [*thoughts, last])
    usage = Usage(7, 5, reasoning_tokens=2)
    return Completion(message, "tool_calls" if prompt.tools else "stop", usage)


@pytest.fixture
def url(make_host: MakeHost) -> Iterator[str]:
    # without a default model, so that a request without a model is an error
    config = Config(aliases=dict.fromkeys(MODELS.values(), "fake"))
    with served(make_host(fake=ThinkingModel(answer), config=config)) as server:
        yield server.url


@pytest.mark.parametrize("form", MODELS)
def test_llm_comply(url: str, form: str) -> None:
    program = str(Path(sys.executable).with_name("llm-comply"))
    options = ("--api-key", "none", "--model", MODELS[form], "--format", form, "--json")
    command = [program, "--base-url", f"{url}/v1", *options]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    results = json.loads(run.stdout)["results"]
    assert len(results) >= 9
    failed = {each["id"]: each["errors"] for each in results if each["status"] != "passed"}
    assert failed == {}
