"""Connections to the database, locks in it, and which processes are alive.

Errors of the database are raised as `StoreError`. On SQLite, committed data survives the end of
the process in any case. After a power loss or a crash of the system, the last commits may be
missing (`synchronous=NORMAL`), but no commit is ever half there. On PostgreSQL, the durability of a
commit depends on the server (`synchronous_commit`). `lock_beside` is a lock in a file beside the
database of SQLite: one process at a time changes its schema, or the lock files described below.

Each store that writes has a number, which its entries carry, and holds a lock under that number as
long as its process lives. On SQLite it is the lock of a file, which the system releases however the
process ends; on PostgreSQL it is a lock of the connection. A turn that has not ended was
interrupted if the lock of its last writer is free. No clock is used, and no process id, which can
be reused.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.request import pathname2url

from genai_host.api.json_text import well_formed
from genai_host.errors import StoreError
from genai_host.util import paths
from genai_host.util.lazy_property import lazy_property

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine
    from sqlalchemy.engine import URL


VERSION = 3
"""Of the schema in `tables`."""

OLDEST = 2
"""The oldest version that is migrated."""

# beginnings of what SQLite says, and what can be done about it
_HINTS = {
    "database is locked": "another program holds it: end that, or try again later",
    "database or disk is full": "make room on the disk",
    "disk i/o error": "look at the disk, and at how much room there is",
    "file is not a database": "it was not changed: move it away, or name another file",
    "database disk image is malformed": "it was not changed: restore a backup, or move it away",
    "attempt to write a readonly database": "make the file and its folder writable",
    "unable to open database file": "make the file and its folder readable and writable",
}
_CANNOT_WRITE = ("SQLITE_CANTOPEN", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY")
_PAGES = 10_000  # of 4 KB, that may be in the log before they are moved to the file


def next_step(version: int) -> str:
    """Choose the hint for a store of a version that cannot be used."""
    if version > VERSION:
        return "upgrade genai-host: pip install --upgrade genai-host"
    return (
        "export its conversations with the genai-host that made it, then import them: "
        "genai-host conversations import FILE"
    )


class Database:
    """SQLite in a file, or PostgreSQL. Opened when it is first used.

    where     a file, or an address as SQLAlchemy has it: `sqlite:////a/file`,
              `postgresql://user@host/name`
    patience  seconds to wait for another process that writes (SQLite)
    connect   opens a file, with the arguments of `sqlite3.connect`; None for that

    location     the file, or the address without its password
    file      empty on PostgreSQL

    Raises `StoreError` for an address that cannot be one.
    """

    def __init__(
        self,
        where: str,
        patience: float,
        connect: Callable[..., sqlite3.Connection] | None = None,
    ) -> None:
        self._lock = threading.RLock()
        self._connect_file = connect
        self._patience = patience
        self._is_closed = False
        self._is_stuck = False
        self._url: URL | None = None
        self.file = self.location = where
        if "://" in where:
            from genai_host.store import engines

            self._url = engines.read_url(where)
            is_file = self._url.get_backend_name() == "sqlite"
            self.file = self._url.database or "" if is_file else ""
            self.location = self.file or self._url.render_as_string(hide_password=True)

    @lazy_property
    def engine(self) -> Engine:
        """Raises `StoreError` if the driver is missing."""
        from genai_host.store import engines

        if self._url is None or self.file:
            return engines.engine_of_file(self.file, self.connect)
        return engines.engine_of_server(self._url)

    @property
    def is_sqlite(self) -> bool:
        return bool(self.file)

    @property
    def driver(self) -> Any:
        """The module of the driver, with its exceptions (PEP 249)."""
        return sqlite3 if self.is_sqlite else self.engine.dialect.loaded_dbapi

    def is_current(self) -> bool:
        """Whether the schema is known to be that of `VERSION`. Only SQLite is asked."""
        if not os.path.isfile(self.file):  # to connect would make one
            return False
        with self.failing(), closing(self.connect()) as connection:
            try:
                cursor = connection.execute("SELECT value FROM meta WHERE name = 'schema'")
            except sqlite3.OperationalError:  # there is no such table
                return False
            return bool(cursor.fetchone() == (str(VERSION),))

    def check_place(self, *, was_there: bool) -> None:
        """Raises `StoreError` if the file of SQLite has gone, or cannot be made.

        was_there   whether it was opened before
        """
        if os.path.isfile(self.file):
            return
        if was_there:
            raise StoreError(f"{self.location}: it is not there any more", file=self.location)
        folder = os.path.dirname(os.path.abspath(self.file))
        while not os.path.lexists(folder):
            folder = os.path.dirname(folder)
        can_be_made = os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)
        if os.path.lexists(self.file) or not can_be_made:
            raise StoreError(
                f"{self.location}: it cannot be made there",
                file=self.location,
                hint=paths.ELSEWHERE,
            )

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """All that is read sees the same state."""
        from genai_host.store import engines

        with self._transaction(engines.reading) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction: all of it, or nothing if it is left by an exception."""
        from genai_host.store import engines

        with self._transaction(engines.writing) as connection:
            yield connection

    @contextmanager
    def _transaction(self, begin: Callable[[Engine], Any]) -> Iterator[Connection]:
        from genai_host.store import engines

        self._check_open()
        engine = self.engine
        try:
            with self.failing(), engines.failing(self.error), begin(engine) as connection:
                yield connection
        except StoreError as error:
            cause = getattr(error.__cause__, "orig", error.__cause__)  # of SQLAlchemy's error
            self._is_stuck = self._is_stuck or _cannot_write(cause)
            raise
        finally:
            # a connection that could not write never can, and one to a file that does not change
            # sees no change: what comes next connects anew
            if self._is_stuck:
                self._is_stuck = False
                engine.dispose()

    def connect(self) -> Any:
        """A connection of the driver, on which a statement is a transaction of its own
        unless one is begun. It is for who asks to close it."""
        self._check_open()
        if not self.is_sqlite:
            pooled = self.engine.raw_connection()
            connection: Any = pooled.driver_connection
            pooled.detach()
            connection.autocommit = True
            return connection
        connection = self._connect(self.file)
        try:
            if self._reads_only(connection):
                connection.close()
                file = pathname2url(os.path.abspath(self.file))
                connection = self._connect(f"file:{file}?immutable=1", uri=True)
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_PAGES}")
        except BaseException:  # the file is none of SQLite's, or is held
            connection.close()
            raise
        return connection

    def _connect(self, name: str, *, uri: bool = False) -> sqlite3.Connection:
        connect = self._connect_file or sqlite3.connect
        return connect(
            name,
            timeout=self._patience,
            isolation_level=None,
            check_same_thread=False,
            uri=uri,
        )

    def _reads_only(self, connection: sqlite3.Connection) -> bool:
        """Whether the file can only be read as one that does not change: on a full disk, and in a
        folder that may not be written, SQLite cannot make the files that it has beside it. That
        loses nothing if the last process that wrote has ended, and left no log."""
        try:
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as error:
            log = f"{self.file}-wal"
            has_log = os.path.exists(log) and os.path.getsize(log) > 0
            self._is_stuck = _cannot_write(error) and not has_log
            return self._is_stuck
        except sqlite3.DatabaseError:
            pass  # it is none: whoever reads it says so
        return False

    @contextmanager
    def failing(self) -> Iterator[None]:
        """What fails here fails as `StoreError`."""
        try:
            yield
        except (OSError, OverflowError, UnicodeEncodeError, self.driver.Error) as error:
            raise self.error(error) from error

    def refuses_data(self, error: BaseException) -> bool:
        """Whether an error of the driver, or SQLAlchemy's around it, means that the data cannot be
        stored, and not that the database is unavailable."""
        driver = self.driver
        refusals = (
            *(OverflowError, UnicodeError, driver.DataError, driver.IntegrityError),
            *(driver.InterfaceError, driver.ProgrammingError),
        )
        return isinstance(getattr(error, "orig", None) or error, refusals)

    def error(self, error: BaseException) -> StoreError:
        """What the driver raised, as the host says it."""
        if isinstance(error, OSError) and error.strerror:
            return StoreError(
                f"{self.location}: {error.strerror}", file=self.location, hint=paths.ELSEWHERE
            )
        said = " ".join(str(error).split()) or type(error).__name__
        hint = next((hint for start, hint in _HINTS.items() if said.lower().startswith(start)), "")
        return StoreError(f"{self.location}: {said}", file=self.location, hint=hint)

    def no_store(self) -> StoreError:
        """The error for a database that somebody else uses."""
        return StoreError(
            f"{self.location} holds something else",
            file=self.location,
            hint="it was not changed: name another file or database",
        )

    def make_file(self) -> None:
        """Make the file of SQLite, for this user alone, if there is none. The files that
        SQLite makes beside it take its mode."""
        if not self.file:
            return
        with self.failing():
            os.makedirs(os.path.dirname(self.file), mode=0o700, exist_ok=True)
            os.close(os.open(self.file, os.O_RDWR | os.O_CREAT, 0o600))

    def close(self) -> None:
        """For good: `StoreError` for who comes later."""
        self._is_closed = True
        if "engine" in vars(self):
            self.engine.dispose()

    def _check_open(self) -> None:
        if self._is_closed:
            raise self.closed()

    def closed(self) -> StoreError:
        """The error for who comes after the end."""
        return StoreError(f"{self.location}: the store is closed", file=self.location)


def _cannot_write(error: object) -> bool:
    """Whether SQLite has found that a file cannot be written."""
    return (getattr(error, "sqlite_errorname", None) or "").startswith(_CANNOT_WRITE)


LATEST = 253402214400
"""Seconds since 1970: the last day of the year 9999, in UTC."""


def time_of(at: float) -> float:
    """The time of an entry: a date, whatever was loaded."""
    return min(max(0.0, at), LATEST)


def storable(text: str) -> str:
    """Without what no database takes as text: NUL, and halves of surrogate pairs."""
    return well_formed(text).replace("\0", " ")


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


_HALF = 32  # a lock's number of 64 bits is shown in two halves


class Liveness:
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
                file = os.path.join(self._folder, f"{self.token:x}")
                # any thread may close the store
                lock = FileLock(file, mode=0o600, thread_local=False)
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
