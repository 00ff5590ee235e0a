"""One database: its connections, and what goes wrong with it as `StoreError`.

On SQLite, what was committed outlives the process however that ends, since the system
has it. On power loss, or when the system itself crashes, the last commits may be missing
(`synchronous=NORMAL`), and nothing is ever half there. On PostgreSQL, what a commit
promises is the server's to say (`synchronous_commit`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as NoConnection

from genai_host.errors import StoreError

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
_PAGES = 10_000  # of 4 KB, that may be in the log before they are moved to the file


class Database:
    """SQLite in a file, or PostgreSQL. Opened when it is first used.

    url       as SQLAlchemy has it: `sqlite:////a/file`, `postgresql://user@host/name`
    patience  seconds to wait for another process that writes (SQLite)

    Raises `StoreError` for an address that cannot be one.
    """

    def __init__(self, url: str, patience: float) -> None:
        self.url = _url(url)
        self._patience = patience
        self.file = self.url.database or "" if self.is_sqlite else ""
        self.place = self.file or self.url.render_as_string(hide_password=True)
        self.engine = self._engine()

    @property
    def driver(self) -> Any:
        """The module of the driver, with its exceptions (PEP 249)."""
        return self.engine.dialect.loaded_dbapi

    @property
    def is_sqlite(self) -> bool:
        return self.url.get_backend_name() == "sqlite"

    def _engine(self) -> Engine:
        if not self.is_sqlite:
            try:
                return create_engine(self.url, pool_pre_ping=True)
            except ImportError as error:
                raise StoreError(
                    f"{self.place} needs {error.name}, which is not installed",
                    file=self.place,
                    hint="pip install 'genai-host[postgresql]'",
                ) from error
        engine = create_engine(self.url, connect_args={"timeout": self._patience})
        event.listen(engine, "connect", _on_connect)
        event.listen(engine, "begin", _on_begin)
        return engine

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """All that is read sees the same state."""
        with self.failing(), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction: all of it, or nothing if it is left by an exception."""
        with self.failing(), self.engine.connect() as connection:
            writer = connection.execution_options(genai_writes=True)
            with writer.begin():
                yield writer

    @contextmanager
    def failing(self) -> Iterator[None]:
        """What fails here fails as `StoreError`."""
        try:
            yield
        except DBAPIError as error:
            raise self.error(error.orig or error) from error
        except (OSError, NoConnection, UnicodeEncodeError, self.driver.Error) as error:
            raise self.error(error) from error

    def error(self, error: BaseException) -> StoreError:
        """What the driver raised, as the host says it."""
        said = " ".join(str(error).split()) or type(error).__name__
        hint = next((hint for start, hint in _HINTS.items() if said.lower().startswith(start)), "")
        return StoreError(f"{self.place}: {said}", file=self.place, hint=hint)

    def make_file(self) -> None:
        """Make the file of SQLite, for this user alone, if there is none. The files that
        SQLite makes beside it take its mode."""
        if not self.file:
            return
        with self.failing():
            os.makedirs(os.path.dirname(self.file), mode=0o700, exist_ok=True)
            os.close(os.open(self.file, os.O_RDWR | os.O_CREAT, 0o600))

    def close(self) -> None:
        self.engine.dispose()


def _url(given: str) -> URL:
    try:
        url = make_url(given)
        if url.drivername in ("postgresql", "postgres"):
            url = url.set(drivername="postgresql+psycopg")
        if url.get_backend_name() in ("sqlite", "postgresql"):
            url.get_dialect()
            if url.database:
                return url
    except (ArgumentError, NoSuchModuleError) as error:
        raise StoreError("this is no address of a store", hint=_FORMS) from error
    raise StoreError("a store is in SQLite or PostgreSQL, in a database with a name", hint=_FORMS)


_FORMS = "name a file, or postgresql://user:password@host/database"


def _on_connect(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # transactions begin where we say so
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {_PAGES}")


def _on_begin(connection: Connection) -> None:
    """A transaction that is to write says so at once: one that has only read cannot
    always become one that writes, and does not wait for its turn then."""
    writes = connection.get_execution_options().get("genai_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
