"""The agent, by the suite that strangers' features run."""

from __future__ import annotations

from typing import Any

import genai_feature_agent

from genai_host.api import Completion, Message, Tool, ToolCall, ToolOutput
from genai_host_testing import InlinePlugin, RecordedPrompt
from genai_host_testing.fake_model import FakeAnswer
from genai_host_testing.suites import FeatureSuite


class TestAgent(FeatureSuite):
    plugin = genai_feature_agent
    feature = "agent"


def look(arguments: Any, run: Any) -> ToolOutput:
    reaction = {"type": "message", "message": "it looks"}
    return ToolOutput("found", reactions=[reaction], context={"page": "found"})


class TestAgentWithTools(FeatureSuite):
    """Two at once, one of them asking a human, and then one more."""

    plugin = genai_feature_agent
    feature = "agent"
    beside = {
        "tools": InlinePlugin(
            tools=[
                Tool("look", "looks", look, idempotent=True),
                Tool("wipe", "wipes", lambda *_: "wiped", approval="ask", idempotent=True),
            ]
        )
    }

    def answers(self, prompt: RecordedPrompt) -> FakeAnswer:
        since = 0
        for message in reversed(prompt.messages):
            if message.role == "user":
                break
            since += message.role == "tool"
        if since == 2:
            return "it is done"
        names = [["look", "wipe"], ["look"]][since]
        calls = [ToolCall(f"{since}-{name}", name) for name in names]
        return Completion(Message("assistant", ["I look. ", *calls]), "tool_calls")

    def give(self, kind: str) -> object:
        assert kind == "approval"
        return {"0-wipe": True}
