"""A statement of a model's own, run in another process.

SQLite can be told to end between two steps, and how large one value may be. Neither limits
what a short statement can do within one step: views in views that double what is in them
take gigabytes before the first step, `instr` over long texts takes hours, and an endless
sort fills the disk.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing

from genai_host.api import CancelToken, ChildLimits, can_run_in_child, run_in_child
from genai_host.errors import ValidationError
from genai_tools_data.database import Reader, Result

MOST_MEMORY = 512 * 2**20
"""Bytes beside the database, where the system can limit them: for all that a statement
makes on its way, what it sorts among it."""

_SECONDS = 60  # of computing, should nobody be left to kill it


def can_run() -> bool:
    """Whether there is a Python to run a statement in, and SQLite can copy a database to it."""
    return hasattr(sqlite3.Connection, "serialize") and can_run_in_child()


def run_apart(reader: Reader, sql: str, limits: CancelToken, most: int) -> Result:
    """Run a statement in another process.

    Returns:
        Its rows, at most `most` of them.

    Raises:
        ValidationError: The statement is not a query, or takes too much memory or time.
        GenaiError: The call ended.
    """
    data = b"" if reader.address else reader.data()
    memory = MOST_MEMORY + 2 * len(data)
    result: Result = run_in_child(
        f"{__name__}:run",
        reader.address,
        sql,
        most,
        returns=Result,
        cancel=limits,
        # a database may have files beside it that SQLite writes to
        limits=ChildLimits(memory=memory, cpu_seconds=_SECONDS, may_write=True),
        exceeded=ValidationError("the query takes too much memory, or time"),
        data=data,
    )
    return result


def run(address: str, sql: str, most: int, data: bytes) -> Result:
    """Run a statement in this process.

    Args:
        address: That of the database, as SQLite has it; empty for one in memory.
        sql: The statement.
        most: The number of rows to return at most.
        data: The database in memory.
    """
    with closing(sqlite3.connect(address or ":memory:", uri=True, isolation_level=None)) as opened:
        if data:
            opened.deserialize(data)
        opened.execute("PRAGMA temp_store = MEMORY")  # which is limited, as a disk is not
        return Reader(opened).rows(sql, (), most)
