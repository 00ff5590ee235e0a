"""An executor on an existing cluster, or on a local one with the lifetime of the executor.

open_executor → DaskExecutor (Dask's own, which closes what was opened for it)
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import dask
from distributed import Client, LocalCluster
from distributed.cfexecutor import ClientExecutor
from distributed.comm import resolve_address

from genai_dask import Settings
from genai_host.errors import ConfigurationError, ServiceUnavailable

# Rows return their errors. What a local cluster logs as an error is that one of its processes has
# ended, which Ctrl-C makes all of them do.
_LOG = logging.CRITICAL
_LOG_OF_WORKERS = "distributed.nanny.pre-spawn-environ.DASK_LOGGING__DISTRIBUTED"
_IMPORT = "import genai_batch.work"


def open_executor(settings: Settings) -> DaskExecutor:
    """Connect to the configured cluster, or start a local one.

    Raises:
        ServiceUnavailable: The cluster is unreachable, or cannot be started.
        ConfigurationError: Its workers lack genai-batch.
    """
    configuration = {
        "distributed.comm.timeouts.connect": settings.patience,
        _LOG_OF_WORKERS: logging.getLevelName(_LOG),
    }
    with dask.config.set(configuration):
        cluster = None if settings.address else _local(settings)
        try:
            client = _client(settings, cluster)
        except BaseException:
            if cluster is not None:
                cluster.close()
            raise
    executor = DaskExecutor(client, cluster)
    try:
        _must_have_batch(client, settings)
    except BaseException:
        executor.shutdown(wait=False)
        raise
    return executor


class DaskExecutor(ClientExecutor):  # type: ignore[misc]  # Dask has no types
    """Executor with futures of `concurrent.futures`. Rows of a worker that has died run again on
    another one; a row fails after four such deaths.

    Args:
        cluster: Local cluster to close with the executor; None for an external one.
    """

    def __init__(self, client: Client, cluster: LocalCluster | None) -> None:
        # equal rows are separate tasks
        super().__init__(client, pure=False)
        self._cluster = cluster

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for the tasks in progress, or cancel them; then close the connection."""
        if self._shutdown:
            return
        super().shutdown(wait and not cancel_futures)
        with _quiet():
            self._client.close(timeout=5)
            if self._cluster is not None:
                self._cluster.close(timeout=10)


def _local(settings: Settings) -> LocalCluster:
    """Start a cluster of local processes, unreachable from other machines."""
    try:
        return LocalCluster(
            n_workers=settings.workers,
            threads_per_worker=settings.threads,
            processes=True,
            host="127.0.0.1",
            # it cannot be disabled; the default port can be in use by another batch
            dashboard_address="127.0.0.1:0",
            silence_logs=_LOG,
        )
    except (OSError, RuntimeError) as error:
        raise ServiceUnavailable(f"cannot start a local Dask cluster: {error}") from error


def _client(settings: Settings, cluster: LocalCluster | None) -> Client:
    try:
        if cluster is None:
            resolve_address(settings.address)  # a client prints a traceback for an invalid one
        return Client(
            settings.address if cluster is None else cluster,
            timeout=settings.patience,
            set_as_default=False,
        )
    except (OSError, ValueError) as error:
        raise ServiceUnavailable(
            f"no Dask scheduler at {settings.address}",
            hint="start one: dask scheduler; then set address, for example tcp://10.0.0.1:8786",
        ) from error


def _must_have_batch(client: Client, settings: Settings) -> None:
    """Check one worker for genai-batch; without a worker, rows wait for one."""
    if not client.scheduler_info()["workers"]:
        return
    asked = client.submit(exec, _IMPORT, pure=False)
    try:
        asked.result(timeout=settings.patience)
    except ImportError as error:
        raise ConfigurationError(
            f"the workers of {client.scheduler.address} lack genai-batch: {error}",
            hint="install it on the workers, with the other plugins of the batch",
        ) from error
    except TimeoutError as error:
        raise ServiceUnavailable(
            f"no worker of {client.scheduler.address} responded",
            hint="workers may be busy; raise the setting patience",
        ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress Dask's messages about closed connections at shutdown."""
    logger = logging.getLogger("distributed")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
