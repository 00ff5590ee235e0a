"""Bytes by their SHA-256, stored once per content.

With SQLite they are files, in a directory named after the database file, since large rows would
bloat its log and each backup. On PostgreSQL they are rows of chunks, so that all clients of the
database can read them.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO

from sqlalchemy import ColumnElement, Connection, and_, delete, exists, insert, or_, select, text

from genai_host.errors import NotFound
from genai_host.store.database import Database
from genai_host.store.tables import blob_pieces, blob_uses, blobs, conversations

_PIECE = 256 * 1024  # bytes
_LOCK = 0x67656E616962  # "genaib": number of a lock on PostgreSQL
_HOLDER = "holder/"  # no id of a conversation has it


class Blobs:
    """Blobs of one owner. Made by `Store.blobs`."""

    def __init__(self, database: Database, owner: str, now: Callable[[], float]) -> None:
        self._database = database
        self._owner = owner
        self._now = now
        self._folder = f"{database.file}.blobs" if database.is_sqlite else None

    def put(
        self, data: Iterable[bytes], *, conversation: str | None = None, holder: str = ""
    ) -> str:
        """As `BlobStore.put`."""
        use = conversation or _use_by(holder)
        if self._folder is not None:
            with self._database.failing():
                os.makedirs(self._folder, mode=0o700, exist_ok=True)
        digest, size = hashlib.sha256(), 0
        with (
            self._database.failing(),
            tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as file,
        ):
            try:
                for piece in data:
                    digest.update(piece)
                    size += len(piece)
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
                self._enter(file, digest.hexdigest(), size, use)
            finally:
                with contextlib.suppress(FileNotFoundError):  # it was renamed already
                    os.unlink(file.name)
        return digest.hexdigest()

    def use(self, id: str, conversation: str) -> bool:
        """Mark stored bytes as used by a conversation, whichever writer stored them. Returns False
        if they are not stored."""
        with self._database.reading() as connection:
            if connection.execute(select(exists().where(self._use(id, conversation)))).scalar():
                return self._has_bytes(id)
        with self._writing() as connection:
            there = self._is_entered(connection, id) and self._has_bytes(id)
            if there:
                self._enter_use(connection, id, conversation)
            return there

    def get(self, id: str) -> Iterator[bytes]:
        """The bytes, in chunks. Raises `NotFound`."""
        if not re.fullmatch("[0-9a-f]{64}", id) or not self._is_used(id):
            raise NotFound(f"unknown blob {id[:64]}")
        return self._pieces(id)

    def remove(self, id: str, *, holder: str = "") -> None:
        """As `BlobStore.remove`."""
        with self._writing() as connection:
            self._forget_in(connection, self._use(id, _use_by(holder)))

    def forget(self, conversation: str, connection: Connection, *, lost: str) -> None:
        """Remove the uses of a deleted conversation, in this transaction; also the uses by missing
        conversations with ids before `lost`, whose writers have ended."""
        used = blob_uses.c.conversation
        is_there = or_(used.startswith(_HOLDER), exists().where(conversations.c.id == used))
        self._alone(connection)
        self._forget_in(
            connection, or_(used == conversation, and_(used != "", used < lost, ~is_there))
        )

    def _enter(self, file: IO[bytes], id: str, size: int, conversation: str) -> None:
        """Register a blob; restores bytes that were lost."""
        with self._writing() as connection:
            is_entered = self._is_entered(connection, id)
            if not is_entered:
                connection.execute(insert(blobs).values(digest=id, size=size, created=self._now()))
            if not is_entered or not self._has_bytes(id):
                self._store(connection, file, id)
            self._enter_use(connection, id, conversation)

    def _is_entered(self, connection: Connection, id: str) -> bool:
        return bool(connection.execute(select(exists().where(blobs.c.digest == id))).scalar())

    def _enter_use(self, connection: Connection, id: str, conversation: str) -> None:
        if not connection.execute(select(exists().where(self._use(id, conversation)))).scalar():
            connection.execute(
                insert(blob_uses).values(digest=id, owner=self._owner, conversation=conversation)
            )

    def _use(self, id: str, conversation: str) -> ColumnElement[bool]:
        columns = blob_uses.c
        return and_(
            columns.digest == id, columns.owner == self._owner, columns.conversation == conversation
        )

    def _has_bytes(self, id: str) -> bool:
        """Whether the bytes of a registered blob exist; another process may have removed the
        file."""
        return self._folder is None or os.path.exists(self._file(id))

    def _store(self, connection: Connection, file: IO[bytes], id: str) -> None:
        if self._folder is not None:
            folder = os.path.dirname(self._file(id))
            os.makedirs(folder, mode=0o700, exist_ok=True)
            os.replace(file.name, self._file(id))
            for changed in (folder, self._folder, os.path.dirname(self._folder)):
                _sync_folder(changed)
            return
        file.seek(0)
        for number, data in enumerate(iter(lambda: file.read(_PIECE), b"")):
            connection.execute(insert(blob_pieces).values(digest=id, number=number, data=data))

    def _is_used(self, id: str) -> bool:
        mine = and_(blob_uses.c.digest == id, blob_uses.c.owner == self._owner)
        with self._database.reading() as connection:
            return bool(connection.execute(select(exists().where(mine))).scalar())

    def _pieces(self, id: str) -> Iterator[bytes]:
        if self._folder is not None:
            with self._database.failing(), open(self._file(id), "rb") as file:
                yield from iter(lambda: file.read(_PIECE), b"")
            return
        for number in range(1 << 31):
            piece = and_(blob_pieces.c.digest == id, blob_pieces.c.number == number)
            with self._database.reading() as connection:
                data = connection.execute(select(blob_pieces.c.data).where(piece)).scalar()
            if data is None:
                return
            yield bytes(data)

    def _forget_in(self, connection: Connection, uses: ColumnElement[bool]) -> None:
        mine = and_(blob_uses.c.owner == self._owner, uses)
        connection.execute(delete(blob_uses).where(mine))
        unused = ~exists().where(blob_uses.c.digest == blobs.c.digest)
        for id in connection.execute(select(blobs.c.digest).where(unused)).scalars().all():
            connection.execute(delete(blobs).where(blobs.c.digest == id))
            connection.execute(delete(blob_pieces).where(blob_pieces.c.digest == id))
            if self._folder is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._file(id))

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._database.writing() as connection:
            self._alone(connection)
            yield connection

    def _alone(self, connection: Connection) -> None:
        """Keep other processes from removing blobs found in this transaction. SQLite has a single
        writer anyway."""
        if not self._database.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})

    def _file(self, id: str) -> str:
        assert self._folder is not None
        return os.path.join(self._folder, id[:2], id)


def _use_by(holder: str) -> str:
    return f"{_HOLDER}{holder}" if holder else ""


def _sync_folder(folder: str) -> None:
    """Sync a directory, so that a renamed file survives a power loss."""
    if os.name == "nt":  # Windows can neither sync a directory nor needs it
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems cannot
            raise
    finally:
        os.close(descriptor)
