"""Bytes by their SHA-256: kept once, however often they come.

Beside SQLite they are files, in a folder named after its file, since large rows would
pass through its log and swell each copy of it; on PostgreSQL they are rows of pieces, so
that all who share the database have them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO

from sqlalchemy import ColumnElement, Connection, and_, delete, exists, insert, select

from genai_host.errors import NotFound
from genai_host.store.database import Database
from genai_host.store.tables import blob_pieces, blob_uses, blobs

_PIECE = 256 * 1024  # bytes


class Blobs:
    """The blobs of one owner. Made by `Store.blobs`."""

    def __init__(self, database: Database, owner: str, now: Callable[[], float]) -> None:
        self._database = database
        self._owner = owner
        self._now = now
        self._folder = f"{database.file}.blobs" if database.is_sqlite else None

    def put(self, data: Iterable[bytes], *, conversation: str | None = None) -> str:
        """Keep bytes, and give their id: their SHA-256 in hex.

        conversation   that uses them: they go with the last one that does; None if they
                       are to stay until `remove`
        """
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
                self._enter(file, digest.hexdigest(), size, conversation or "")
            finally:
                with contextlib.suppress(FileNotFoundError):  # it has another name by now
                    os.unlink(file.name)
        return digest.hexdigest()

    def get(self, id: str) -> Iterator[bytes]:
        """The bytes, in pieces. Raises `NotFound`."""
        if not re.fullmatch("[0-9a-f]{64}", id) or not self._is_used(id):
            raise NotFound(f"there is no blob {id[:64]}")
        return self._pieces(id)

    def remove(self, id: str) -> None:
        """Have no more use for bytes, but for what conversations have."""
        self._forget(and_(blob_uses.c.digest == id, blob_uses.c.conversation == ""))

    def forget(self, conversation: str) -> None:
        """A conversation is gone: so is its use of blobs."""
        self._forget(blob_uses.c.conversation == conversation)

    def _enter(self, file: IO[bytes], id: str, size: int, conversation: str) -> None:
        """While one process writes, no other removes what it finds there already."""
        with self._database.writing() as connection:
            if not connection.execute(select(exists().where(blobs.c.digest == id))).scalar():
                connection.execute(insert(blobs).values(digest=id, size=size, created=self._now()))
                self._store(connection, file, id)
            use = {"digest": id, "owner": self._owner, "conversation": conversation}
            same = and_(*(blob_uses.c[name] == value for name, value in use.items()))
            if not connection.execute(select(exists().where(same))).scalar():
                connection.execute(insert(blob_uses).values(**use))

    def _store(self, connection: Connection, file: IO[bytes], id: str) -> None:
        if self._folder is not None:
            os.makedirs(os.path.dirname(self._file(id)), mode=0o700, exist_ok=True)
            os.replace(file.name, self._file(id))
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

    def _forget(self, uses: ColumnElement[bool]) -> None:
        unused = ~exists().where(blob_uses.c.digest == blobs.c.digest)
        with self._database.writing() as connection:
            connection.execute(
                delete(blob_uses).where(blob_uses.c.owner == self._owner).where(uses)
            )
            for id in connection.execute(select(blobs.c.digest).where(unused)).scalars().all():
                connection.execute(delete(blobs).where(blobs.c.digest == id))
                connection.execute(delete(blob_pieces).where(blob_pieces.c.digest == id))
                if self._folder is not None:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(self._file(id))

    def _file(self, id: str) -> str:
        assert self._folder is not None
        return os.path.join(self._folder, id[:2], id)
