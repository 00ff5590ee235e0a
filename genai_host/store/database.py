"""Database connections, locks and liveness of processes.

Errors of the database are raised as `StoreError`. On SQLite, committed data survives the end of the
process in any case. After a power loss or a crash of the system, the last commits may be missing
(`synchronous=NORMAL`), but commits are never partial. On PostgreSQL, the durability of a commit
depends on the server (`synchronous_commit`). `lock_beside` locks a file next to the SQLite
database: one process at a time changes its schema, or the lock files described below.

Each store that writes has a number, which its entries contain, and holds a lock under that number
until its process ends. On SQLite it is a file lock, which the system always releases with the
process; on PostgreSQL it is a lock of the connection. A turn that has not ended was interrupted if
the lock of its last writer is free. Clocks and process ids, which can be reused, are not used.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genai_host.api.json_text import well_formed
from genai_host.errors import StoreError, ValidationError
from genai_host.util import paths
from genai_host.util.lazy_property import lazy_property
from genai_host.util.text import short_repr

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine
    from sqlalchemy.engine import URL


VERSION = 3
"""Version of the schema in `tables`."""

OLDEST = 2
"""Oldest version that can be migrated."""

# prefixes of error messages of SQLite, and hints
_HINTS = {
    "database is locked": "another program has locked it: stop that program, or try again later",
    "database or disk is full": "free disk space",
    "disk i/o error": "check the disk and its free space",
    "file is not a database": "the file was not changed: move it, or use another file",
    "database disk image is malformed": "the file was not changed: restore a backup, or move it",
    # also on a full disk, where SQLite cannot make the files beside it
    "attempt to write a readonly database": "make the file and its directory writable, or free "
    "disk space",
    "unable to open database file": "make the file and its directory readable and writable",
}
_CANNOT_WRITE = ("SQLITE_CANTOPEN", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY")
# class of SQLSTATE codes of PostgreSQL, for example for a key that is too long
_LIMIT_EXCEEDED = "54"
_PAGES = 10_000  # pages of 4 KB in the log before a checkpoint


def next_step(version: int) -> str:
    """The hint for an unsupported version of a store."""
    if version > VERSION:
        return "upgrade genai-host: pip install --upgrade genai-host"
    return (
        "export its conversations with the version that created it, then import them: "
        "genai-host conversations import FILE"
    )


class Database:
    """A database: a SQLite file or PostgreSQL. Opened when first used.

    Args:
        where: File or SQLAlchemy URL: `sqlite:////a/file`, `postgresql://user@host/name`.
        patience: Timeout for another writing process, in seconds (SQLite).
        connect: Opens a file, with the arguments of `sqlite3.connect`, the default.

    Attributes:
        location: File, or URL without the password.
        file: Empty on PostgreSQL.

    Raises:
        StoreError: The URL is invalid.
    """

    def __init__(
        self, where: str, patience: float, connect: Callable[..., sqlite3.Connection] | None = None
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
        """The engine. Raises `StoreError` if the driver is missing."""
        from genai_host.store import engines

        if self._url is None or self.file:
            return engines.engine_of_file(self.file, self.connect)
        return engines.engine_of_server(self._url)

    @property
    def is_sqlite(self) -> bool:
        return bool(self.file)

    @property
    def driver(self) -> Any:
        """Module of the driver, with its exceptions (PEP 249)."""
        return sqlite3 if self.is_sqlite else self.engine.dialect.loaded_dbapi

    def is_current(self) -> bool:
        """Whether the schema is known to have `VERSION`. Checked on SQLite only."""
        if not os.path.isfile(self.file):  # connecting would create the file
            return False
        with self.failing(), closing(self.connect()) as connection:
            try:
                cursor = connection.execute("SELECT value FROM meta WHERE name = 'schema'")
            except sqlite3.OperationalError:  # the table does not exist
                return False
            return bool(cursor.fetchone() == (str(VERSION),))

    def check_place(self, *, was_there: bool) -> None:
        """Raise `StoreError` if the SQLite file was deleted after it was opened (`was_there`), or
        cannot be created."""
        if os.path.isfile(self.file):
            return
        if was_there:
            raise self._fault("the file no longer exists")
        folder = os.path.dirname(os.path.abspath(self.file))
        while not os.path.lexists(folder):
            folder = os.path.dirname(folder)
        can_be_made = os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)
        if os.path.lexists(self.file) or not can_be_made:
            raise self._fault("cannot create the file", paths.ELSEWHERE)

    def reading(self) -> AbstractContextManager[Connection]:
        """Open a read transaction, with a consistent snapshot."""
        return self._transaction()

    def writing(self) -> AbstractContextManager[Connection]:
        """Open a write transaction, rolled back on an exception. It writes from the start: SQLite
        cannot always upgrade a read transaction, and does not wait for the lock then."""
        return self._transaction(genai_writes=True)

    @contextmanager
    def _transaction(self, **options: bool) -> Iterator[Connection]:
        from genai_host.store import engines

        self._check_open()
        engine = self.engine
        try:
            with (
                self.failing(),
                engines.failing(self.error),
                engine.connect() as connection,
                connection.execution_options(**options).begin(),
            ):
                yield connection
        except StoreError as error:
            cause = getattr(error.__cause__, "orig", error.__cause__)  # of an SQLAlchemy error
            self._is_stuck = self._is_stuck or _cannot_write(cause)
            raise
        finally:
            # a read-only connection stays read-only, and an immutable one sees no changes,
            # so the next operation reconnects
            if self._is_stuck:
                self._is_stuck = False
                engine.dispose()

    def connect(self) -> Any:
        """Open a driver connection in autocommit mode. The caller closes it."""
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
                uri = Path(self.file).absolute().as_uri()
                connection = self._connect(f"{uri}?immutable=1", uri=True)
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_PAGES}")
        except BaseException:  # not an SQLite file, or locked
            connection.close()
            raise
        return connection

    def _connect(self, name: str, *, uri: bool = False) -> sqlite3.Connection:
        connect = self._connect_file or sqlite3.connect
        return connect(
            name, timeout=self._patience, isolation_level=None, check_same_thread=False, uri=uri
        )

    def _reads_only(self, connection: sqlite3.Connection) -> bool:
        """Whether the file can only be read as immutable.

        On a full disk and in a read-only directory, SQLite cannot create its auxiliary files.
        Reading is safe if the last writing process has ended and left no log.
        """
        try:
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as error:
            log = f"{self.file}-wal"
            has_log = os.path.exists(log) and os.path.getsize(log) > 0
            self._is_stuck = _cannot_write(error) and not has_log
            return self._is_stuck
        except sqlite3.DatabaseError:
            pass  # not a database; reading it reports the error
        return False

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Convert database errors to `StoreError`."""
        try:
            yield
        except self.errors as error:
            raise self.error(error) from error

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """Exceptions of the driver and of files, also those for values that cannot be converted."""
        return (OSError, OverflowError, UnicodeEncodeError, self.driver.Error)

    def refuses_data(self, error: BaseException) -> bool:
        """Whether an error of the driver, or SQLAlchemy's around it, means that the data cannot be
        stored, and not that the database is unavailable."""
        driver = self.driver
        refusals = (
            *(OverflowError, UnicodeError, driver.DataError, driver.IntegrityError),
            *(driver.InterfaceError, driver.ProgrammingError),
        )
        cause = getattr(error, "orig", None) or error
        is_too_large = str(getattr(cause, "sqlstate", "")).startswith(_LIMIT_EXCEEDED)
        return is_too_large or isinstance(cause, refusals)

    def error(self, error: BaseException) -> StoreError:
        """Convert an error of the driver."""
        if isinstance(error, OSError) and error.strerror:
            return self._fault(error.strerror, paths.ELSEWHERE)
        reason = " ".join(str(error).split()) or type(error).__name__
        hints = (hint for start, hint in _HINTS.items() if reason.lower().startswith(start))
        return self._fault(reason, next(hints, ""))

    def _fault(self, what: str, hint: str = "") -> StoreError:
        return StoreError(f"{self.location}: {what}", file=self.location, hint=hint)

    def no_store(self) -> StoreError:
        """The error for a database of another application."""
        return StoreError(
            f"{self.location} is not a genai-host store",
            file=self.location,
            hint="it was not changed: use another file or database",
        )

    def make_file(self) -> None:
        """Create the SQLite file, readable only by this user, if it does not exist. Auxiliary files
        get the same mode."""
        if not self.file:
            return
        with self.failing():
            os.makedirs(os.path.dirname(self.file), mode=0o700, exist_ok=True)
            os.close(os.open(self.file, os.O_RDWR | os.O_CREAT, 0o600))

    def close(self) -> None:
        """Close permanently; later use raises `StoreError`."""
        self._is_closed = True
        if "engine" in vars(self):
            self.engine.dispose()

    def _check_open(self) -> None:
        if self._is_closed:
            raise self.closed()

    def closed(self) -> StoreError:
        """The error for use after `close`."""
        return self._fault("the store is closed")


def _cannot_write(error: object) -> bool:
    """Whether SQLite reports that it cannot write a file."""
    return (getattr(error, "sqlite_errorname", None) or "").startswith(_CANNOT_WRITE)


LATEST = 253402214400
"""Last day of the year 9999 (UTC), in seconds since 1970."""


def time_of(at: float) -> float:
    """Time of an entry, clamped to valid dates."""
    return min(max(0.0, at), LATEST)


def storable(text: str) -> str:
    """Replace characters that no database stores as text: NUL and lone surrogates."""
    return well_formed(text).replace("\0", " ")


def check_owner(owner: str) -> None:
    """Raise `ValidationError` for a name of an owner that a database cannot store."""
    if len(owner) > _MAX_OWNER or storable(owner) != owner:
        raise ValidationError(
            f"invalid user name {short_repr(owner)}",
            hint=f"use at most {_MAX_OWNER} characters of Unicode, without NUL",
        )


def location_of(where: str | os.PathLike[str] | None) -> str:
    """The URL, or the absolute path of the file; None for the file in the data directory."""
    named = os.fspath(where) if where is not None else ""
    if "://" in named:
        return named
    return os.path.abspath(named or os.path.join(paths.data_dir("store"), "conversations.db"))


_SECONDS = 60.0  # seconds to wait for another process
_MAX_OWNER = 250  # PostgreSQL limits the size of a key


@contextmanager
def lock_beside(database: Database) -> Iterator[None]:
    from filelock import FileLock, Timeout

    lock = FileLock(f"{database.file}.lock", timeout=_SECONDS, mode=0o600)
    with database.failing():
        try:
            lock.acquire()
        except Timeout as error:
            raise StoreError(
                f"timed out after {_SECONDS:g} s: another process is opening {database.file}",
                file=database.file,
                hint="try again later",
            ) from error
    try:
        yield
    finally:
        lock.release()


_HALF = 32  # a 64-bit lock number is shown in two halves


class Liveness:
    """Liveness of one store in one process.

    Attributes:
        token: Its number, positive, with 63 bits.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.token = secrets.randbits(62) + 1
        self._lock: Any = None

    def begin(self, connection: Any) -> None:
        """Acquire the lock; on PostgreSQL, of this driver connection, which stays open."""
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
        """Numbers of the living stores."""
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
        """Check the lock files, and remove those of dead processes. One process checks at a time,
        because the check briefly holds each lock."""
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
