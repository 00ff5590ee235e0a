"""The state of a conversation, restored from its event log; checks of event logs from outside.

`journal` has the results of the steps of a turn that has not ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import asdict, evolve, frozen

from genai_host.api import Answer, Codec, CountTokens, Embed, Message, Moderate, Prompt, RouteInfo
from genai_host.conversations.record import (
    SCHEMA,
    Changed,
    Entry,
    Opened,
    Rewound,
    StepEnded,
    StepPath,
    StepStarted,
    TurnEnded,
    TurnStarted,
)
from genai_host.errors import ReplayError, ValidationError


@frozen
class UndoPoint:
    """A turn that can be undone.

    Attributes:
        history: Number of messages before it.
        state: State of the feature before it.
    """

    history: int
    state: Any
    started: TurnStarted


class ConversationState:
    """State of a conversation as of its last entry, whether entries are read or added.

    Attributes:
        opened: First entry, with later changes applied.
        history: Messages, oldest first.
        marks: Turns that can be undone.
        failed: Failed turn after the last of them, if there is one.
        pending: Entries of an unfinished turn; empty if there is none.
    """

    def __init__(self, opened: Opened) -> None:
        self.opened = opened
        self.state = opened.state
        self.turns = 0
        self.marks: list[UndoPoint] = []
        self.failed: TurnStarted | None = None
        self.pending: list[Entry] = []
        self._messages = list(opened.history)
        self._history: tuple[Message, ...] | None = None

    @property
    def history(self) -> tuple[Message, ...]:
        if self._history is None:  # joined on demand, not in each turn
            self._history = tuple(self._messages)
        return self._history

    @property
    def last(self) -> TurnStarted | None:
        """The last turn that can be sent again."""
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
        """The entry of the next turn.

        Args:
            message: The user's message; with `again`, None for that of the last turn.
            version: Version of the feature.
            context: JSON from the client; None for none, or for that of the repeated message.
            schema: JSON Schema of `Answer.data`.
            again: Replace the last turn. A failed turn has nothing to replace, unless it replaced
                another one itself: then that one.

        Raises:
            ValidationError: There is no message.
        """
        last = self.last
        if again and last is None:
            raise ValidationError("no turn to send again")
        if message is None:
            if not again or last is None:
                raise ValidationError("no message", hint="pass a message, or regenerate=True")
            message = last.message
            context = last.context if context is None else context
        again = again and (self.failed is None or self.failed.again)
        seen = self.marks[-1].history if again else len(self._messages)
        return TurnStarted(self.turns, message, version, seen, context or {}, schema, again)

    def before(self, again: bool) -> tuple[tuple[Message, ...], Any]:
        """History and state at the start of a turn."""
        if not again:
            return self.history, self.state
        mark = self.marks[-1]
        return self.history[: mark.history], mark.state

    def add(self, entry: Entry) -> None:
        """Apply an entry. Raises `ReplayError` if the entry is not valid here."""
        if isinstance(entry, TurnStarted):
            self._start(entry)
        elif isinstance(entry, TurnEnded):
            self._end(entry)
        elif isinstance(entry, Rewound):
            self._rewind(entry)
        elif isinstance(entry, Changed):
            self.opened = evolve(self.opened, **asdict(entry, recurse=False))
        elif isinstance(entry, (StepStarted, StepEnded)):
            self._started()
            self.pending.append(entry)
        else:
            raise ReplayError("the event log begins twice")

    def _start(self, entry: TurnStarted) -> None:
        if entry.again and not self.marks:
            raise ReplayError("the event log replaces a turn that does not exist")
        self.turns = entry.turn + 1
        self.pending = [entry]

    def _end(self, entry: TurnEnded) -> None:
        if not self.pending and entry.answer is None:
            return  # only in old event logs, after an interrupted write
        started = self._started()
        self.pending = []
        if entry.answer is None:
            self.failed = started
            return
        if started.again:
            mark = self.marks.pop()
            self._cut(mark.history)
            self.state = mark.state
        self.marks.append(UndoPoint(len(self._messages), self.state, started))
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
        """Keep this number of turns."""
        del self._messages[messages:]
        self._history = None

    def _started(self) -> TurnStarted:
        started = self.pending[0] if self.pending else None
        if not isinstance(started, TurnStarted):
            raise ReplayError("the event log has steps outside of a turn")
        return started


def _not_begun() -> ReplayError:
    return ReplayError("the event log has no first entry")


def replay(entries: Iterable[Entry]) -> ConversationState:
    """Restore a conversation from its entries. Raises `ReplayError` if the entries do not begin
    with `Opened`, have a newer version, or are inconsistent."""
    entries = tuple(entries)
    opened = entries[0] if entries else None
    if not isinstance(opened, Opened):
        raise _not_begun()
    if opened.schema > SCHEMA:
        raise ReplayError(f"the event log has version {opened.schema}, not {SCHEMA} or earlier")
    state = ConversationState(opened)
    for entry in entries[1:]:
        state.add(entry)
    return state


MAX_TURNS = 10**9
_CALLS = {each.step for each in (Prompt, CountTokens, Embed, Moderate)}
"""Steps whose results contain a route."""


class _Checker:
    """Checks entries from outside, one after the other."""

    def __init__(self, opened: Opened, codec: Codec) -> None:
        self.state = replay([opened])
        self._codec = codec
        self._steps: dict[StepPath, str] = {}
        self._ended: set[StepPath] = set()

    def add(self, entry: Entry) -> None:
        """Check and apply an entry. Raises `ReplayError` and `ValidationError`."""
        check = _CHECKS.get(type(entry))
        if check is not None:
            check(self, entry)
        self.state.add(entry)

    def _turn_started(self, entry: TurnStarted) -> None:
        if self.state.pending:
            raise ReplayError("a turn begins within another")
        if not self.state.turns <= entry.turn <= MAX_TURNS:
            raise ReplayError(f"the number of a turn is less than {self.state.turns}")
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
            raise ReplayError("turns are undone within a turn")
        if not (
            0 <= entry.history <= len(self.state._messages)
            and 0 <= entry.turns <= len(self.state.marks)
        ):
            raise ReplayError("more turns are undone than recorded")


_CHECKS: Mapping[type[Entry], Callable[[_Checker, Any], None]] = {
    TurnStarted: _Checker._turn_started,
    StepStarted: _Checker._step_started,
    StepEnded: _Checker._step_ended,
    TurnEnded: _Checker._of_turn,
    Rewound: _Checker._rewound,
}


def check(entries: Iterable[Entry], codec: Codec) -> None:
    """Check entries from outside, more strictly than `replay`. Raises `ReplayError` if no
    conversation writes such entries."""
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
    """Messages that an answer adds to the history: `Answer.new_messages`, or the message and the
    summary."""
    if answer.new_messages is not None:
        return tuple(answer.new_messages)
    return (message, answer.message)
