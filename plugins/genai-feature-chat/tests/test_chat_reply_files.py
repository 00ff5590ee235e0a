"""Where raw replies are kept."""

from __future__ import annotations

import re
from pathlib import PurePosixPath, PureWindowsPath

import pytest
from genai_feature_chat.chat_model import reply_file
from hypothesis import given, strategies as some

RESERVED = re.compile(r"(?i)(con|prn|aux|nul|(com|lpt)[0-9])( *\..*)?")
BEGAN = "2026-01-02T03:04:05+00:00"


@pytest.mark.parametrize(
    ("session", "agent", "expected"),
    [
        ("s", "a", "raw/s/a_2026-01-02_03-04-05.txt"),
        ("", "a", "raw/a_2026-01-02_03-04-05.txt"),
        ("", "", "raw/_2026-01-02_03-04-05.txt"),
        ("my session", "agent-1.2", "raw/my session/agent-1.2_2026-01-02_03-04-05.txt"),
    ],
)
def test_the_usual_names(session: str, agent: str, expected: str) -> None:
    assert PurePosixPath(reply_file("raw", session, agent, BEGAN)) == PurePosixPath(expected)


UNSAFE = [
    "..", ".", "../x", "..\\x", "/etc", "C:", "c:\\x", "a/b", "a\\b", "a\0b", "x" * 300, "con",
    "NUL", "com1.log", "lpt9 .x", "a\nb", " a", "a ", "a.", ".hidden", "~", "é", "\ud800", "a:b",
    "x.txt", "a*",
]  # fmt: skip


@pytest.mark.parametrize("id", UNSAFE)
def test_an_id_that_is_no_safe_name_gets_one(id: str) -> None:
    for session, agent in ((id, "a"), ("s", id), (id, id)):
        _must_be_inside(reply_file("raw", session, agent, BEGAN), 3)
    _must_be_inside(reply_file("raw", "", id, BEGAN), 2)


ids = some.one_of(some.text(min_size=1), some.sampled_from(UNSAFE), some.text("a.~-", min_size=1))


@given(ids, ids)
def test_no_two_ids_have_one_file(one: str, other: str) -> None:
    files = {reply_file("raw", id, "a", BEGAN) for id in (one, other)}
    files |= {reply_file("raw", "", id, BEGAN) for id in (one, other)}
    files |= {reply_file("raw", "s", id, BEGAN) for id in (one, other)}
    assert len(files) == (3 if one == other else 6)
    for file in files:
        _must_be_inside(file)


def _must_be_inside(file: str, depth: int | None = None) -> None:
    for kind in (PurePosixPath, PureWindowsPath):
        parts = kind(file).parts
        assert parts[0] == "raw"
        assert len(parts) == (depth or len(file.split("/")))
        for part in parts:
            assert part.isprintable()
            assert part.isascii()
            assert len(part) < 200
            assert part.strip(" .") == part or part[0] == "_"
            assert not RESERVED.fullmatch(part)
