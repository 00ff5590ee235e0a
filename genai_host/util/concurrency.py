"""Events, locks, threads and thread pools of turns and background jobs.

A simulation replaces these functions, so that it decides which thread runs next.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

if TYPE_CHECKING:  # most turns need no pool, and it takes long to import
    from concurrent.futures import ThreadPoolExecutor


def new_event() -> threading.Event:
    """Make an event that is not set."""
    return threading.Event()


def new_lock() -> threading.Lock:
    """Make a lock that may be held during a write to the store."""
    return threading.Lock()


def new_thread(name: str, work: Callable[..., object], *arguments: Any) -> threading.Thread:
    """Make a daemon thread, which the caller starts."""
    return threading.Thread(target=work, args=arguments, name=name, daemon=True)


def join_all(threads: Iterable[threading.Thread], seconds: float, now: Callable[[], float]) -> None:
    """Wait at most some seconds for all threads to end. `now` returns seconds of a monotonic
    clock."""
    until = now() + seconds
    for thread in threads:
        thread.join(max(0.0, until - now()))


def new_pool(name: str, workers: int) -> ThreadPoolExecutor:
    """Make a pool of at most `workers` threads."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(workers, name)


T = TypeVar("T")


class lazy_property(Generic[T]):  # noqa: N801 - used as a decorator
    """A property that is computed once, on first use, also with concurrent threads: decorator for a
    method of a class whose instances have a reentrant `_lock`. `functools.cached_property` computes
    it once per thread."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy_property[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: Any, owner: type) -> lazy_property[T] | T:
        if instance is None:
            return self
        with instance._lock:
            if self._name not in vars(instance):
                # stored under the same name, it is found without this descriptor from now on
                vars(instance)[self._name] = self._make(instance)
            made: T = vars(instance)[self._name]
            return made
