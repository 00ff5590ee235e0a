"""The record of a conversation: what happened, entry by entry, in JSON form.

A turn is a `TurnStarted`, then for each step a `StepStarted` before it begins and a
`StepEnded` before its result is used, then a `TurnEnded`. From that alone the
conversation is made again; see `replay`. Entries are only ever added.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from attrs import evolve, field, frozen

from genai_host.api import Answer, Codec, Message
from genai_host.errors import GenaiError, InvalidData, ReplayError

SCHEMA = 1

Path = tuple[int, ...]
"""The place of a step in its turn: its number, and for one that is done at once
with others, its number among them."""


@frozen
class Opened:
    """The first entry: what the conversation is made of.

    models       role to the name of a route's model, as `resolution` reads it
    parameters   model parameters of the main role
    settings     settings of the feature, as they were given
    history      messages that it began with
    state        the feature's state that it began with
    schema       version of the form of these entries
    """

    feature: str
    version: str
    models: Mapping[str, str]
    parameters: Mapping[str, Any] = field(factory=dict)
    settings: Mapping[str, Any] = field(factory=dict)
    history: tuple[Message, ...] = ()
    state: Any = None
    schema: int = SCHEMA


@frozen
class TurnStarted:
    """Somebody said something.

    version   of the feature that answers
    history   how many messages it saw
    schema    what `Answer.data` must satisfy
    """

    turn: int
    message: Message
    version: str
    history: int
    context: Mapping[str, Any] = field(factory=dict)
    schema: Mapping[str, Any] | None = None


@frozen
class StepStarted:
    """A step is about to begin: which one, by kind and digest."""

    turn: int
    path: Path
    step: str
    digest: str


@frozen
class StepEnded:
    """A step has ended: its result in JSON form, or its error."""

    turn: int
    path: Path
    result: Any = None
    error: GenaiError | None = None


@frozen
class TurnEnded:
    """The turn was answered, or failed."""

    turn: int
    answer: Answer | None = None
    error: GenaiError | None = None


@frozen
class Rewound:
    """The last turns were taken back: so many messages are left."""

    history: int
    state: Any = None


@frozen
class Changed:
    """From here on other models, parameters or settings hold: all of them, anew."""

    models: Mapping[str, str]
    parameters: Mapping[str, Any] = field(factory=dict)
    settings: Mapping[str, Any] = field(factory=dict)


Entry = Opened | Changed | TurnStarted | StepStarted | StepEnded | TurnEnded | Rewound

_FORMS: Mapping[str, type[Any]] = {
    "opened": Opened,
    "changed": Changed,
    "turn_started": TurnStarted,
    "step_started": StepStarted,
    "step_ended": StepEnded,
    "turn_ended": TurnEnded,
    "rewound": Rewound,
}
_TAGS = {form: tag for tag, form in _FORMS.items()}


class Recorder(Protocol):
    """Where entries go. An entry counts as soon as `append` has returned."""

    def append(self, entry: Entry) -> None: ...


class Unrecorded:
    """Keeps nothing."""

    def append(self, entry: Entry) -> None:
        """The entry is gone."""


class Record:
    """A record in memory."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries = list(entries)
        self._lock = threading.Lock()

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._entries)

    def append(self, entry: Entry) -> None:
        with self._lock:
            self._entries.append(entry)

    def to_json(self, codec: Codec | None = None) -> list[dict[str, Any]]:
        """The entries as JSON, each tagged with `entry`."""
        codec = codec or Codec()
        return [{"entry": _TAGS[type(each)], **codec.to_json(each)} for each in self._entries]

    @classmethod
    def from_json(cls, data: Iterable[Mapping[str, Any]], codec: Codec | None = None) -> Record:
        """Raises `InvalidData` for what is no record."""
        codec = codec or Codec()
        entries = []
        for item in data:
            fields = dict(item)
            form = _FORMS.get(fields.pop("entry", ""))
            if form is None:
                raise InvalidData(f"unknown entry {item.get('entry')!r}")
            entries.append(codec.from_json(fields, form))
        return cls(entries)


@frozen
class Retold:
    """What a record comes to: the conversation as its last entry left it.

    opened    how it began, with what was changed since
    history   messages, oldest first
    state     the feature's state
    turns     how many turns there were
    marks     for each turn that can be taken back, the length of the history and
              the state before it
    pending   the entries of a turn that has not ended; empty if there is none
    """

    opened: Opened
    history: tuple[Message, ...]
    state: Any
    turns: int
    marks: tuple[tuple[int, Any], ...]
    pending: tuple[Entry, ...]


def retell(entries: Iterable[Entry]) -> Retold:
    """Raises `ReplayError` if the entries do not begin with `Opened`, or are of a
    newer form."""
    entries = tuple(entries)
    opened = entries[0] if entries else None
    if not isinstance(opened, Opened):
        raise ReplayError("the record does not say how the conversation began")
    if opened.schema > SCHEMA:
        raise ReplayError(f"the record has form {opened.schema}, this host knows {SCHEMA}")
    history = list(opened.history)
    state = opened.state
    turns = 0
    marks: list[tuple[int, Any]] = []
    pending: list[Entry] = []
    for entry in entries[1:]:
        if isinstance(entry, Rewound):
            del history[entry.history :]
            state = entry.state
            marks = [mark for mark in marks if mark[0] < entry.history]
            continue
        if isinstance(entry, Changed):
            opened = evolve(
                opened,
                models=entry.models,
                parameters=entry.parameters,
                settings=entry.settings,
            )
            continue
        pending.append(entry)
        if isinstance(entry, TurnStarted):
            turns = entry.turn + 1
        if isinstance(entry, TurnEnded):
            started = pending[0]
            if entry.answer is not None and isinstance(started, TurnStarted):
                marks.append((len(history), state))
                history.extend(added(entry.answer, started.message))
                state = entry.answer.state
            pending.clear()
    return Retold(opened, tuple(history), state, turns, tuple(marks), tuple(pending))


def added(answer: Answer, message: Message) -> tuple[Message, ...]:
    """What an answer adds to the history: what it says, else the message and itself."""
    if answer.adds is not None:
        return tuple(answer.adds)
    return (message, Message("assistant", answer.summary))
