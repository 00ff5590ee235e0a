"""Execution of a model's SQL statement in a separate process.

SQLite can be interrupted between two steps, and limits the size of a value. Neither limits a single
step: nested views that double their data can take gigabytes before the first step, `instr` over
long texts can take hours, and an endless sort can fill the disk.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing

from genai_host.api import CancelToken, ChildLimits, can_run_in_child, run_in_child
from genai_host.errors import ValidationError
from genai_tools_data.database import DatabaseReader, QueryResult

MOST_MEMORY = 512 * 2**20
"""Bytes for temporary data of a statement, where the system supports limits."""

_SECONDS = 60  # of CPU time, in case no parent is left to kill the process


def can_run() -> bool:
    """Whether there is a Python interpreter to start, and SQLite can copy a database to it."""
    return hasattr(sqlite3.Connection, "serialize") and can_run_in_child()


def run_apart(reader: DatabaseReader, sql: str, limits: CancelToken, most: int) -> QueryResult:
    """Run a statement in another process.

    Returns:
        Its rows, at most `most` of them.

    Raises:
        ValidationError: The statement is not a query, or takes too much memory or time.
        GenaiError: The call ended.
    """
    data = b"" if reader.address else reader.data()
    memory = MOST_MEMORY + 2 * len(data)
    result: QueryResult = run_in_child(
        f"{__name__}:run",
        reader.address,
        sql,
        most,
        returns=QueryResult,
        cancel=limits,
        # SQLite can write to files beside the database
        limits=ChildLimits(memory=memory, cpu_seconds=_SECONDS, may_write=True),
        exceeded=ValidationError("the query exceeded its memory or time limit"),
        data=data,
    )
    return result


def run(address: str, sql: str, most: int, data: bytes) -> QueryResult:
    """Run a statement in this process.

    Args:
        address: SQLite address of the database; empty for one in memory.
        sql: The statement.
        most: Maximum number of rows.
        data: Content of a database in memory.
    """
    with closing(sqlite3.connect(address or ":memory:", uri=True, isolation_level=None)) as opened:
        if data:
            opened.deserialize(data)
        opened.execute("PRAGMA temp_store = MEMORY")  # memory is limited, unlike the disk
        return DatabaseReader(opened).rows(sql, (), most)
