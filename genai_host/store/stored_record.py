"""The record of one conversation, in a store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from attrs import evolve

from genai_host.api import Codec, Secret
from genai_host.api.json_text import read_json, write_json
from genai_host.errors import GenaiError, StoreError
from genai_host.record import Changed, Entry, Opened, Record, TurnStarted, form_of
from genai_host.store.attached import Attached, may_hold_bytes
from genai_host.store.writer import Addition, Row, Writer

if TYPE_CHECKING:
    from genai_host.store.store import Store


class StoredRecord:
    """A `Recorder`: an entry is on disk when `append` returns.

    id       of the conversation
    number   how many entries there are: the number of the next one

    Made by `Store.create` and `Store.record`. Whoever else appends to the same
    conversation meanwhile wins: `append` raises `Conflict` from then on.
    """

    def __init__(
        self,
        store: Store,
        writer: Writer,
        id: str,
        number: int,
        codec: Codec,
        now: Callable[[], float],
    ) -> None:
        self.id = id
        self._store = store
        self._writer = writer
        self._number = number
        self._codec = codec
        self._now = now
        self._held: tuple[Written, ...] = ()
        self._lock = threading.Lock()

    @property
    def number(self) -> int:
        return self._number

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All that is on record, read now."""
        return self._store.entries(self.id, self._codec)

    def append(self, entry: Entry) -> None:
        """Raises `Conflict`, and `StoreError`; then nothing was added.

        That a turn has started is written together with the first step of it: until
        then, nothing has been done that could be told of.
        """
        form = written(entry, self._codec, self._now())
        if may_hold_bytes(form.body):
            form = self._store.without_bytes(form, self.id)
        with self._lock:
            if isinstance(entry, TurnStarted):
                self._held = (form,)
                return
            forms, self._held = (*self._held, form), ()
            rows = [Row(self.id, self._number + n, *each) for n, each in enumerate(forms)]
            addition = Addition(rows)
            try:
                self._writer.add(addition)
            finally:
                self._number += len(rows) * addition.written


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
        return Record.from_json(forms, codec).entries
    except StoreError:
        raise
    except (ValueError, GenaiError) as error:
        raise StoreError(
            f"{place} holds an entry that cannot be read: {error}",
            file=place,
            hint="is a plugin missing, or older than the one that wrote it?",
        ) from error
