"""Tool calls of the real model: their form, never which tool it chooses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from genai_host import Answer, Host, Message, api
from genai_host.errors import BadRequest
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.weights

WEATHER = api.ToolSchema(
    "get_weather",
    "What is the weather in Oslo?",
    {
        "type": "object",
        "properties": {"city": {"enum": ["Oslo", "Rome"]}, "days": {"enum": [1, 2, 3]}},
        "required": ["city", "days"],
        "additionalProperties": False,
    },
)
CLOCK = api.ToolSchema(
    "get_time", "What time is it?", {"type": "object", "additionalProperties": False}
)
TOOLS = (WEATHER, CLOCK)
SCHEMAS = {tool.name: tool.parameters for tool in TOOLS}


class Asking:
    """A feature that prompts as a test says, and keeps what came back."""

    def __init__(self) -> None:
        self.plugin = InlinePlugin(features=[api.Feature("ask", api.NoSettings, self._respond)])
        self._prompt: dict[str, Any] = {}
        self._completions: list[api.Completion] = []

    def ask(
        self,
        host: Host,
        text: str = "hi",
        *,
        model: str = "smollm2",
        history: Sequence[Message] = (),
        max_tokens: int = 80,
        **prompt: Any,
    ) -> tuple[api.Completion, str]:
        """What the model said, and what of it was streamed."""
        self._prompt = {"tools": TOOLS, "parameters": {"max_tokens": max_tokens}, **prompt}
        self._completions.clear()
        events = list(host.open("ask", model, history=history).stream(text))
        (completion,) = self._completions
        return completion, "".join(event.text for event in events)

    def _respond(self, turn: api.Turn[api.NoSettings]) -> api.FeatureSteps:
        completion = yield from api.Prompt([*turn.history, turn.message], **self._prompt)
        self._completions.append(completion)
        return Answer(completion.text)


ASKING = Asking()
PLUGINS = {"ask": ASKING.plugin}
ask = ASKING.ask


def assert_valid(calls: Sequence[api.ToolCall]) -> None:
    for call in calls:
        api.SchemaValidator(SCHEMAS[call.name]).check(call.arguments)
        assert call.malformed == ""


@pytest.mark.parametrize("model", ["smollm2", "whole"])
@pytest.mark.parametrize("choice", ["required", "get_weather", "get_time"])
def test_a_required_tool_is_called_with_arguments_that_it_takes(
    local_host: Host, model: str, choice: str
) -> None:
    completion, streamed = ask(local_host, model=model, tool_choice=choice)
    (call,) = completion.tool_calls
    assert_valid([call])
    assert call.id == "call_0"
    assert choice in (call.name, "required")
    assert completion.finish == "tool_calls"
    assert completion.text == streamed == ""
    assert completion.usage.output_tokens > 0
    assert completion.message.content == (call,)


@pytest.mark.parametrize("text", ["What is the weather in Oslo?", "Who are you?"])
@pytest.mark.parametrize("choice", [None, "auto"])
def test_where_it_may_choose_it_calls_a_tool_or_answers(
    local_host: Host, choice: str | None, text: str
) -> None:
    completion, streamed = ask(local_host, text, tool_choice=choice)
    assert_valid(completion.tool_calls)
    assert completion.finish in ("tool_calls", "stop", "length")
    assert (completion.finish == "tool_calls") is bool(completion.tool_calls)
    assert bool(completion.text) is not bool(completion.tool_calls)
    assert streamed == completion.text


def test_where_it_may_call_none_it_answers_as_without_tools(local_host: Host) -> None:
    completion, streamed = ask(local_host, tool_choice="none", max_tokens=8)
    assert completion.tool_calls == ()
    assert completion.finish in ("stop", "length")
    assert streamed == completion.text
    plain, _ = ask(local_host, tools=(), max_tokens=8)
    assert plain.usage.input_tokens == completion.usage.input_tokens


def test_the_result_of_a_tool_can_be_told(local_host: Host) -> None:
    history = [
        Message("system", "You tell the weather."),
        Message("user", "What is the weather in Oslo?"),
        Message("assistant", api.ToolCall("call_0", "get_weather", {"city": "Oslo", "days": 1})),
        Message("tool", api.ToolResult("call_0", "get_weather", ("rain",))),
        Message("assistant", "It rains."),
    ]
    completion, _ = ask(local_host, "And in Rome?", history=history, tool_choice="get_weather")
    assert [each.id for each in completion.tool_calls] == ["call_1"]
    assert_valid(completion.tool_calls)
    answer, streamed = ask(local_host, "And in Rome?", history=history, tools=(), max_tokens=8)
    assert answer.tool_calls == ()
    assert streamed == answer.text


@pytest.mark.parametrize("model", ["smollm2", "whole"])
def test_a_choice_that_was_cut_is_given_as_text(local_host: Host, model: str) -> None:
    completion, streamed = ask(local_host, model=model, tool_choice="get_weather", max_tokens=4)
    assert completion.finish == "length"
    assert completion.tool_calls == ()
    assert completion.text.startswith("{")
    assert streamed == completion.text


@pytest.mark.parametrize("schema", [{"const": "a fixed answer"}, {"const": [1, 2]}], ids=str)
def test_an_answer_beside_tools_is_held_to_its_schema(
    local_host: Host, schema: dict[str, Any]
) -> None:
    completion, _ = ask(local_host, "Who are you?", tool_choice="auto", schema=schema)
    assert_valid(completion.tool_calls)
    assert completion.tool_calls or completion.value == schema["const"]


def test_a_tool_may_take_a_class_within_a_class(local_host: Host) -> None:
    parameters = {
        "type": "object",
        "properties": {"place": {"$ref": "#/$defs/Place"}},
        "required": ["place"],
        "additionalProperties": False,
        "$defs": {"Place": WEATHER.parameters},
    }
    go = api.ToolSchema("go", "Go there.", parameters)
    (call,) = ask(local_host, tools=[go], tool_choice="required")[0].tool_calls
    api.SchemaValidator(parameters).check(call.arguments)


def test_a_tool_that_nobody_knows_cannot_be_named(local_host: Host) -> None:
    with pytest.raises(BadRequest, match="get_wether"):
        ask(local_host, tool_choice="get_wether")


@pytest.mark.parametrize("choice", [None, "required", "none"])
def test_a_template_of_the_model_may_ask_for_the_tools_instead(
    make_local_host: MakeHost, choice: str | None
) -> None:
    host = make_local_host(tools="template", plugins=PLUGINS)
    completion, _ = ask(host, tool_choice=choice, max_tokens=60)
    assert completion.finish in ("tool_calls", "stop", "length")
    assert {call.name for call in completion.tool_calls} <= set(SCHEMAS)
    if choice == "none":
        assert completion.tool_calls == ()
