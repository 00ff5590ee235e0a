"""How many requests are answered at once, how many wait, and how many a user may send."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, deque

from genai_host.api import Problem
from genai_host.server.heads import Refused

_KNOWN = 10_000  # users and addresses whose rate is remembered
_RETRY = 1.0  # seconds after which there may be room


class Admission:
    """Places for requests under way, in the order in which they came. Of one loop."""

    def __init__(self, at_once: int, waiting: int) -> None:
        self._free = at_once
        self._most_waiting = waiting
        self._waiting: deque[asyncio.Future[None]] = deque()

    def enter(self) -> asyncio.Future[None] | None:
        """Take a place: None if there is one, else what is done once it is there. It is
        given back by `leave`. Raises `Refused` where too many wait."""
        if self._free:
            self._free -= 1
            return None
        if len(self._waiting) >= self._most_waiting:
            raise Refused(
                Problem(
                    429,
                    "overloaded",
                    "the server answers as many requests as it may at once",
                    retry_after=_RETRY,
                )
            )
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        return turn

    def give_up(self, turn: asyncio.Future[None]) -> None:
        """Wait for it no longer."""
        if turn.done() and not turn.cancelled() and turn.exception() is None:
            self.leave()  # it was its turn, and nobody took it
        elif turn in self._waiting:
            self._waiting.remove(turn)

    def leave(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class Allowance:
    """So many requests a minute for each of those who ask: what is not used is kept, up to
    those of a minute."""

    def __init__(self, a_minute: int | None) -> None:
        self._most = a_minute
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, who: str, now: float) -> None:
        """One of them. Raises `Refused` where there is none left.

        now   seconds, of any clock that only goes on
        """
        if self._most is None:
            return
        left, then = self._left.pop(who, (float(self._most), now))
        left = min(self._most, left + (now - then) * self._most / 60)
        self._left[who] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > _KNOWN:
            self._left.popitem(last=False)
        if left < 1:
            raise Refused(
                Problem(
                    429,
                    "rate_limited",
                    f"at most {self._most} requests a minute are answered",
                    retry_after=math.ceil((1 - left) * 60 / self._most),
                )
            )


class Room:
    """Bytes of all bodies that are held at once.

    left   how many more may be held
    """

    def __init__(self, most: int) -> None:
        self.left = most

    def take(self, size: int) -> None:
        """Raises `Refused` where there is not so much."""
        if size > self.left:
            raise Refused(
                Problem(
                    429,
                    "overloaded",
                    "the server has no room for so much at once",
                    retry_after=_RETRY,
                )
            )
        self.left -= size

    def give_back(self, size: int) -> None:
        self.left += size
