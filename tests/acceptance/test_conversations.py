"""Acceptance, host.md: what is said is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import Terminal

from genai_host.errors import NotFound
from genai_host.store import Store
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part  # stores


def test_item_16_conversations_are_stored_reopen_and_are_renamed_exported_and_deleted(
    make_host: MakeHost, tmp_path: Path
) -> None:
    with Store(tmp_path / "x.db") as store:
        first = make_host(store=store).open("chat", "mock")
        first.say("What was said")
        first.say("and more")
        transcript = first.history
    with Store(tmp_path / "x.db") as store:
        host = make_host(store=store)
        again = host.conversation(first.id)
        assert again.history == transcript
        assert again.say("goes on").text == "goes on"
        store.rename(first.id, "of interest")
        assert [each.title for each in host.conversations()] == ["of interest"]
        copy = store.import_conversation(store.export(first.id), host.codec)
        assert host.conversation(copy).history == again.history
        assert "What was said" in store.markdown(first.id, host.codec)
        store.delete(first.id)
        with pytest.raises(NotFound):
            host.conversation(first.id)
        assert [each.id for each in host.conversations()] == [copy]


def test_item_16_from_the_command_line(terminal: Terminal, tmp_path: Path) -> None:
    def ended(*arguments: str) -> str:
        code, out, err = terminal(*arguments)
        assert code == 0, err
        return out

    ended("ask", "-p", "mock", "the first")
    ended("ask", "-p", "mock", "-c", "the second")
    (listed,) = json.loads(ended("conversations", "list", "--json"))
    assert (listed["turns"], listed["status"]) == (2, "idle")
    id = listed["id"]
    ended("conversations", "rename", id, "mine")
    assert "mine" in ended("conversations", "list")
    assert "the first" in ended("conversations", "show", id)
    assert ended("conversations", "export", id, "--format", "markdown").startswith("# mine")
    (tmp_path / "kept.json").write_text(ended("conversations", "export", id))
    ended("conversations", "delete", id, "--yes")
    assert json.loads(ended("conversations", "list", "--json")) == []
    ended("conversations", "import", str(tmp_path / "kept.json"))
    assert "the second" in ended("conversations", "show", "last")
