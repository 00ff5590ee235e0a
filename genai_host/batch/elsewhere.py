"""Rows in a process of an executor, which has a host of its own, from its own configuration."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from genai_host.api.json_text import write_json
from genai_host.batch.rows import Row
from genai_host.batch.task import Task
from genai_host.batch.work import Result, Worker


def do_row(task: Mapping[str, Any], batch: str, row: Row) -> Result:
    """It may be done again where the process that did it is gone.

    task   as `Task.to_json` gives it
    batch  as `Worker` takes it
    """
    key = (write_json(task), batch)
    with _lock:
        if key not in _workers:
            _workers.clear()
            _workers[key] = _worker(task, batch)
        worker = _workers[key]
    return worker.do(row)


# That of this process, for as long as it is given the same batch: to load plugins and open
# connections for each row would cost more than the row, and a function is all that an executor
# carries. What an earlier batch has under way yet keeps its own.
_workers: dict[tuple[bytes, str], Worker] = {}
_lock = threading.Lock()


def _worker(task: Mapping[str, Any], batch: str) -> Worker:
    from genai_host.config import read_config
    from genai_host.host import Host
    from genai_host.store import Store

    wanted = Task.of_json(task)
    config = read_config()
    is_kept = wanted.record or config.budgets.are_kept
    host = Host(config=config, store=Store(config.store or None) if is_kept else None)
    return Worker(host, wanted, batch)
