"""A statement of a model's own, run in a process of its own.

SQLite can be told to end between two steps, and how large one value may be. Neither holds
what a short statement can do within one step: views in views that double what is in them
take gigabytes before the first step, `instr` over long texts takes hours, and an endless
sort fills the disk. A process has bounds on all of that, and can be killed.

The process reads one line of JSON, and the database behind it where it is in memory; it
writes one line of JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import Any, BinaryIO

from genai_host.api import CancelToken
from genai_host.errors import ValidationError
from genai_tools_data.database import Reader, Result

MOST_MEMORY = 512 * 2**20
"""Bytes beside the database, where the system can bound them: for all that a statement
makes on its way, what it sorts among it."""

_SECONDS = 60  # of computing, should nobody be left to kill it

_MAIN = "from genai_tools_data.apart import main; main()"


def can_run() -> bool:
    """Whether there is a Python to run a statement in, and SQLite can copy a database to it."""
    is_python = bool(sys.executable) and not getattr(sys, "frozen", False)
    return hasattr(sqlite3.Connection, "serialize") and is_python


def run_apart(reader: Reader, sql: str, limits: CancelToken, most: int) -> Result:
    """The rows that a statement gives, at most `most` of them.

    Raises `ValidationError` for what is no query, or takes too much memory, and what ended the
    call if it ended.
    """
    data = b"" if reader.address else reader.data()
    asked = {"address": reader.address, "sql": sql, "most": most, "memory": MOST_MEMORY}
    given = json.dumps(asked).encode() + b"\n" + data
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _MAIN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    with process, limits.on_cancel(process.kill):
        try:
            written, _ = process.communicate(given)
        finally:
            process.kill()
    limits.check()
    return _read(written)


def _read(written: bytes) -> Result:
    try:
        found: Any = json.loads(written)
    except ValueError:  # it was ended by the system
        raise ValidationError("the query takes too much memory, or time") from None
    if "error" in found:
        raise ValidationError(found["error"])
    return Result(tuple(found["columns"]), tuple(map(tuple, found["rows"])), found["more"])


def main() -> None:
    """The process."""
    try:
        answer = _answer(sys.stdin.buffer)
    except MemoryError:
        answer = {"error": "the query takes too much memory"}
    sys.stdout.write(json.dumps(answer))


def _answer(stream: BinaryIO) -> dict[str, Any]:
    asked = json.loads(stream.readline())
    data = stream.read()
    _bound(asked["memory"] + 2 * len(data))
    address = asked["address"] or ":memory:"
    with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as connection:
        if data:
            # typeshed has it for 3.11 and newer, and so is this process
            connection.deserialize(data)  # type: ignore[attr-defined,unused-ignore]
        connection.execute("PRAGMA temp_store = MEMORY")  # which is bounded, as a disk is not
        try:
            result = Reader(connection).rows(asked["sql"], (), asked["most"])
        except ValidationError as error:
            return {"error": error.message}
    return {"columns": result.columns, "rows": result.rows, "more": result.more}


def _bound(memory: int) -> None:
    """More memory than is taken already, and time, where the system has such bounds."""
    try:
        import resource
    except ImportError:  # Windows has none: there a process ends with its call alone
        return
    for kind, most in (("RLIMIT_AS", _taken() + memory), ("RLIMIT_CPU", _SECONDS)):
        with contextlib.suppress(ValueError, OSError):  # a lower one holds already
            resource.setrlimit(getattr(resource, kind), (most, most))


def _taken() -> int:
    """Bytes of addresses that this process has; a usual number where nobody says."""
    try:
        with open("/proc/self/statm") as stream:
            return int(stream.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 2**30
