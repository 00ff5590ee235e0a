"""The record of a conversation: what happened, entry by entry, in JSON form.

A turn is a `TurnStarted`, then for each step a `StepStarted` before it begins and a
`StepEnded` before its result is used, then a `TurnEnded`. From that alone the
conversation is made again; see `replay`. Entries are only ever added.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from attrs import field, frozen

from genai_host.api import Answer, Codec, Message
from genai_host.api.json_text import read_json, write_json
from genai_host.errors import GenaiError, InvalidData
from genai_host.telling import said
from genai_host.tries import Try

SCHEMA = 1

Path = tuple[int, ...]
"""The place of a step in its turn: its number, and for one that is done at once
with others, its number among them."""


def new_tag() -> str:
    """See `Turn.tag`."""
    return os.urandom(4).hex()


@frozen
class Opened:
    """The first entry: what the conversation is made of.

    models       role to the name of a route's model, as `resolution` reads it
    parameters   model parameters of the main role
    settings     settings of the feature, as they were given
    history      messages that it began with
    state        the feature's state that it began with
    schema       version of the form of these entries
    began, tag   see `Turn`
    tools        the only ones that may be used: names, or beginnings of names as `git__*`;
                 None for all
    """

    feature: str
    version: str
    models: Mapping[str, str]
    parameters: Mapping[str, Any] = field(factory=dict)
    settings: Mapping[str, Any] = field(factory=dict)
    history: tuple[Message, ...] = ()
    state: Any = None
    schema: int = SCHEMA
    began: str = ""
    tag: str = ""
    tools: tuple[str, ...] | None = None


@frozen
class TurnStarted:
    """Somebody said something.

    version   of the feature that answers
    history   how many messages it saw
    schema    what `Answer.data` must satisfy
    again     whether it stands in for the turn before, which is taken back when this
              one is answered, and stays if it is not
    """

    turn: int
    message: Message
    version: str
    history: int
    context: Mapping[str, Any] = field(factory=dict)
    schema: Mapping[str, Any] | None = None
    again: bool = False


@frozen
class StepStarted:
    """A step is about to begin: which one, by kind and digest.

    asks   what a `Wait` waits for, its kind and payload, for whoever is to decide
    """

    turn: int
    path: Path
    step: str
    digest: str
    asks: Mapping[str, Any] = field(factory=dict)


@frozen
class StepEnded:
    """A step has ended: its result in JSON form, or its error.

    text    what had been shown of an answer when it failed, unless the error has it
    tries   the calls of models for it that failed; the one that did not is in the result
    """

    turn: int
    path: Path
    result: Any = None
    error: GenaiError | None = None
    text: str = ""
    tries: tuple[Try, ...] = ()


@frozen
class TurnEnded:
    """The turn was answered, or failed."""

    turn: int
    answer: Answer | None = None
    error: GenaiError | None = None


@frozen
class Rewound:
    """The last turns were taken back.

    history   how many messages are left
    turns     how many turns are left that can be taken back: those that added nothing
              cannot be told from the history
    """

    history: int
    turns: int
    state: Any = None


@frozen
class Changed:
    """From here on other models, parameters, settings or tools hold: all of them, anew."""

    models: Mapping[str, str]
    parameters: Mapping[str, Any] = field(factory=dict)
    settings: Mapping[str, Any] = field(factory=dict)
    tools: tuple[str, ...] | None = None


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
        return [form_of(each, codec) for each in self._entries]

    @classmethod
    def from_json(cls, data: Iterable[Mapping[str, Any]], codec: Codec | None = None) -> Record:
        """Raises `InvalidData` for what is no record."""
        codec = codec or Codec()
        if isinstance(data, (str, Mapping)) or not isinstance(data, Iterable):
            raise InvalidData(f"a record is a list of entries, not {type(data).__name__}")
        return cls(_entry(item, codec) for item in data)


def form_of(entry: Entry, codec: Codec) -> dict[str, Any]:
    """An entry as JSON, tagged with `entry`."""
    if type(entry) is StepEnded and entry.error is None and not entry.tries:
        return _form_of_result(entry)
    if type(entry) is TurnEnded and entry.answer is not None and entry.error is None:
        answer = _form_of_answer(entry.answer, codec)
        return {"entry": _TAGS[TurnEnded], "turn": entry.turn, "answer": answer}
    return {"entry": _TAGS[type(entry)], **codec.to_json(entry)}


def _form_of_result(entry: StepEnded) -> dict[str, Any]:
    """Without the codec: its result is JSON already."""
    form = {"entry": _TAGS[StepEnded], "turn": entry.turn, "path": list(entry.path)}
    return form if entry.result is None else {**form, "result": entry.result}


def _form_of_answer(answer: Answer, codec: Codec) -> dict[str, Any]:
    """As the codec has it, but for what is JSON already: the data of details."""
    form: dict[str, Any] = {"summary": answer.summary}
    if answer.details:
        form["details"] = [
            {"kind": each.kind, "title": each.title, **({"data": each.data} if each.data else {})}
            for each in answer.details
        ]
    for name in ("data", "adds", "state"):
        value = getattr(answer, name)
        if value is not None:
            form[name] = codec.to_json(value)
    if answer.pictures:
        form["pictures"] = codec.to_json(answer.pictures)
    for name in ("usage", "cost"):
        value = codec.to_json(getattr(answer, name))
        if value:
            form[name] = value
    return form


def _entry(item: object, codec: Codec) -> Entry:
    if not isinstance(item, Mapping):
        raise InvalidData(f"an entry is an object, not {type(item).__name__}")
    tag = item.get("entry")
    form = _FORMS.get(tag) if isinstance(tag, str) else None
    if form is None:
        raise InvalidData(f"unknown entry {tag!r}")
    fields = {name: value for name, value in item.items() if name != "entry"}
    entry: Entry = codec.from_json(fields, form)
    return entry


def plain(value: Any, codec: Codec) -> Any:
    """A value as it will be when it is read from a record. Raises `InvalidData` if it
    has no JSON form."""
    try:
        return read_json(write_json(codec.to_json(value)))
    except Exception as error:  # whatever a class raises that is asked for its form
        raise InvalidData(said(error)) from error
