"""The data that the user names, and the tools look into: never a model.

That is a SQLite database, a CSV file, or several of these. What is in it is found out from
what it begins with, whatever it is called. CSV files are kept in memory until they change.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from genai_host.api import CancelToken
from genai_host.errors import ConfigurationError
from genai_tools_data.csv_file import MOST_BYTES, load, too_large
from genai_tools_data.database import HEAD, Reader, opened_file

SETTING = "path"

MOST_FILES = 20

_PAUSE = 0.05  # seconds to wait for another call, between looks at whether this one is over

Stamp = tuple[tuple[str, int, int, int], ...]


class DataSource:
    """May be used from many threads: calls that look into CSV files wait for each other.

    named   paths, as the user has written them
    """

    def __init__(self, named: Sequence[str]) -> None:
        self._named = named
        self._lock = threading.Lock()
        self._stamp: Stamp = ()
        self._loaded: Reader | None = None
        self._close: weakref.finalize[[], DataSource] | None = None

    def is_named(self) -> bool:
        """Whether there is any data to look into."""
        return bool(self._named)

    @contextmanager
    def opened(self, limits: CancelToken) -> Iterator[Reader]:
        """What the user names, as it is now.

        Raises `ConfigurationError` if it is not there, or cannot be read.
        """
        paths = _paths(self._named)
        if [path for path in paths if _is_database(path)]:
            if len(paths) > 1:
                raise ConfigurationError("a SQLite database is looked into alone", setting=SETTING)
            with opened_file(paths[0]) as reader:
                yield reader
            return
        while not self._lock.acquire(timeout=_PAUSE):
            limits.check()
        try:
            yield self._read(paths, limits)
        finally:
            self._lock.release()

    def _read(self, paths: Sequence[Path], limits: CancelToken) -> Reader:
        """The CSV files, read anew if one has changed."""
        stamp = tuple(map(_stamp, paths))
        if self._loaded is not None and stamp == self._stamp:
            return self._loaded
        self._forget()
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        try:
            for path, table in zip(paths, _tables(paths), strict=True):
                load(connection, path, table, limits)
            self._loaded = Reader(connection)
        except BaseException:
            connection.close()
            raise
        self._stamp = stamp
        self._close = weakref.finalize(self, connection.close)
        return self._loaded

    def _forget(self) -> None:
        self._loaded = None
        if self._close is not None:
            self._close()


def _paths(names: Sequence[str]) -> list[Path]:
    if not names:
        hint = "genai-host config set tools.data.path=FILE names it"
        raise ConfigurationError("no data is named to look into", hint=hint, setting=SETTING)
    if len(names) > MOST_FILES:
        raise ConfigurationError(f"more than {MOST_FILES} files are named", setting=SETTING)
    return [Path(os.path.abspath(os.path.expanduser(name))) for name in names]


def _is_database(path: Path) -> bool:
    """Raises `ConfigurationError` for what can be neither that nor a CSV file."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ConfigurationError(f"{path.name} is no file", setting=SETTING)
        with path.open("rb") as stream:
            head = stream.read(4096)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(f"{path.name} cannot be read: {why}", setting=SETTING) from error
    if head.startswith(HEAD):
        return True
    if b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ConfigurationError(
            f"{path.name} is neither a SQLite database nor a CSV file", setting=SETTING
        )
    if found.st_size > MOST_BYTES:
        raise too_large(path)
    return False


def _stamp(path: Path) -> tuple[str, int, int, int]:
    found = path.stat()
    return str(path), found.st_mtime_ns, found.st_size, found.st_ino


def _tables(paths: Sequence[Path]) -> list[str]:
    """A table for each, named as the file, as far as a model can write that with ease."""
    tables: list[str] = []
    for path in paths:
        plain = re.sub(r"\W+", "_", path.stem).strip("_")[:60] or "data"
        plain = f"t_{plain}" if plain.lower().startswith("sqlite_") else plain
        own, number = plain, 1
        while own.lower() in [each.lower() for each in tables]:
            number += 1
            own = f"{plain}_{number}"
        tables.append(own)
    return tables
