"""`functions` and `function_call`, the deprecated form of tools, and `allowed_tools`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from genai_wire_openai.server.requests import chosen, messages_in, tools_in
from openai_form import HI, Api

from genai_host.api import Completion, JsonReader, Message, ToolCall, ToolResult
from genai_host_testing import FakeModel
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part

CLOCK = {"name": "clock", "description": "the time", "parameters": {"type": "object"}}
MAP = {"name": "map", "parameters": {"type": "object"}}
CALLED = {"name": "clock", "arguments": '{"zone":"UTC"}'}


@pytest.fixture
def api(make_host: MakeHost) -> Iterator[Api]:
    calls = [ToolCall("a", "clock", {"zone": "UTC"}), ToolCall("b", "map")]
    answer = Completion(Message("assistant", calls), "tool_calls")
    with Api.serving(make_host, FakeModel(lambda prompt: answer)) as api:
        yield api


class TestFunctions:
    @pytest.mark.parametrize(
        "body", [{"function_call": "auto"}, {"functions": [CLOCK], "tool_choice": "none"}]
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
        [choice] = api.completed(functions=[CLOCK, MAP])["choices"]
        assert choice["message"]["function_call"] == CALLED
        assert "tool_calls" not in choice["message"]
        assert choice["finish_reason"] == "function_call"
        assert api.fake.prompts[0].tools == ("clock", "map")

    def test_item_5_a_stream_has_one_call(self, api: Api) -> None:
        *pieces, last, _ = api.events(functions=[CLOCK, MAP])
        deltas = [piece["choices"][0]["delta"] for piece in pieces]
        assert [each["function_call"] for each in deltas if "function_call" in each] == [CALLED]
        assert last["choices"][0]["finish_reason"] == "function_call"

    @pytest.mark.parametrize(
        ("choice", "expected"),
        [("auto", "auto"), ("none", "none"), ({"name": "clock"}, "clock"), (None, None)],
    )
    def test_item_5_one_may_be_chosen(self, choice: Any, expected: str | None) -> None:
        body = JsonReader({"functions": [CLOCK], "function_call": choice}, "$")
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
        api.completed(*history, result("clock", "10"), functions=[CLOCK, MAP])
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
        ({"functions": [CLOCK], "tools": [{"type": "function", "function": MAP}]}, "functions"),
        ({"functions": [CLOCK], "function_call": {"name": "map"}}, "function_call"),
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
        tools = [{"type": "function", "function": each} for each in (CLOCK, MAP)]
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
        tools = [{"type": "function", "function": CLOCK}]
        assert api.refused(tools=tools, tool_choice=choice)["param"] == field
