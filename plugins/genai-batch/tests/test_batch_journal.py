"""The journal of a batch: nothing that it took is lost, whenever its process was killed."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from genai_batch.journal import BatchJournal

from genai_host.errors import ConfigurationError, Conflict, StoreError
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


def test_what_it_took_is_there_in_order(tmp_path: Path) -> None:
    path = tmp_path / "j"
    written(path)
    with BatchJournal(path, BATCH, ManualClock()) as journal:
        assert list(journal.results()) == list(enumerate(RESULTS, 1))
        assert (journal.failed, journal.spent, journal.unknown) == ({2}, 0.75, 1)


def test_killed_at_any_byte_it_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "j"
    data = written(path)
    ends = [at + 1 for at, byte in enumerate(data) if byte == ord("\n")]
    for length in range(len(data) + 1):
        path.write_bytes(data[:length])
        with BatchJournal(path, BATCH, ManualClock()) as journal:
            whole = sum(end <= length for end in ends[1:])
            assert list(journal.done) == [3, 1, 2][:whole]
            journal.add(9, RESULTS[0])
            assert dict(journal.results())[9] == RESULTS[0]
        with BatchJournal(path, BATCH, ManualClock()) as journal:
            assert len(journal.done) == whole + 1


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


def test_results_are_synced_to_the_disk_after_a_second(
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
