"""Stored form of entries: binary parts as references, ids, summaries, export and import.

The bytes of images and files of 4 KB or more are stored as blobs, so that an image is stored once,
however often it is sent. An entry in JSON form has bytes as base64, in `data` of an object whose
`type` is `image` or `file`. In the store, a reference replaces them, and `attached` lists the
places:

    {"entry": "turn_started", "turn": 0, "attached": [["message", "content", 0, "data"]],
     "message": {"role": "user", "content": [
         {"type": "image", "media_type": "image/png", "data": {"sha256": "9f86d0..."}}]}}

No entry has its own key `attached`. Data of a user, a model or a tool can therefore not pass for a
reference: a similar object anywhere else is left unchanged.
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
from attrs import evolve, frozen

from genai_host.api import Codec, Cost, Secret
from genai_host.api.json_text import json_as_text, read_json, text_of_json
from genai_host.conversations.record import Changed, Entry, InMemoryRecord, Opened, form_of
from genai_host.errors import GenaiError, NotFound, StoreError, ValidationError
from genai_host.store.database import LATEST, storable
from genai_host.util.text import describe_exception

if TYPE_CHECKING:
    from genai_host.store.blobs import Blobs


_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no two digits look alike


def new_id(now: float) -> str:
    """Make an id. Ids sort by time: milliseconds in nine digits, then nine random digits."""
    return _digits(int(now * 1000), 9) + _digits(secrets.randbits(45), 9)


def _digits(number: int, length: int) -> str:
    found = []
    for _ in range(length):
        number, digit = divmod(number, 32)
        found.append(_DIGITS[digit])
    return "".join(reversed(found))


Status = Literal["idle", "failed", "paused", "running", "interrupted", "damaged"]


@frozen
class Summary:
    """A conversation in a list.

    The status is that of the last turn: `idle` (answered, or no turn yet), `failed` (error or
    cancelled), `paused` (for a result; see `Conversation.resume`), `running` (in progress
    in a process), `interrupted` (its process ended; see `Conversation.resume`) or `damaged` (the
    entries cannot be listed or searched).

    Attributes:
        title: Name of the conversation, or the beginning of its first message.
        created: Seconds since 1970; ids sort by it.
        updated: Time of the last entry.
        status: Status, see above.
        entries: Number of stored entries.
        cost: Cost of all model calls, including failed and removed turns; a fork includes the turns
            that it copied.
    """

    id: str
    title: str
    feature: str
    created: float
    updated: float
    status: Status
    turns: int
    entries: int
    models: Mapping[str, str]
    forked_from: str
    cost: Cost

    @property
    def cursor(self) -> str:
        """Its place in the list of conversations. It stays valid if the conversation is used or
        deleted."""
        return f"{self.updated!r}-{self.id}"


@frozen
class StoredTry:
    """A stored attempt of a model call.

    Attributes:
        path: Path of its step in the turn.
        number: Number of the attempt for that step, from 0.
        started: Seconds since 1970.
        code: Error code; None for a success.
        cost: US dollars; None if unknown.
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
class SearchMatch:
    """A message that matches a search.

    Attributes:
        turn: Its turn; None for an initial message of the conversation.
    """

    conversation: str
    title: str
    turn: int | None
    role: str
    text: str


_MIN = 4096
"""Minimum length of base64 text for a blob; a smaller file would take as much space on disk."""
_KINDS = ('"type":"image"', '"type":"file"')  # in compact JSON
_PLACES = "attached"
_DAMAGED = (LookupError, TypeError, ValueError)

_Place = Sequence[str | int]
"""Path of keys and indexes from the entry to a value."""


def may_hold_bytes(body: str) -> bool:
    """Whether an entry may have bytes for blobs; a cheap check."""
    return len(body) > _MIN and any(kind in body for kind in _KINDS)


def may_refer(body: str) -> bool:
    """Whether a stored entry may have references."""
    return f'"{_PLACES}":[[' in body


def kept(body: str, blobs: Blobs, conversation: str) -> str:
    """Move the bytes of an entry to blobs, and return its stored form.

    An entry that already has references is returned unchanged; its blobs are marked as used by this
    conversation. Raises `StoreError`.
    """
    try:
        form = read_json(body)
    except ValueError:  # for example, nested too deeply
        return body
    if _PLACES in form:
        with contextlib.suppress(*_DAMAGED):  # reported when it is read
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
    return json_as_text({**form, _PLACES: found}) if found else body


class _Lost(StoreError):
    """A blob is missing or damaged."""


class Attached:
    """Reads the bytes of images and files, each blob once.

    Args:
        blobs: Returns the blobs of the store; called when needed.
        file: Location of the store, for errors.
    """

    def __init__(self, blobs: Callable[[], Blobs], file: str) -> None:
        self._blobs = blobs
        self._found: dict[str, str] = {}
        self.file = file

    def find(self, id: str) -> str:
        """Return a blob as base64. Raises `StoreError` if it is missing or damaged."""
        if id not in self._found:
            try:
                data = b"".join(self._blobs().get(id))
            except NotFound as error:
                raise self._lost(id, "is missing") from error
            except StoreError as error:
                if isinstance(error.__cause__, FileNotFoundError):
                    raise self._lost(id, "is missing") from error
                raise
            if hashlib.sha256(data).hexdigest() != id:
                raise self._lost(id, "is damaged")
            self._found[id] = base64.b64encode(data).decode()
        return self._found[id]

    def find_or_none(self, id: str) -> str | None:
        """Return a blob as base64; None if it is missing or damaged. Raises `StoreError` if it
        cannot be read now."""
        with contextlib.suppress(_Lost):
            return self.find(id)
        return None

    def put_back(self, form: Any, find: Callable[[str], str | None]) -> Any:
        """As `_put_back`. Raises `StoreError` if the entry is damaged."""
        try:
            return _put_back(form, find)
        except _DAMAGED as error:
            raise self._damaged() from error

    def all_of(self, forms: Iterable[Any]) -> dict[str, str | None]:
        """Return all blobs that entries refer to, as base64 by id; None for one that is missing or
        damaged. Raises `StoreError` if an entry is damaged."""
        found = {}
        try:
            for form in forms:
                for place in form.get(_PLACES, ()):
                    owner, key = _at(form, place)
                    id = owner[key]["sha256"]
                    found[id] = self.find_or_none(id)
        except _DAMAGED as error:
            raise self._damaged() from error
        return found

    def _damaged(self) -> StoreError:
        return StoreError(
            f"{self.file} contains an entry with a damaged list of attachments", file=self.file
        )

    def _lost(self, id: str, how: str) -> _Lost:
        return _Lost(
            f"{self.file}: an image or a file of the conversation {how}: blob {id}",
            file=self.file,
            hint="restore it from a backup, or attach the same file in any conversation",
        )


def _put_back(form: Any, find: Callable[[str], str | None]) -> Any:
    """Restore the original form of an entry, with the blobs that `find` returns as base64. A note
    takes the place of images and files without a blob. Raises `LookupError`, `TypeError` or
    `ValueError` if the entry is damaged."""
    if not isinstance(form, dict) or _PLACES not in form:
        return form
    missing = []
    for place in form.pop(_PLACES):
        owner, key = _at(form, place)
        id = owner[key]["sha256"]
        data = find(id)
        if data is None:
            missing.append((place, owner, id))
        else:
            owner[key] = data
    for _, part, id in missing:
        named = " ".join(filter(None, [str(part["type"]), str(part.get("name", ""))]))
        part.clear()
        part.update(type="text", text=f"[missing {named}: blob {id}]")
    for place, part, _ in missing:
        if place[-3:-2] == ["images"]:  # a list of images only, which are in messages as well
            images, _ = _at(form, place[:-1])
            images[:] = [each for each in images if each is not part]
    return form


def _large(form: Any) -> Iterator[list[str | int]]:
    """Paths of images and files that are large enough for a blob."""
    pending: list[tuple[Any, list[str | int]]] = [(form, [])]
    while pending:
        value, place = pending.pop()
        if isinstance(value, dict):
            data = value.get("data")
            is_large = isinstance(data, str) and len(data) >= _MIN
            if is_large and value.get("type") in ("image", "file"):
                yield [*place, "data"]
            pending += [(item, [*place, key]) for key, item in value.items()]
        elif isinstance(value, list):
            pending += [(item, [*place, number]) for number, item in enumerate(value)]


def _at(form: Any, place: _Place) -> tuple[Any, str | int]:
    """The container of the value at a path, and its key."""
    *way, key = place
    for each in way:
        form = form[each]
    return form, key


def _bytes(text: str) -> bytes | None:
    """Decoded bytes; None if encoding them again would give a different text."""
    try:
        data = base64.b64decode(text)
    except (binascii.Error, ValueError):
        return None
    return data if base64.b64encode(data).decode() == text else None


class Written(NamedTuple):
    """An entry in stored form; see `tables.entries`."""

    turn: int | None
    kind: str
    at: float
    body: str


def written(entry: Entry, codec: Codec, at: float) -> Written:
    if isinstance(entry, (Opened, Changed)):  # secrets are read from their source each time
        settings = {k: v for k, v in entry.settings.items() if not isinstance(v, Secret)}
        entry = evolve(entry, settings=settings)
    form = form_of(entry, codec)
    try:
        body = text_of_json(msgspec.json.encode(form))  # much faster than `write_json`
    except (TypeError, ValueError):  # for example, a lone surrogate
        body = json_as_text(form)
    return Written(form.get("turn"), form["entry"], at, body)


def read(
    bodies: list[str], codec: Codec, attached: Attached, find: Callable[[str], str | None]
) -> tuple[Entry, ...]:
    """Decode stored entries and restore their bytes with `find` of `attached`. Raises `StoreError`
    for invalid entries."""
    place = attached.file
    try:
        forms: list[Any] = [attached.put_back(read_json(body), find) for body in bodies]
        return InMemoryRecord.from_json(forms, codec).entries
    except StoreError:
        raise
    except (ValueError, GenaiError) as error:
        raise StoreError(
            f"{place} contains an entry that cannot be read: {error}",
            file=place,
            hint="check that all plugins are installed and up to date",
        ) from error


FORM = 2
"""Form of exports. In form 1, each entry has its attachments."""


def exported(
    id: str, name: str | None, rows: Iterable[Written], attached: Attached
) -> dict[str, Any]:
    """Export a conversation as JSON: all entries with their times in stored form, and the
    attachments that they refer to; None for those that are missing."""
    entries = [{"at": row.at, **read_json(row.body)} for row in rows]
    attachments = attached.all_of(entries)
    return {"form": FORM, "id": id, "name": name, "attachments": attachments, "entries": entries}


def imported(data: Any) -> tuple[str | None, list[Written]]:
    """Name and entries of an exported conversation. Raises `ValidationError`. The caller validates
    the entries with its codec."""
    if not isinstance(data, Mapping) or data.get("form") not in (1, FORM):
        raise ValidationError(f"not an exported conversation of form {FORM}")
    name, entries = data.get("name"), data.get("entries")
    if not isinstance(name, (str, type(None))) or not isinstance(entries, list):
        raise ValidationError("a conversation must have a name and a list of entries")
    attachments = None
    if data["form"] != 1:
        attachments = data.get("attachments")
        if not isinstance(attachments, Mapping) or not all(
            isinstance(each, (str, type(None))) for each in attachments.values()
        ):
            raise ValidationError("attachments must be an object of strings in base64, or null")
    return name and storable(name), [_written(each, attachments) for each in entries]


def _written(entry: Any, attachments: Mapping[str, str | None] | None) -> Written:
    at = entry.get("at") if isinstance(entry, Mapping) else None
    if isinstance(at, bool) or not isinstance(at, (int, float)) or not 0 <= at <= LATEST:
        raise ValidationError("an entry must be an object with its time in `at`")
    form = {key: value for key, value in entry.items() if key != "at"}
    try:
        body = json_as_text(form)
        if _PLACES in form and attachments is not None:
            body = json_as_text(_put_back(read_json(body), attachments.get))
    except (*_DAMAGED, RecursionError) as error:
        raise ValidationError(f"an entry is not valid JSON: {describe_exception(error)}") from error
    return Written(form.get("turn"), str(form.get("entry")), float(at), body)
