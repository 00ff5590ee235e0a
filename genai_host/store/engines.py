"""SQLAlchemy engines.

Imported for queries and changes only: importing SQLAlchemy can take longer than an answer. A new
conversation on SQLite is written without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    NoSuchModuleError,
    TimeoutError as NoConnection,
)

from genai_host.errors import StoreError

_FORMS = "use a file, or postgresql://user:password@host/database"


def read_url(given: str) -> URL:
    """Parse the URL of a database. Raises `StoreError` if it is invalid."""
    try:
        url = make_url(given)
        if url.drivername in ("postgresql", "postgres"):
            url = url.set(drivername="postgresql+psycopg")
        if url.get_backend_name() in ("sqlite", "postgresql"):
            url.get_dialect()
            if url.database:
                return url
    except (ArgumentError, NoSuchModuleError) as error:
        raise StoreError("invalid database URL", hint=_FORMS) from error
    raise StoreError("the store must be a named SQLite or PostgreSQL database", hint=_FORMS)


def engine_of_server(url: URL) -> Engine:
    """Make an engine for PostgreSQL. Raises `StoreError` if the driver is missing."""
    try:
        return create_engine(url, pool_pre_ping=True)
    except ImportError as error:
        place = url.render_as_string(hide_password=True)
        raise StoreError(
            f"{place} requires {error.name}, which is not installed",
            file=place,
            hint="pip install 'genai-host[postgresql]'",
        ) from error


def engine_of_file(file: str, connect: Callable[[], Any]) -> Engine:
    """Make an engine for a SQLite file, with connections from `connect`."""
    engine = create_engine(URL.create("sqlite", database=file), creator=connect)
    event.listen(engine, "begin", _on_begin)
    event.listen(engine, "close", _on_close)
    return engine


@contextmanager
def failing(say: Callable[[BaseException], StoreError]) -> Iterator[None]:
    """Convert errors of SQLAlchemy and of the driver with `say`."""
    try:
        yield
    except DBAPIError as error:
        raise say(error.orig or error) from error
    except NoConnection as error:
        raise say(error) from error


def _on_begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("genai_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _on_close(connection: Any, record: object) -> None:
    """Close a connection with an open transaction, after an interrupt.

    SQLite keeps the connection and its lock until each statement is finalized. The traceback may
    hold a reference to a statement.
    """
    if connection.in_transaction:
        connection.rollback()
