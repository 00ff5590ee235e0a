"""Runs that come to a bad end, and functions that do."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from genai_feature_assistants.agents import (
    OpenAIAssistantAgent,
    OpenAIServiceConfiguration,
    PollingOptions,
    RunCancelled,
    RunError,
    RunExpired,
    RunFailed,
    RunIncomplete,
    RunStuck,
    RunTimedOut,
)

from genai_host.api import tool
from genai_host.errors import BadRequest, GenaiError, MalformedReply
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
    Says,
    ScriptedService,
    Waiter,
)
from genai_host_testing.services.responses import ResponsesService

pytestmark = pytest.mark.part

ENDS = [
    ("failed", RunFailed, {"last_error": {"code": "server_error", "message": "broke"}}),
    ("cancelled", RunCancelled, {}),
    ("expired", RunExpired, {}),
    ("incomplete", RunIncomplete, {"incomplete_details": {"reason": "max_prompt_tokens"}}),
    ("mysterious", RunStuck, {}),
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
        assert isinstance(error, RunError)
        (run,), (thread,) = either.runs, either.threads
        assert (error.run_id, error.thread_id, error.assistant_id) == (run, thread, agent.id)
        assert error.run_status == status
        assert error.last_error == more.get("last_error")
        assert error.incomplete_reason == more.get("incomplete_details", {}).get("reason", "")
        assert run in error.message

    def test_item_7_a_run_that_takes_too_long(self, either: ScriptedService) -> None:
        either.turns.append([Waiter()])
        clock = RushingClock()
        with agent_of(either, clock=clock) as agent, pytest.raises(RunTimedOut) as caught:
            invoked(agent)
        assert clock.monotonic() == pytest.approx(60)
        (run,) = either.runs.values()
        assert caught.value.run_id == run["id"]
        assert run["status"] == "cancelled"

    def test_item_7_cancelling_may_fail(self, service: AssistantsService) -> None:
        service.turns.append([Waiter("cancelling")])
        service.fail("POST", "/cancel", reply(status=500))
        polling = PollingOptions(timeout=3)
        with agent_of(service, polling=polling) as agent, pytest.raises(RunTimedOut) as caught:
            invoked(agent)
        assert caught.value.run_status == "cancelling"

    @STREAMED
    @pytest.mark.parametrize(
        "action", [None, {"submit_tool_outputs": {"tool_calls": []}}, {"type": "new"}]
    )
    def test_item_7_an_action_without_calls(
        self, service: AssistantsService, action: Any, streamed: bool
    ) -> None:
        service.turns.append([Ends("requires_action", {"required_action": action})])
        with agent_of(service) as agent, pytest.raises(RunStuck, match="without calls") as caught:
            invoked(agent, streamed=streamed)
        assert caught.value.run_status == "requires_action"
        (run,) = service.runs.values()
        assert run["status"] == "cancelled"

    @pytest.mark.parametrize(
        ("name", "arguments", "told"),
        [
            ("dance", "{}", "unknown function 'dance'"),
            ("roll", "{", "not a JSON object"),
            ("roll", "[1]", "not a JSON object"),
            ("roll", '{"sides":"six"}', "six"),
            ("roll", '{"colour":1}', "colour"),
            ("breaks", "{}", "ZeroDivisionError: division by zero"),
            ("leaves", "{}", "SystemExit: 3"),
            ("asks", "{}", "was not approved"),
        ],
    )
    def test_item_7_what_goes_wrong_with_a_function_is_told(
        self, either: ScriptedService, name: str, arguments: str, told: str
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
        assert told in output["output"]

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
        polling = PollingOptions(round_trips=3)
        with (
            agent_of(either, functions=[roll], polling=polling) as agent,
            pytest.raises(RunStuck, match=r"[34] times"),
        ):
            invoked(agent)
        wanted = 3 if either.api == "responses" else 1
        assert len(either.bodies("POST", either.run_path)) == wanted

    @pytest.mark.parametrize(
        "garbage",
        [
            reply(b"<html>"),
            reply(b"\xff"),
            reply(b"[" * 100_000),
            *map(json_reply, ([], {}, {"id": None}, {"id": 1}, {"status": "completed"})),
            json_reply({"id": "run_else", "status": "completed"}),
        ],
        ids=range(9),
    )
    def test_item_7_a_run_that_turns_to_garbage_is_cancelled(
        self, service: AssistantsService, garbage: Any
    ) -> None:
        service.turns.append([Says("so")])
        with agent_of(service) as agent:
            service.fail("GET", "/runs/run", garbage)
            with pytest.raises(MalformedReply):
                invoked(agent)
        assert service.cancels == 1


class TestKeys:
    """Errors do not contain the part of a key that a service repeats."""

    def check(self, service: ScriptedService, *, streamed: bool = False, **given: Any) -> None:
        configuration = configured(service, **given)
        with (
            OpenAIAssistantAgent.create(configuration, DEFINITION) as agent,
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
        said = "x" * length + KEY
        given = {
            "json": json_reply({"error": {"message": said}}, 400),
            "text": reply(said.encode(), 400),
            "list": json_reply([said], 400),
        }[form]
        with FakeService([given]) as service:
            configuration = OpenAIServiceConfiguration.for_host(f"{service.url}/v1", api_key=KEY)
            with configuration.create_client() as client, pytest.raises(BadRequest) as caught:
                client.get("a")
        assert KEY[:4] not in caught.value.message

    @STREAMED
    def test_a_key_in_the_last_error_of_a_run(
        self, either: ScriptedService, streamed: bool
    ) -> None:
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
