"""Runs that are streamed, and the events that they come in."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from genai_feature_assistants.agents import (
    AgentDelta,
    AgentMessage,
    Code,
    PollingOptions,
    RunTimedOut,
    client as client_file,
)

from genai_host.api import ToolCall
from genai_host.errors import IncompleteReply, MalformedReply, ProviderError, ServiceUnavailable
from genai_host_testing.fake_service import CUT, RESET, json_reply, reply, sse_reply, stream_reply
from genai_host_testing.internal.assistants_agents import agent_of, invoked, roll
from genai_host_testing.services.assistants import (
    Act,
    AssistantsService,
    Calls,
    Runs,
    Says,
    ScriptedService,
    Stays,
)

pytestmark = pytest.mark.part


def streamed(service: ScriptedService, functions: Any = ()) -> list[Any]:
    with agent_of(service, functions=functions) as agent:
        return invoked(agent, streamed=True)


ORDER = {
    "assistants": "call result code+ code text+ text+ text",
    "responses": "call result code+ text+ text+ code text",  # messages are in the whole response
}
"""What a stream tells; a delta has a plus."""


def test_item_6_the_stream_of_a_run(either: ScriptedService) -> None:
    either.turns.append([Calls(("c1", "roll", "{}")), Runs("print(1)", "1"), Says("füñf 【1】")])
    items = streamed(either, [roll])
    places = dict(zip(ORDER[either.api].split(), items, strict=False))
    assert [isinstance(each, AgentDelta) for each in items] == [
        each.endswith("+") for each in ORDER[either.api].split()
    ]
    assert [each.visible for each in items] == [False, False, True, True, True, True, True]
    assert places["call"].content == (ToolCall("c1", "roll", {}),)
    assert places["result"].content[0].content[0].text == "6 of 6"
    assert (places["code+"].text, places["code+"].kind) == ("print(1)", "code")
    assert places["code"].content == (Code("print(1)", "1"),)
    pieces = [each for each in items if isinstance(each, AgentDelta) and each.kind == "text"]
    assert [each.text for each in pieces] == ["füñ", "f 【1】"]
    assert places["text"].text == "füñf 【1】"
    assert {each.message_id for each in pieces} == {places["text"].id}
    assert {each.name for each in items} == {"n"}
    assert either.outputs == [{"tool_call_id": "c1", "output": "6 of 6"}]


def test_item_6_both_forms_tell_the_same(either: ScriptedService) -> None:
    script: list[Act] = [
        Runs("1", "one"), Says("first"), Calls(("c1", "roll", "{}")), Calls(("c2", "roll", "{}")),
        Says("last"),
    ]  # fmt: skip
    either.turns += [script, script]
    with agent_of(either, functions=[roll]) as agent:
        plain = list(agent.invoke(agent.create_thread()))
        stream = list(agent.invoke_stream(agent.create_thread()))
    messages = [each for each in stream if isinstance(each, AgentMessage)]
    assert [each.content for each in messages] == [each.content for each in plain]


@pytest.mark.parametrize("after", range(4))
def test_item_7_a_stream_that_is_cut(either: ScriptedService, after: int) -> None:
    either.cut = after
    either.turns.append([Says("something")])
    with pytest.raises(IncompleteReply) as caught:
        streamed(either)
    assert caught.value.text == "something"[: (0, 0, 3, 9)[after]]
    assert either.cancels == (1 if after else 0)


def test_item_7_a_stream_that_is_cut_after_the_functions(service: AssistantsService) -> None:
    service.turns.append([Calls(("c1", "roll", "{}")), Says("so")])
    service.fail("POST", "/submit_tool_outputs", stream_reply([b"event: x\n", CUT]))
    with pytest.raises(IncompleteReply):
        streamed(service, [roll])
    assert service.asked[-1].endswith("/cancel")


def test_item_7_nothing_is_submitted_twice(service: AssistantsService) -> None:
    service.turns.append([Calls(("c1", "roll", "{}")), Says("so")])
    service.fail("POST", "/submit_tool_outputs", sse_reply([b"[DONE]"]))
    with pytest.raises(IncompleteReply):
        streamed(service, [roll])
    assert len(service.bodies("POST", "/submit_tool_outputs")) == 1


def test_item_6_a_message_that_is_completed_twice(service: AssistantsService) -> None:
    part = {"type": "text", "text": {"value": "so", "annotations": []}}
    message = {"id": "msg_1", "role": "assistant", "content": [part]}
    events = [
        ("thread.run.created", {"id": "run_1", "status": "queued"}),
        ("thread.message.completed", message),
        ("thread.something.new", {}),
        ("thread.message.completed", message),
        ("thread.run.completed", {"id": "run_1", "status": "completed"}),
    ]
    written = [f"event: {kind}\ndata: {json.dumps(data)}\n\n".encode() for kind, data in events]
    service.fail("POST", "/runs", stream_reply(written))
    assert [each.text for each in streamed(service)] == ["so"]


def test_item_7_a_stream_that_just_ends(either: ScriptedService) -> None:
    either.turns.append([Stays()])
    with pytest.raises(IncompleteReply, match=r"before the (run|response) was complete"):
        streamed(either)
    assert either.cancels == 1


CREATED = b'event: thread.run.created\ndata: {"type": "response.created", %b}\n\n'
ERROR = b'event: error\ndata: {"type": "error", %b}\n\n'
"""Events that both APIs have."""


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (sse_reply([b"[DONE]"]), IncompleteReply),
        (stream_reply([ERROR % b'"message": "broke"']), ProviderError),
        (stream_reply([ERROR % b'"error": {"message": "no"}']), ProviderError),
        (stream_reply([b"event: thread.run.created\ndata: {\n\n"]), MalformedReply),
        (stream_reply([b"event: thread.run.created\ndata: []\n\n"]), MalformedReply),
        (stream_reply([CREATED % b'"response": {}']), MalformedReply),
        (stream_reply([b"data: \xff\n\n"]), MalformedReply),
        (stream_reply([b"data: 1", RESET]), ProviderError),
        (reply(b"", 503), ServiceUnavailable),
        (json_reply({"error": {"message": "no"}}, 400), ProviderError),
    ],
    ids=range(10),
)  # fmt: skip
def test_item_7_garbage_for_a_stream(either: ScriptedService, answer: Any, kind: Any) -> None:
    either.fail("POST", either.run_path, answer)
    with pytest.raises(kind):
        streamed(either)


def test_item_6_a_stream_that_is_left_is_cancelled(either: ScriptedService) -> None:
    either.turns.append([Says("a long answer")])
    with agent_of(either) as agent:
        stream = agent.invoke_stream(agent.create_thread())
        assert next(stream).visible
        stream.close()
    assert either.asked[-1].endswith("/cancel")


def test_item_7_a_stream_that_takes_too_long(
    either: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = itertools.count(0, 7)
    either.turns.append([Says("a long answer")])
    with agent_of(either) as agent:
        thread = agent.create_thread()
        monkeypatch.setattr(client_file, "_now", lambda: next(passed))
        with pytest.raises(RunTimedOut):
            list(agent.invoke_stream(thread))


def test_item_7_a_stream_that_only_keeps_alive(either: ScriptedService) -> None:
    state = b'"id": "run_1", "status": "queued"'
    created = CREATED % (state + b', "response": {%b}' % state)
    either.fail("POST", either.run_path, stream_reply([created, *[b": alive\n\n"] * 50]))
    polling = PollingOptions(timeout=0)
    with agent_of(either, polling=polling) as agent, pytest.raises(RunTimedOut):
        list(agent.invoke_stream(agent.create_thread()))
