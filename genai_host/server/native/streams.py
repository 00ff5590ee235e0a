"""A turn as server-sent events.

Source: HTML Living Standard, "Server-sent events".
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from itertools import chain, islice
from typing import Any

from genai_host.api import Codec, Delta, Limits, Problem
from genai_host.api.json_text import write_json
from genai_host.errors import GenaiError, TurnWaiting
from genai_host.events import Event
from genai_host.server.native.answers import answered, failed, waiting
from genai_host.server.native.live import Live
from genai_host.server.native.wanted import Turn

COMMENT = b": \n\n"
"""What clients skip."""


class TurnStream:
    """The body of a reply. The turn has begun when this is made, so that what is wrong with
    it is still a status; closing it cancels the turn.

    is_done   whether its end was told, and is no failure: what it says is on record
    """

    def __init__(self, turn: Turn, live: Live, limits: Limits, codec: Codec) -> None:
        self._turn = turn
        self._codec = codec
        self._open = ExitStack()
        self._failed: GenaiError | None = None
        self._first: tuple[Event, ...] = ()
        self.is_done = False
        self._open.enter_context(live.turn(turn.conversation, limits))
        try:
            self._events = turn.take()
            self._open.callback(self._events.close)
            self._first = tuple(islice(self._events, 1))
        except TurnWaiting as error:
            self._failed = error
        except BaseException as error:
            if not self._open.__exit__(type(error), error, error.__traceback__):
                raise
        self._pieces = self._written()

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces

    def close(self) -> None:
        self._pieces.close()
        self._open.close()

    def _written(self) -> Generator[bytes, None, None]:
        yield _event("turn", {"turn": self._turn.number})
        try:
            if self._failed is not None:
                raise self._failed
            for event in chain(self._first, self._events):
                if event.kind != "waiting":  # which is told once it is on record
                    yield self._event(event)
        except TurnWaiting:
            self.is_done = True
            yield _event("waiting", waiting(self._turn.conversation.waiting))
        except GenaiError as error:
            yield _event("error", _told(error))
        finally:
            self._open.close()

    def _event(self, event: Event) -> bytes:
        if isinstance(event.data, Delta):
            return _event("delta", self._codec.to_json(event.data))
        if event.answer is not None:
            why = self._turn.conversation.unrecorded
            row = answered(event.answer, self._codec, self._turn.number, why)
            self.is_done = True
            return _event("answer", row)
        return _event(event.kind, {} if event.data is None else self._codec.to_json(event.data))


def _told(error: GenaiError) -> dict[str, Any]:
    """An error, and after how many seconds it may be asked again: there is no header left that
    could say so."""
    seconds = Problem.of(error).retry_after
    return failed(error) | ({} if seconds is None else {"retry_after": math.ceil(seconds)})


def _event(name: str, data: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), write_json(data))
