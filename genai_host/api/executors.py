"""Executors: where the rows of a batch are done."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from attrs import field, frozen

from genai_host.api.settings import SETTINGS
from genai_host.api.validators import CALLABLE, TEXT

if TYPE_CHECKING:  # it brings threads and logging
    from concurrent.futures import Executor

S = TypeVar("S")


@frozen
class ExecutorType(Generic[S]):
    """What a plugin registers to have batches done somewhere else, as on a cluster.

        ExecutorType("dask", Settings, lambda settings: Client(settings.address).get_executor())

    name       unique among all plugins; `[a-z0-9-]+`
    settings   attrs class of its settings; see `genai_host.api.settings`
    open       gives an executor of the standard library's kind (`concurrent.futures`). What is
               submitted to it can be pickled and is safe to be done again where the process
               that did it is gone; it is done in processes that have the host installed, and
               a configuration of their own. It may raise `GenaiError`
    """

    name: str = field(validator=TEXT)
    settings: type[S] = field(validator=SETTINGS)
    open: Callable[[S], Executor] = field(validator=CALLABLE)
