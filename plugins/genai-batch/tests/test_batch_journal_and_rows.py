"""The journal of a batch, of which nothing is lost, and what its rows may be."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from genai_batch.journal import BatchJournal
from genai_batch.rows import MAX_BYTES, BatchRow, rows_in, survey
from hypothesis import given, strategies as st

from genai_host.errors import ConfigurationError, Conflict, StoreError, ValidationError
from genai_host_testing import ManualClock

BATCH = {"rows": "abc", "task": {}}
RESULTS: list[dict[str, Any]] = [
    {"id": "ä", "text": "one", "cost": {"dollars": 0.5, "unknown": 0}, "error": None},
    {"id": "", "error": {"code": "unavailable"}},
    {"id": "c", "text": "x\u2028y\nz", "cost": {"dollars": 0.25, "unknown": 1}, "error": None},
]


def written(path: Path) -> bytes:
    with BatchJournal(path, BATCH, ManualClock()) as journal:
        for number in (3, 1, 2):
            journal.add(number, RESULTS[number - 1])
    return path.read_bytes()


def test_journal_results_are_in_row_order(tmp_path: Path) -> None:
    path = tmp_path / "j"
    written(path)
    with BatchJournal(path, BATCH, ManualClock()) as journal:
        assert list(journal.results()) == list(enumerate(RESULTS, 1))
        assert (journal.failed, journal.spent, journal.unknown) == ({2}, 0.75, 1)


def test_killed_at_any_byte_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genai_batch.journal.os.fsync", lambda file: None)  # slow, and of no effect
    path = tmp_path / "j"
    data = written(path)
    ends = [at + 1 for at, byte in enumerate(data) if byte == ord("\n")]
    for length in range(len(data) + 1):
        path.write_bytes(data[:length])
        with BatchJournal(path, BATCH, ManualClock()) as journal:
            complete = sum(end <= length for end in ends[1:])
            assert list(journal.done) == [3, 1, 2][:complete]
            journal.add(9, RESULTS[0])
            assert dict(journal.results())[9] == RESULTS[0]
        with BatchJournal(path, BATCH, ManualClock()) as journal:
            assert len(journal.done) == complete + 1


def test_that_of_another_batch_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "j"
    data = written(path)
    with pytest.raises(ConfigurationError, match="another batch"):
        BatchJournal(path, {**BATCH, "rows": "other"}, ManualClock())
    assert path.read_bytes() == data
    BatchJournal(path, BATCH, ManualClock()).close()  # the lock is released


def test_one_process_has_it(tmp_path: Path) -> None:
    with (
        BatchJournal(tmp_path / "j", BATCH, ManualClock()),
        pytest.raises(Conflict, match="another process"),
    ):
        BatchJournal(tmp_path / "j", BATCH, ManualClock())


def test_the_last_result_of_a_row_counts(tmp_path: Path) -> None:
    path = tmp_path / "j"
    written(path)
    with BatchJournal(path, BATCH, ManualClock()) as journal:
        journal.forget({2})
        assert 2 not in journal.done
        journal.add(2, RESULTS[0])
    with BatchJournal(path, BATCH, ManualClock()) as journal:
        assert not journal.failed
        assert dict(journal.results())[2] == RESULTS[0]


def test_a_full_disk_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "j"
    with BatchJournal(path, BATCH, ManualClock()) as journal:
        journal.add(1, RESULTS[0])
        write = os.write

        def full(file: int, data: bytes) -> int:
            if len(data) < 10:
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(file, bytes(data)[: len(data) // 2])

        with monkeypatch.context() as patch:
            patch.setattr("genai_batch.journal.os.write", full)
            with pytest.raises(StoreError, match="No space left"):
                journal.add(2, RESULTS[1])
        journal.add(3, RESULTS[2])
        assert list(journal.results()) == [(1, RESULTS[0]), (3, RESULTS[2])]


def test_results_are_synced(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    with BatchJournal(tmp_path / "j", BATCH, clock) as journal:
        monkeypatch.setattr("genai_batch.journal.os.fsync", synced.append)
        for seconds, count in [(0.9, 0), (0.2, 1), (0.9, 1), (0.2, 2)]:
            clock.advance(seconds)
            journal.add(1, RESULTS[0])
            assert len(synced) == count


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "j").mkdir()
    with pytest.raises(StoreError, match="cannot write"):
        BatchJournal(tmp_path / "j", BATCH, ManualClock())


EMPTY = {"system": "", "model": "", "provider": "", "parameters": {}}


def rows(folder: Path, *lines: Any) -> list[BatchRow]:
    file = folder / "rows.jsonl"
    pieces = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in lines]
    file.write_bytes(b"\n".join(pieces))
    return list(rows_in(file))


def test_a_text_and_an_object(tmp_path: Path) -> None:
    more = {"id": "b", "prompt": "?", "model": "m", "parameters": {"temperature": 0}}
    assert rows(tmp_path, "hi", b"", more) == [
        BatchRow(1, "", {"prompt": "hi", **EMPTY}),
        BatchRow(3, "b", {**EMPTY, "prompt": "?", "model": "m", "parameters": {"temperature": 0}}),
    ]


def test_a_line_of_openais_batches(tmp_path: Path) -> None:
    body = {"model": "m", "messages": []}
    line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": body}
    [row] = rows(tmp_path, line)
    assert row == BatchRow(1, "a", {"url": "/v1/chat/completions", "body": body})
    without_version = {**line, "url": "/chat/completions"}  # of Azure
    assert rows(tmp_path, without_version) == [row]
    assert row.is_openai


def test_item_8_a_custom_id_makes_no_line_of_openais_batches(tmp_path: Path) -> None:
    [row] = rows(tmp_path, {"custom_id": "a", "prompt": "hi"})
    assert row == BatchRow(1, "a", {"prompt": "hi", **EMPTY})
    assert row.names == {"id": "a"}


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_the_encoding_is_detected(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes('"Grüße"\r\n{"prompt": "日本"}\r\n'.encode(encoding))
    assert [row.asked["prompt"] for row in rows_in(file)] == ["Grüße", "日本"]
    assert survey(file).rows == 2


def test_lines_may_end_with_a_carriage_return_alone(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes('"Grüße"\r"hi"\r'.encode())
    assert [row.asked["prompt"] for row in rows_in(file)] == ["Grüße", "hi"]


def test_a_pipe_or_a_device_has_no_rows(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for file in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="not a regular file"):
            survey(file)


@pytest.mark.parametrize(("line", "why"), [
    (b"{", "invalid JSON"), (b"\xff", "invalid JSON"), (b"3", "not an object"),
    (b"null", "not an object"), (b"{}", "prompt is missing"), (b'""', "prompt is missing"),
    (b'{"prompt": 3}', "prompt"), (b'{"prompt": "a", "promt": "b"}', "promt"),
    (b'{"prompt": "a", "parameters": []}', "parameters"),
    (b'{"custom_id": "a", "url": "/v1/files", "body": {}}', "not supported"),
    (b'{"custom_id": "a", "url": "/v1/chat/completions"}', "body"),
    (b'{"custom_id": "a", "url": "/v1/chat/completions", "body": {"stream": true}}',
     "without stream"),
    (b"[" * 5_000, "invalid JSON"),
    (b"[" * 100_000, "more than 9000 values"),
    (b'{"prompt": "a", "parameters": {"x": ' + b"[" * 200 + b"]" * 200 + b"}}", "deep"),
])  # fmt: skip
def test_what_is_wrong_is_told_of_its_line_alone(tmp_path: Path, line: bytes, why: str) -> None:
    first, wrong, last = rows(tmp_path, "a", line, "b")
    assert why in wrong.wrong
    assert (first.wrong, last.wrong, last.number) == ("", "", 3)


def test_a_line_that_is_too_long_is_skipped(tmp_path: Path) -> None:
    long = b'"' + b"a" * (3 * MAX_BYTES) + b'"'
    first, wrong, last = rows(tmp_path, "a", long, "b")
    assert "longer than 8 MiB" in wrong.wrong
    assert (first.wrong, last.number, last.asked["prompt"]) == ("", 3, "b")


def test_a_file_that_has_no_rows_at_all_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("name,age\n", encoding="utf-8")
    with pytest.raises(ValidationError, match="no rows"):
        survey(file)


def test_a_survey_counts_and_tells_files_apart(tmp_path: Path) -> None:
    one, other = tmp_path / "1", tmp_path / "2"
    one.write_bytes(b'\xef\xbb\xbf"a"\r\n\n"b"')
    other.write_bytes(b'"a"\n"b"\n')
    assert survey(one) == survey(other)
    assert survey(one).rows == 2
    other.write_bytes(b'"a"\n"c"\n')
    assert survey(one).digest != survey(other).digest


@given(st.binary(max_size=200))
def test_a_line_may_be_anything(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = tmp_path_factory.mktemp("rows") / "r"
    file.write_bytes(b'"a"\n' + data)
    assert survey(file).rows == len(list(rows_in(file)))
