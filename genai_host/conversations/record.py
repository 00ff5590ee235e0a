"""The event log of a conversation: entries, digests of steps, and a recorder that may fail.

A turn is a `TurnStarted`, then for each step a `StepStarted` before it begins and a `StepEnded`
before its result is used, then a `TurnEnded`. The conversation is restored from these entries
alone (see `replay`). Entries have a JSON form, and are only ever added.

A step is recorded as its digest; equal steps, and only those, have equal digests. The size of the
log is therefore linear in the size of the messages, not quadratic. Each message is digested once.

A store that fails, for example because the disk is full, does not prevent an answer: the
conversation continues unrecorded, and a warning is logged. This ends where something must not
happen twice: a step that is not repeatable does not begin unless its start is recorded, and a
`Pause` does not end unless its result is. The turn then stops with `NotRecorded`, and can be
resumed. If another process has continued the conversation, the turn ends with `Conflict`.
"""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from typing import Any, Protocol, get_args, get_origin

import attrs
from attrs import field, frozen

from genai_host.api import Answer, Codec, Message, Part, Step, Text
from genai_host.api.messages import remember_each
from genai_host.calls.retry import Attempt
from genai_host.catalog.catalog import ModelChoice
from genai_host.errors import (
    Conflict,
    GenaiError,
    Interrupted,
    NotRecorded,
    StoreError,
    TurnPaused,
    ValidationError,
)
from genai_host.util import concurrency

SCHEMA = 1

Path = tuple[int, ...]
"""Place of a step in its turn: its number, followed for a parallel step by its number among the
others."""


def new_tag() -> str:
    """A new `Turn.tag`."""
    return os.urandom(4).hex()


@frozen
class Opened:
    """The first entry: the configuration of the conversation.

    Attributes:
        feature: Name of the feature.
        version: Version of the feature.
        models: Model name by role.
        configured: By role, the model that a model configuration selected.
        parameters: Model parameters of the main role.
        settings: Settings of the feature, as given.
        history: Initial messages.
        state: Initial state of the feature.
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
        turn: Number of the turn.
        message: The user's message.
        version: Version of the feature.
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
        turn: Number of the turn.
        path: Place of the step in the turn.
        step: Kind of step.
        digest: Digest of the step.
        asks: Kind and payload of a `Pause`.
    """

    turn: int
    path: Path
    step: str
    digest: str
    asks: Mapping[str, Any] = field(factory=dict)


@frozen
class StepEnded:
    """A step has ended.

    Attributes:
        turn: Number of the turn.
        path: Place of the step in the turn.
        result: Result in JSON form.
        error: Error, if the step failed.
        text: Text streamed before the failure, unless the error has it.
        tries: Failed attempts of its model call.
    """

    turn: int
    path: Path
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
        state: State of the feature.
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
    """The models of the roles in an entry."""
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
        codec = codec or Codec()
        return [form_of(each, codec) for each in self._entries]

    @classmethod
    def from_json(
        cls, data: Iterable[Mapping[str, Any]], codec: Codec | None = None
    ) -> InMemoryRecord:
        """Read entries from JSON.

        Raises:
            ValidationError: The data is not an event log.
        """
        codec = codec or Codec()
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
        raise ValidationError(f"an entry is an object, not {type(item).__name__}")
    tag = item.get("entry")
    form = _FORMS.get(tag) if isinstance(tag, str) else None
    if form is None:
        raise ValidationError(f"unknown entry {tag!r}")
    fields = {name: value for name, value in item.items() if name != "entry"}
    entry: Entry = codec.from_json(fields, form)
    return entry


Label = Callable[[Any], str]
"""Returns the name of a class or function in a digest."""


def _label(named: Any) -> str:
    """Package and name, without the module: stable if the file is renamed."""
    own = named.__qualname__
    if isinstance(named, type) and issubclass(named, Step):
        own = getattr(named, "step", own)
    elif isinstance(named, type) and issubclass(named, Part):
        own = getattr(named, "type", own)
    return f"{named.__module__.partition('.')[0]}:{own}"


def _old_label(named: Any) -> str:
    """The label in earlier event logs: module and Python name at that time."""
    module, name = named.__module__, named.__qualname__
    if module.startswith("genai_host."):
        name = _OLD_NAMES.get(name, name)
        module = _OLD_MODULES.get(name, module)
    return f"{module}:{name}"


_OLD_MODULES = {
    name: f"genai_host.api.{module}"
    for module, names in {
        "steps": (
            "Prompt CountTokens Embed Moderate CallFunction OfferedTools CallTool CallTools Wait "
            "All Settled Now NewId Progress Rate"
        ),
        "messages": "Message Text Reasoning Image File ToolCall ToolResult Opaque Usage",
        "calls": "Completion Delta RouteInfo TokenCount ToolSchema Vectors Verdict",
        "costs": "Cost",
        "features": "Answer Detail Turn",
        "tools": "OfferedTool ToolOutput",
    }.items()
    for name in names.split()
}
_OLD_NAMES = {
    "AllSettled": "Settled",
    "AvailableTool": "OfferedTool",
    "Embeddings": "Vectors",
    "ListTools": "OfferedTools",
    "ModerationResult": "Verdict",
    "Pause": "Wait",
    "RateLimit": "Rate",
    "VendorPart": "Opaque",
}
_OLD_FIELDS = {
    "CallFunction.idempotent": "twice",
    "Prompt.raw_reply_file": "keep_replies_in",
    "Prompt.stream": "show",
}
"""Former modules, names and fields of steps and their parts. Remove them with the first version of
the store that cannot contain such turns."""


def digest(value: Any, label: Label = _label) -> str:
    """SHA-256, in hex, of the canonical form of a value."""
    text = _ENCODER.encode(_canonical_form(value, label))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


old_digest = partial(digest, label=_old_label)
"""The digest in earlier event logs."""


_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _canonical_form(value: Any, label: Label) -> Any:
    """JSON that is equal only for equal values."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Message):
        if label is _label:
            return value.remember("digest", _of_message).hex()
        return _of_message(value, label).hex()
    if isinstance(value, Mapping):
        return {"mapping": {_key(key): _canonical_form(item, label) for key, item in value.items()}}
    if isinstance(value, (list, tuple)):
        if value and all(type(item) is Message for item in value):
            return {"messages": _of_messages(value, label)}
        return [_canonical_form(item, label) for item in value]
    if isinstance(value, (set, frozenset)):
        return {"set": sorted(digest(item, label) for item in value)}
    if isinstance(value, bytes):
        return {"bytes": hashlib.sha256(value).hexdigest()}
    if attrs.has(type(value)):
        return _fields(value, label)
    if get_args(value):  # a type such as `list[int]`
        parts = (get_origin(value), *get_args(value))
        return {"type": [_canonical_form(each, label) for each in parts]}
    if hasattr(value, "__qualname__"):  # a class or function is represented by its name
        return {"name": label(value)}
    raise TypeError(f"a step contains {value!r}, which cannot be recorded")


def _of_messages(messages: Iterable[Message], label: Label) -> str:
    """Digests of messages, cached: a long conversation is digested with each prompt."""
    if label is _label:
        digests = remember_each(messages, "digest", _of_message)
    else:
        digests = [_of_message(message, label) for message in messages]
    return hashlib.sha256(b"".join(digests)).hexdigest()


def _of_message(message: Message, label: Label = _label) -> bytes:
    content = message.content
    if len(content) == 1 and type(content[0]) is Text:  # in most cases
        text = f"text\0{message.role}\0{content[0].text}"
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return bytes.fromhex(digest(_fields(message, label), label))


def _key(key: Any) -> str:
    return key if isinstance(key, str) else f"{type(key).__name__} {key!r}"


def _fields(value: Any, label: Label) -> Any:
    """Fields without a default value."""
    name, described = _described(type(value), label)  # type: ignore[arg-type]  # a class is hashable
    fields = {}
    for each, written, default in described:
        found = getattr(value, each)
        if found is not default:
            fields[written] = _canonical_form(found, label)
    return {"class": name, "fields": fields}


@lru_cache(maxsize=256)
def _described(kind: type[Any], label: Label) -> tuple[str, list[tuple[str, str, Any]]]:
    """The label of an attrs class, and its fields with their names in digests and defaults."""
    old = _OLD_FIELDS if label is _old_label else {}
    return label(kind), [
        (each.name, old.get(f"{kind.__name__}.{each.name}", each.name), each.default)
        for each in attrs.fields(kind)
        if each.init
    ]


_log = logging.getLogger(__name__)


RESUMABLE = (TurnPaused, Interrupted, NotRecorded)
"""Errors that end neither a step nor its turn."""


class FailsafeRecorder:
    """A recorder that tolerates failures of the store.

    Entries that could not be written are buffered. They are retried, in order, with each required
    entry and at the end of each turn. An entry whose `append` was interrupted may have been
    written: it is appended again before the next one, except for the start of a turn, of which
    nothing has happened yet.

    Args:
        recorder: The recorder.
        end: Ends the running turn; the feature cannot handle the error.
        failed: Why the conversation is not recorded at all. Then no other process can resume it, so
            no entry is required.

    Attributes:
        failed: Why the conversation is not recorded; None if it is.
    """

    def __init__(
        self,
        recorder: Recorder,
        end: Callable[[GenaiError], None],
        failed: StoreError | None = None,
    ) -> None:
        self._recorder = recorder
        self._end = end
        self._overtaken: Conflict | None = None
        self._is_lost = failed is not None
        self._unwritten: deque[Entry] = deque()
        self._lock = concurrency.new_lock()
        self.failed = failed

    def append(self, entry: Entry, *, required: bool = False) -> None:
        """Append an entry.

        Args:
            entry: The entry.
            required: Whether it must be recorded before the conversation continues; if it cannot
                be, it is dropped.

        Raises:
            Conflict: Another process has continued the conversation; all later calls raise it too.
            NotRecorded: A required entry cannot be written.
        """
        if self._overtaken is not None:
            if isinstance(entry, TurnEnded):
                return
            raise copy.copy(self._overtaken)
        if self._is_lost:
            return
        before = self.failed
        try:
            with self._lock:
                if required and self.failed is not None and self.failed is not before:
                    # parallel steps do not wait for a failing store one after another
                    raise _not_recorded(entry, self.failed)
                self._write(entry, required)
        except Conflict as conflict:
            self._overtaken = conflict
            self._end(conflict)
            raise
        except NotRecorded as error:
            self._end(error)
            raise

    def flush(self) -> None:
        """Write all buffered entries.

        Raises:
            Conflict: Another process has continued the conversation.
            StoreError: The entries cannot be written.
        """
        if self._is_lost and self.failed is not None:
            raise self.failed
        flush = getattr(self._recorder, "flush", None)
        try:
            with self._lock:
                self._write_buffered()
                if flush is not None:
                    flush()
        except StoreError as error:
            self.failed = error
            raise
        except Conflict as conflict:
            self._overtaken = conflict
            raise
        self.failed = None

    def _write_buffered(self) -> None:
        while self._unwritten:
            self._recorder.append(self._unwritten[0])
            self._unwritten.popleft()

    def _write(self, entry: Entry, required: bool) -> None:
        if self.failed is not None and not required and not isinstance(entry, TurnEnded):
            self._unwritten.append(entry)
            return
        try:
            self._write_buffered()
            self._recorder.append(entry)
        except StoreError as error:
            self.failed = error
            if required:
                raise _not_recorded(entry, error) from error
            if not self._unwritten:
                warn_unrecorded(error)
            self._unwritten.append(entry)
        except BaseException as error:
            if not isinstance(error, Exception) and not isinstance(entry, TurnStarted):
                self._unwritten.append(entry)
            raise
        else:
            self.failed = None


def _not_recorded(entry: Entry, error: StoreError) -> NotRecorded:
    what = f"{entry.step} does not begin" if isinstance(entry, StepStarted) else "this is not used"
    return NotRecorded(
        f"{what} unless that is recorded: {error}",
        file=error.file,
        hint="; ".join([*filter(None, [error.hint]), "then resume the conversation"]),
    )


def warn_unrecorded(error: StoreError) -> None:
    """Log a warning in one line, since nothing else fails."""
    told = f"{error} ({error.hint})" if error.hint else str(error)
    _log.warning("the conversation continues unrecorded: %s", told)
