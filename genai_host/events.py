"""What a listener hears while a turn is answered."""

from __future__ import annotations

from typing import Any, Literal

from attrs import frozen

from genai_host.api import Answer, Delta


@frozen
class Event:
    """One piece of news about a turn.

    delta      data is a `Delta`: a piece of an answer that is being written
    void       the pieces so far are void: their prompt is made again
    progress   data is a `Progress`: the feature tells how it goes
    step       data is a `Detail`: a step has ended
    waiting    data is a `Wait`: the turn pauses for a result from outside
    answer     data is the `Answer`; the last event of a turn
    """

    kind: Literal["delta", "void", "progress", "step", "waiting", "answer"]
    data: Any = None

    @property
    def text(self) -> str:
        """The text of a delta, empty for all else: printed one after the other, the
        events show the answer as it is written."""
        return self.data.text if isinstance(self.data, Delta) else ""

    @property
    def answer(self) -> Answer | None:
        return self.data if isinstance(self.data, Answer) else None
