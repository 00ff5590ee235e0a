"""What the steps of a run tell of, as messages.

Source: OpenAI's OpenAPI document 2.3.0: `RunStepObject`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import define, field

from genai_feature_assistants.agents.content import AgentMessage, Code
from genai_feature_assistants.agents.run_settings import RunOrder
from genai_host.api import Part, ToolCall, ToolResult
from genai_host.api.dialects import (
    count_in,
    list_in,
    malformed,
    object_in,
    read_tool_call,
    string_in,
)

Wire = Mapping[str, Any]


@define
class StepTeller:
    """Makes messages of the steps of one run, each once.

    called   the calls that were told of when the run asked for them
    """

    order: RunOrder
    run_id: str = ""
    called: dict[str, ToolCall] = field(factory=dict)
    results: dict[str, ToolResult] = field(factory=dict)
    _told: set[str] = field(factory=set)

    def new(self, steps: Sequence[Wire]) -> list[Wire]:
        """Those that are completed and were not told of, tool calls before messages. They
        count as told from here on. Raises `MalformedReply` for one without an id."""
        found = []
        for each in steps:
            id = string_in(each, "id")
            if not id:
                raise malformed("a step has no id")
            if each.get("status") == "completed" and id not in self._told:
                self._told.add(id)
                found.append(each)
        return sorted(
            found, key=lambda each: (string_in(each, "type") != "tool_calls", _begun(each))
        )

    def asked(self, calls: Sequence[ToolCall]) -> AgentMessage:
        """That the run asks for functions: hidden."""
        self.called.update((each.id, each) for each in calls)
        return self.message(calls, visible=False)

    def answered(self, results: Sequence[ToolResult]) -> None:
        """Keep what functions gave, for when the step that they belong to is completed."""
        self.results.update((each.id, each) for each in results)

    def tool_messages(self, step: Wire) -> Iterator[AgentMessage]:
        """What a step of tool calls tells of: a hidden call, where it was not told of before,
        with its hidden result, and visible code."""
        id = string_in(step, "id")
        for call in list_in(object_in(step, "step_details"), "tool_calls"):
            if not isinstance(call, Mapping):
                raise malformed("a tool call is no object")
            kind = call.get("type")
            if kind == "code_interpreter":
                yield self.message([_code(object_in(call, "code_interpreter"))], id=id)
            elif kind == "function":
                yield from self._function_messages(call, id)

    def message(
        self, parts: Sequence[Part], *, visible: bool = True, id: str = "", role: Any = "assistant"
    ) -> AgentMessage:
        return AgentMessage(
            role,
            parts,
            name=self.order.name,
            visible=visible,
            id=id,
            thread_id=self.order.thread_id,
            run_id=self.run_id,
            assistant_id=self.order.assistant_id,
        )

    def _function_messages(self, data: Wire, step_id: str) -> Iterator[AgentMessage]:
        function = object_in(data, "function")
        id = string_in(data, "id")
        call = self.called.get(id)
        if call is None:
            call = read_tool_call(id, string_in(function, "name"), string_in(function, "arguments"))
            yield self.message([call], visible=False, id=step_id)
        result = self.results.get(id) or ToolResult(id, call.name, string_in(function, "output"))
        yield self.message([result], visible=False, id=step_id, role="tool")


def _begun(step: Wire) -> int:
    return count_in(step, "created_at")


def _code(data: Wire) -> Code:
    outputs = [each for each in list_in(data, "outputs") if isinstance(each, Mapping)]
    logs = [string_in(each, "logs") for each in outputs if each.get("type") == "logs"]
    images = [
        string_in(object_in(each, "image"), "file_id")
        for each in outputs
        if each.get("type") == "image"
    ]
    return Code(string_in(data, "input"), "\n".join(logs), images)
