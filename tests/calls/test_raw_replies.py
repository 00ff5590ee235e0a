"""The files of raw replies."""

from __future__ import annotations

import logging
import os
import stat
import sys
from pathlib import Path

import pytest

from genai_host.calls.raw_replies import RawReplies
from genai_host_testing import ManualClock

HEAD = "--- 2026-01-01T00:00:00+00:00 m@p "


def test_replies_are_added_with_time_and_model(tmp_path: Path, clock: ManualClock) -> None:
    named = tmp_path / "a" / "b" / "x.txt"
    for text in ("one", "two\nlines"):
        assert RawReplies(str(named), "0a0a0a0a", clock).add("m@p", text) == str(named)
    assert named.read_text() == f"{HEAD}0a0a0a0a\none\n{HEAD}0a0a0a0a\ntwo\nlines\n"
    if sys.platform != "win32":
        assert stat.S_IMODE(named.stat().st_mode) == 0o600
        assert stat.S_IMODE(named.parent.stat().st_mode) == 0o700


def test_a_file_is_one_conversations_alone(tmp_path: Path, clock: ManualClock) -> None:
    named = str(tmp_path / "x.txt")
    for _ in range(2):
        for tag in ("0a0a0a0a", "0b0b0b0b"):
            RawReplies(named, tag, clock).add("m@p", f"for {tag}")
    contents = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert contents == {
        "x.txt": f"{HEAD}0a0a0a0a\nfor 0a0a0a0a\n" * 2,
        "x_0b0b0b0b.txt": f"{HEAD}0b0b0b0b\nfor 0b0b0b0b\n" * 2,
    }


@pytest.mark.skipif(sys.platform == "win32", reason="makes links")
def test_a_link_is_not_followed(tmp_path: Path, clock: ManualClock) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text(f"{HEAD}0a0a0a0a\n")
    (tmp_path / "in").mkdir()
    os.symlink(outside, tmp_path / "in" / "x.txt")
    replies = RawReplies(str(tmp_path / "in" / "x.txt"), "0a0a0a0a", clock)
    assert replies.add("m@p", "secret") == str(tmp_path / "in" / "x_0a0a0a0a.txt")
    assert "secret" not in outside.read_text()


@pytest.mark.parametrize("name", ["file/x.txt", "nul\0/x.txt", "x" * 300])
def test_what_cannot_be_written_is_told_of_and_no_more(
    tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    (tmp_path / "file").write_text("in the way")
    replies = RawReplies(os.path.join(tmp_path, name), "0a0a0a0a", clock)
    with caplog.at_level(logging.WARNING):
        assert replies.add("m@p", "one") == ""
    (record,) = caplog.records
    assert "a raw reply was not stored" in record.getMessage()
