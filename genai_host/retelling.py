"""What a record comes to: entry by entry, the conversation as it is then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import evolve, frozen

from genai_host.api import Answer, Message
from genai_host.errors import InvalidData, ReplayError
from genai_host.record import (
    SCHEMA,
    Changed,
    Entry,
    Opened,
    Rewound,
    StepEnded,
    StepStarted,
    TurnEnded,
    TurnStarted,
)


@frozen
class Mark:
    """A turn that can be taken back.

    history   how many messages there were before it
    state     the feature's state before it
    started   what was said, and to whom
    """

    history: int
    state: Any
    started: TurnStarted


class Retold:
    """What a record comes to: the conversation as its last entry left it. It is the same
    whether the entries are read from a record or happen now.

    opened    how it began, with what was changed since
    history   messages, oldest first
    state     the feature's state
    turns     how many turns there were
    marks     the turns that can be taken back
    failed    the turn that failed since the last of them, if one did
    pending   the entries of a turn that has not ended; empty if there is none
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

        message   with `again`, None for that of the last turn
        context   None for none, or for that of the message that is said again
        again     in place of the last turn. One that failed left nothing to be replaced,
                  unless it was to replace another itself: then in place of that

        Raises `InvalidData` if there is nothing to say.
        """
        last = self.last
        if again and last is None:
            raise InvalidData("there is no turn that could be said again")
        if message is None:
            if not again or last is None:
                raise InvalidData("nothing is said", hint="give a message, or again=True")
            message = last.message
            context = last.context if context is None else context
        again = again and (self.failed is None or self.failed.again)
        seen = self.marks[-1].history if again else len(self._messages)
        return TurnStarted(self.turns, message, version, seen, context or {}, schema, again)

    def before(self, again: bool) -> tuple[tuple[Message, ...], Any]:
        """The history and the state that a turn begins with.

        again   whether it takes the place of the last
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


def retell(entries: Iterable[Entry]) -> Retold:
    """Raises `ReplayError` if the entries do not begin with `Opened`, are of a newer
    form, or make no conversation."""
    entries = tuple(entries)
    opened = entries[0] if entries else None
    if not isinstance(opened, Opened):
        raise ReplayError("the record does not say how the conversation began")
    if opened.schema > SCHEMA:
        raise ReplayError(f"the record has form {opened.schema}, this host knows {SCHEMA}")
    retold = Retold(opened)
    for entry in entries[1:]:
        retold.add(entry)
    return retold


def added(answer: Answer, message: Message) -> tuple[Message, ...]:
    """What an answer adds to the history: what it says, else the message and itself."""
    if answer.adds is not None:
        return tuple(answer.adds)
    return (message, Message("assistant", answer.summary))
