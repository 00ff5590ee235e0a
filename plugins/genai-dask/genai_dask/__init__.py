"""Batches on a cluster: the executor `dask` runs rows on Dask workers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from attrs import field, frozen, validators

from genai_host.api import ExecutorType, about, hookimpl

if TYPE_CHECKING:  # slow to import
    from concurrent.futures import Executor


_ONE_OR_MORE = validators.ge(1)


@frozen
class Settings:
    address: str = field(
        default="",
        metadata=about(
            "address of the scheduler, for example tcp://10.0.0.1:8786; a local cluster if not set",
            env="GENAI_DASK_ADDRESS",
        ),
    )
    workers: int = field(
        default=2,
        validator=_ONE_OR_MORE,
        metadata=about("number of processes of a local cluster"),
    )
    threads: int = field(
        default=4,
        validator=_ONE_OR_MORE,
        metadata=about("number of concurrent rows per process"),
    )
    patience: float = field(
        default=30.0,
        validator=validators.gt(0),
        metadata=about("timeout of the cluster, in seconds"),
    )


__all__ = ["Settings"]


def _open(settings: Settings) -> Executor:
    from genai_dask.cluster import open_executor

    return open_executor(settings)


@hookimpl
def genai_executors() -> Iterable[ExecutorType[Any]]:
    yield ExecutorType("dask", Settings, _open)
