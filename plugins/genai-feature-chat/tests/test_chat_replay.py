"""Every conversation of the chat can be made again from its record."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
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


def _plain(host: Host) -> Conversation:
    conversation = host.open("chat", "mock")
    conversation.say("one")
    return conversation


def _of_several_turns(host: Host) -> Conversation:
    conversation = host.open("chat", "mock", history=HISTORY, parameters={"temperature": 0.5})
    for said in ("one", "two", "three"):
        conversation.say(said)
    return conversation


def _shown_little(host: Host) -> Conversation:
    settings = {"history_turns": 1, "system_prompt": "Be brief."}
    conversation = host.open("chat", "mock", history=HISTORY, settings=settings)
    conversation.say("one")
    conversation.say("two")
    return conversation


def _forgetful(host: Host) -> Conversation:
    conversation = host.open("chat", "mock", settings={"keep_history": False})
    conversation.say("one")
    conversation.say("two")
    return conversation


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


def _structured(host: Host) -> Conversation:
    conversation = host.open("chat", "mock@json")
    conversation.say("one", output_type=SCHEMA)
    return conversation


def _supported(host: Host) -> Conversation:
    conversation = host.open("chat", "mock", models={"support": "mock@json"}, history=HISTORY)
    conversation.say("one", output_type=SCHEMA)
    conversation.say("two")
    conversation.say("three", output_type=SCHEMA)
    return conversation


STORIES: list[tuple[Callable[[Host], Conversation], int, int]] = [
    (_plain, 1, 1),
    (_of_several_turns, 3, 3),
    (_shown_little, 2, 2),
    (_forgetful, 2, 2),
    (_configured_anew, 2, 2),
    (_taken_back, 3, 3),
    (_structured, 1, 1),
    (_supported, 3, 5),
]
"""Conversations, with how many turns and prompts they have."""


@pytest.mark.parametrize(("tell", "turns", "prompts"), STORIES)
def test_a_conversation_goes_on_from_wherever_it_was_cut(
    answering: Host, tell: Callable[[Host], Conversation], turns: int, prompts: int
) -> None:
    record = tell(answering).record
    assert isinstance(record, InMemoryRecord)
    assert replay_from_every_entry(answering, record) == turns + PER_PROMPT * prompts


@pytest.mark.parametrize(("tell", "turns", "prompts"), STORIES)
def test_a_conversation_from_its_record_has_the_same_history(
    answering: Host, tell: Callable[[Host], Conversation], turns: int, prompts: int
) -> None:
    conversation = tell(answering)
    record = conversation.record
    assert isinstance(record, InMemoryRecord)
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
    record = _plain(answering).record
    assert isinstance(record, InMemoryRecord)
    data = record.to_json(answering.codec)[:4]
    data[0]["settings"] = {"system_prompt": "Another one."}
    with pytest.raises(StepChanged):
        answering.reopen(InMemoryRecord.from_json(data, answering.codec)).resume()


IN_A_PROCESS = """
import json, sys
from pathlib import Path

import genai_feature_chat, genai_vendor_mock
import genai_host.dialects
from genai_host import Config, StaticPlugins, Host, InMemoryRecord
from genai_host.config import InstanceConfig
from genai_host_testing import replay_from_every_entry

task, file = sys.argv[1], Path(sys.argv[2])
schema, reply = json.loads(sys.argv[3]), sys.argv[4]
json_mock = InstanceConfig("mock", settings={"replies": [reply], "repeat": True})
plugins = {
    "dialects": genai_host.dialects, "mock": genai_vendor_mock, "chat": genai_feature_chat
}
with Host(config=Config(providers={"json": json_mock}), discovery=StaticPlugins(plugins)) as host:
    if task == "converse":
        conversation = host.open("chat", "mock", models={"support": "mock@json"})
        conversation.say("one", output_type=schema, context={"b": 1, "a": [2]})
        conversation.say("two")
        file.write_text(json.dumps(conversation.record.to_json(host.codec)))
    record = InMemoryRecord.from_json(json.loads(file.read_text()), host.codec)
    print(replay_from_every_entry(host, record))
"""


@pytest.mark.process
@pytest.mark.parametrize(("writer", "reader"), [("1", "2"), ("2", "1")])
def test_a_record_is_gone_on_with_under_another_hash_seed(
    tmp_path: Path, writer: str, reader: str
) -> None:
    file = tmp_path / "record.json"

    def run(task: str, seed: str) -> str:
        command: list[Any] = [sys.executable, "-c", IN_A_PROCESS, task, file]
        done = subprocess.run(
            [*command, json.dumps(SCHEMA), JSON],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    cuts = 2 + PER_PROMPT * 3
    assert run("converse", writer) == str(cuts)
    assert run("replay", reader) == str(cuts)
