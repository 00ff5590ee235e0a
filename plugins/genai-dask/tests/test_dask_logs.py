"""What Dask writes to the standard error of a batch."""

from __future__ import annotations

import logging

import pytest
from genai_dask import Settings

pytestmark = pytest.mark.process


def level_of_worker() -> int:
    return logging.getLogger("distributed.worker").getEffectiveLevel()


def test_workers_of_a_local_cluster_do_not_log_that_connections_end() -> None:
    """An interrupt ends all processes, and who ends last logged the traceback of a heartbeat."""
    from genai_dask.cluster import open_executor  # imports Dask, which other tests do without

    with open_executor(Settings(workers=1, threads=1)) as executor:
        assert executor.submit(level_of_worker).result(60) == logging.CRITICAL
