"""What a turn has used up, and what is to be told of it."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from genai_host.api import (
    Codec,
    Completion,
    Detail,
    Embed,
    Message,
    Moderate,
    Prompt,
    Step,
    Usage,
    Vectors,
)
from genai_host.details import detail_of
from genai_host.errors import GenaiError, LimitExceeded
from genai_host.record import Path


class Account:
    """Kept step by step, by several threads where several steps are done at once.

    history       messages that need not be told of
    round_trips   how often models may be called
    steps         how many steps there may be, of any kind
    usage         tokens used
    """

    def __init__(
        self, history: Iterable[Message], round_trips: int, steps: int, codec: Codec
    ) -> None:
        self.usage = Usage()
        self._max_round_trips = round_trips
        self._max_steps = steps
        self._codec = codec
        self._lock = threading.Lock()
        self._round_trips = 0
        self._steps = 0
        self._details: dict[Path, Detail] = {}
        # by identity, which holds as long as the messages are kept here
        self._kept = list(history)
        self._told = set(map(id, self._kept))
        self._new: list[Message] = []

    @property
    def details(self) -> list[Detail]:
        """What is to be told, in the order of the steps."""
        return [self._details[path] for path in sorted(self._details)]

    def count(self, step: Step[Any]) -> None:
        """A step is about to begin. Raises `LimitExceeded` if it may not."""
        self.count_past(step)
        if self._steps > self._max_steps:
            raise LimitExceeded(f"the turn took more than {self._max_steps} steps", limit="steps")
        if self._round_trips > self._max_round_trips:
            raise LimitExceeded(
                f"the turn may call models {self._max_round_trips} times", limit="round_trips"
            )

    def count_past(self, step: Step[Any]) -> None:
        """A step is on record: that it might was decided then."""
        with self._lock:
            self._steps += 1
            self._round_trips += isinstance(step, (Prompt, Embed, Moderate))

    def enter(self, step: Step[Any], path: Path, outcome: Any) -> Detail | None:
        """A step has ended, with a result or an error; what there is to tell of it."""
        error = outcome if isinstance(outcome, GenaiError) else None
        result = None if error else outcome
        new: list[Message] = []
        if isinstance(step, Prompt):
            told = self._told
            new = [message for message in step.messages if id(message) not in told]
        detail = detail_of(step, result, error, new, self._codec)
        with self._lock:
            self._new.extend(new)
            if isinstance(result, Completion):
                self._new.append(result.message)
            if isinstance(result, (Completion, Vectors)):
                self.usage += result.usage
            if detail is not None:
                self._details[path] = detail
        return detail

    def close(self) -> None:
        """All that was done at once has ended. Only now what was prompted counts as told,
        so that of prompts at once each is told as if alone, whichever ended first."""
        self._kept.extend(self._new)
        self._told.update(map(id, self._new))
        self._new.clear()
