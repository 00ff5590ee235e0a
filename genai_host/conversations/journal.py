"""The recorded steps of one turn: their results on replay, and the recording of new ones.

On replay, a step with a recorded result is not run: its result is reused. A step that never
started is run. A step that began, but whose end is not recorded, is run again only if it is
idempotent; otherwise `StepInterrupted` is raised.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from attrs import evolve

from genai_host.api import (
    AvailableTool,
    CallFunction,
    CallTool,
    Codec,
    Completion,
    CountTokens,
    Embed,
    Embeddings,
    ListTools,
    Moderate,
    ModerationResult,
    NewId,
    Now,
    Pause,
    Prompt,
    Step,
    TokenCount,
    ToolOutput,
)
from genai_host.api.codec import json_round_trip
from genai_host.calls.retry import StepTrace
from genai_host.conversations.digests import digest, old_digest
from genai_host.conversations.record import Entry, StepEnded, StepPath, StepStarted
from genai_host.conversations.recorder import FailsafeRecorder
from genai_host.errors import GenaiError, StepChanged, StepInterrupted, ValidationError

_RESULTS: dict[type[Step[Any]], Any] = {
    Prompt: Completion,
    CountTokens: TokenCount,
    Embed: Embeddings,
    Moderate: ModerationResult,
    ListTools: tuple[AvailableTool, ...],
    CallTool: ToolOutput,
    Now: str,
    NewId: str,
}


class TurnJournal:
    """The recorded entries of a turn, and the recorder of new ones.

    Args:
        recorder: Stores new entries; None if the conversation is not recorded.
        past: Recorded entries of this turn.
        codec: Converts results to JSON.
    """

    def __init__(
        self, turn: int, recorder: FailsafeRecorder | None, codec: Codec, past: Iterable[Entry] = ()
    ) -> None:
        self._turn = turn
        self._recorder = recorder
        self._codec = codec
        self._started: dict[StepPath, StepStarted] = {}
        self._ended: dict[StepPath, StepEnded] = {}
        self._cut: set[StepPath] = set()
        self._pauses: dict[StepPath, Pause[Any]] = {}
        self._given: dict[StepPath, Any] = {}
        for entry in past:
            if isinstance(entry, StepStarted):
                self._started[entry.path] = entry
                if entry.step == Pause.step:
                    asks = entry.asks
                    self._pauses[entry.path] = Pause(asks.get("kind", ""), asks.get("payload"))
            elif isinstance(entry, StepEnded):  # the first of two, in old event logs only
                self._ended.setdefault(entry.path, entry)

    def start(self, path: StepPath, step: Step[Any], idempotent: bool) -> None:
        """Record the start of a step, unless it is recorded already.

        Raises:
            StepChanged: Another step is recorded there.
            StepInterrupted: The step must not run again.
            TypeError: The step cannot be recorded.
            NotRecorded: The store failed, and the step is not idempotent.
        """
        # without a recorder, only the feature that started a turn can resume it
        kind, mark = step.step, digest(_digested(step)) if self._recorder is not None else ""
        asks = self._asked(step) if isinstance(step, Pause) else {}
        before = self._started.get(path)
        if before is None:
            started = StepStarted(self._turn, path, kind, mark, asks)
            self._append(started, required=not idempotent)
            self._started[path] = started
            self._keep(path, step)
            return
        if before.step != kind or not _is_digest(before.digest, mark, step):
            raise StepChanged(
                f"step {'.'.join(map(str, path))} was {before.step} and is now "
                f"{'another ' if before.step == kind else ''}{kind}",
                hint="the feature changed: continue from the last complete turn",
            )
        self._keep(path, step)
        if path not in self._ended and not step.is_idempotent():
            interrupted = StepInterrupted(
                f"{kind} was running when the process ended, and may have completed"
            )
            self.end(path, error=interrupted)
            raise interrupted
        if path not in self._ended:
            self._cut.add(path)

    def is_cut(self, path: StepPath) -> bool:
        """Whether a step started before the turn was interrupted, and its outcome is unknown."""
        return path in self._cut

    def current_pause(self) -> Pause[Any] | None:
        """The unfinished `Pause`, if there is one. The class of its result is unknown until the
        turn reaches it again."""
        pauses = list(self._pauses.items())  # another thread may read while the turn runs
        return next((pause for path, pause in pauses if path not in self._ended), None)

    def give(self, result: Any) -> None:
        """Set the result of the unfinished `Pause`; it is recorded when the turn reaches
        it again."""
        for path in self._pauses.keys() - self._ended.keys():
            self._given[path] = result

    def has_given(self, path: StepPath) -> bool:
        return path in self._given

    def take(self, path: StepPath, step: Pause[Any]) -> Any:
        """The result that was set, once. Raises `ValidationError` if it does not match the step."""
        return self.fitting(step, self._given.pop(path))

    def fitting(self, step: CallFunction[Any] | Pause[Any], result: Any) -> Any:
        """A result in its recorded form. Raises `ValidationError` if it has no JSON form or another
        class than the step returns."""
        form = json_round_trip(result, self._codec)
        if step.returns is not None:
            self._codec.from_json(form, step.returns)
        return form

    def past(self, path: StepPath) -> StepEnded | None:
        return self._ended.get(path)

    def result(self, step: Step[Any], ended: StepEnded) -> Any:
        """The recorded result as an object; raises a recorded error."""
        if ended.error is not None:
            raise copy.copy(ended.error)
        form = step.returns if isinstance(step, (CallFunction, Pause)) else _RESULTS.get(type(step))
        return ended.result if form is None else self._codec.from_json(ended.result, form)

    def end(
        self,
        path: StepPath,
        result: Any = None,
        error: GenaiError | None = None,
        trace: StepTrace | None = None,
        required: bool = False,
    ) -> StepEnded:
        """Record the end of a step, before its result is used. Raises `NotRecorded` if it is
        required, and the store failed."""
        form = self._codec.to_json(result)
        if trace is None or not (trace.failed or error):
            ended = StepEnded(self._turn, path, form, error)
        else:
            text, tries = trace.text_before(error), tuple(trace.failed)
            ended = StepEnded(self._turn, path, form, error, text, tries)
        self._append(ended, required)
        self._ended[path] = ended
        return ended

    def _append(self, entry: Entry, required: bool) -> None:
        if self._recorder is not None:
            self._recorder.append(entry, required=required)

    def _asked(self, step: Pause[Any]) -> dict[str, Any]:
        try:
            return {"kind": step.kind, "payload": json_round_trip(step.payload, self._codec)}
        except ValidationError as error:
            raise TypeError(f"payload: {error}") from error

    def _keep(self, path: StepPath, step: Step[Any]) -> None:
        if isinstance(step, Pause):
            self._pauses[path] = step


def _digested(step: Step[Any]) -> Step[Any]:
    """What of a step is digested: of a pause, what it asks, not the class of its result."""
    return evolve(step, returns=None) if isinstance(step, Pause) else step


def _is_digest(recorded: str, mark: str, step: Step[Any]) -> bool:
    """Whether a recorded digest is that of a step, in the current or an earlier form."""
    if recorded == mark or not mark:
        return recorded == mark
    return recorded in (old_digest(_digested(step)), digest(step), old_digest(step))
