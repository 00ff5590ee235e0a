"""Clusters that the plugin starts, and clusters that it connects to."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from genai_dask import Settings

from genai_host.errors import ConfigurationError, ServiceUnavailable
from genai_host_testing.internal.servers import wait_until

if TYPE_CHECKING:
    from distributed import LocalCluster

pytestmark = pytest.mark.process


def open_executor(settings: Settings) -> Any:
    from genai_dask import cluster  # imports Dask, which other tests do without

    return cluster.open_executor(settings)


def level_of_worker() -> int:
    return logging.getLogger("distributed.worker").getEffectiveLevel()


def test_workers_of_a_local_cluster_do_not_log_that_connections_end() -> None:
    """An interrupt ends all processes, and who ends last logged the traceback of a heartbeat."""
    with open_executor(Settings(workers=1, threads=1)) as executor:
        assert executor.submit(level_of_worker).result(60) == logging.CRITICAL


@contextmanager
def cluster(workers: int) -> Iterator[LocalCluster]:
    """A scheduler with workers, all in this process."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=False,
        protocol="tcp://",
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",  # None is the default port, which can be in use
    ) as started:
        yield started


def test_an_executor_leaves_an_external_cluster_open() -> None:
    with cluster(1) as external:
        for _ in range(2):
            with open_executor(Settings(address=external.scheduler_address)) as executor:
                assert executor.submit(abs, -1).result(60) == 1


def test_a_cluster_may_get_its_workers_later() -> None:
    with (
        cluster(0) as external,
        open_executor(Settings(address=external.scheduler_address)) as executor,
    ):
        row = executor.submit(abs, -1)
        external.scale(1)
        assert row.result(60) == 1


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "foo://127.0.0.1:1"])
def test_an_address_without_a_scheduler_is_an_error(address: str) -> None:
    with pytest.raises(ServiceUnavailable, match=f"^no Dask scheduler at {address}$"):
        open_executor(Settings(address=address, patience=1.0))


def test_an_invalid_address_leaves_no_client_that_prints_a_traceback_at_exit() -> None:
    program = """
from genai_dask import Settings
from genai_dask.cluster import open_executor
try:
    open_executor(Settings(address="127.0.0.1"))
except Exception as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("no Dask scheduler at 127.0.0.1\n", "")


def test_workers_without_genai_batch_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster(1) as external:
        monkeypatch.setitem(sys.modules, "genai_batch.work", None)
        with pytest.raises(ConfigurationError, match=r"^the workers of .* lack genai-batch: "):
            open_executor(Settings(address=external.scheduler_address))


def test_workers_that_do_not_respond_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    import dask
    from distributed import Client
    from genai_dask import cluster as tested

    def connected(*arguments: Any, timeout: float, **more: Any) -> Client:
        with dask.config.set({"distributed.comm.timeouts.connect": 60}):
            return Client(*arguments, timeout=60, **more)

    monkeypatch.setattr(tested, "Client", connected)
    end, write_end = os.pipe()
    with cluster(1) as external, external.get_client() as client:
        running = client.submit(os.read, end, 1, pure=False)
        wait_until(lambda: any(client.processing().values()))
        with pytest.raises(ServiceUnavailable, match=r"^no worker of tcp://.* responded$"):
            open_executor(Settings(address=external.scheduler_address, patience=0.5))
        os.write(write_end, b"x")
        assert running.result(60) == b"x"
    os.close(end)
    os.close(write_end)


def test_local_cluster_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    from genai_dask import cluster

    monkeypatch.setattr(cluster, "LocalCluster", Mock(side_effect=OSError("no more processes")))
    with pytest.raises(ServiceUnavailable, match="cannot start a local Dask cluster: no more"):
        open_executor(Settings())


def test_a_local_cluster_is_closed_if_it_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    from genai_dask import cluster

    local = Mock()
    monkeypatch.setattr(cluster, "LocalCluster", lambda **_: local)
    monkeypatch.setattr(cluster, "Client", Mock(side_effect=OSError))
    with pytest.raises(ServiceUnavailable):
        open_executor(Settings())
    local.close.assert_called_once_with()
