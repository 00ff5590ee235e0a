"""Runs that are polled."""

from __future__ import annotations

import json
import threading

import pytest
from genai_feature_assistants.agents import (
    AnnotatedText,
    Annotation,
    Code,
    OpenAIAssistantDefinition,
)

from genai_host.api import ToolCall, ToolResult, tool
from genai_host.errors import BadRequest, ServiceUnavailable
from genai_host_testing.fake_service import reply
from genai_host_testing.internal.assistants_agents import (
    RushingClock,
    agent_of,
    invoked,
    roll,
)
from genai_host_testing.services.assistants import (
    AssistantsService,
    Calls,
    Runs,
    Says,
    ScriptedService,
)

pytestmark = pytest.mark.part


class TestItem6:
    def test_item_6_polls_and_backs_off(self, either: ScriptedService) -> None:
        either.polls = 5
        either.turns.append([Says("so")])
        clock = RushingClock()
        with agent_of(either, clock=clock) as agent:
            assert [each.text for each in invoked(agent)] == ["so"]
        last = [1.0] if either.api == "assistants" else []  # a response may come at once
        assert clock.waits == [0.25, 0.25, 1.0, 1.0, *last]

    def test_item_6_steps_in_their_order(self, service: AssistantsService) -> None:
        note = {
            "type": "file_citation", "text": "【1】", "start_index": 3, "end_index": 6,
            "file_citation": {"file_id": "file_1"},
        }  # fmt: skip
        service.turns.append(
            [
                Calls(("c1", "roll", '{"sides":4}')),
                Says("so 【1】", [note]),
                Runs("print(4)", "4\n"),
            ]
        )
        with agent_of(service, functions=[roll]) as agent:
            said = invoked(agent)
        assert [each.visible for each in said] == [False, False, True, True]
        call, result, code, message = said
        assert call.content == (ToolCall("c1", "roll", {"sides": 4}),)
        assert result.content == (ToolResult("c1", "roll", "4 of 4"),)
        assert result.role == "tool"
        assert code.content == (Code("print(4)", "4\n"),)
        annotation = Annotation("file_citation", "【1】", 3, 6, "file_1")
        assert message.content == (AnnotatedText("so 【1】", (annotation,)),)
        assert message.text[annotation.start : annotation.end] == annotation.text
        assert {each.name for each in said} == {"n"}
        assert service.outputs == [{"tool_call_id": "c1", "output": "4 of 4"}]

    def test_item_6_each_step_once(self, either: ScriptedService) -> None:
        either.turns.append(
            [Says("one"), Calls(("c1", "roll", "{}")), Says("two"), Calls(("c2", "roll", "{}")),
             Says("three")]
        )  # fmt: skip
        with agent_of(either, functions=[roll]) as agent:
            thread = agent.create_thread()
            shown = [each.text for each in agent.invoke(thread)]
            assert shown == ["one", "two", "three"]
            assert [each.text for each in agent.get_thread_messages(thread)] == shown

    def test_item_6_functions_run_at_the_same_time(self, either: ScriptedService) -> None:
        together = threading.Barrier(2, timeout=20)

        @tool
        def meet() -> str:
            """Wait for the other one."""
            return str(together.wait() in (0, 1))

        either.turns.append([Calls(("c1", "meet", "{}"), ("c2", "meet", "")), Says("so")])
        with agent_of(either, functions=[meet]) as agent:
            invoked(agent)
        assert either.outputs == [
            {"tool_call_id": "c1", "output": "True"},
            {"tool_call_id": "c2", "output": "True"},
        ]

    def test_item_6_the_functions_are_offered(self, service: AssistantsService) -> None:
        service.turns.append([Says("so")])
        with agent_of(service, functions=[roll]) as agent:
            invoked(agent)
        (offered,) = service.bodies("POST", "/runs")[0]["tools"]
        assert offered["type"] == "function"
        assert offered["function"]["name"] == "roll"
        assert offered["function"]["description"] == "Roll a die."
        assert offered["function"]["parameters"]["properties"]["sides"]["type"] == "integer"

    def test_item_6_failures_in_passing(self, service: AssistantsService) -> None:
        service.turns.append([Says("so")])
        with agent_of(service) as agent:
            thread = agent.create_thread()
            for piece in ("/runs/run", "/steps", "/messages/msg"):
                service.fail("GET", piece, reply(status=500), 2)
            assert [each.text for each in agent.invoke(thread)] == ["so"]

    def test_item_6_failures_that_stay(self, service: AssistantsService) -> None:
        service.turns.append([Says("so")])
        with agent_of(service) as agent:
            service.fail("GET", "/runs/run", reply(status=503), 3)
            with pytest.raises(ServiceUnavailable) as caught:
                invoked(agent)
        assert caught.value.status == 503
        assert service.cancels

    def test_item_6_a_run_is_never_made_twice(self, either: ScriptedService) -> None:
        with agent_of(either) as agent:
            either.fail("POST", either.run_path, reply(status=500), 1)
            with pytest.raises(ServiceUnavailable):
                invoked(agent)
        assert len(either.bodies("POST", either.run_path)) == 1

    def test_item_6_a_run_that_is_left_is_cancelled(self, service: AssistantsService) -> None:
        service.turns.append([Calls(("c1", "roll", "{}")), Says("so")])
        with agent_of(service, functions=[roll]) as agent:
            told = agent.invoke(agent.create_thread(), hidden=True)
            next(told)
            told.close()
        (run,) = service.runs.values()
        assert run["status"] == "cancelled"


def test_a_function_may_be_approved_of(service: AssistantsService) -> None:
    @tool(approval="ask")
    def asks() -> str:
        """Do what needs a human."""
        return "done"

    service.turns.append([Calls(("c1", "asks", "{}")), Says("so")])
    with agent_of(service, functions=[asks], approve=lambda call: call.name == "asks") as agent:
        invoked(agent)
    assert service.outputs[0]["output"] == "done"


def test_no_more_calls_are_made_at_once_than_can_be(service: AssistantsService) -> None:
    calls = [(f"c{number}", "roll", "{}") for number in range(66)]
    service.turns.append([Calls(*calls), Says("so")])
    with agent_of(service, functions=[roll]) as agent:
        invoked(agent)
    outputs = [each["output"] for each in service.outputs]
    assert outputs[:64] == ["6 of 6"] * 64
    assert all(each.startswith("Error: not called") for each in outputs[64:])
    assert len(outputs) == 66


def test_what_a_function_gives_is_bounded(service: AssistantsService) -> None:
    @tool
    def talk() -> list[int]:
        """Talk and talk."""
        return [1] * 10**6

    service.turns.append([Calls(("c1", "talk", "{}")), Says("so")])
    with agent_of(service, functions=[talk]) as agent:
        invoked(agent)
    assert len(service.outputs[0]["output"]) == 512 * 1024


def test_two_functions_of_one_name_are_refused(service: AssistantsService) -> None:
    with pytest.raises(Exception, match="roll"):
        agent_of(service, functions=[roll, roll])
    assert not service.requests


def test_a_run_on_a_thread_that_is_none(service: AssistantsService) -> None:
    with agent_of(service) as agent:
        with pytest.raises(BadRequest) as caught:
            list(agent.invoke("thread_none"))
        assert caught.value.status == 404
        for id in ("", "..", "a" * 300):
            with pytest.raises(Exception, match="invalid id"):
                list(agent.invoke(id))
        with pytest.raises(BadRequest):
            list(agent.invoke("../assistants"))
    assert all("/threads/../" not in each.path for each in service.requests)


def test_arguments_are_json_to_the_letter(service: AssistantsService) -> None:
    heard: list[str] = []

    @tool
    def hear(text: str) -> str:
        """Hear something."""
        heard.append(text)
        return text

    text = 'é\u2028\U0001f600\n"'
    service.turns.append([Calls(("c1", "hear", json.dumps({"text": text}))), Says(text)])
    with agent_of(service, OpenAIAssistantDefinition("m"), [hear]) as agent:
        said = invoked(agent)
    assert heard == [text] == [service.outputs[0]["output"]]
    assert said[-1].text == text
    assert said[-1].name == agent.id
