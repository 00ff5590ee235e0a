"""Events, locks, threads and thread pools of turns and background jobs.

A simulation replaces these functions, so that it decides which thread runs next.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

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
