"""A conversation restored from its event log: its state, and the results of past steps.

On replay, a step with a recorded result is not run: it gives that result again. A step that never
began is run. A step that began, but whose end is not recorded, is run again only if it is
repeatable; otherwise `StepInterrupted` is raised.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import evolve, frozen

from genai_host.api import (
    Answer,
    AvailableTool,
    CallFunction,
    CallTool,
    Codec,
    Completion,
    CountTokens,
    Embed,
    Embeddings,
    ListTools,
    Message,
    Moderate,
    ModerationResult,
    NewId,
    Now,
    Pause,
    Prompt,
    RouteInfo,
    Step,
    TokenCount,
    ToolOutput,
)
from genai_host.api.codec import json_round_trip
from genai_host.calls.retry import StepTrace
from genai_host.conversations.record import (
    SCHEMA,
    Changed,
    Entry,
    FailsafeRecorder,
    Opened,
    Path,
    Rewound,
    StepEnded,
    StepStarted,
    TurnEnded,
    TurnStarted,
    digest,
    old_digest,
)
from genai_host.errors import GenaiError, ReplayError, StepChanged, StepInterrupted, ValidationError


@frozen
class Mark:
    """A turn that can be taken back.

    Attributes:
        history: How many messages there were before it.
        state: The feature's state before it.
        started: What was said, and to whom.
    """

    history: int
    state: Any
    started: TurnStarted


class ConversationState:
    """What a record comes to: the conversation as its last entry left it. It is the same
    whether the entries are read from a record or happen now.

    Args:
        opened: How it began, with what was changed since.

    Attributes:
        history: Messages, oldest first.
        state: The feature's state.
        turns: How many turns there were.
        marks: The turns that can be taken back.
        failed: The turn that failed since the last of them, if one did.
        pending: The entries of a turn that has not ended; empty if there is none.
    """

    def __init__(self, opened: Opened) -> None:
        self.opened = opened
        self.state = opened.state
        self.turns = 0
        self.marks: list[Mark] = []
        self.failed: TurnStarted | None = None
        self.pending: list[Entry] = []
        self._messages = list(opened.history)
        self._history: tuple[Message, ...] | None = None

    @property
    def history(self) -> tuple[Message, ...]:
        if self._history is None:  # put together when it is asked for, and not by each turn
            self._history = tuple(self._messages)
        return self._history

    @property
    def last(self) -> TurnStarted | None:
        """The last turn that can be said again."""
        if self.failed is not None:
            return self.failed
        return self.marks[-1].started if self.marks else None

    def next(
        self,
        message: Message | None,
        version: str,
        *,
        context: Mapping[str, Any] | None = None,
        schema: Mapping[str, Any] | None = None,
        again: bool = False,
    ) -> TurnStarted:
        """The turn that is taken now; nothing of it has happened yet.

        Args:
            message: With `again`, None for that of the last turn.
            context: None for none, or for that of the message that is said again.
            again: In place of the last turn. One that failed left nothing to be replaced, unless it
                was to replace another itself: then in place of that.

        Raises:
            ValidationError: There is nothing to say.
        """
        last = self.last
        if again and last is None:
            raise ValidationError("no turn to send again")
        if message is None:
            if not again or last is None:
                raise ValidationError("no message", hint="give a message, or again=True")
            message = last.message
            context = last.context if context is None else context
        again = again and (self.failed is None or self.failed.again)
        seen = self.marks[-1].history if again else len(self._messages)
        return TurnStarted(self.turns, message, version, seen, context or {}, schema, again)

    def before(self, again: bool) -> tuple[tuple[Message, ...], Any]:
        """The history and the state that a turn begins with.

        Args:
            again: Whether it takes the place of the last.
        """
        if not again:
            return self.history, self.state
        mark = self.marks[-1]
        return self.history[: mark.history], mark.state

    def add(self, entry: Entry) -> None:
        """Raises `ReplayError` for what cannot come now."""
        if isinstance(entry, TurnStarted):
            self._start(entry)
        elif isinstance(entry, TurnEnded):
            self._end(entry)
        elif isinstance(entry, Rewound):
            self._rewind(entry)
        elif isinstance(entry, Changed):
            self.opened = evolve(
                self.opened,
                models=entry.models,
                parameters=entry.parameters,
                settings=entry.settings,
                tools=entry.tools,
                configured=entry.configured,
            )
        elif isinstance(entry, (StepStarted, StepEnded)):
            self._started()
            self.pending.append(entry)
        else:
            raise ReplayError("the record begins twice")

    def _start(self, entry: TurnStarted) -> None:
        if entry.again and not self.marks:
            raise ReplayError("the record has a turn in place of no turn")
        self.turns = entry.turn + 1
        self.pending = [entry]

    def _end(self, entry: TurnEnded) -> None:
        if not self.pending and entry.answer is None:
            return  # as only old records have it, of a write that was interrupted
        started = self._started()
        self.pending = []
        if entry.answer is None:
            self.failed = started
            return
        if started.again:
            mark = self.marks.pop()
            self._cut(mark.history)
            self.state = mark.state
        self.marks.append(Mark(len(self._messages), self.state, started))
        self._messages += added(entry.answer, started.message)
        self._history = None
        self.state = entry.answer.state
        self.failed = None

    def _rewind(self, entry: Rewound) -> None:
        self._cut(entry.history)
        self.state = entry.state
        del self.marks[entry.turns :]
        self.failed = None

    def _cut(self, messages: int) -> None:
        """Leave so many."""
        del self._messages[messages:]
        self._history = None

    def _started(self) -> TurnStarted:
        started = self.pending[0] if self.pending else None
        if not isinstance(started, TurnStarted):
            raise ReplayError("the record has steps of no turn")
        return started


def _not_begun() -> ReplayError:
    return ReplayError("the record does not say how the conversation began")


def replay(entries: Iterable[Entry]) -> ConversationState:
    """Raises `ReplayError` if the entries do not begin with `Opened`, are of a newer
    form, or make no conversation."""
    entries = tuple(entries)
    opened = entries[0] if entries else None
    if not isinstance(opened, Opened):
        raise _not_begun()
    if opened.schema > SCHEMA:
        raise ReplayError(f"the record has form {opened.schema}, this host knows {SCHEMA}")
    retold = ConversationState(opened)
    for entry in entries[1:]:
        retold.add(entry)
    return retold


MOST_TURNS = 10**9
_CALLS = {each.step for each in (Prompt, CountTokens, Embed, Moderate)}
"""Steps whose results say which route they came by."""


class _Checker:
    """Checks entries that were not written by this host, one after the other."""

    def __init__(self, opened: Opened, codec: Codec) -> None:
        self.state = replay([opened])
        self._codec = codec
        self._steps: dict[Path, str] = {}
        self._ended: set[Path] = set()

    def add(self, entry: Entry) -> None:
        """Raises `ReplayError` and `ValidationError`."""
        check = _CHECKS.get(type(entry))
        if check is not None:
            check(self, entry)
        self.state.add(entry)

    def _turn_started(self, entry: TurnStarted) -> None:
        if self.state.pending:
            raise ReplayError("a turn begins within another")
        if not self.state.turns <= entry.turn <= MOST_TURNS:
            raise ReplayError(f"the number of a turn is not from {self.state.turns} up")
        self._steps, self._ended = {}, set()

    def _of_turn(self, entry: StepStarted | StepEnded | TurnEnded) -> None:
        started = self.state.pending[0] if self.state.pending else None
        if not isinstance(started, TurnStarted) or started.turn != entry.turn:
            raise ReplayError(f"it is of {'another' if started else 'no'} turn")

    def _step_started(self, entry: StepStarted) -> None:
        self._of_turn(entry)
        if entry.path in self._steps:
            raise ReplayError("a step begins twice")
        self._steps[entry.path] = entry.step

    def _step_ended(self, entry: StepEnded) -> None:
        self._of_turn(entry)
        if entry.path not in self._steps:
            raise ReplayError("a step ends that has not begun")
        if entry.path in self._ended:
            raise ReplayError("a step ends twice")
        self._ended.add(entry.path)
        route = entry.result.get("route") if isinstance(entry.result, Mapping) else None
        if route is not None and self._steps[entry.path] in _CALLS:
            self._codec.from_json(route, RouteInfo)

    def _rewound(self, entry: Rewound) -> None:
        if self.state.pending:
            raise ReplayError("something is taken back within a turn")
        if not (
            0 <= entry.history <= len(self.state._messages)
            and 0 <= entry.turns <= len(self.state.marks)
        ):
            raise ReplayError("it takes back more than there is")


_CHECKS: Mapping[type[Entry], Callable[[_Checker, Any], None]] = {
    TurnStarted: _Checker._turn_started,
    StepStarted: _Checker._step_started,
    StepEnded: _Checker._step_ended,
    TurnEnded: _Checker._of_turn,
    Rewound: _Checker._rewound,
}


def check(entries: Iterable[Entry], codec: Codec) -> None:
    """Raises `ReplayError` for entries that no conversation writes, though `replay` may take them:
    for those that come from elsewhere."""
    first, *rest = tuple(entries) or (None,)
    if not isinstance(first, Opened):
        raise _not_begun()
    checker = _Checker(first, codec)
    for number, entry in enumerate(rest, 1):
        try:
            checker.add(entry)
        except (ReplayError, ValidationError) as error:
            raise ReplayError(f"entry {number}: {error}") from error


def added(answer: Answer, message: Message) -> tuple[Message, ...]:
    """What an answer adds to the history: what it says, else the message and itself."""
    if answer.adds is not None:
        return tuple(answer.adds)
    return (message, Message("assistant", answer.summary))


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


class Journal:
    """What a turn has on record, and where it is recorded as it goes on.

    Args:
        turn: Its number.
        recorder: Gets the entries of new steps; None for a conversation that is not recorded.
        past: Entries of this turn that are on record already.
    """

    def __init__(
        self,
        turn: int,
        recorder: FailsafeRecorder | None,
        codec: Codec,
        past: Iterable[Entry] = (),
    ) -> None:
        self._turn = turn
        self._recorder = recorder
        self._codec = codec
        self._started: dict[Path, StepStarted] = {}
        self._ended: dict[Path, StepEnded] = {}
        self._cut: set[Path] = set()
        self._waits: dict[Path, Pause[Any]] = {}
        self._given: dict[Path, Any] = {}
        for entry in past:
            if isinstance(entry, StepStarted):
                self._started[entry.path] = entry
                if entry.step == Pause.step:
                    asks = entry.asks
                    self._waits[entry.path] = Pause(asks.get("kind", ""), asks.get("payload"))
            elif isinstance(entry, StepEnded):  # the first of two, which only old records have
                self._ended.setdefault(entry.path, entry)

    def start(self, path: Path, step: Step[Any], repeatable: bool) -> None:
        """Put a step on record, unless it is there.

        Raises:
            StepChanged: Another step is on record there.
            StepInterrupted: It may not run again.
            TypeError: It cannot be put on record.
            NotRecorded: The store fails and it is not repeatable.
        """
        # without a record, a turn can only be gone on with by the feature that began it
        kind, mark = step.step, digest(step) if self._recorder is not None else ""
        asks = self._asked(step) if isinstance(step, Pause) else {}
        before = self._started.get(path)
        if before is None:
            started = StepStarted(self._turn, path, kind, mark, asks)
            self._append(started, required=not repeatable)
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

    def waiting(self) -> Pause[Any] | None:
        """The `Pause` that has not ended, if there is one. The class of its result is not
        on record: it is known once the turn has come there again."""
        waits = list(self._waits.items())  # another thread may look while the turn goes on
        return next((wait for path, wait in waits if path not in self._ended), None)

    def give(self, result: Any) -> None:
        """The result of the `Pause` that has not ended: kept until the turn has come there
        again, and put on record then."""
        for path in self._waits.keys() - self._ended.keys():
            self._given[path] = result

    def has_given(self, path: Path) -> bool:
        return path in self._given

    def take(self, path: Path, step: Pause[Any]) -> Any:
        """What was given, for once. Raises `ValidationError` if that is not what the step
        waits for."""
        return self.fitting(step, self._given.pop(path))

    def fitting(self, step: CallFunction[Any] | Pause[Any], result: Any) -> Any:
        """A result as it can be put on record. Raises `ValidationError` if it has no JSON
        form, or is not of the class that the step returns."""
        form = json_round_trip(result, self._codec)
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
        form = step.returns if isinstance(step, (CallFunction, Pause)) else _RESULTS.get(type(step))
        return ended.result if form is None else self._codec.from_json(ended.result, form)

    def end(
        self,
        path: Path,
        result: Any = None,
        error: GenaiError | None = None,
        trace: StepTrace | None = None,
        required: bool = False,
    ) -> StepEnded:
        """Put the end of a step on record, before anybody uses its result. Raises `NotRecorded` if
        that is required, and the store fails."""
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
            raise TypeError(f"what it shows to who is to decide: {error}") from error

    def _keep(self, path: Path, step: Step[Any]) -> None:
        if isinstance(step, Pause):
            self._waits[path] = step


def _is_digest(recorded: str, mark: str, step: Step[Any]) -> bool:
    """Whether a digest on record is that of the step, as it is made now or was made before."""
    return recorded == mark or bool(mark and recorded == old_digest(step))
