"""Agents from their beginning to their end, and the channels that they share."""

from __future__ import annotations

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
    channel_hash,
)

from genai_host.api import File, Image, Message, Reasoning, Text, ToolCall, ToolResult
from genai_host.errors import BadRequest, ServiceUnavailable, UnsupportedPart, ValidationError
from genai_host_testing.fake_service import reply
from genai_host_testing.internal.assistants_agents import agent_of, configured, roll
from genai_host_testing.services.assistants import AssistantsService, Calls, Says, ScriptedService

pytestmark = pytest.mark.part

KEYS = ["OpenAIAssistantAgent", "asst_1", "n", "http://127.0.0.1:1/v1/"]


class TestItem8:
    def test_item_8_what_is_deleted_does_nothing(self, either: ScriptedService) -> None:
        with agent_of(either) as agent:
            thread = agent.create_thread()
            states = [agent.is_deleted, agent.delete(), agent.is_deleted]
            assert states == [False, True, True]
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

    @pytest.mark.parametrize(
        ("content", "kind"),
        [
            (Image(data=b"x"), UnsupportedPart),
            (["look", File(data=b"x")], UnsupportedPart),
            (["look", ToolCall("c", "f")], UnsupportedPart),
            ("", ValidationError),
            ([Reasoning("hm")], ValidationError),
        ],
        ids=["image", "file", "call", "empty", "reasoning"],
    )
    def test_item_9_what_threads_cannot_have(
        self, either: ScriptedService, content: Any, kind: Any
    ) -> None:
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

    @pytest.mark.parametrize(
        ("message", "kind"),
        [
            (Message("system", "2"), ValidationError),
            (Message("assistant", Image(data=b"x")), UnsupportedPart),
        ],
        ids=["role", "part"],
    )
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
