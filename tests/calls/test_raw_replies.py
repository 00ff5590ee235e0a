"""The files of raw replies, and errors without the keys that services quote."""

from __future__ import annotations

import logging
import os
import stat
import sys
from pathlib import Path

import pytest

from genai_host.api import Cancellation
from genai_host.calls.raw_replies import RawReplies
from genai_host.calls.redaction import cause_of, redact
from genai_host.errors import OutputValidationError, ProviderTimeout, ServiceUnavailable
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


def clean(text: str) -> str:
    return text.replace("sk-1", "***")


def test_all_of_a_chain_is_clean_though_two_of_it_are_equal() -> None:
    cause = ServiceUnavailable("sk-1 is wrong")
    cause.__cause__ = ValueError("the key was sk-1", "again sk-1", 1)
    error = ServiceUnavailable("sk-1 is wrong")
    error.__cause__ = cause
    assert error == cause
    error.retry_after = 5.0

    assert redact(error, clean) is error
    assert (error.message, cause.message) == ("*** is wrong", "*** is wrong")
    assert cause.__cause__.args == ("the key was ***", "again ***", 1)
    assert error.retry_after == 5.0


def test_the_fields_of_an_error_are_clean() -> None:
    error = OutputValidationError("it is wrong", detail="a reply with sk-1")
    assert redact(error, clean).detail == "a reply with ***"


def test_a_chain_that_comes_back_to_itself_ends() -> None:
    one, two = ValueError("sk-1"), ValueError("sk-1 too")
    one.__context__, two.__context__ = two, one
    redact(one, clean)
    assert (one.args, two.args) == (("***",), ("*** too",))


def test_bytes_of_an_error_of_decoding() -> None:
    error = UnicodeDecodeError("utf-8", b"sk-1 \xff", 5, 6, "invalid start byte")
    redact(error, clean)
    assert "sk-1" not in repr(error)


def test_fields_of_the_error_of_a_service() -> None:
    fields = {"code": "x", "inner": {"sk-1": ["the key sk-1", 1, None]}}
    error = ServiceUnavailable("no").with_extra("a", fields)
    redact(error, clean)
    assert error.extra == {"a": {"code": "x", "inner": {"***": ["the key ***", 1, None]}}}


def test_the_error_of_a_cancellation_takes_precedence() -> None:
    limits, error, late = Cancellation(), ServiceUnavailable("closed"), ProviderTimeout("late")
    assert cause_of(error, limits) is error
    limits.cancel(late)
    assert cause_of(error, limits) == late
    own = ProviderTimeout("own")
    assert cause_of(own, limits) is own
