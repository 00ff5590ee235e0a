"""Hosts with the agent, a scripted model that requests tools, and tools for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import genai_feature_agent

from genai_host import Host
from genai_host.api import Completion, Message, ReactionType, Tool, ToolCall, ToolContext
from genai_host_testing import FakeModel, InlinePlugin, RecordedPrompt
from genai_host_testing.fake_model import FakeAnswer

MakeHost = Callable[..., Host]


class Counting:
    """A tool that returns `gives`, and records the arguments of its calls."""

    def __init__(self, name: str, gives: Any = "done", **fields: Any) -> None:
        self.name = name
        self.gives = gives
        self.calls: list[dict[str, Any]] = []
        self.contexts: list[dict[str, Any]] = []
        self.tool = Tool(name, f"does {name}", self, **fields)

    def __call__(self, arguments: Mapping[str, Any], run: ToolContext) -> Any:
        self.calls.append(dict(arguments))
        self.contexts.append(dict(run.context))
        if isinstance(self.gives, Exception):
            raise self.gives
        return self.gives


def calls(*names: str, text: str = "", prefix: str = "", **arguments: Any) -> Completion:
    """Return an answer that requests tools; the ids of the calls are `NAME-NUMBER`."""
    tool_calls = [
        ToolCall(f"{prefix}{name}-{number}", name, arguments) for number, name in enumerate(names)
    ]
    return Completion(Message("assistant", [*([text] if text else []), *tool_calls]), "tool_calls")


def in_turn(*answers: FakeAnswer) -> FakeModel:
    """Return a model that gives these answers in order, and then repeats the last one."""
    return FakeModel(lambda prompt: answers[min(prompt.number, len(answers) - 1)])


def agent_host(
    make_host: MakeHost,
    model: FakeModel,
    *tools: Counting,
    reactions: Sequence[ReactionType] = (),
    **settings: Any,
) -> Host:
    own = InlinePlugin(tools=[each.tool for each in tools], reactions=reactions)
    return make_host(agent=genai_feature_agent, tools=own, fake=model, **settings)


def since_user(prompt: RecordedPrompt) -> list[Message]:
    spoken = [number for number, each in enumerate(prompt.messages) if each.role == "user"]
    return list(prompt.messages[spoken[-1] + 1 :])
