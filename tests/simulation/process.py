"""Processes that are killed at writes to the store, and disks that fail.

A process is a store and a host. When it is killed, its connections are closed as the system would
close them, its lock is released, and its tasks write nothing more to the disk.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from genai_feature_assistants.service import AssistantsService
from genai_server.native.idempotency import Replies

from genai_host import Host
from genai_host.api import Codec
from genai_host.conversations.record import Entry
from genai_host.serving.router import HttpRoutes
from genai_host.store import Store
from genai_host.store.documents import Documents
from genai_host.store.jobs import JobWorker
from genai_host.store.ledger import SpendLedger
from genai_host.store.records import Written
from genai_host.store.store import StoredRecord
from genai_host.usage.budgets import Account, Spent
from genai_host.util.lazy_property import lazy_property
from simulation import postgresql
from simulation.faults import guarded
from simulation.plan import RUN_OWNERS
from simulation.schedule import Killed, Schedule

if TYPE_CHECKING:
    from simulation.simulation import Simulation


class Process:
    """One run of one process.

    Args:
        file: The database, which processes share: a file, or an address of PostgreSQL.
        make_host: Creates the host, given the store.
        fault: Called at each write with its SQL; returns the fault, or "".

    Attributes:
        live: Conversation objects in use, by id.
        worker: Does background jobs; None if there are none.
        service: The Assistants API; None if no client uses it.
        routes: The HTTP routes; None if no client uses them.
    """

    def __init__(
        self,
        name: str,
        file: str,
        make_host: Callable[[Store], Host],
        fault: Callable[[str], str],
        schedule: Schedule,
        simulation: Simulation,
    ) -> None:
        self.name = name
        self.is_alive = True
        self.fault = fault
        self.connections: list[Any] = []
        self._address = file if "://" in file else ""
        self._pids: list[int] = []
        if self._address:
            simulation.connecting[name] = self
            file += f"&application_name={name}"
        self.store = PausingStore(self, file, schedule, simulation)
        self.host = make_host(self.store)
        self.replies = Replies(self.host)
        self.live: dict[str, Any] = {}
        self.worker: JobWorker | None = None
        self.service: AssistantsService | None = None
        self.routes: HttpRoutes | None = None

    def connect(self, name: str, **options: Any) -> sqlite3.Connection:
        """Open a connection; a replacement for `sqlite3.connect`."""
        if not self.is_alive:
            raise Killed
        connection = sqlite3.connect(name, **options, factory=Connection)
        assert isinstance(connection, Connection)
        connection.process = self
        self.connections.append(connection)
        return connection

    def connect_server(self) -> Any:
        """Open a connection to PostgreSQL."""
        if not self.is_alive:
            raise Killed
        connection = postgresql.connect(self, self._address)
        self.connections.append(connection)
        self._pids.append(connection.info.backend_pid)
        return connection

    def kill(self) -> None:
        """Kill the process, as `kill -9` does."""
        self.is_alive = False
        for connection in self.connections:
            with contextlib.suppress(sqlite3.Error):
                connection.end()
        if self._pids:
            postgresql.await_end(self._address, self._pids)
        lock = self.store._presence._lock
        if lock is not None:
            lock.release()  # the file remains

    def close(self) -> None:
        """Close the process normally."""
        if self.worker is not None:
            self.worker.close()
        if self.service is not None:
            self.service.close()
        if self.routes is not None:
            self.routes.close()
        self.host.close()
        self.store.close()
        self.kill()


class Connection(sqlite3.Connection):
    """A connection whose writes can fail, or be the last action of the process."""

    process: Process

    def cursor(self, factory: Any = None) -> Any:
        return super().cursor(Cursor)

    def execute(self, sql: str, *values: Any) -> Any:
        return self.cursor().execute(sql, *values)

    def commit(self) -> None:
        if self.in_transaction:
            self.guarded("COMMIT", super().commit)

    def end(self) -> None:
        super().rollback()  # while a cursor lives, closing alone keeps the transaction open
        super().close()

    def guarded(self, sql: str, act: Callable[[], Any]) -> Any:
        return guarded(self.process, sql, act, sqlite3.OperationalError)


class Cursor(sqlite3.Cursor):
    """The cursor of such a connection."""

    connection: Connection

    def execute(self, sql: str, *values: Any) -> Any:
        if sql == "PRAGMA synchronous = NORMAL":  # there is no power loss
            sql = "PRAGMA synchronous = OFF"
        run = super().execute
        return self.connection.guarded(sql, lambda: run(sql, *values))

    def executemany(self, sql: str, *values: Any) -> Any:
        run = super().executemany
        return self.connection.guarded(sql, lambda: run(sql, *values))


class PausingStore(Store):
    """A store around whose writes other tasks can run."""

    def __init__(
        self, process: Process, file: str, schedule: Schedule, simulation: Simulation
    ) -> None:
        clock = schedule.clock
        super().__init__(file, patience=0.0, now=clock.timestamp, connect=process.connect)
        self._schedule = schedule
        self._simulation = simulation

    @lazy_property
    def ledger(self) -> SpendLedger:
        return PausingLedger(self._database, self._schedule, self._simulation)

    def documents(self, collection: str, *, conversation: str | None = None) -> Documents:
        documents = super().documents(collection, conversation=conversation)
        if not collection.endswith("/workers"):  # a lock is held while these are written
            documents.__class__ = PausingDocuments
            vars(documents)["schedule"] = self._schedule
        return documents

    def delete(self, id: str) -> None:
        if self._owner not in RUN_OWNERS:
            super().delete(id)
            return
        with self._simulation.removing((self._owner,)):
            super().delete(id)

    def _create(self, entries: Sequence[Written], known: Mapping[str, Any], id: str = "") -> str:
        self._schedule.pause()
        return super()._create(entries, known, id)

    def _record(self, id: str, number: int, codec: Codec) -> StoredRecord:
        record = PausingRecord(self, self._writer, id, number, codec, self._now)
        record.schedule, record.simulation = self._schedule, self._simulation
        return record


class PausingRecord(StoredRecord):
    """The event log of a conversation in such a store."""

    schedule: Schedule
    simulation: Simulation

    def append(self, entry: Entry) -> None:
        self.schedule.pause()
        super().append(entry)
        self.simulation.appended(self)
        self.schedule.pause()


class PausingLedger(SpendLedger):
    """The budgets in such a store."""

    def __init__(self, database: Any, schedule: Schedule, simulation: Simulation) -> None:
        super().__init__(database)
        self._schedule = schedule
        self._simulation = simulation

    def spent(self, accounts: Sequence[Account]) -> Mapping[Account, Spent]:
        self._schedule.pause()
        return super().spent(accounts)

    def spend(self, accounts: Sequence[Account], spent: Spent) -> None:
        self._schedule.pause()
        super().spend(accounts, spent)
        for account in accounts:
            self._simulation.spent(account, spent)


class PausingDocuments(Documents):
    """A collection of documents in such a store."""

    schedule: Schedule

    def put(self, id: str, value: Mapping[str, Any], *, expect: int | None = None) -> int:
        self.schedule.pause()
        version = super().put(id, value, expect=expect)
        self.schedule.pause()
        return version

    def delete(self, id: str, *, expect: int | None = None) -> bool:
        self.schedule.pause()
        return super().delete(id, expect=expect)

    def clear(self) -> int:
        self.schedule.pause()
        return super().clear()
