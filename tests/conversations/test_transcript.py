"""Transcripts: a conversation as JSON or as Markdown, in a file of the user's own."""

from __future__ import annotations

import json
import os
import resource
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, frozen

from genai_host.api import (
    Answer,
    File,
    Image,
    Message,
    Part,
    Pause,
    Reasoning,
    ToolCall,
    ToolResult,
    VendorPart,
)
from genai_host.api.codec import default_codec
from genai_host.conversations.record import (
    Entry,
    Opened,
    Rewound,
    StepEnded,
    StepStarted,
    TurnEnded,
    TurnStarted,
)
from genai_host.conversations.transcript import as_markdown, turns_of, write_transcript
from genai_host.errors import ConfigurationError, GenaiError, IncompleteReply


@frozen
class Poll(Part):
    type = "poll"
    question: str


HISTORY = [
    Message("system", "Be brief."),
    Message("user", ["What is thïs?", Image(b"\x89PNG", "image/png")]),
    Message("assistant", [Reasoning("hm\nso"), ToolCall("1", "look", {"at": "it"})]),
    Message("tool", ToolResult("1", content=["a ", "cat"])),
    Message("assistant", ["A cat.", VendorPart("d", {"x": 1}), File(b"x"), Poll("why?")]),
]

MARKDOWN = """\
## system

Be brief.

## user

What is thïs?

*(image)*

## assistant

> hm
> so

```json
look({"at": "it"})
```

## tool

```
a cat
```

## assistant

A cat.

*(opaque)*

*(file)*

*(poll)*
"""


def test_markdown_has_each_message_under_its_speaker() -> None:
    assert as_markdown(HISTORY) == MARKDOWN
    assert as_markdown(iter(HISTORY[:1])) == "## system\n\nBe brief.\n"
    assert as_markdown([]) == ""


def test_a_file_is_markdown_unless_its_name_says_json(tmp_path: Path) -> None:
    for name in ("talk.md", "talk", "talk.json.txt"):
        write_transcript(HISTORY, tmp_path / name)
        assert (tmp_path / name).read_text(encoding="utf-8") == MARKDOWN


def test_json_can_be_read_back(tmp_path: Path) -> None:
    file = tmp_path / "talk.json"
    write_transcript(iter(HISTORY), str(file))
    text = file.read_text(encoding="utf-8")
    assert "thïs" in text
    assert text.endswith("]\n")
    data = json.loads(text)
    assert data[-1]["content"].pop() == {"type": "poll", "question": "why?"}
    *before, last = HISTORY
    expected = [*before, evolve(last, content=last.content[:-1])]
    assert default_codec().from_json(data, list[Message]) == expected


def test_a_home_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write_transcript(HISTORY, "~/talk.md")
    assert (tmp_path / "talk.md").exists()


@pytest.mark.parametrize("before", [None, 0o644, 0o666, 0o600])
def test_only_the_user_can_read_it(tmp_path: Path, before: int | None) -> None:
    file = tmp_path / "talk.md"
    if before is not None:
        file.write_text("x" * 10_000)
        file.chmod(before)
    mask = os.umask(0)
    try:
        write_transcript(HISTORY, file, overwrite=True)
    finally:
        os.umask(mask)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text(encoding="utf-8") == MARKDOWN


@pytest.mark.parametrize(("place", "reason"), [
    ("", "Is a directory"),
    ("/missing/talk.md", "No such file or directory"),
    ("/" + "x" * 5_000, "File name too long"),
    ("/nul\0.md", "embedded null byte"),
    ("~nobody-of-that-name/talk.md", "Could not determine home directory."),
], ids=["a folder", "in no folder", "a long name", "a null", "of nobody"])  # fmt: skip
def test_what_cannot_be_written_is_told(tmp_path: Path, place: str, reason: str) -> None:
    file = place if place.startswith("~") else f"{tmp_path}{place}"
    with pytest.raises(ConfigurationError) as caught:
        write_transcript(HISTORY, file)
    assert caught.value.message == f"cannot write {file}: {reason}"


def test_on_a_full_disk_the_earlier_file_stays(tmp_path: Path) -> None:
    file = tmp_path / "talk.md"
    write_transcript(HISTORY, file)
    _, most = before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, most))
    try:
        with pytest.raises(ConfigurationError, match="File too large"):
            write_transcript([*HISTORY, *HISTORY], file, overwrite=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [each.read_text(encoding="utf-8") for each in tmp_path.iterdir()] == [MARKDOWN]


def test_a_file_created_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "talk.md"
    mkstemp = tempfile.mkstemp

    def create(**given: Any) -> tuple[int, str]:
        file.write_text("of another")
        return mkstemp(**given)

    monkeypatch.setattr(tempfile, "mkstemp", create)
    with pytest.raises(ConfigurationError, match="already exists") as caught:
        write_transcript(HISTORY, file)
    assert [each.read_text() for each in tmp_path.iterdir()] == ["of another"]
    assert "overwrite=True" in caught.value.hint


@pytest.mark.parametrize("name", ["talk.md", "talk.json"])
def test_half_a_surrogate_pair_does_not_spoil_a_transcript(tmp_path: Path, name: str) -> None:
    """As a service may send them that cuts between the two halves."""
    write_transcript(
        [Message("user", "before"), Message("assistant", "a \ud83d b")], tmp_path / name
    )
    text = (tmp_path / name).read_bytes().decode("utf-8")
    assert "before" in text
    assert " b" in text


BEGUN = Opened("f", "1", {})
PAUSED = StepStarted(1, (0,), Pause.step, "", {"kind": "approval", "payload": 5})
FAILED = GenaiError("no")


def turn(number: int, *then: Entry, again: bool = False) -> list[Entry]:
    return [TurnStarted(number, Message("user", f"message {number}"), "1", 0, again=again), *then]


def answered(number: int, again: bool = False) -> list[Entry]:
    return turn(number, TurnEnded(number, Answer(f"answer {number}")), again=again)


@pytest.mark.parametrize(("entries", "outcomes"), [
    ([], []),
    ([*answered(0), *answered(1)], ["answered", "answered"]),
    ([*answered(0), *turn(1)], ["answered", "unfinished"]),
    ([*answered(0), *turn(1, StepStarted(1, (0,), "now", ""))], ["answered", "unfinished"]),
    ([*answered(0), *turn(1, PAUSED)], ["answered", "paused"]),
    ([*answered(0), *turn(1, PAUSED, StepEnded(1, (0,), 7))], ["answered", "unfinished"]),
    ([*answered(0), *turn(1, TurnEnded(1, error=FAILED))], ["answered", "failed"]),
    ([*answered(0), *answered(1), *answered(2, True)], ["answered", "replaced", "answered"]),
    ([*answered(0), *turn(1, TurnEnded(1, error=FAILED), again=True)], ["answered", "failed"]),
    ([*answered(0, True), *answered(1)], ["answered", "answered"]),
    ([*answered(0), *answered(1), Rewound(2, 1)], ["answered", "undone"]),
    ([*answered(0), *answered(1), Rewound(0, 0), *answered(2)], ["undone", "undone", "answered"]),
    ([*answered(0), *turn(1, TurnEnded(1, error=FAILED)), *answered(2), Rewound(2, 1)],
     ["answered", "failed", "undone"]),
    ([*answered(0), *answered(1), Rewound(2, 1), *answered(2, True)],
     ["replaced", "undone", "answered"]),
])  # fmt: skip
def test_a_turn_has_its_outcome(entries: list[Entry], outcomes: list[str]) -> None:
    turns = turns_of([BEGUN, *entries])
    assert [each.outcome for each in turns] == outcomes
    assert [each.message.text for each in turns] == [f"message {each.number}" for each in turns]
    for each in turns:
        assert (each.error is None) == (each.outcome != "failed")
        has_answer = each.outcome in ("answered", "replaced", "undone")
        assert (each.answer is not None) == has_answer


def test_a_turn_tells_what_it_waits_for_until_it_has_that() -> None:
    entries = [BEGUN, *answered(0), *turn(1, PAUSED)]
    assert turns_of(entries)[1].pause == Pause("approval", 5)
    for further in (StepEnded(1, (0,), 7), StepStarted(1, (1,), "now", ""), TurnEnded(1)):
        assert [each.pause for each in turns_of([*entries, further])] == [None, None]


def test_a_turn_keeps_what_was_shown_of_an_answer_that_failed() -> None:
    cut = StepEnded(1, (0,), error=IncompleteReply("cut", text="half a"))
    tried = StepEnded(1, (0,), error=FAILED, text="half an")
    for step, partial in ((cut, "half a"), (tried, "half an"), (StepEnded(1, (0,), 7), "")):
        entries = [BEGUN, *answered(0), *turn(1, step)]
        for further in ([], [TurnEnded(1, error=FAILED)]):
            assert [each.partial for each in turns_of([*entries, *further])] == ["", partial]
        assert turns_of([*entries, TurnEnded(1, Answer("x"))])[1].partial == ""


@pytest.mark.parametrize(
    "entry",
    [PAUSED, StepEnded(0, (0,)), TurnEnded(0, Answer("x"))],
    ids=lambda each: type(each).__name__,
)
def test_what_is_of_no_turn_makes_none(entry: Entry) -> None:
    assert turns_of([BEGUN, entry]) == []
