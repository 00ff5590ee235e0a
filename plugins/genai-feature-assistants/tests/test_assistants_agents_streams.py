"""Streams of agents, agents from their beginning to their end, and the channels that they share."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from genai_feature_assistants.agents import (
    AgentDeleted,
    AgentDelta,
    AgentMessage,
    Code,
    FileImage,
    OpenAIAssistantAgent,
    OpenAIAssistantChannel,
    OpenAIAssistantDefinition,
    OpenAIAssistantInvocationOptions,
    OpenAIThreadCreationOptions,
    PollingOptions,
    RunTimedOut,
    channel_hash,
    client as client_file,
)

from genai_host.api import File, Image, Message, Reasoning, Text, ToolCall, ToolResult
from genai_host.errors import (
    BadRequest,
    IncompleteReply,
    MalformedReply,
    ProviderError,
    ServiceUnavailable,
    UnsupportedPart,
    ValidationError,
)
from genai_host_testing.fake_service import CUT, RESET, json_reply, reply, sse_reply, stream_reply
from genai_host_testing.internal.assistants_agents import agent_of, configured, invoked, roll
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


@pytest.mark.parametrize(("answer", "kind"), [
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
], ids=range(10))  # fmt: skip
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


def test_item_7_slow_stream(either: ScriptedService, monkeypatch: pytest.MonkeyPatch) -> None:
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


KEYS = ["OpenAIAssistantAgent", "asst_1", "n", "http://127.0.0.1:1/v1/"]


class TestItem8:
    def test_item_8_what_is_deleted_does_nothing(self, either: ScriptedService) -> None:
        with agent_of(either) as agent:
            thread = agent.create_thread()
            assert [agent.is_deleted, agent.delete(), agent.is_deleted] == [False, True, True]
            before = len(either.requests)
            for act in (
                lambda: agent.invoke(thread),
                lambda: agent.invoke_stream(thread),
                lambda: agent.add_chat_message(thread, "hi"),
                lambda: agent.create_channel(thread),
            ):
                with pytest.raises(AgentDeleted) as caught:
                    act()
                assert caught.value.assistant_id == agent.id
            assert agent.delete() is True
            assert len(either.requests) == before

    def test_item_8_who_was_deleted_by_others(self, service: AssistantsService) -> None:
        with agent_of(service) as agent:
            del service.assistants[agent.id]
            assert agent.delete() is True
            with pytest.raises(BadRequest):
                OpenAIAssistantAgent.retrieve(configured(service), agent.id)

    def test_item_8_a_delete_that_fails_is_none(self, service: AssistantsService) -> None:
        service.fail("DELETE", "/assistants", reply(status=500))
        with agent_of(service) as agent:
            with pytest.raises(ServiceUnavailable):
                agent.delete()
            assert not agent.is_deleted
            assert agent.delete()

    def test_item_8_a_deleted_thread(self, either: ScriptedService) -> None:
        with agent_of(either) as agent:
            thread = agent.create_thread()
            assert agent.delete_thread(thread) is True
            for act in (
                lambda: agent.add_chat_message(thread, "hi"),
                lambda: list(agent.invoke(thread)),
                lambda: list(agent.invoke_stream(thread)),
                lambda: list(agent.get_thread_messages(thread)),
                lambda: agent.delete_thread(thread),
            ):
                with pytest.raises(BadRequest) as caught:
                    act()
                assert caught.value.status == 404


class TestItem9:
    @pytest.mark.parametrize("role", ["system", "tool"])
    def test_item_9_other_roles(self, either: ScriptedService, role: Any) -> None:
        with agent_of(either) as agent:
            thread = agent.create_thread()
            before = len(either.requests)
            with pytest.raises(ValidationError, match=role):
                agent.add_chat_message(thread, Message(role, "hi"))
            options = OpenAIAssistantInvocationOptions(additional_messages=[Message(role, "hi")])
            with pytest.raises(ValidationError, match=role):
                agent.invoke(thread, options)
            with pytest.raises(ValidationError, match=role):
                agent.create_thread(OpenAIThreadCreationOptions(messages=[Message(role, "hi")]))
            assert len(either.requests) == before

    def test_item_9_what_threads_can_have(self, service: AssistantsService) -> None:
        with agent_of(service) as agent:
            thread = agent.create_thread(
                OpenAIThreadCreationOptions(messages=[Message("user", "1")])
            )
            agent.add_chat_message(thread, "2")
            parts = [Text("look"), Image(url="https://x/y.png"), FileImage("file_1"), Code("3")]
            added = agent.add_chat_message(thread, Message("assistant", parts))
            assert added.content == (*parts[:3], Text("3"))
            messages = list(agent.get_thread_messages(thread))
        assert [each.role for each in messages] == ["user", "user", "assistant"]
        assert [each.text for each in messages] == ["1", "2", "look3"]

    @pytest.mark.parametrize(("content", "kind"), [
        (Image(data=b"x"), UnsupportedPart), (["look", File(data=b"x")], UnsupportedPart),
        (["look", ToolCall("c", "f")], UnsupportedPart), ("", ValidationError),
        ([Reasoning("hm")], ValidationError),
    ], ids=["image", "file", "call", "empty", "reasoning"])  # fmt: skip
    def test_item_9_invalid_content(self, either: ScriptedService, content: Any, kind: Any) -> None:
        message = Message("assistant", content)
        options = OpenAIAssistantInvocationOptions(additional_messages=[message])
        with agent_of(either) as agent:
            before = len(either.requests)
            with pytest.raises(kind):
                agent.invoke("thread_1", options)
            with pytest.raises(kind):
                agent.add_chat_message("thread_1", message)
            assert len(either.requests) == before


class TestItem10:
    def test_item_10_the_hash_of_keys(self) -> None:
        assert channel_hash(KEYS) == "t/u8BiWgWDECEmveKzEYeJmD/Uf/HQ52v+Mu5zg/i1g="

    def test_item_10_the_keys_of_an_agent(self, service: AssistantsService) -> None:
        with agent_of(service) as agent, agent_of(service, OpenAIAssistantDefinition("m")) as bare:
            keys = list(agent.get_channel_keys())
            assert keys == ["OpenAIAssistantAgent", agent.id, "n", service.url]
            assert (list(bare.get_channel_keys())[2], bare.name) == ("", None)


class TestChannel:
    def test_two_agents_on_one_channel(self, either: ScriptedService) -> None:
        either.turns += [[Calls(("c1", "roll", "{}")), Says("a six")], [Says("well rolled")]]
        with (
            agent_of(either, OpenAIAssistantDefinition("m", name="ann"), [roll]) as ann,
            agent_of(either, OpenAIAssistantDefinition("m", name="bob")) as bob,
        ):
            channel = ann.create_channel()
            assert isinstance(channel, OpenAIAssistantChannel)
            channel.receive([Message("user", "roll")])
            first = list(channel.invoke(ann))
            assert [visible for visible, _ in first] == [False, False, True]
            second = list(channel.invoke(bob))
            assert [(each.name, each.text) for _, each in second] == [("bob", "well rolled")]
            history = list(channel.history())
        assert [each.text for each in history] == ["roll", "a six", "well rolled"]
        names = ["", "ann", "bob"] if either.api == "assistants" else ["", "", ""]
        assert [each.name for each in history] == names

    def test_tool_calls_and_hidden_messages_are_not_received(self, either: ScriptedService) -> None:
        with agent_of(either) as agent:
            channel = agent.create_channel(agent.create_thread())
            channel.receive(
                [
                    Message("assistant", ["hm", ToolCall("c", "f"), Reasoning("why")]),
                    Message("assistant", [ToolCall("c", "f")]),
                    Message("tool", [ToolResult("c", "f", "x")]),
                    AgentMessage("assistant", "psst", visible=False),
                    Message("assistant", ""),
                    Message("user", "so?"),
                ]
            )
            assert [each.text for each in channel.history()] == ["hm", "so?"]

    @pytest.mark.parametrize(("message", "kind"), [
        (Message("system", "2"), ValidationError),
        (Message("assistant", Image(data=b"x")), UnsupportedPart),
    ], ids=["role", "part"])  # fmt: skip
    def test_receive_adds_all_messages_or_none(
        self, either: ScriptedService, message: Message, kind: Any
    ) -> None:
        with agent_of(either) as agent:
            channel = agent.create_channel()
            with pytest.raises(kind):
                channel.receive([Message("user", "1"), message])
            assert list(channel.history()) == []

    def test_who_was_deleted_is_named_by_its_id(self, service: AssistantsService) -> None:
        service.turns.append([Says("so")])
        with agent_of(service) as agent:
            channel = agent.create_channel()
            list(channel.invoke(agent))
            assert [each.name for each in channel.history()] == ["n"]
            agent.delete()
            assert [each.name for each in channel.history()] == [agent.id]

    def test_the_stream_of_a_channel(self, either: ScriptedService) -> None:
        either.turns.append([Calls(("c1", "roll", "{}")), Says("so")])
        with agent_of(either, functions=[roll]) as agent:
            items = list(agent.create_channel().invoke_stream(agent))
        assert [visible for visible, _ in items] == [False, False, True, True]
        assert isinstance(items[2][1], AgentDelta)

    def test_a_channel_outlives_an_agent(self, either: ScriptedService) -> None:
        with agent_of(either) as agent:
            channel = agent.create_channel()
            channel.receive([Message("user", "hi")])
            agent.delete()
            with pytest.raises(AgentDeleted):
                list(channel.invoke(agent))
            assert [each.text for each in channel.history()] == ["hi"]
