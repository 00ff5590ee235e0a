"""A turn from its record: steps that are on record give their results again.

What a step does on replay is decided here: nothing if its result is on record,
itself if it never began, and if it began and nobody knows how it ended, itself
again only where it may run twice.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from genai_host.api import (
    CallFunction,
    CallTool,
    Codec,
    Completion,
    CountTokens,
    Embed,
    Moderate,
    NewId,
    Now,
    OfferedTool,
    OfferedTools,
    Prompt,
    Step,
    TokenCount,
    ToolOutput,
    Vectors,
    Verdict,
    Wait,
)
from genai_host.digest import digest, old_digest
from genai_host.errors import GenaiError, InvalidData, StepChanged, StepInterrupted
from genai_host.record import Entry, Path, Recorder, StepEnded, StepStarted, plain
from genai_host.tries import Trace

_RESULTS: dict[type[Step[Any]], Any] = {
    Prompt: Completion,
    CountTokens: TokenCount,
    Embed: Vectors,
    Moderate: Verdict,
    OfferedTools: tuple[OfferedTool, ...],
    CallTool: ToolOutput,
    Now: str,
    NewId: str,
}


class Journal:
    """What a turn has on record, and where it is recorded as it goes on.

    turn       its number
    recorder   gets the entries of new steps; None for a conversation that is not recorded
    past       entries of this turn that are on record already
    """

    def __init__(
        self, turn: int, recorder: Recorder | None, codec: Codec, past: Iterable[Entry] = ()
    ) -> None:
        self._turn = turn
        self._recorder = recorder
        self._codec = codec
        self._started: dict[Path, StepStarted] = {}
        self._ended: dict[Path, StepEnded] = {}
        self._cut: set[Path] = set()
        self._waits: dict[Path, Wait[Any]] = {}
        self._given: dict[Path, Any] = {}
        for entry in past:
            if isinstance(entry, StepStarted):
                self._started[entry.path] = entry
                if entry.step == Wait.step:
                    asks = entry.asks
                    self._waits[entry.path] = Wait(asks.get("kind", ""), asks.get("payload"))
            elif isinstance(entry, StepEnded):
                self._ended[entry.path] = entry

    def start(self, path: Path, step: Step[Any]) -> None:
        """Put a step on record, unless it is there.

        Raises `StepChanged` if another step is on record there, `StepInterrupted`
        if it may not run again, `TypeError` if it cannot be put on record.
        """
        # without a record, a turn can only be gone on with by the feature that began it
        kind, mark = step.step, digest(step) if self._recorder is not None else ""
        asks = self._asked(step) if isinstance(step, Wait) else {}
        before = self._started.get(path)
        if before is None:
            started = StepStarted(self._turn, path, kind, mark, asks)
            self._append(started)
            self._started[path] = started
            self._keep(path, step)
            return
        if before.step != kind or not _is_digest(before.digest, mark, step):
            raise StepChanged(
                f"step {'.'.join(map(str, path))} was {before.step} and is now "
                f"{'another ' if before.step == kind else ''}{kind}",
                hint="the feature changed: go on from the last turn that has ended",
            )
        self._keep(path, step)
        if path not in self._ended and not step.repeatable():
            interrupted = StepInterrupted(
                f"{kind} was under way when the process ended, and may have been done"
            )
            self.end(path, error=interrupted)
            raise interrupted
        if path not in self._ended:
            self._cut.add(path)

    def is_cut(self, path: Path) -> bool:
        """Whether a step began in an earlier life of the turn, and its end is unknown."""
        return path in self._cut

    def waiting(self) -> Wait[Any] | None:
        """The `Wait` that has not ended, if there is one. The class of its result is not
        on record: it is known once the turn has come there again."""
        waits = list(self._waits.items())  # another thread may look while the turn goes on
        return next((wait for path, wait in waits if path not in self._ended), None)

    def give(self, result: Any) -> None:
        """The result of the `Wait` that has not ended: kept until the turn has come there
        again, and put on record then."""
        for path in self._waits.keys() - self._ended.keys():
            self._given[path] = result

    def has_given(self, path: Path) -> bool:
        return path in self._given

    def take(self, path: Path, step: Wait[Any]) -> Any:
        """What was given, for once. Raises `InvalidData` if that is not what the step
        waits for."""
        return self.fitting(step, self._given.pop(path))

    def fitting(self, step: CallFunction[Any] | Wait[Any], result: Any) -> Any:
        """A result as it can be put on record. Raises `InvalidData` if it has no JSON
        form, or is not of the class that the step returns."""
        form = plain(result, self._codec)
        if step.returns is not None:
            self._codec.from_json(form, step.returns)
        return form

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

    def end(
        self,
        path: Path,
        result: Any = None,
        error: GenaiError | None = None,
        trace: Trace | None = None,
    ) -> StepEnded:
        """Put the end of a step on record, before anybody uses its result."""
        form = self._codec.to_json(result)
        if trace is None or not (trace.failed or error):
            ended = StepEnded(self._turn, path, form, error)
        else:
            text, tries = trace.text_before(error), tuple(trace.failed)
            ended = StepEnded(self._turn, path, form, error, text, tries)
        self._append(ended)
        self._ended[path] = ended
        return ended

    def _append(self, entry: Entry) -> None:
        if self._recorder is not None:
            self._recorder.append(entry)

    def _asked(self, step: Wait[Any]) -> dict[str, Any]:
        try:
            return {"kind": step.kind, "payload": plain(step.payload, self._codec)}
        except InvalidData as error:
            raise TypeError(f"what it shows to who is to decide: {error}") from error

    def _keep(self, path: Path, step: Step[Any]) -> None:
        if isinstance(step, Wait):
            self._waits[path] = step


def _is_digest(recorded: str, mark: str, step: Step[Any]) -> bool:
    """Whether a digest on record is that of the step, as it is made now or was made before."""
    return recorded == mark or bool(mark and recorded == old_digest(step))
