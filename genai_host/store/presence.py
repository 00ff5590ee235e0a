"""Tells whether the process that wrote an entry is still there.

Each store that writes has a number of its own, which its entries carry, and holds a lock
under that number for as long as its process lives: on SQLite the lock of a file, which
the system lets go of however the process ends; on PostgreSQL a lock of its connection.
A turn that has not ended was interrupted if nobody holds the lock of who wrote last.
No clock is asked, and no process id, which may come again.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import Any

from genai_host.store.database import Database
from genai_host.store.locks import lock_beside

_HALF = 32  # a lock's number of 64 bits is shown in two halves


class Presence:
    """Of one store in one process.

    token   its number: positive, of 63 bits
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.token = secrets.randbits(62) + 1
        self._lock: Any = None

    def begin(self, connection: Any) -> None:
        """Be there from now on.

        connection   of the driver, which is kept (PostgreSQL)
        """
        if not self._database.is_sqlite:
            connection.execute("SELECT pg_advisory_lock(%s)", (self.token,))
        elif self._lock is None:
            from filelock import FileLock

            with self._database.failing(), lock_beside(self._database):
                os.makedirs(self._folder, mode=0o700, exist_ok=True)
                lock = FileLock(os.path.join(self._folder, f"{self.token:x}"), mode=0o600)
                lock.acquire(timeout=0)
                self._lock = lock

    def end(self) -> None:
        if self._lock is not None:
            self._lock.release()
            with contextlib.suppress(OSError):
                os.unlink(self._lock.lock_file)
            self._lock = None

    def there(self) -> set[int]:
        """The numbers of those that are there."""
        if self._database.is_sqlite:
            return self._there_by_files()
        from sqlalchemy import text

        with self._database.reading() as connection:
            rows = connection.execute(
                text(
                    "SELECT classid::bigint, objid::bigint FROM pg_locks "
                    "WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND database = "
                    "(SELECT oid FROM pg_database WHERE datname = current_database())"
                )
            )
            return {high << _HALF | low for high, low in rows}

    @property
    def _folder(self) -> str:
        return f"{self._database.file}.writers"

    def _there_by_files(self) -> set[int]:
        """What dead processes left is removed. One process looks at a time: to look is to
        hold the lock for a moment."""
        from filelock import FileLock, Timeout

        there = {self.token} if self._lock is not None else set()
        with self._database.failing():
            if not os.path.isdir(self._folder):
                return there
            with lock_beside(self._database):
                for name in os.listdir(self._folder):
                    if name == f"{self.token:x}":
                        continue
                    file = os.path.join(self._folder, name)
                    try:
                        with FileLock(file, timeout=0):
                            os.unlink(file)
                    except Timeout:
                        there.add(int(name, 16))
        return there
