"""The lock in a file beside that of SQLite: who makes or changes something there is alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from genai_host.errors import StoreError
from genai_host.store.database import Database

_SECONDS = 60.0  # to wait for another process


@contextmanager
def lock_beside(database: Database) -> Iterator[None]:
    from filelock import FileLock, Timeout

    lock = FileLock(f"{database.file}.lock", timeout=_SECONDS, mode=0o600)
    with database.failing():
        try:
            lock.acquire()
        except Timeout as error:
            raise StoreError(
                f"another process has been opening {database.file} for {_SECONDS:g} s",
                file=database.file,
                hint="try again when it is done",
            ) from error
    try:
        yield
    finally:
        lock.release()
