"""The bytes of images and files in entries: kept as blobs, so that a picture is stored
once, however often it is said.

An entry in JSON form has bytes as base64, in `data` of an object whose `type` is `image`
or `file`. In the store, a reference stands in their place, and `attached` lists where:

    {"entry": "turn_started", "turn": 0, "attached": [["message", "content", 0, "data"]],
     "message": {"role": "user", "content": [
         {"type": "image", "media_type": "image/png", "data": {"sha256": "9f86d0..."}}]}}

No entry has a key `attached` of its own. So nothing that a user, a model or a tool says
can pass for a reference: what looks like one anywhere else is left as it is.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from genai_host.api.json_text import read_json, write_json
from genai_host.errors import NotFound, StoreError

if TYPE_CHECKING:
    from genai_host.store.blobs import Blobs

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
