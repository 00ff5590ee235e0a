"""Every conversation of the chat can be made again from its record."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from genai_vendor_mock import MockProvider

from genai_host import Config, Conversation, Host, InMemoryRecord, Message
from genai_host.api import ToolCall, ToolResult
from genai_host.errors import StepChanged
from genai_host_testing import replay_from_every_entry
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
}
JSON = '{"city": "Oslo", "days": 3}'
HISTORY = [
    Message("user", "weather?"),
    Message("assistant", ["let me look", ToolCall("1", "weather", {"city": "Oslo", "day": 1})]),
    Message("tool", ToolResult("1", "weather", ("rain",))),
    Message("assistant", "It rains."),
]
PER_PROMPT = 2
"""Cuts within a turn: after it has started, and then after each entry of its steps."""


@pytest.fixture
def answering(make_host: MakeHost) -> Host:
    """A host that answers equal prompts equally: `mock` echoes, `mock@json` is JSON."""
    replies = {"replies": [JSON], "repeat": True}
    return make_host(config=Config(providers={"json": provider_config("mock", **replies)}))


Tell = Callable[[Host], Conversation]


def said(*texts: str, model: str = "mock", **given: Any) -> Tell:
    """What makes a conversation in which this is said; questions are answered in JSON."""

    def tell(host: Host) -> Conversation:
        conversation = host.open("chat", model, **given)
        for text in texts:
            conversation.say(text, output_type=SCHEMA if text.endswith("?") else None)
        return conversation

    return tell


def _configured_anew(host: Host) -> Conversation:
    conversation = host.open("chat", "mock")
    conversation.say("one")
    conversation.configure(system_prompt="Be polite.", history_turns=0)
    conversation.use("mock@json", seed=3)
    conversation.say("two")
    return conversation


def _taken_back(host: Host) -> Conversation:
    conversation = host.open("chat", "mock")
    conversation.say("one")
    conversation.say("two")
    conversation.undo()
    conversation.say("three")
    return conversation


SUPPORTED: dict[str, Any] = {"models": {"support": "mock@json"}, "history": HISTORY}
BRIEF = {"history_turns": 1, "system_prompt": "Be brief."}
STORIES: list[tuple[Tell, int, int]] = [
    (said("one"), 1, 1),
    (said("one", "two", "three", history=HISTORY, parameters={"temperature": 0.5}), 3, 3),
    (said("one", "two", history=HISTORY, settings=BRIEF), 2, 2),
    (said("one", "two", settings={"keep_history": False}), 2, 2),
    (_configured_anew, 2, 2),
    (_taken_back, 3, 3),
    (said("one?", model="mock@json"), 1, 1),
    (said("one?", "two", "three?", **SUPPORTED), 3, 5),
]
"""Conversations, with how many turns and prompts they have."""


@pytest.mark.parametrize(("tell", "turns", "prompts"), STORIES)
def test_a_conversation_goes_on_from_wherever_it_was_cut(
    answering: Host, tell: Tell, turns: int, prompts: int
) -> None:
    conversation = tell(answering)
    record = conversation.record
    assert isinstance(record, InMemoryRecord)
    assert replay_from_every_entry(answering, record) == turns + PER_PROMPT * prompts
    written = json.loads(json.dumps(record.to_json(answering.codec)))
    again = answering.reopen(InMemoryRecord.from_json(written, answering.codec))
    assert again.history == conversation.history
    assert again.status == "idle"
    assert again.say("and now?").text == conversation.say("and now?").text


def test_a_step_that_is_on_record_is_not_sent_again(make_host: MakeHost) -> None:
    def of(replies: list[str]) -> Host:
        instances = {"mock": provider_config("mock", replies=replies)}
        return make_host(config=Config(providers=instances))

    first = of(["Three days in Oslo.", JSON])
    conversation = first.open("chat", "mock", models={"support": "mock"})
    answer = conversation.say("hi", output_type=SCHEMA)
    record = conversation.record
    assert isinstance(record, InMemoryRecord)
    main_is_done = InMemoryRecord(record.entries[:4])  # opened, the turn, the step and its end
    second = of([JSON])
    resumed = second.reopen(main_is_done).resume()
    assert (resumed.text, resumed.data) == (answer.text, answer.data)
    mock = second.instances["mock"].provider
    assert isinstance(mock, MockProvider)
    assert len(mock.requests) == 1


def test_a_record_of_other_settings_is_not_gone_on_with(answering: Host) -> None:
    record = said("one")(answering).record
    assert isinstance(record, InMemoryRecord)
    data = record.to_json(answering.codec)[:4]
    data[0]["settings"] = {"system_prompt": "Another one."}
    with pytest.raises(StepChanged):
        answering.reopen(InMemoryRecord.from_json(data, answering.codec)).resume()
