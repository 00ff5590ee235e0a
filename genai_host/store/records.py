"""Entries as they are stored: binary parts apart, ids, summaries, export and import.

The bytes of images and files, unless they are few, are stored as blobs, so that an image is stored
once, however often it is sent. An entry in JSON form has bytes as base64, in `data` of an object
whose `type` is `image` or `file`. In the store, a reference replaces them, and `attached` lists
where:

    {"entry": "turn_started", "turn": 0, "attached": [["message", "content", 0, "data"]],
     "message": {"role": "user", "content": [
         {"type": "image", "media_type": "image/png", "data": {"sha256": "9f86d0..."}}]}}

No entry has a key `attached` of its own. Data of a user, a model or a tool can therefore not pass
for a reference: what looks like one anywhere else is left unchanged.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from attrs import evolve, field, frozen

from genai_host.api import Codec, Cost, Secret
from genai_host.api.json_text import read_json, write_json
from genai_host.conversations.record import Changed, Entry, InMemoryRecord, Opened, form_of
from genai_host.errors import GenaiError, NotFound, StoreError, ValidationError
from genai_host.store.database import LATEST, storable
from genai_host.util.text import describe_exception

if TYPE_CHECKING:
    from genai_host.store.blobs import Blobs


_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: none looks like another


def new_id(now: float) -> str:
    """Ids sort by time: milliseconds in nine digits, and as many by chance.

    now   seconds since 1970
    """
    return _digits(int(now * 1000), 9) + _digits(secrets.randbits(45), 9)


def _digits(number: int, length: int) -> str:
    found = []
    for _ in range(length):
        number, digit = divmod(number, 32)
        found.append(_DIGITS[digit])
    return "".join(reversed(found))


Status = Literal["idle", "failed", "waiting", "running", "interrupted", "damaged"]


@frozen
class Summary:
    """A conversation in a list.

    title     the name that it was given, else the beginning of what was said first
    created   seconds since 1970; ids sort by it
    updated   when the last entry came
    status    of the last turn:
              idle          it was answered, or there is none
              failed        it ended with an error, or was cancelled
              waiting       it waits for a result: `Conversation.resume`
              running       a process is at it
              interrupted   the process that was at it is gone: `Conversation.resume`
              damaged       what is on record cannot be listed or searched
    turns     how many were begun
    entries   how many are on record
    models    role to model
    cost      of all its calls of models, also in turns that failed or were taken back; that
              of a fork has in it what the turns cost that it took over
    """

    id: str
    title: str
    feature: str
    created: float
    updated: float
    status: Status
    turns: int = 0
    entries: int = 0
    models: Mapping[str, str] = field(factory=dict)
    forked_from: str = ""
    cost: Cost = field(factory=Cost)


@frozen
class StoredTry:
    """A call of a model, as it is on record.

    path        the step that it was for, in its turn
    number      of the try for that step, from 0
    started     seconds since 1970
    code        of its error; None if it succeeded
    cost        US dollars; None where it is not known
    """

    turn: int
    path: str
    number: int
    model: str
    provider: str
    dialect: str
    started: float
    seconds: float
    code: str | None = None
    http_status: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: float | None = None


@frozen
class Found:
    """A message that has the words that were searched for.

    turn   in which it was said; None for one that the conversation began with
    """

    conversation: str
    title: str
    turn: int | None
    role: str
    text: str


_LEAST = 4096
"""Characters of base64 that are worth a blob: a file takes as much on disk, however
little it holds."""
_KINDS = ('"type":"image"', '"type":"file"')  # as compact JSON has them
_PLACES = "attached"
_DAMAGED = (LookupError, TypeError, ValueError)

_Place = Sequence[str | int]
"""The keys and numbers that lead to a value from the entry down."""


def may_hold_bytes(body: str) -> bool:
    """Whether an entry is worth looking into; costs next to nothing where it is not."""
    return len(body) > _LEAST and any(kind in body for kind in _KINDS)


def may_refer(body: str) -> bool:
    """Whether an entry from the store may have references."""
    return f'"{_PLACES}":[[' in body


def kept(body: str, blobs: Blobs, conversation: str) -> str:
    """An entry as it is to be stored for a conversation, its bytes in blobs by now. One
    that comes from the store stays as it is, and what it refers to is used here as well.
    Raises `StoreError`."""
    try:
        form = read_json(body)
    except ValueError:  # nested too deeply, for one
        return body
    if _PLACES in form:
        with contextlib.suppress(*_DAMAGED):  # it is told when it is read
            for place in form[_PLACES]:
                owner, key = _at(form, place)
                blobs.use(owner[key]["sha256"], conversation)
        return body
    found = []
    for place in list(_large(form)):
        owner, key = _at(form, place)
        data = _bytes(owner[key])
        if data is None:
            continue
        id = hashlib.sha256(data).hexdigest()
        if not blobs.use(id, conversation):
            blobs.put([data], conversation=conversation)
        owner[key] = {"sha256": id}
        found.append(place)
    return write_json({**form, _PLACES: found}).decode() if found else body


class Attached:
    """Puts bytes back into entries; reads each blob once.

    blobs   gives those of the store, when they are needed
    file    the store, for errors
    """

    def __init__(self, blobs: Callable[[], Blobs], file: str) -> None:
        self._blobs = blobs
        self._file = file
        self._found: dict[str, str] = {}

    def put_back(self, form: Any) -> Any:
        """An entry as it was before it was stored. Raises `StoreError` if a blob is
        missing or damaged, or the entry is."""
        if not isinstance(form, dict) or _PLACES not in form:
            return form
        try:
            for place in form.pop(_PLACES):
                owner, key = _at(form, place)
                owner[key] = self._base64(owner[key]["sha256"])
        except _DAMAGED as error:
            raise StoreError(
                f"{self._file} holds an entry whose list of what is attached is damaged",
                file=self._file,
            ) from error
        return form

    def _base64(self, id: str) -> str:
        if id not in self._found:
            try:
                data = b"".join(self._blobs().get(id))
            except (NotFound, StoreError) as error:
                raise self._lost(id, "is missing") from error
            if hashlib.sha256(data).hexdigest() != id:
                raise self._lost(id, "is damaged")
            self._found[id] = base64.b64encode(data).decode()
        return self._found[id]

    def _lost(self, id: str, how: str) -> StoreError:
        return StoreError(
            f"{self._file}: an image or a file of the conversation {how}: blob {id}",
            file=self._file,
            hint="restore it from a backup, or attach the same file in any conversation",
        )


def _large(form: Any) -> Iterator[list[str | int]]:
    """The places where images and files may have bytes that are worth a blob."""
    pending: list[tuple[Any, list[str | int]]] = [(form, [])]
    while pending:
        value, place = pending.pop()
        if isinstance(value, dict):
            data = value.get("data")
            is_large = isinstance(data, str) and len(data) >= _LEAST
            if is_large and value.get("type") in ("image", "file"):
                yield [*place, "data"]
            pending += [(item, [*place, key]) for key, item in value.items()]
        elif isinstance(value, list):
            pending += [(item, [*place, number]) for number, item in enumerate(value)]


def _at(form: Any, place: _Place) -> tuple[Any, str | int]:
    """The object or list that has the value there, and under what."""
    *way, key = place
    for each in way:
        form = form[each]
    return form, key


def _bytes(text: str) -> bytes | None:
    """None for what would not come back as it was."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if base64.b64encode(data).decode() == text else None


class Written(NamedTuple):
    """An entry as it is stored; see `tables.entries`."""

    turn: int | None
    kind: str
    at: float
    body: str


def written(entry: Entry, codec: Codec, at: float) -> Written:
    if isinstance(entry, (Opened, Changed)):  # a secret comes from its source each time
        settings = {k: v for k, v in entry.settings.items() if not isinstance(v, Secret)}
        entry = evolve(entry, settings=settings)
    form = form_of(entry, codec)
    try:
        body = msgspec.json.encode(form)  # many times as quick as `write_json`
    except (TypeError, ValueError):  # half a surrogate pair, for one
        body = write_json(form)
    return Written(form.get("turn"), form["entry"], at, body.decode())


def read(bodies: list[str], codec: Codec, place: str, attached: Attached) -> tuple[Entry, ...]:
    """Entries from their JSON, with what is attached. Raises `StoreError` for what is none,
    and for bytes that are missing."""
    try:
        forms: list[Any] = [attached.put_back(read_json(body)) for body in bodies]
        return InMemoryRecord.from_json(forms, codec).entries
    except StoreError:
        raise
    except (ValueError, GenaiError) as error:
        raise StoreError(
            f"{place} holds an entry that cannot be read: {error}",
            file=place,
            hint="is a plugin missing, or older than the one that wrote it?",
        ) from error


FORM = 1


def exported(
    id: str, name: str | None, rows: Iterable[Written], attached: Attached
) -> dict[str, Any]:
    """A conversation as JSON: all its entries with what is attached, each with the time
    when it came. Raises `StoreError` for bytes that are missing."""
    entries = [{"at": row.at, **attached.put_back(read_json(row.body))} for row in rows]
    return {"form": FORM, "id": id, "name": name, "entries": entries}


def imported(data: Any) -> tuple[str | None, list[Written]]:
    """The name and the entries of what was exported; whether they are a record, whoever
    has a codec looks. Raises `ValidationError`."""
    if not isinstance(data, Mapping) or data.get("form") != FORM:
        raise ValidationError(f"this is not a conversation in form {FORM}")
    name, entries = data.get("name"), data.get("entries")
    if not isinstance(name, (str, type(None))) or not isinstance(entries, list):
        raise ValidationError("a conversation has a name and a list of entries")
    return name and storable(name), [_written(each) for each in entries]


def _written(entry: Any) -> Written:
    at = entry.get("at") if isinstance(entry, Mapping) else None
    if isinstance(at, bool) or not isinstance(at, (int, float)) or not 0 <= at <= LATEST:
        raise ValidationError("an entry is an object, with the time when it came in `at`")
    form = {key: value for key, value in entry.items() if key != "at"}
    try:
        body = write_json(form).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ValidationError(f"an entry is not JSON: {describe_exception(error)}") from error
    return Written(form.get("turn"), str(form.get("entry")), float(at), body)
