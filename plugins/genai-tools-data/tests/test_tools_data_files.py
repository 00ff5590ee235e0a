"""A folder can be read in, and nothing outside it, whatever leads there."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import genai_tools_data
import pytest
from genai_tools_data import file_tools
from genai_tools_data.file_tools import (
    _HEAD,
    MAX_DEPTH,
    MAX_LINE,
    MAX_LISTED,
    MAX_TEXT,
    _encoding_of,
)
from hypothesis import given, strategies as st

from genai_host.api import ToolOutput
from genai_host.errors import ValidationError
from genai_host_testing.internal.fixtures import MakeHost

posix = pytest.mark.skipif(sys.platform == "win32", reason="links and pipes are made otherwise")

Call = Callable[..., ToolOutput]
SECRET = "not to be read"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "root"
    (root / "inner").mkdir(parents=True)
    (root / "a.md").write_text("one\ntwo\nthree\n")
    (root / "inner" / "b.txt").write_text("inner\n")
    (root / ".env").write_text(SECRET)
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text(SECRET)
    (tmp_path / "root-beside").mkdir()
    (tmp_path / "root-beside" / "secret").write_text(SECRET)
    (tmp_path / "secret").write_text(SECRET)
    monkeypatch.setenv("GENAI_TOOLS_FILES", str(root))
    return root


@pytest.fixture
def call(make_host: MakeHost, root: Path) -> Call:
    host = make_host(tools=genai_tools_data)

    def call(tool: str, **arguments: Any) -> ToolOutput:
        return host.call_tool(tool, arguments)

    return call


OUTSIDE = [
    "../secret", "../root-beside/secret", "inner/../../secret", "./../root/../secret",
    "/etc/passwd", "//etc/passwd", "~/.bashrc", "..", "../..", "inner/../..", "a.md/../../secret",
    "..\\secret", "a\0.md", "\0", "\udcff", "x" * 5000, ".env", "./.env", "inner/../.env",
    ".git/config", "nothing.md", "a.md/x",
]  # fmt: skip


@pytest.mark.parametrize("path", OUTSIDE)
def test_what_is_outside_or_hidden_is_not_read(call: Call, path: str) -> None:
    for output in (call("files__read_file", path=path), call("files__list_files", folder=path)):
        assert output.error, output.text
        assert SECRET not in output.text
        assert "Error" not in output.text
        assert len(output.text) < 500


@given(
    parts=st.lists(
        st.sampled_from(["..", ".", "", "inner", "a.md", "secret", "root", "root-beside", ".env"]),
        max_size=6,
    ),
    start=st.sampled_from(["", "/"]),
)
def test_no_path_leads_to_a_secret(call: Call, parts: list[str], start: str) -> None:
    path = start + "/".join(parts)
    for output in (
        call("files__read_file", path=path),
        call("files__list_files", folder=path, deep=True),
    ):
        assert SECRET not in output.text
        assert "secret" not in output.text or output.error


@posix
class TestLinks:
    def test_outside_is_not_followed(self, call: Call, root: Path, tmp_path: Path) -> None:
        (root / "file").symlink_to(tmp_path / "secret")
        (root / "folder").symlink_to(tmp_path)
        (root / "near").symlink_to("../root-beside")
        (root / "hidden").symlink_to(".env")
        (root / "nowhere").symlink_to("nothing")
        (root / "round").symlink_to("round")
        for path in (
            *("file", "folder", "folder/secret", "near/secret", "hidden", "nowhere", "round"),
            "folder/root/../secret",
        ):
            output = call("files__read_file", path=path)
            assert output.error
            assert SECRET not in output.text
        listed = call("files__list_files", deep=True).text.split("\n")
        assert listed == ["a.md (14 bytes)", "inner/", "inner/b.txt (6 bytes)"]

    def test_one_that_stays_in_is_followed(self, call: Call, root: Path) -> None:
        (root / "same").symlink_to("inner")
        (root / "inner" / "up").symlink_to("..")
        assert call("files__read_file", path="same/b.txt").text.endswith("inner")
        assert not call("files__read_file", path="inner/up/a.md").error
        assert "same/" in call("files__list_files", deep=True).text, "and it ends"

    def test_a_root_that_is_a_link_is_the_folder_that_it_leads_to(
        self, call: Call, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "link").symlink_to(root)
        monkeypatch.setenv("GENAI_TOOLS_FILES", str(tmp_path / "link"))
        assert not call("files__read_file", path="a.md").error
        assert call("files__read_file", path="../secret").error

    def test_folder_that_becomes_a_link_meanwhile(self, root: Path, tmp_path: Path) -> None:
        (tmp_path / "root-beside" / "b.txt").write_text(SECRET)
        place = file_tools.Folder(str(root)).place_of("inner/b.txt")
        (root / "inner").rename(root / "moved")
        (root / "inner").symlink_to(tmp_path / "root-beside")
        with pytest.raises(ValidationError, match="cannot be read"), file_tools.opened(place):
            pass

    def test_a_pipe_is_not_waited_for(self, call: Call, root: Path) -> None:
        os.mkfifo(root / "pipe")
        assert "is not a file" in call("files__read_file", path="pipe").text
        assert "pipe" not in call("files__list_files").text

    def test_names_that_are_no_text_are_listed(self, call: Call, root: Path) -> None:
        (root / os.fsdecode(b"\xff\n\x1b[2J.md")).write_text("x")
        assert call("files__list_files", pattern="*[[]2J*").text == "���[2J.md (1 bytes)"

    def test_names_with_joiners_are_read_as_they_are_listed(self, call: Call, root: Path) -> None:
        name = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645.txt"
        (root / name).write_text("read")
        assert f"{name} (4 bytes)" in call("files__list_files").text
        assert call("files__read_file", path=name).text.endswith("read")


class TestReading:
    def test_a_name_can_begin_and_end_with_a_blank(self, call: Call, root: Path) -> None:
        (root / " b.md ").write_text("blank")
        assert call("files__read_file", path=" b.md ").text.endswith("blank")
        assert not call("files__read_file", path=" a.md ").error

    def test_some_lines(self, call: Call) -> None:
        text = call("files__read_file", path="a.md").text
        assert text == "a.md, lines 1 to 3 (end of the file):\none\ntwo\nthree"
        text = call("files__read_file", path="/a.md", first_line=2, lines=1).text
        assert text == "a.md, lines 2 to 2 (there are more):\ntwo"
        text = call("files__read_file", path="a.md", first_line=4).text
        assert text == "files__read_file failed: a.md has 3 lines; there is no line 4"
        assert call("files__read_file", path="a.md", first_line=0).error
        assert call("files__read_file", path="a.md", lines=-1).error
        assert not call("files__read_file", path="a.md", lines=2**70).error

    @pytest.mark.parametrize(("content", "expected"), [
        (b"", "x.txt is empty"), (b"\xef\xbb\xbfone", "\none"),
        ("one ø".encode("utf-16"), "\none ø"), ("café".encode("cp1252"), "\ncafé"),
        ("cafés é".encode() + b"\xff", "\ncafés é�"),
        (b"one\r\ntwo\rthree", "\none\ntwo\nthree"),
        (b"one two three four \x1b[2J\x07", "\none two three four �[2J�"),
        (b"\x00\x01", "x.txt is not text: text/plain, 2 bytes"),
        (b"\x01\x02\x03\x04" * 10, "x.txt is not text: text/plain, 40 bytes"),
        (b"\x89PNG\r\n\x1a\n\x00", "x.png is not text: image/png, 9 bytes"),
    ])  # fmt: skip
    def test_all_are_read(self, call: Call, root: Path, content: bytes, expected: str) -> None:
        name = "x.png" if "png" in expected else "x.txt"
        (root / name).write_bytes(content)
        output = call("files__read_file", path=name)
        assert not output.error
        assert output.text.endswith(expected)

    def test_cut_lines_and_texts_are_marked(self, call: Call, root: Path) -> None:
        (root / "x.txt").write_text(("y" * 10 * MAX_LINE + "\n") * 30)
        text = call("files__read_file", path="x.txt").text
        assert len(text) < MAX_TEXT + 500
        assert "there are more" in text
        assert "… (truncated)" in text

    def test_large_file(self, call: Call, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (root / "x.txt").write_text("12345\n" * 100_000)
        assert call("files__read_file", path="x.txt", first_line=99_999).text.endswith(
            "12345\n12345"
        )
        monkeypatch.setattr(file_tools, "MAX_BYTES", 6000)
        assert "beyond the first" in call("files__read_file", path="x.txt", first_line=5000).text
        with (root / "x.txt").open("wb") as stream:
            stream.write(b"text\n")
            stream.truncate(100 * 10**6)
        assert "is not text" in call("files__read_file", path="x.txt").text

    def test_folders_and_files_are_told_apart(self, call: Call) -> None:
        assert "use list_files" in call("files__read_file", path="inner").text
        assert "use read_file" in call("files__list_files", folder="a.md").text


class TestListing:
    def test_patterns(self, call: Call) -> None:
        assert call("files__list_files", pattern="*.MD").text == "a.md (14 bytes)"
        assert call("files__list_files", pattern="*.txt").text == "no matching files"
        text = call("files__list_files", pattern="*.txt", deep=True).text
        assert text == f"{os.path.join('inner', 'b.txt')} (6 bytes)"
        assert call("files__list_files", pattern="*" * 100).error

    def test_many_are_cut_and_that_is_said(self, call: Call, root: Path) -> None:
        for number in range(MAX_LISTED + 5):
            (root / f"f{number}").touch()
        text = call("files__list_files", pattern="f*").text
        assert len(text.split("\n")) == MAX_LISTED + 1
        assert text.endswith("(there are more: use a folder or a pattern)")

    def test_many_folders_in_part(self, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(file_tools, "MAX_LOOKED_AT", 2)
        text = call("files__list_files", deep=True).text
        assert text.endswith("(too many files: use a folder)")

    def test_folders_in_folders_are_cut_and_that_is_said(self, call: Call, root: Path) -> None:
        folder = root / "deep"
        for _ in range(MAX_DEPTH + 5):
            folder = folder / "d"
        folder.mkdir(parents=True)
        text = call("files__list_files", deep=True, pattern="d").text
        assert text.count("\n") == MAX_DEPTH
        assert text.endswith("(too many files: use a folder)")


@pytest.mark.parametrize("named", ["nothing", "a.md"])
def test_wrong_root(call: Call, root: Path, monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    monkeypatch.setenv("GENAI_TOOLS_FILES", str(root / named))
    output = call("files__list_files")
    assert output.error
    assert str(root) not in output.text


def test_a_character_that_is_cut_does_not_change_the_encoding() -> None:
    assert _encoding_of(b"a" * (_HEAD - 1) + "é".encode()[:1]) == "utf-8"
    assert _encoding_of(b"a" * (_HEAD - 2) + "é".encode("cp1252")) == "cp1252"
