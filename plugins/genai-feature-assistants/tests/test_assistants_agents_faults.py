"""Faults of services, of networks and of programs, and what agents make of them."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import attrs
import pytest
from genai_feature_assistants.agents import (
    AgentDeleted,
    BrokenDefinition,
    FileDefinitions,
    OpenAIAssistantAgent,
    OpenAIAssistantDefinition,
    OpenAIAssistantExecutionOptions,
    OpenAIAssistantInvocationOptions,
    OpenAIServiceConfiguration,
    OpenAIThreadCreationOptions,
    PollingOptions,
    RunError,
    RunTimedOut,
    client as client_file,
    runs,
)
from genai_feature_assistants.agents.functions import Functions

from genai_host import errors
from genai_host.api import ToolCall
from genai_host_testing import FakeService
from genai_host_testing.fake_service import HANG, Reply, json_reply, reply, stream_reply
from genai_host_testing.internal.assistants_agents import (
    DEFINITION,
    RushingClock,
    agent_of,
    configured,
    invoked,
    roll,
)
from genai_host_testing.services.assistants import (
    AssistantsService,
    Calls,
    Ends,
    Says,
    ScriptedService,
    Stays,
)
from genai_host_testing.services.responses import ResponsesService

pytestmark = pytest.mark.part

CREATED = (
    b'event: thread.run.created\ndata: {"type": "response.created", "id": "run_1", '
    b'"status": "queued", "response": {"id": "run_1", "status": "queued"}}\n\n'
)
"""The first event of either API."""


class TestRuns:
    def test_item_6_a_step_that_is_listed_twice(self, service: AssistantsService) -> None:
        program = {"type": "code_interpreter", "code_interpreter": {"input": "1"}}
        step = {
            "id": "step_1", "type": "tool_calls", "status": "completed",
            "step_details": {"type": "tool_calls", "tool_calls": [program]},
        }  # fmt: skip
        service.turns.append([])
        service.fail("GET", "/steps", json_reply({"data": [step, step]}))
        with agent_of(service) as agent:
            assert len(invoked(agent)) == 1

    def test_item_6_a_step_without_an_id(self, service: AssistantsService) -> None:
        service.turns.append([])
        step = {"type": "tool_calls", "status": "completed"}
        service.fail("GET", "/steps", json_reply({"data": [step]}))
        with agent_of(service) as agent, pytest.raises(errors.MalformedReply, match="no id"):
            invoked(agent)

    @pytest.mark.parametrize("status", [[], {}, 7])
    def test_item_7_a_status_that_is_no_text(self, service: AssistantsService, status: Any) -> None:
        service.turns.append([Ends(status)])
        with agent_of(service) as agent, pytest.raises(errors.MalformedReply, match="status"):
            invoked(agent)
        assert service.cancels == 1

    def test_item_7_a_stream_that_is_silent(self, either: ScriptedService) -> None:
        either.fail("POST", either.run_path, stream_reply([CREATED, HANG]))
        polling = PollingOptions(timeout=0.5)
        with agent_of(either, polling=polling) as agent, pytest.raises(RunTimedOut) as caught:
            invoked(agent, streamed=True)
        assert caught.value.run_id == "run_1"
        assert either.cancels == 1

    def test_item_7_a_cancel_that_nobody_answers(
        self, service: AssistantsService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(runs, "CANCELLING", 0.05)
        service.turns.append([Stays()])
        service.fail("POST", "/cancel", Reply([HANG]))
        # any other request would be waited for
        configuration = attrs.evolve(configured(service), timeout=3600.0)
        agent = OpenAIAssistantAgent.create(configuration, DEFINITION, (), clock=RushingClock())
        with agent, pytest.raises(RunTimedOut):
            invoked(agent)

    def test_item_7_no_try_goes_beyond_the_time_of_a_run(self, service: AssistantsService) -> None:
        service.turns.append([Says("so")])
        clock = RushingClock()
        with agent_of(service, clock=clock, polling=PollingOptions(timeout=1.0)) as agent:
            service.fail("GET", "/runs/run", reply(status=500), 3)
            with pytest.raises(errors.ProviderError):
                invoked(agent)
        assert clock.monotonic() <= 1
        assert service.cancels == 1

    def test_item_7_ctrl_c_is_no_result_of_a_function(self) -> None:
        class Interrupted(Future[Any]):
            def result(self, timeout: float | None = None) -> Any:
                super().result(timeout)
                raise KeyboardInterrupt

        from genai_feature_assistants.agents import functions

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(functions, "Future", Interrupted)
            with pytest.raises(KeyboardInterrupt):
                Functions([roll]).call([ToolCall("c1", "roll", {})])

    def test_item_8_what_was_begun_before_it_was_deleted(self, service: AssistantsService) -> None:
        with agent_of(service) as agent:
            thread = agent.create_thread()
            runs = [agent.invoke(thread), agent.invoke_stream(thread)]
            agent.delete()
            before = len(service.requests)
            for run in runs:
                with pytest.raises(AgentDeleted):
                    next(run)
            assert len(service.requests) == before


class TestRetryAfter:
    def retry(self, service: AssistantsService, after: str) -> tuple[list[float], Any]:
        """What is waited for, and the error, where the first try is told to wait."""
        service.turns.append([Says("so")])
        clock = RushingClock()
        with agent_of(service, clock=clock) as agent:
            thread = agent.create_thread()
            service.fail("GET", "/threads/thread", json_reply({}, 429, {"Retry-After": after}))
            try:
                list(agent.invoke(thread))
            except errors.GenaiError as error:
                return clock.waits, error
        return clock.waits, None

    @pytest.mark.parametrize(
        ("after", "first"), [("2", 2.0), ("60", 60.0), ("0", 1.0), ("soon", 1.0), ("nan", 1.0)]
    )
    def test_item_6_retry_after(self, service: AssistantsService, after: str, first: float) -> None:
        waits, error = self.retry(service, after)
        assert error is None
        assert waits[0] == first

    @pytest.mark.parametrize("after", ["61", "86400", "Fri, 01 Jan 2100 00:00:00 GMT"])
    def test_item_6_longer_than_anyone_waits(self, service: AssistantsService, after: str) -> None:
        waits, error = self.retry(service, after)
        assert isinstance(error, errors.RateLimited)
        assert error.retry_after is not None
        assert error.retry_after == float(after) if after.isdigit() else error.retry_after > 10**8
        assert waits == []

    def test_item_6_a_date_that_is_past(self, service: AssistantsService) -> None:
        waits, error = self.retry(service, "Fri, 31 Dec 1999 23:59:59 GMT")
        assert (waits[0], error) == (1.0, None)


class TestWhatIsRefused:
    def test_item_2_the_name_of_ours_is_taken(self, service: AssistantsService) -> None:
        with pytest.raises(errors.ValidationError, match="__run_options"):
            agent_of(service, attrs.evolve(DEFINITION, metadata={"__run_options": "{}"}))
        assert not service.requests

    def test_item_2_an_assistant_without_an_id(self, service: AssistantsService) -> None:
        service.fail("POST", "/assistants", json_reply({"model": "m"}))
        with pytest.raises(BrokenDefinition, match="without an id"):
            agent_of(service)

    def test_item_15_the_name_of_ours_is_taken(self) -> None:
        with ResponsesService() as service, agent_of(service) as agent:
            options = OpenAIThreadCreationOptions(metadata={"__thread_options_00": "{}"})
            with pytest.raises(errors.ValidationError, match="__thread_options"):
                agent.create_thread(options)
            assert not service.requests

    @pytest.mark.parametrize("value", [
        lambda: OpenAIAssistantDefinition("m", execution_options={}),  # type: ignore[arg-type]  # wrong
        lambda: OpenAIAssistantExecutionOptions(tool_call_behavior="roll"),  # type: ignore[arg-type]  # wrong
        lambda: OpenAIAssistantInvocationOptions(tool_call_behavior="roll"),  # type: ignore[arg-type]  # wrong
        lambda: OpenAIAssistantInvocationOptions(additional_messages=["hi"]),
        lambda: OpenAIThreadCreationOptions(messages=["hi"]),
    ])  # fmt: skip
    def test_item_1_what_is_no_object_of_its_class(self, value: Any) -> None:
        with pytest.raises(TypeError, match="must be"):
            value()


class TestHostileReplies:
    def test_item_9_a_picture_that_is_nowhere(self, service: AssistantsService) -> None:
        part = {"type": "image_url", "image_url": {}}
        message = {"id": "msg_1", "role": "user", "content": [part]}
        with agent_of(service) as agent:
            thread = agent.create_thread()
            service.fail("GET", "/messages", json_reply({"data": [message]}))
            with pytest.raises(errors.MalformedReply):
                list(agent.get_thread_messages(thread))

    def test_a_reply_that_comes_a_byte_at_a_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"
        with FakeService([Reply([head, HANG])]) as service:
            passed = itertools.count(0, 7)
            monkeypatch.setattr(client_file, "_now", lambda: next(passed))
            configuration = OpenAIServiceConfiguration.for_host(f"{service.url}/v1", timeout=5.0)
            with (
                configuration.create_client() as client,
                pytest.raises(errors.ProviderTimeout) as caught,
            ):
                client.get("a")
        assert caught.value.deadline == "timeout"

    def test_definitions_that_another_program_removes(self, tmp_path: Path) -> None:
        files = FileDefinitions(tmp_path)
        definition = attrs.evolve(DEFINITION, id="asst_1")
        files.save(definition)
        (tmp_path / "asst_2.json").symlink_to(tmp_path / "gone")
        assert files.all() == [definition]


def test_agents_of_many_threads(either: ScriptedService) -> None:
    """One agent, used concurrently: each thread receives its own run."""
    either.turns += [[Calls((f"c{number}", "roll", "{}")), Says("so")] for number in range(8)]
    runs: list[Any] = []
    with agent_of(either, functions=[roll]) as agent:
        threads = [
            threading.Thread(target=lambda: runs.append(invoked(agent)), daemon=True)
            for _ in range(8)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join(30)
    assert [[each.visible for each in run] for run in runs] == [[False, False, True]] * 8
    assert len({run[-1].run_id for run in runs}) == 8
    rounds = 1 if either.api == "assistants" else 2  # responses of a run
    assert {len({each.run_id for each in run}) for run in runs} == {rounds}
    assert not [each for each in runs if isinstance(each, RunError)]
