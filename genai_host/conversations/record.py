"""The event log of a conversation: its entries, and their JSON form.

A turn is a `TurnStarted`, then for each step a `StepStarted` before it begins and a `StepEnded`
before its result is used, then a `TurnEnded`. The conversation is restored from these entries
alone (see `replay`). Entries are only ever added.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from attrs import field, frozen

from genai_host.api import Answer, Codec, Message
from genai_host.api.codec import default_codec
from genai_host.calls.retry import Attempt
from genai_host.catalog.catalog import ModelChoice
from genai_host.errors import GenaiError, ValidationError

SCHEMA = 1

StepPath = tuple[int, ...]
"""Place of a step in its turn: its number, followed for a parallel step by its number among the
others."""


def new_tag() -> str:
    return os.urandom(4).hex()


@frozen
class Opened:
    """The first entry: the configuration of the conversation.

    Attributes:
        models: Model name by role.
        configured: By role, the model that a model configuration selected.
        parameters: Model parameters of the main role.
        settings: Settings of the feature, as given.
        schema: Version of the form of these entries.
        began: See `Turn`.
        tag: See `Turn`.
        tools: Names of the allowed tools; `git__*` matches a prefix. None for all.
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
    configured: Mapping[str, ModelChoice] = field(factory=dict)


@frozen
class TurnStarted:
    """A turn started.

    Attributes:
        history: Number of messages in the history.
        context: JSON from the client.
        schema: JSON Schema of `Answer.data`.
        again: Whether it replaces the previous turn, which stays if this one fails.
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
    """A step is about to start.

    Attributes:
        asks: Kind and payload of a `Pause`.
    """

    turn: int
    path: StepPath
    step: str
    digest: str
    asks: Mapping[str, Any] = field(factory=dict)


@frozen
class StepEnded:
    """A step has ended.

    Attributes:
        result: Result in JSON form.
        text: Text streamed before the failure, unless the error has it.
        tries: Failed attempts of its model call.
    """

    turn: int
    path: StepPath
    result: Any = None
    error: GenaiError | None = None
    text: str = ""
    tries: tuple[Attempt, ...] = ()


@frozen
class TurnEnded:
    """A turn has ended, with an answer or an error."""

    turn: int
    answer: Answer | None = None
    error: GenaiError | None = None


@frozen
class Rewound:
    """The last turns were undone.

    Attributes:
        history: Number of remaining messages.
        turns: Number of remaining turns that can be undone; the history does not show turns that
            added nothing.
    """

    history: int
    turns: int
    state: Any = None


@frozen
class Changed:
    """New models, parameters, settings and tools; they replace all previous ones."""

    models: Mapping[str, str]
    parameters: Mapping[str, Any] = field(factory=dict)
    settings: Mapping[str, Any] = field(factory=dict)
    tools: tuple[str, ...] | None = None
    configured: Mapping[str, ModelChoice] = field(factory=dict)


def models_on_record(chosen: Mapping[str, ModelChoice]) -> dict[str, Any]:
    """The models of the roles, for `Opened` and `Changed`."""
    return {
        "models": {role: each.model for role, each in chosen.items()},
        "configured": {role: each for role, each in chosen.items() if each.configuration},
    }


def models_in(entry: Opened | Changed) -> dict[str, ModelChoice]:
    return {
        role: entry.configured.get(role, ModelChoice(name)) for role, name in entry.models.items()
    }


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
    """Stores entries. An entry counts once `append` has returned."""

    def append(self, entry: Entry) -> None: ...


class InMemoryRecord:
    """An event log in memory."""

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
        codec = codec or default_codec()
        return [form_of(each, codec) for each in self._entries]

    @classmethod
    def from_json(
        cls, data: Iterable[Mapping[str, Any]], codec: Codec | None = None
    ) -> InMemoryRecord:
        """Read entries from JSON. Raises `ValidationError` if the data is not an event log."""
        codec = codec or default_codec()
        if isinstance(data, (str, Mapping)) or not isinstance(data, Iterable):
            raise ValidationError(f"an event log is a list of entries, not {type(data).__name__}")
        return cls(_entry(item, codec) for item in data)


def form_of(entry: Entry, codec: Codec) -> dict[str, Any]:
    """An entry as JSON, with its tag in `entry`."""
    if type(entry) is StepEnded and entry.error is None and not entry.tries:
        return _form_of_result(entry)
    if type(entry) is TurnEnded and entry.answer is not None and entry.error is None:
        answer = _form_of_answer(entry.answer, codec)
        return {"entry": _TAGS[TurnEnded], "turn": entry.turn, "answer": answer}
    return {"entry": _TAGS[type(entry)], **codec.to_json(entry)}


def _form_of_result(entry: StepEnded) -> dict[str, Any]:
    """A `StepEnded` without the codec, since its result is JSON already."""
    form = {"entry": _TAGS[StepEnded], "turn": entry.turn, "path": list(entry.path)}
    return form if entry.result is None else {**form, "result": entry.result}


def _form_of_answer(answer: Answer, codec: Codec) -> dict[str, Any]:
    """A `TurnEnded`; the data of details is JSON already."""
    form: dict[str, Any] = {"summary": answer.summary}
    if answer.details:
        form["details"] = [
            {"kind": each.kind, "title": each.title, **({"data": each.data} if each.data else {})}
            for each in answer.details
        ]
    for name in ("data", "new_messages", "state"):
        value = getattr(answer, name)
        if value is not None:
            form[name] = codec.to_json(value)
    for name in ("images", "citations"):
        if values := getattr(answer, name):
            form[name] = codec.to_json(values)
    for name in ("usage", "cost"):
        value = codec.to_json(getattr(answer, name))
        if value:
            form[name] = value
    return form


_OLD_FIELDS = {"adds": "new_messages", "pictures": "images"}


def answer_fields(form: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a recorded answer, with the current names."""
    return {_OLD_FIELDS.get(name, name): value for name, value in form.items()}


def _entry(item: object, codec: Codec) -> Entry:
    if not isinstance(item, Mapping):
        raise ValidationError(f"an entry is an object, not {type(item).__name__}")
    tag = item.get("entry")
    form = _FORMS.get(tag) if isinstance(tag, str) else None
    if form is None:
        raise ValidationError(f"unknown entry {tag!r}")
    fields = {name: value for name, value in item.items() if name != "entry"}
    if form is TurnEnded and isinstance(fields.get("answer"), Mapping):
        fields["answer"] = answer_fields(fields["answer"])
    entry: Entry = codec.from_json(fields, form)
    return entry
