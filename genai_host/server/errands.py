"""What threads want done in the loop: it is woken once for all that has come meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Any


class Errands:
    """Of one loop. May be used from any thread; once the loop has ended, nothing is done."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._is_due = False

    def put(self, function: Callable[..., None], *given: Any) -> None:
        """Have it called soon."""
        self.add(function, *given)
        self.wake()

    def add(self, function: Callable[..., None], *given: Any) -> None:
        """Have it called when the loop is next woken."""
        self._waiting.append((function, given))

    def wake(self) -> None:
        """Have done what was added, if it is not done yet."""
        if self._waiting and not self._is_due:
            self._is_due = True
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._do)

    def _do(self) -> None:
        self._is_due = False  # before it is counted: who comes after that wakes the loop anew
        try:
            for _ in range(len(self._waiting)):
                function, given = self._waiting.popleft()
                function(*given)
        finally:
            self.wake()  # if one of them failed
