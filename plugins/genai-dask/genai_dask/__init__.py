"""Batches on a cluster: the executor `dask` runs rows on Dask workers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from genai_dask.settings import Settings
from genai_host.api import ExecutorType, hookimpl

if TYPE_CHECKING:  # slow to import
    from concurrent.futures import Executor

__all__ = ["Settings"]


def _open(settings: Settings) -> Executor:
    from genai_dask.cluster import open_executor

    return open_executor(settings)


@hookimpl
def genai_executors() -> Iterable[ExecutorType[Any]]:
    yield ExecutorType("dask", Settings, _open)
