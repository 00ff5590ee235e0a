"""The journal of a batch: a file next to the output with the results so far.

Its first line identifies the batch; each further line is a result, in order of completion. An
incomplete last line, left by a killed process, is removed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from genai_host.api import Clock, read_json, write_json
from genai_host.errors import ConfigurationError, Conflict, StoreError

_SYNC = 1.0  # seconds between syncs to disk


class BatchJournal:
    """Journal of a batch, locked for this process while open.

    Args:
        path: The file.
        batch: Identifies the batch.
        clock: Source of time.
        is_new: Whether to discard what is in the file.

    Attributes:
        done: Offset of the result of each row, by number.
        failed: Numbers of the rows with an error, or with a response that has an error status.
        spent: Known cost in US dollars.
        unknown: Number of calls of unknown cost.

    Raises:
        Conflict: Another process uses the file.
        ConfigurationError: The file is of another batch.
        StoreError: The file cannot be written.
    """

    def __init__(
        self, path: Path, batch: Mapping[str, Any], clock: Clock, *, is_new: bool = False
    ) -> None:
        self.path = path
        self.done: dict[int, int] = {}
        self.failed: set[int] = set()
        self.spent = 0.0
        self.unknown = 0
        self._clock = clock
        self._synced = clock.monotonic()
        self._lock = _locked(path)
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        except OSError as error:
            self._lock.release()
            raise _failed(path, error) from error
        try:
            if is_new:
                os.ftruncate(self._file, 0)
            self._end = self._read(batch)
        except OSError as error:
            self.close()
            raise _failed(path, error) from error
        except ConfigurationError:
            self.close()
            raise

    def add(self, number: int, result: Mapping[str, Any]) -> None:
        """Save a result. It survives a crash of the process immediately, and of the machine after a
        second."""
        line = write_json({"row": number, "result": result}) + b"\n"
        try:
            self._write(line)
            if self._clock.monotonic() - self._synced > _SYNC:
                os.fsync(self._file)
                self._synced = self._clock.monotonic()
        except OSError as error:
            raise _failed(self.path, error) from error
        self._take(number, self._end - len(line), result)

    def forget(self, numbers: set[int]) -> None:
        """Discard the results of rows, which will run again. The last result of a row counts."""
        for number in numbers:
            self.done.pop(number, None)
        self.failed -= numbers

    def results(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Yield all results, ordered by row."""
        with self.path.open("rb") as stream:
            for number in sorted(self.done):
                stream.seek(self.done[number])
                yield number, read_json(stream.readline())["result"]

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # open files cannot be removed on some systems
            Path(self._lock.lock_file).unlink(missing_ok=True)

    def close(self) -> None:
        try:
            os.fsync(self._file)
        finally:
            os.close(self._file)
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _read(self, batch: Mapping[str, Any]) -> int:
        """Read the existing results, and return the end of the file."""
        end = 0
        with self.path.open("rb") as stream:
            for line in stream:
                value = _value_of(line)
                if value is None:
                    break
                if not end and value.get("batch") != batch:
                    raise ConfigurationError(
                        f"{self.path} belongs to another batch: the rows or the options "
                        "have changed",
                        hint="use the same options as before, another --output, or --overwrite",
                    )
                if end:
                    self._take(value["row"], end, value["result"])
                end += len(line)
        os.ftruncate(self._file, end)
        os.lseek(self._file, end, os.SEEK_SET)
        self._end = end
        if not end:
            self._write(write_json({"batch": batch}) + b"\n")
        return self._end

    def _write(self, line: bytes) -> None:
        begun = self._end
        left = memoryview(line)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError:  # if the disk is full, remove the incomplete line
            os.ftruncate(self._file, begun)
            os.lseek(self._file, begun, os.SEEK_SET)
            raise
        self._end = begun + len(line)

    def _take(self, number: int, place: int, result: Mapping[str, Any]) -> None:
        self.done[number] = place
        self.failed.discard(number)
        if _is_error(result):
            self.failed.add(number)
        cost = result.get("cost") or {}
        self.spent += cost.get("dollars", 0.0)
        self.unknown += cost.get("unknown", 0)


def _locked(path: Path) -> Any:
    from filelock import FileLock, Timeout

    lock = FileLock(f"{path}.lock", timeout=0, mode=0o600)
    try:
        lock.acquire()
    except Timeout as error:
        raise Conflict(
            f"another process is using {path}",
            hint="wait for it, or use another --output",
        ) from error
    except OSError as error:
        raise _failed(path, error) from error
    return lock


def _value_of(line: bytes) -> Any:
    """The JSON of a line; None if it is incomplete."""
    if not line.endswith(b"\n"):
        return None
    try:
        value = read_json(line)
    except ValueError:
        return None
    match value:
        case {"row": int(), "result": dict()} | {"batch": dict()}:
            return value
    return None


def _is_error(result: Mapping[str, Any]) -> bool:
    response = result.get("response") or {}
    return result.get("error") is not None or response.get("status_code", 200) >= 400


def _failed(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"cannot write {path}: {error.strerror or error}",
        file=str(path),
        hint="its content is kept; continue with the same command",
    )
