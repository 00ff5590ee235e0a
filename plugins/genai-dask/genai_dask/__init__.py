"""Batches on a cluster: the executor `dask` runs rows on Dask workers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from attrs import frozen, validators

from genai_host.api import ExecutorType, hookimpl, setting

if TYPE_CHECKING:  # slow to import
    from concurrent.futures import Executor


_ONE_OR_MORE = validators.ge(1)


@frozen
class Settings:
    address: str = setting(
        "",
        "address of the scheduler, for example tcp://10.0.0.1:8786; a local cluster if not set",
        env="GENAI_DASK_ADDRESS",
    )
    workers: int = setting(2, "number of processes of a local cluster", validator=_ONE_OR_MORE)
    threads: int = setting(4, "number of concurrent rows per process", validator=_ONE_OR_MORE)
    patience: float = setting(
        30.0, "timeout of the cluster, in seconds", validator=validators.gt(0)
    )


__all__ = ["Settings"]


def _open(settings: Settings) -> Executor:
    from genai_dask.cluster import open_executor

    return open_executor(settings)


@hookimpl
def genai_executors() -> Iterable[ExecutorType[Any]]:
    yield ExecutorType("dask", Settings, _open)
