"""Batches on a cluster: the executor `dask` runs rows on Dask workers."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Executor
from typing import Any

from genai_dask.settings import Settings
from genai_host.api import ExecutorType, hookimpl

__all__ = ["Settings"]


def _open(settings: Settings) -> Executor:
    from genai_dask.cluster import open_executor

    return open_executor(settings)


@hookimpl
def genai_executors() -> Iterable[ExecutorType[Any]]:
    yield ExecutorType("dask", Settings, _open)
