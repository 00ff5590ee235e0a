"""Turns that wait in a store of before: a release that moves or renames what they are made of
goes on with them.

`data/stored_turns/conversations.db.gz` was written by commit 9de2b1f, with `genai_waiting.py`
beside it as a plugin of a third party; the process that wrote it was killed amid the turn of
`killed`.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import genai_feature_agent
import genai_feature_assistants
import genai_feature_chat
import pytest
from attrs import field, frozen

from genai_host import Host
from genai_host.api import Message
from genai_host.errors import StepChanged
from genai_host.store import Store
from genai_host_testing import FakeModel, InlinePlugin
from genai_host_testing.pytest_plugin import MakeHost

pytestmark = pytest.mark.part  # stores

DATA = Path(__file__).parents[1] / "data" / "stored_turns"
IDS = json.loads((DATA / "ids.json").read_text())


@frozen
class Old:
    """
    waiting   the plugin that was there when the store was written
    """

    host: Host
    fake: FakeModel
    waiting: ModuleType
    ids: dict[str, str] = field(factory=lambda: IDS)


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("genai_waiting", DATA / "genai_waiting.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "genai_waiting", module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def old(make_host: MakeHost, waiting: ModuleType, tmp_path: Path) -> Iterator[Old]:
    place = tmp_path / "conversations.db"
    with gzip.open(DATA / "conversations.db.gz") as packed, place.open("wb") as file:
        shutil.copyfileobj(packed, file)
    with Store(str(place)) as store:
        fake = FakeModel(lambda prompt: f"you said {prompt.text}")
        host = make_host(
            fake=fake,
            waiting=InlinePlugin(features=[waiting.FEATURE], tools=[waiting.WIPE]),
            agent=genai_feature_agent,
            assistants=genai_feature_assistants,
            chat=genai_feature_chat,
            store=store,
        )
        yield Old(host, fake, waiting)
        host.close()


def test_they_are_listed_and_shown(old: Old) -> None:
    statuses = {each.id: each.status for each in old.host.conversations()}
    assert statuses == {
        IDS["chat"]: "idle", IDS["every step"]: "paused", IDS["agent"]: "paused",
        IDS["assistant"]: "paused", IDS["killed"]: "interrupted",
    }  # fmt: skip
    with old.host.conversation(IDS["chat"]) as conversation:
        assert [each.text for each in conversation.history] == [
            "hello", "you said hello", "see", "you said see",
        ]  # fmt: skip
        assert conversation.say("more").text == "you said more"


def test_a_turn_that_has_taken_every_step_goes_on_and_repeats_none(old: Old) -> None:
    with old.host.conversation(IDS["every step"]) as conversation:
        answer = conversation.resume(Message("user", "yes"))
    assert answer.text == "you said yes"
    data: Any = answer.data
    assert {name: data[name] for name in ("tokens", "first", "vectors", "flagged", "size")} == {
        "tokens": 5, "first": "you said hi", "vectors": 2, "flagged": False, "size": 11,
    }  # fmt: skip
    assert data["words"] == ["a", "b"]
    assert data["wiped"][:2] == ["wiped it", "wiped 2"]
    assert (data["failed"], data["decision"]) == ("FunctionFailed", "yes")
    assert old.waiting.RUNS == []
    assert old.fake.calls == 1


def test_an_agent_that_waits_for_approval_goes_on(old: Old) -> None:
    with old.host.conversation(IDS["agent"]) as conversation:
        answer = conversation.resume({"a": True, "b": False})
    assert answer.text.startswith("I will")
    assert old.waiting.RUNS == ["wipe a"]
    assert old.fake.calls == 1


def test_a_run_of_an_assistant_that_waits_for_tools_goes_on(old: Old) -> None:
    with old.host.conversation(IDS["assistant"]) as conversation:
        assert conversation.resume({"a": "done", "b": "done"}).text.startswith("you said")


def test_a_turn_that_was_killed_at_a_limited_rate_goes_on(old: Old) -> None:
    with old.host.conversation(IDS["killed"]) as conversation:
        assert conversation.status == "pending"
        assert conversation.resume().text == "you said die"


def test_a_feature_with_another_step_is_refused(old: Old, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(old.waiting, "HISTORY", old.waiting.HISTORY[1:])
    with old.host.conversation(IDS["every step"]) as conversation, pytest.raises(StepChanged):
        conversation.resume(Message("user", "yes"))
