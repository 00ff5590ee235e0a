"""Runs that are polled, and how they and their functions end."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from genai_feature_assistants import agents

from genai_host.api import ToolCall, ToolResult, tool
from genai_host.errors import BadRequest, GenaiError, MalformedReply, ServiceUnavailable
from genai_host_testing import FakeService
from genai_host_testing.fake_service import json_reply, reply, stream_reply
from genai_host_testing.internal.assistants_agents import (
    DEFINITION,
    STREAMED,
    RushingClock,
    agent_of,
    configured,
    invoked,
    roll,
)
from genai_host_testing.services.assistants import (
    KEY,
    AssistantsService,
    Calls,
    Ends,
    Runs,
    Says,
    ScriptedService,
    Stays,
)
from genai_host_testing.services.responses import ResponsesService

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
            messages = invoked(agent)
        assert [each.visible for each in messages] == [False, False, True, True]
        call, result, code, message = messages
        assert call.content == (ToolCall("c1", "roll", {"sides": 4}),)
        assert result.content == (ToolResult("c1", "roll", "4 of 4"),)
        assert result.role == "tool"
        assert code.content == (agents.Code("print(4)", "4\n"),)
        annotation = agents.Annotation("file_citation", "【1】", 3, 6, "file_1")
        assert message.content == (agents.AnnotatedText("so 【1】", (annotation,)),)
        assert message.text[annotation.start : annotation.end] == annotation.text
        assert {each.name for each in messages} == {"n"}
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
            stream = agent.invoke(agent.create_thread(), hidden=True)
            next(stream)
            stream.close()
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
    received: list[str] = []

    @tool
    def hear(text: str) -> str:
        """Hear something."""
        received.append(text)
        return text

    text = 'é\u2028\U0001f600\n"'
    service.turns.append([Calls(("c1", "hear", json.dumps({"text": text}))), Says(text)])
    with agent_of(service, agents.OpenAIAssistantDefinition("m"), [hear]) as agent:
        messages = invoked(agent)
    assert received == [text] == [service.outputs[0]["output"]]
    assert messages[-1].text == text
    assert messages[-1].name == agent.id


ENDS = [
    ("failed", agents.RunFailed, {"last_error": {"code": "server_error", "message": "broke"}}),
    ("cancelled", agents.RunCancelled, {}),
    ("expired", agents.RunExpired, {}),
    ("incomplete", agents.RunIncomplete, {"incomplete_details": {"reason": "max_prompt_tokens"}}),
    ("mysterious", agents.RunStuck, {}),
]


class TestItem7:
    @STREAMED
    @pytest.mark.parametrize(("status", "kind", "more"), ENDS)
    def test_item_7_a_bad_end(
        self, either: ScriptedService, status: str, kind: Any, more: Any, streamed: bool
    ) -> None:
        either.turns.append([Ends(status, more)])
        with agent_of(either) as agent, pytest.raises(kind) as caught:
            invoked(agent, streamed=streamed)
        error = caught.value
        assert isinstance(error, agents.RunError)
        (run,), (thread,) = either.runs, either.threads
        assert (error.run_id, error.thread_id, error.assistant_id) == (run, thread, agent.id)
        assert error.run_status == status
        assert error.last_error == more.get("last_error")
        assert error.incomplete_reason == more.get("incomplete_details", {}).get("reason", "")
        assert run in error.message

    def test_item_7_a_run_that_takes_too_long(self, either: ScriptedService) -> None:
        either.turns.append([Stays()])
        clock = RushingClock()
        with agent_of(either, clock=clock) as agent, pytest.raises(agents.RunTimedOut) as caught:
            invoked(agent)
        assert clock.monotonic() == pytest.approx(60)
        (run,) = either.runs.values()
        assert caught.value.run_id == run["id"]
        assert run["status"] == "cancelled"

    def test_item_7_cancelling_may_fail(self, service: AssistantsService) -> None:
        service.turns.append([Stays("cancelling")])
        service.fail("POST", "/cancel", reply(status=500))
        polling = agents.PollingOptions(timeout=3)
        with (
            agent_of(service, polling=polling) as agent,
            pytest.raises(agents.RunTimedOut) as caught,
        ):
            invoked(agent)
        assert caught.value.run_status == "cancelling"

    @STREAMED
    @pytest.mark.parametrize(
        "action", [None, {"submit_tool_outputs": {"tool_calls": []}}, {"type": "new"}]
    )
    def test_item_7_no_calls(self, service: AssistantsService, action: Any, streamed: bool) -> None:
        service.turns.append([Ends("requires_action", {"required_action": action})])
        with (
            agent_of(service) as agent,
            pytest.raises(agents.RunStuck, match="without calls") as caught,
        ):
            invoked(agent, streamed=streamed)
        assert caught.value.run_status == "requires_action"
        (run,) = service.runs.values()
        assert run["status"] == "cancelled"

    @pytest.mark.parametrize(("name", "arguments", "message"), [
        ("dance", "{}", "unknown function 'dance'"), ("roll", "{", "not a JSON object"),
        ("roll", "[1]", "not a JSON object"), ("roll", '{"sides":"six"}', "six"),
        ("roll", '{"colour":1}', "colour"),
        ("breaks", "{}", "ZeroDivisionError: division by zero"),
        ("leaves", "{}", "SystemExit: 3"), ("asks", "{}", "was not approved"),
    ])  # fmt: skip
    def test_item_7_what_goes_wrong_with_a_function_is_told(
        self, either: ScriptedService, name: str, arguments: str, message: str
    ) -> None:
        @tool
        def breaks() -> str:
            """Break."""
            return str(1 / 0)

        @tool
        def leaves() -> str:
            """Leave."""
            raise SystemExit(3)

        @tool(approval="ask")
        def asks() -> str:
            """Do what needs a human."""
            return "done"

        either.turns.append([Calls(("c1", name, arguments)), Says("so")])
        with agent_of(either, functions=[roll, breaks, leaves, asks]) as agent:
            assert invoked(agent)[-1].text == "so"
        (output,) = either.outputs
        assert output["tool_call_id"] == "c1"
        assert output["output"].startswith("Error: ")
        assert message in output["output"]

    def test_item_7_a_function_that_hangs(self, service: AssistantsService) -> None:
        over = threading.Event()

        @tool(timeout=0.05)
        def hangs() -> str:
            """Never end."""
            over.wait(20)
            return "late"

        service.turns.append([Calls(("c1", "hangs", "{}")), Says("so")])
        with agent_of(service, functions=[hangs]) as agent:
            assert invoked(agent)[-1].text == "so"
        over.set()
        assert service.outputs[0]["output"] == "Error: the function timed out"

    def test_item_7_who_asks_for_functions_without_an_end(self, either: ScriptedService) -> None:
        either.turns.append([Calls((f"c{number}", "roll", "{}")) for number in range(5)])
        polling = agents.PollingOptions(round_trips=3)
        with (
            agent_of(either, functions=[roll], polling=polling) as agent,
            pytest.raises(agents.RunStuck, match=r"[34] times"),
        ):
            invoked(agent)
        count = 3 if either.api == "responses" else 1
        assert len(either.bodies("POST", either.run_path)) == count

    @pytest.mark.parametrize("garbage", [
        reply(b"<html>"), reply(b"\xff"), reply(b"[" * 100_000),
        *map(json_reply, ([], {}, {"id": None}, {"id": 1}, {"status": "completed"})),
        json_reply({"id": "run_else", "status": "completed"}),
    ], ids=range(9))  # fmt: skip
    def test_item_7_garbage_cancels_the_run(self, service: AssistantsService, garbage: Any) -> None:
        service.turns.append([Says("so")])
        with agent_of(service) as agent:
            service.fail("GET", "/runs/run", garbage)
            with pytest.raises(MalformedReply):
                invoked(agent)
        assert service.cancels == 1


class TestKeys:
    """Errors do not contain the part of a key that a service repeats."""

    def check(self, service: ScriptedService, *, streamed: bool = False, **options: Any) -> None:
        configuration = configured(service, **options)
        with (
            agents.OpenAIAssistantAgent.create(configuration, DEFINITION) as agent,
            pytest.raises(GenaiError) as caught,
        ):
            invoked(agent, streamed=streamed)
        error = caught.value
        shown = f"{error} {error!r} {error.fields()} {vars(error)}"
        assert KEY not in shown
        assert "bad key ***" in shown

    @pytest.mark.parametrize("length", [490, 990, 1990])
    @pytest.mark.parametrize("form", ["json", "text", "list"])
    def test_a_key_at_the_edge_of_what_is_shown(self, form: str, length: int) -> None:
        text = "x" * length + KEY
        answer = {
            "json": json_reply({"error": {"message": text}}, 400),
            "text": reply(text.encode(), 400),
            "list": json_reply([text], 400),
        }[form]
        with FakeService([answer]) as service:
            configuration = agents.OpenAIServiceConfiguration.for_host(
                f"{service.url}/v1", api_key=KEY
            )
            with configuration.create_client() as client, pytest.raises(BadRequest) as caught:
                client.get("a")
        assert KEY[:4] not in caught.value.message

    @STREAMED
    def test_key_in_the_last_error_of_a_run(self, either: ScriptedService, streamed: bool) -> None:
        last = {"code": "server_error", "message": f"bad key {KEY}"}
        either.turns.append([Ends("failed", {"last_error": last})])
        self.check(either, streamed=streamed)

    def test_a_key_in_an_error_amid_a_stream(self, either: ScriptedService) -> None:
        event = f'event: error\ndata: {{"type": "error", "message": "bad key {KEY}"}}\n\n'
        either.fail("POST", either.run_path, stream_reply([event.encode()]))
        self.check(either, streamed=True)

    def test_the_key_of_a_credential(self) -> None:
        with ResponsesService([Ends("failed", {"last_error": {"message": f"bad key {KEY}"}})]) as s:
            self.check(s, api_key=None, token_credential=lambda: KEY)
