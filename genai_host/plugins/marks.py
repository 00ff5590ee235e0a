"""Marks of plugins that are being loaded. A mark left by an ended process names the plugin that
ended it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple


class LoadMark(NamedTuple):
    """A mark left by a process that has ended: its file, and the key of the plugin."""

    file: str
    key: str


class Marks:
    """Marks in a directory, with a file name prefix for this process."""

    def __init__(self, folder: str, prefix: str) -> None:
        self._folder = folder
        self._prefix = prefix

    @contextmanager
    def loading(self, key: str) -> Iterator[None]:
        """Mark a plugin while it is being loaded. If the file cannot be created, there is no
        mark."""
        file = os.path.join(self._folder, f"{self._prefix}-{os.getpid()}-{time.time_ns()}")
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            # it stays open, which shows that this process lives
            mark = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except OSError:
            yield
            return
        try:
            with suppress(OSError):
                if _lock(mark):
                    os.write(mark, key.encode("utf-8", "surrogatepass"))
            yield
        finally:
            with suppress(OSError):
                os.close(mark)
            with suppress(OSError):
                os.unlink(file)

    def left(self) -> list[LoadMark]:
        """Marks of processes that have ended."""
        try:
            with os.scandir(self._folder) as entries:
                files = [each.path for each in entries if each.name.startswith(self._prefix)]
        except OSError:
            return []
        return [LoadMark(file, key) for file in files if (key := _key_in(file)) is not None]

    def remove(self, marks: Iterable[LoadMark]) -> None:
        for mark in marks:
            with suppress(OSError):
                os.unlink(mark.file)


def _key_in(file: str) -> str | None:
    """Key of the plugin; None if the process with the mark lives, or this cannot be determined."""
    try:
        if os.name == "nt":
            os.rename(file, file)  # fails for an open file
        mark = os.open(file, os.O_RDONLY)
    except OSError:
        return None
    try:
        return os.read(mark, 65536).decode("utf-8", "surrogatepass") if _lock(mark) else None
    except (OSError, ValueError):
        return None
    finally:
        os.close(mark)


def _lock(mark: int) -> bool:
    """Lock a file until it is closed or the process ends. Returns False if that fails."""
    if os.name == "nt":  # an open file is locked anyway
        return True
    import fcntl

    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
