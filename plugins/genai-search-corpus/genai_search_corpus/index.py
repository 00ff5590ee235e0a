"""The index of a directory: documents, words and vectors.

It is one SQLite file, which can be rebuilt: full text with FTS5, vectors with sqlite-vec. SQLite
comes with `apsw`, because Python's own can lack extensions. Several threads and processes can use
one file. Each document is written in one transaction, so that the index is consistent whenever a
process ends.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal

from attrs import frozen

from genai_host.api import well_formed
from genai_search_corpus.documents import CorpusFile, Passage

SIZE = 384
"""Dimensions of a vector."""

FORM = 1
"""Version of the tables; a file with another version is rebuilt."""

_WAIT = 20_000  # milliseconds that one writer waits for another
_PAUSE = 0.01  # seconds
_MAX_WORDS = 40
_WORD = re.compile(r"\w+")

_TABLES = f"""
CREATE TABLE files (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, size INTEGER NOT NULL,
    modified INTEGER NOT NULL, left_out TEXT NOT NULL
);
CREATE TABLE passages (
    id INTEGER PRIMARY KEY, file INTEGER NOT NULL REFERENCES files, is_embedded INTEGER NOT NULL
);
CREATE INDEX passages_of_files ON passages (file);
CREATE INDEX passages_to_embed ON passages (id) WHERE NOT is_embedded;
CREATE VIRTUAL TABLE words USING fts5 (
    title, text, tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE meanings USING vec0 (
    id INTEGER PRIMARY KEY, vector FLOAT[{SIZE}] distance_metric=cosine
);
PRAGMA user_version = {FORM};
"""


@frozen
class PassageMatch:
    """A passage that a search found; `path` is that of its document, relative to the directory."""

    id: int
    path: str
    title: str
    text: str


class Index:
    """The index, an SQLite database. The file is created if missing, and rebuilt if damaged."""

    def __init__(self, file: str) -> None:
        self._file = file

    @contextmanager
    def opened(self) -> Iterator[OpenIndex]:
        """Open the index for one thread."""
        try:
            connection = self._connect()
        except _damages():
            self._remove()
            connection = self._connect()
        try:
            yield OpenIndex(connection)
        finally:
            connection.close()

    def remove_if_damaged(self, error: Exception) -> bool:
        """Whether damage caused the error; the file is then removed, to be rebuilt."""
        if not isinstance(error, _damages()):
            return False
        self._remove()
        return True

    def _connect(self) -> Any:
        import apsw
        import sqlite_vec

        folder = os.path.dirname(self._file)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self._file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        connection = apsw.Connection(self._file)
        try:
            connection.set_busy_timeout(_WAIT)
            connection.enable_load_extension(True)
            connection.load_extension(sqlite_vec.loadable_path())
            connection.enable_load_extension(False)
            _begin_log(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            _make_tables(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _remove(self) -> None:
        for name in ("", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                os.unlink(self._file + name)


def _damages() -> tuple[type[Exception], ...]:
    import apsw

    return (apsw.CorruptError, apsw.NotADBError, apsw.FormatError)


def _begin_log(connection: Any) -> None:
    """Enable write-ahead logging, so that readers do not wait. Concurrent changes of the mode fail
    in SQLite without its usual wait.
    """
    import apsw

    until = time.monotonic() + _WAIT / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except apsw.BusyError:
            if time.monotonic() > until:
                raise
            time.sleep(_PAUSE)
        else:
            return


def _make_tables(connection: Any) -> None:
    if _form(connection) == FORM:
        return
    connection.execute("BEGIN IMMEDIATE")
    if _form(connection) != FORM:  # otherwise another process was first
        for name in ("meanings", "words", "passages", "files"):
            connection.execute(f"DROP TABLE IF EXISTS {name}")
        connection.execute(_TABLES)
    connection.execute("COMMIT")


def _form(connection: Any) -> int:
    ((form,),) = connection.execute("PRAGMA user_version")
    return int(form)


class OpenIndex:
    """An open index."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def files(self) -> dict[str, CorpusFile]:
        """Return the indexed files by path, including unreadable documents."""
        rows = self._connection.execute("SELECT path, size, modified FROM files")
        found = (CorpusFile(_named(path), size, modified) for path, size, modified in rows)
        return {file.path: file for file in found}

    def left_out(self) -> list[tuple[str, str]]:
        """Return the unreadable documents with the reason."""
        rows = self._connection.execute(
            "SELECT path, left_out FROM files WHERE left_out != '' ORDER BY path"
        )
        return [(_named(path), why) for path, why in rows]

    def count(self) -> tuple[int, int]:
        """Return the number of passages, and of those with a vector."""
        ((all_of_them, embedded),) = self._connection.execute(
            "SELECT count(*), coalesce(sum(is_embedded), 0) FROM passages"
        )
        return all_of_them, embedded

    def put(self, file: CorpusFile, passages: Sequence[Passage], left_out: str = "") -> None:
        """Write or replace a document, unless another process has done so meanwhile."""
        run = self._connection.execute
        with self._transaction("IMMEDIATE"):
            same = "SELECT 1 FROM files WHERE path = ? AND size = ? AND modified = ?"
            if list(run(same, (_kept(file.path), file.size, file.modified))):
                return
            self._delete(file.path)
            run(
                "INSERT INTO files (path, size, modified, left_out) VALUES (?, ?, ?, ?)",
                (_kept(file.path), file.size, file.modified, left_out),
            )
            id = self._connection.last_insert_rowid()
            for passage in passages:
                run("INSERT INTO passages (file, is_embedded) VALUES (?, 0)", (id,))
                row = self._connection.last_insert_rowid()
                words = (row, well_formed(passage.title), well_formed(passage.text))
                run("INSERT INTO words (rowid, title, text) VALUES (?, ?, ?)", words)

    def remove(self, path: str) -> None:
        with self._transaction("IMMEDIATE"):
            self._delete(path)

    def without_vector(self, most: int) -> list[tuple[int, str]]:
        """Return some passages without a vector: id, and title and text."""
        rows = self._connection.execute(
            "SELECT words.rowid, title || char(10) || text FROM words WHERE words.rowid IN "
            "(SELECT id FROM passages WHERE NOT is_embedded ORDER BY id LIMIT ?)",
            (most,),
        )
        return [(id, text) for id, text in rows]

    def put_vector(self, id: int, vector: bytes) -> None:
        """Store a vector, unless the passage no longer exists or already has one."""
        with self._transaction("IMMEDIATE"):
            run = self._connection.execute
            mark = "UPDATE passages SET is_embedded = 1 WHERE id = ? AND NOT is_embedded"
            if list(run(f"{mark} RETURNING id", (id,))):
                run("INSERT INTO meanings (id, vector) VALUES (?, ?)", (id, vector))

    def with_words(self, query: str, most: int) -> list[int]:
        """Return passages that contain words of a query, by BM25, best first; titles count more."""
        # combining characters, as macOS writes them, match no `\w`
        words = dict.fromkeys(_WORD.findall(unicodedata.normalize("NFC", query)))
        if not words:
            return []
        given = " OR ".join(f'"{word}"' for word in list(words)[:_MAX_WORDS])
        rows = self._connection.execute(
            "SELECT rowid FROM words WHERE words MATCH ? ORDER BY bm25(words, 2.0, 1.0) LIMIT ?",
            (given, most),
        )
        return [id for (id,) in rows]

    def like(self, vector: bytes, most: int, furthest: float) -> list[int]:
        """Passages with similar vectors, nearest first, up to a cosine distance from 0 to 2."""
        rows = self._connection.execute(
            "SELECT id, distance FROM meanings WHERE vector MATCH ? AND k = ?", (vector, most)
        )
        return [id for id, distance in rows if distance <= furthest]

    def passages(self, ids: Sequence[int]) -> list[PassageMatch]:
        """Return the existing passages in the order of the ids."""
        found = {}
        for id in ids:
            for path, title, text in self._connection.execute(
                "SELECT path, title, text FROM words JOIN passages ON passages.id = words.rowid "
                "JOIN files ON files.id = passages.file WHERE words.rowid = ?",
                (id,),
            ):
                found[id] = PassageMatch(id, _named(path), title, text)
        return list(found.values())

    def reading(self) -> AbstractContextManager[None]:
        """A context in which all reads see the same state."""
        return self._transaction("DEFERRED")

    @contextmanager
    def _transaction(self, kind: Literal["DEFERRED", "IMMEDIATE"]) -> Iterator[None]:
        """An immediate one has the write lock from the start, since upgrading a read lock can
        fail."""
        self._connection.execute(f"BEGIN {kind}")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def _delete(self, path: str) -> None:
        run = self._connection.execute
        of_file = "SELECT passages.id FROM passages JOIN files ON files.id = file WHERE path = ?"
        ids = [id for (id,) in run(of_file, (_kept(path),))]
        for id in ids:
            run("DELETE FROM words WHERE rowid = ?", (id,))
            run("DELETE FROM meanings WHERE id = ?", (id,))
            run("DELETE FROM passages WHERE id = ?", (id,))
        run("DELETE FROM files WHERE path = ?", (_kept(path),))


def _kept(path: str) -> str | bytes:
    """Return a path to store: bytes if it is not valid UTF-8, which file names need not be."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return os.fsencode(path)
    return path


def _named(kept: str | bytes) -> str:
    return os.fsdecode(kept)
