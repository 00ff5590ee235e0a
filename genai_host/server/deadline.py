"""The time that something in a loop may take, as `asyncio.timeout` of Python 3.11 has it, and
without a task of its own, as `asyncio.wait_for` has before."""

from __future__ import annotations

import asyncio
from typing import Any


class Deadline:
    """Ends what is done while it is entered, by `TimeoutError`, once the seconds are over."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._is_over = False

    def __enter__(self) -> None:
        self._task: Any = asyncio.current_task()
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._end)

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        self._timer.cancel()
        if self._is_over and kind is asyncio.CancelledError:
            if hasattr(self._task, "uncancel"):  # from Python 3.11 on
                self._task.uncancel()
            raise TimeoutError

    def _end(self) -> None:
        self._is_over = True
        self._task.cancel()
