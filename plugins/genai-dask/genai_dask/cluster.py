"""An executor on a cluster: one that is there, or one of this machine that lives as long as it.

open_executor → DaskExecutor (Dask's own, which closes what was opened for it)
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import dask
from distributed import Client, LocalCluster
from distributed.cfexecutor import ClientExecutor

from genai_dask.settings import Settings
from genai_host.errors import ConfigurationError, ServiceUnavailable

_LOG = logging.ERROR  # of what Dask says beside the progress of a batch
_IMPORT = "import genai_host.batch.work"


def open_executor(settings: Settings) -> DaskExecutor:
    """Raises `ServiceUnavailable` if there is no cluster at the address, or none can be
    started, and `ConfigurationError` if its workers have no genai-host."""
    with dask.config.set({"distributed.comm.timeouts.connect": settings.patience}):
        cluster = None if settings.address else _local(settings)
        try:
            client = _client(settings, cluster)
        except BaseException:
            if cluster is not None:
                cluster.close()
            raise
    executor = DaskExecutor(client, cluster)
    try:
        _must_have_host(client, settings)
    except BaseException:
        executor.shutdown(wait=False)
        raise
    return executor


class DaskExecutor(ClientExecutor):  # type: ignore[misc]  # Dask has no types
    """Its futures are those of `concurrent.futures`. What was done by a worker that has died is
    done again by another; what has made four of them die fails.

    Args:
        cluster: Of this machine, which is closed with it; None if it is somebody else's.
    """

    def __init__(self, client: Client, cluster: LocalCluster | None) -> None:
        # two rows that ask for the same are two all the same
        super().__init__(client, pure=False)
        self._cluster = cluster

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """What is under way is waited for, or cancelled; then the connection is closed."""
        if self._shutdown:
            return
        super().shutdown(wait and not cancel_futures)
        with _quiet():
            self._client.close(timeout=5)
            if self._cluster is not None:
                self._cluster.close(timeout=10)


def _local(settings: Settings) -> LocalCluster:
    """Processes of this machine, which other machines cannot reach."""
    try:
        return LocalCluster(
            n_workers=settings.workers,
            threads_per_worker=settings.threads,
            processes=True,
            host="127.0.0.1",
            # there is one in any case; at its usual port, there may be that of another batch
            dashboard_address="127.0.0.1:0",
            silence_logs=_LOG,
        )
    except (OSError, RuntimeError) as error:
        raise ServiceUnavailable(f"no Dask can be started here: {error}") from error


def _client(settings: Settings, cluster: LocalCluster | None) -> Client:
    try:
        return Client(
            settings.address if cluster is None else cluster,
            timeout=settings.patience,
            set_as_default=False,
        )
    except (OSError, ValueError) as error:
        raise ServiceUnavailable(
            f"there is no scheduler of Dask at {settings.address}",
            hint="dask scheduler starts one; address names it, as tcp://10.0.0.1:8786",
        ) from error


def _must_have_host(client: Client, settings: Settings) -> None:
    """One worker is asked; if there is none yet, rows wait until there is."""
    if not client.scheduler_info()["workers"]:
        return
    asked = client.submit(exec, _IMPORT, pure=False)
    try:
        asked.result(timeout=settings.patience)
    except ImportError as error:
        raise ConfigurationError(
            f"the workers of {client.scheduler.address} lack genai-host: {error}",
            hint="install it there, with the plugins that the batch needs",
        ) from error
    except TimeoutError as error:
        raise ServiceUnavailable(
            f"no worker of {client.scheduler.address} has answered",
            hint="they may be busy; patience says how many seconds to wait",
        ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What Dask logs as it ends is no news: that connections were closed."""
    logger = logging.getLogger("distributed")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
