"""Custom tools, whose input is text: for the model, each is a function; `functions` and
`function_call`, the deprecated form of tools; and `allowed_tools`.

Source: OpenAI API reference, "CustomToolChatCompletions", "ChatCompletionMessageCustomToolCall",
"ChatCompletionNamedToolChoiceCustom"; openai-python 2, `ChoiceDeltaToolCallCustom`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from api_suite import completion_of
from genai_wire_openai.server.requests import chosen, messages_in, tools_in
from openai_form import HI, Api, gate_api

from genai_host.api import Completion, JsonReader, Message, ToolCall, ToolResult
from genai_host.errors import ValidationError
from genai_host_testing import FakeModel
from genai_host_testing.fake_service import FakeService, json_reply
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part

LARK = {"syntax": "lark", "definition": 'start: "x"'}
PATCH: dict[str, Any] = {
    "type": "custom", "custom": {
        "name": "patch", "description": "edits files",
        "format": {"type": "grammar", "grammar": LARK}},
}  # fmt: skip
CLOCK = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}}}
NAMED = {"type": "custom", "custom": {"name": "patch"}}


def called(input: Any, **more: Any) -> dict[str, Any]:
    call = {"id": "a", "type": "custom", "custom": {"name": "patch", "input": input}, **more}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


RESULT = {"role": "tool", "tool_call_id": "a", "content": "done"}


def test_the_model_gets_a_function_with_a_text_as_its_parameter() -> None:
    tool, other = tools_in(JsonReader({"tools": [PATCH, CLOCK]}, "$"))
    assert (tool.name, other.name) == ("patch", "clock")
    assert tool.parameters["properties"]["input"]["type"] == "string"
    assert tool.parameters["required"] == ["input"]
    assert tool.description.startswith("edits files\n")
    assert tool.description.endswith('lark grammar:\nstart: "x"')


@pytest.mark.parametrize("form", [None, {"type": "text"}])
def test_the_input_may_be_any_text(form: Any) -> None:
    custom = {"name": "patch", "description": "edits files", "format": form}
    (tool,) = tools_in(JsonReader({"tools": [{"type": "custom", "custom": custom}]}, "$"))
    assert tool.description == "edits files"


@pytest.mark.parametrize(("call", "text"), [
    (ToolCall("a", "patch", {"input": "*** é"}), "*** é"),
    (ToolCall("a", "patch", malformed="*** {"), "*** {"),  # written without JSON
    (ToolCall("a", "patch", {"other": 1}), '{"other":1}'),
])  # fmt: skip
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_call_is_in_the_form_of_its_tool(api: Api, call: Any, text: str, stream: bool) -> None:
    clock = ToolCall("b", "clock", {"input": "x"})
    api.fake.answer = lambda prompt: completion_of("so", call, clock, finish="tool_calls")
    if stream:
        *pieces, last, _ = api.events(tools=[PATCH, CLOCK])
        deltas = [piece["choices"][0]["delta"] for piece in pieces]
        calls = [each for delta in deltas for each in delta.get("tool_calls", ())]
        assert [each.pop("index") for each in calls] == [0, 1]
    else:
        last = api.completed(tools=[PATCH, CLOCK])
        calls = last["choices"][0]["message"]["tool_calls"]
    assert calls == [
        {"id": "a", "type": "custom", "custom": {"name": "patch", "input": text}},
        {"id": "b", "type": "function",
         "function": {"name": "clock", "arguments": '{"input":"x"}'}},
    ]  # fmt: skip
    assert last["choices"][0]["finish_reason"] == "tool_calls"


def test_a_call_is_in_the_form_of_a_tool_with_a_malformed_name(api: Api) -> None:
    api.fake.answer = lambda prompt: completion_of(ToolCall("a", "x\ud800", {"input": "y"}))
    tool = {"type": "custom", "custom": {"name": "x\ud800"}}
    message = api.completed(tools=[tool])["choices"][0]["message"]
    assert [call["type"] for call in message["tool_calls"]] == ["custom"]


@pytest.mark.parametrize("text", ["*** é", ""])
def test_the_model_sees_its_call_and_the_result_again(api: Api, text: str) -> None:
    api.completed(HI, called(text), RESULT, tools=[PATCH])
    assert api.fake.prompts[0].messages[1:] == (
        Message("assistant", ToolCall("a", "patch", {"input": text})),
        Message("tool", ToolResult("a", "patch", "done")),
    )


@pytest.mark.parametrize(("choice", "offered", "expected"), [
    (NAMED, ["patch", "clock"], "patch"),
    ({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED]}},
     ["patch"], "required"),
])  # fmt: skip
def test_it_can_be_chosen(choice: Any, offered: list[str], expected: str) -> None:
    body = JsonReader({"tools": [PATCH, CLOCK], "tool_choice": choice}, "$")
    tools, tool_choice = chosen(body, tools_in(body))
    assert ([tool.name for tool in tools], tool_choice) == (offered, expected)


def test_unknown_fields_are_named(api: Api) -> None:
    custom = {**PATCH["custom"], "format": {"type": "text", "new": 1}, "new": 2}
    tool = {"type": "custom", "custom": custom, "new": 3}
    message = called("x")
    message["tool_calls"][0]["custom"]["new"] = 4
    reply = api.chat(HI, message, RESULT, tools=[tool])
    assert reply.headers["x-genai-host-dropped"].split(", ") == [
        "tools[0].custom.format.new", "tools[0].custom.new", "tools[0].new",
        "messages[1].tool_calls[0].custom.new",
    ]  # fmt: skip


@pytest.mark.parametrize(("tool", "param"), [
    ({"type": "custom"}, ""),
    ({"type": "custom", "custom": {}}, ".custom"),
    ({"type": "custom", "custom": {"name": "a", "format": {"type": "xml"}}}, ".custom.format.type"),
    ({"type": "custom", "custom": {"name": "a", "format": {"type": "grammar"}}}, ".custom.format"),
    ({"type": "custom", "custom": {"name": "a", "format": {
        "type": "grammar", "grammar": {"syntax": "lark", "definition": ""}}}},
     ".custom.format.grammar.definition"),
])  # fmt: skip
def test_a_tool_that_is_wrong(api: Api, tool: Any, param: str) -> None:
    assert api.refused(tools=[tool])["param"] == f"tools[0]{param}"


@pytest.mark.parametrize("call", [{}, {"input": "x"}, {"name": "", "input": "x"}])
def test_a_call_that_is_wrong(call: Any) -> None:
    message = called("")
    message["tool_calls"][0]["custom"] = call
    with pytest.raises(ValidationError, match="must have an id and a custom"):
        messages_in(JsonReader({"messages": [message]}, "$"), bool)


def test_the_call_of_a_service_that_does_not_stream_as_requested(
    make_host: MakeHost, service: FakeService
) -> None:
    """The request passes through, and the host writes the stream."""
    message = called("*** é")
    choice = {"message": message, "finish_reason": "tool_calls"}
    service.replies = [json_reply({"choices": [choice]})]
    with gate_api(make_host, service) as api:
        *pieces, _ = api.events(model="gate/m", tools=[PATCH])
        assert service.requests[0].json()["tools"] == [PATCH]
    deltas = [piece["choices"][0]["delta"] for piece in pieces]
    (call,) = (each for delta in deltas for each in delta.get("tool_calls", ()))
    assert call == {"index": 0, **message["tool_calls"][0]}


TIME = {"name": "clock", "description": "the time", "parameters": {"type": "object"}}
MAP = {"name": "map", "parameters": {"type": "object"}}
CALLED = {"name": "clock", "arguments": '{"zone":"UTC"}'}


class TestFunctions:
    @pytest.fixture
    def api(self, make_host: MakeHost) -> Iterator[Api]:
        calls = [ToolCall("a", "clock", {"zone": "UTC"}), ToolCall("b", "map")]
        answer = Completion(Message("assistant", calls), "tool_calls")
        with Api.serving(make_host, FakeModel(lambda prompt: answer)) as api:
            yield api

    @pytest.mark.parametrize(
        "body", [{"function_call": "auto"}, {"functions": [TIME], "tool_choice": "none"}]
    )
    def test_item_5_a_choice_of_the_other_form_is_dropped(self, api: Api, body: Any) -> None:
        reply = api.chat(**body)
        assert reply.status_code == 200
        dropped = "tool_choice" if "tool_choice" in body else "function_call"
        assert reply.headers["x-genai-host-dropped"] == dropped

    def test_item_5_ids_of_calls_take_no_time_to_find(self) -> None:
        """A client may have used the usual IDs of later calls."""
        function = {"name": "f", "arguments": "{}"}
        later = {"role": "assistant", "function_call": function}

        def steps(prefix: str) -> int:
            ids = [f"{prefix}{number}" for number in range(500)]
            calls = [{"id": id, "type": "function", "function": function} for id in ids]
            messages = [{"role": "assistant", "tool_calls": calls}, *[later] * 500]
            lines = 0

            def trace(frame: object, event: str, argument: object) -> Any:
                nonlocal lines
                lines += 1
                return trace

            sys.settrace(trace)
            try:
                messages_in(JsonReader({"messages": messages}, "$"), bool)
            finally:
                sys.settrace(None)
            return lines

        assert steps("function_call_") < 1.2 * steps("call_")

    def test_item_5_an_answer_has_one_call(self, api: Api) -> None:
        [choice] = api.completed(functions=[TIME, MAP])["choices"]
        assert choice["message"]["function_call"] == CALLED
        assert "tool_calls" not in choice["message"]
        assert choice["finish_reason"] == "function_call"
        assert api.fake.prompts[0].tools == ("clock", "map")

    def test_item_5_a_stream_has_one_call(self, api: Api) -> None:
        *pieces, last, _ = api.events(functions=[TIME, MAP])
        deltas = [piece["choices"][0]["delta"] for piece in pieces]
        assert [each["function_call"] for each in deltas if "function_call" in each] == [CALLED]
        assert last["choices"][0]["finish_reason"] == "function_call"

    @pytest.mark.parametrize(
        ("choice", "expected"),
        [("auto", "auto"), ("none", "none"), ({"name": "clock"}, "clock"), (None, None)],
    )
    def test_item_5_one_may_be_chosen(self, choice: Any, expected: str | None) -> None:
        body = JsonReader({"functions": [TIME], "function_call": choice}, "$")
        offered, chosen_tool = chosen(body, tools_in(body))
        assert ([each.name for each in offered], chosen_tool) == (["clock"], expected)

    def test_item_5_calls_and_results_are_paired_by_name(self, api: Api) -> None:
        def called(name: str, arguments: str) -> dict[str, Any]:
            call = {"name": name, "arguments": arguments}
            return {"role": "assistant", "content": None, "function_call": call}

        def result(name: str, content: str) -> dict[str, Any]:
            return {"role": "function", "name": name, "content": content}

        history = [HI, called("clock", '{"zone":"UTC"}'), result("clock", "9")]
        history += [called("map", "{}"), result("map", "north"), called("clock", "{oops")]
        api.completed(*history, result("clock", "10"), functions=[TIME, MAP])
        parts = [message.content[0] for message in api.fake.prompts[0].messages[1:]]
        calls = [part for part in parts if isinstance(part, ToolCall)]
        results = [part for part in parts if isinstance(part, ToolResult)]
        assert [each.name for each in calls] == ["clock", "map", "clock"]
        assert calls[2].malformed == "{oops"
        assert [each.id for each in results] == [each.id for each in calls]
        assert len({each.id for each in calls}) == 3

    @pytest.mark.parametrize(("message", "field"), [
        ({"role": "function", "name": "clock", "content": "9"}, "messages[0].name"),
        ({"role": "assistant", "function_call": {}}, "messages[0].function_call"),
    ])  # fmt: skip
    def test_item_5_invalid_messages(self, api: Api, message: Any, field: str) -> None:
        assert api.refused(message)["param"] == field

    @pytest.mark.parametrize(("body", "field"), [
        ({"functions": [TIME], "tools": [{"type": "function", "function": MAP}]}, "functions"),
        ({"functions": [TIME], "function_call": {"name": "map"}}, "function_call"),
    ])  # fmt: skip
    def test_item_5_invalid_requests(self, api: Api, body: Any, field: str) -> None:
        assert api.refused(**body)["param"] == field


class TestAllowedTools:
    @staticmethod
    def _choice(mode: str, *names: str) -> dict[str, Any]:
        tools = [{"type": "function", "function": {"name": name}} for name in names]
        return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}

    @pytest.mark.parametrize("mode", ["auto", "required"])
    def test_item_5_only_these_are_offered(self, mode: str) -> None:
        tools = [{"type": "function", "function": each} for each in (TIME, MAP)]
        body = JsonReader({"tools": tools, "tool_choice": self._choice(mode, "map")}, "$")
        offered, chosen_mode = chosen(body, tools_in(body))
        assert ([each.name for each in offered], chosen_mode) == (["map"], mode)

    @pytest.mark.parametrize(("choice", "field"), [
        ({"type": "allowed_tools"}, "tool_choice"),
        (_choice("auto"), "tool_choice.allowed_tools.tools"),
        (_choice("auto", "map"), "tool_choice.allowed_tools.tools[0]"),
        (_choice("any", "clock"), "tool_choice.allowed_tools.mode"),
    ])  # fmt: skip
    def test_item_5_invalid_choices(self, api: Api, choice: Any, field: str) -> None:
        tools = [{"type": "function", "function": TIME}]
        assert api.refused(tools=tools, tool_choice=choice)["param"] == field
