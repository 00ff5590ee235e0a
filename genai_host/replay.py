"""A turn from its record: steps that are on record give their results again.

What a step does on replay is decided here: nothing if its result is on record,
itself if it never began, and if it began and nobody knows how it ended, itself
again only where it may run twice.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from genai_host.api import Codec, Completion, Step, Vectors
from genai_host.api.steps import CallFunction, Embed, NewId, Now, Prompt, Wait
from genai_host.digest import digest
from genai_host.errors import GenaiError, StepChanged, StepInterrupted
from genai_host.record import Entry, Path, Recorder, StepEnded, StepStarted

_RESULTS: dict[type[Step[Any]], Any] = {
    Prompt: Completion,
    Embed: Vectors,
    Now: str,
    NewId: str,
}


class Journal:
    """What a turn has on record, and where it is recorded as it goes on.

    turn       its number
    recorder   gets the entries of new steps
    past       entries of this turn that are on record already
    """

    def __init__(
        self, turn: int, recorder: Recorder, codec: Codec, past: Iterable[Entry] = ()
    ) -> None:
        self._turn = turn
        self._recorder = recorder
        self._codec = codec
        self._started: dict[Path, StepStarted] = {}
        self._ended: dict[Path, StepEnded] = {}
        for entry in past:
            if isinstance(entry, StepStarted):
                self._started[entry.path] = entry
            elif isinstance(entry, StepEnded):
                self._ended[entry.path] = entry

    def start(self, path: Path, step: Step[Any]) -> bool:
        """Put a step on record; True if it began before, and its end is unknown.

        Raises `StepChanged` if another step is on record there, `StepInterrupted`
        if it may not run again.
        """
        kind, mark = step.step, digest(step)
        before = self._started.get(path)
        if before is None:
            self._started[path] = started = StepStarted(self._turn, path, kind, mark)
            self._recorder.append(started)
            return False
        if (before.step, before.digest) != (kind, mark):
            raise StepChanged(
                f"step {'.'.join(map(str, path))} was {before.step} and is now "
                f"{'another ' if before.step == kind else ''}{kind}",
                hint="the feature changed: go on from the last turn that has ended",
            )
        if path not in self._ended and not step.repeatable():
            interrupted = StepInterrupted(
                f"{kind} was under way when the process ended, and may have been done"
            )
            self.end(path, error=interrupted)
            raise interrupted
        return path not in self._ended

    def waiting(self) -> Path | None:
        """The place of the `Wait` that has not ended, if there is one."""
        for path, started in self._started.items():
            if started.step == Wait.step and path not in self._ended:
                return path
        return None

    def past(self, path: Path) -> StepEnded | None:
        """How the step ended, if that is on record."""
        return self._ended.get(path)

    def result(self, step: Step[Any], ended: StepEnded) -> Any:
        """The result on record, as the object that it was; raises the error if it
        was one."""
        if ended.error is not None:
            raise copy.copy(ended.error)
        form = step.returns if isinstance(step, (CallFunction, Wait)) else _RESULTS.get(type(step))
        return ended.result if form is None else self._codec.from_json(ended.result, form)

    def end(self, path: Path, result: Any = None, error: GenaiError | None = None) -> StepEnded:
        """Put the end of a step on record, before anybody uses its result."""
        ended = StepEnded(self._turn, path, self._codec.to_json(result), error)
        self._ended[path] = ended
        self._recorder.append(ended)
        return ended
