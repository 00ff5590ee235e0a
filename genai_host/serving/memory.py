"""Documents in memory, for hosts without a store or with a store that fails."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from itertools import islice
from typing import Any, NamedTuple, Protocol

from genai_host.api.json_text import read_json, write_long_json
from genai_host.api.storage import Document
from genai_host.errors import Conflict, LimitExceeded, NotFound


class DocumentCollection(Protocol):
    """Documents of one owner in one collection; see `genai_host.api.DocumentCollection`."""

    def get(self, id: str) -> Document: ...
    def put(self, id: str, value: Mapping[str, Any], *, expect: int | None = None) -> int: ...
    def put_all(
        self, values: Mapping[str, Mapping[str, Any]], *, expect: Mapping[str, int]
    ) -> None: ...
    def delete(self, id: str, *, expect: int | None = None) -> bool: ...
    def clear(self) -> int: ...
    def list(
        self, *, after: str | int | None = None, limit: int = 20, newest_first: bool = True
    ) -> list[Document]: ...


class _Held(NamedTuple):
    version: int
    number: int
    data: bytes


class _Group:
    """Documents that are removed together."""

    def __init__(self) -> None:
        self.held: dict[str, _Held] = {}  # in the order of their creation
        self.size = 0

    def version(self, id: str) -> int:
        return self.held[id].version if id in self.held else 0


_Key = tuple[str, str, str]  # owner, collection, and id of the document if it is alone


class MemoryCache:
    """Documents in memory, as JSON. Thread-safe.

    Args:
        size: Maximum total size in bytes. The least recently used documents are removed first.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._used = 0
        self._number = 0
        self._groups: OrderedDict[_Key, _Group] = OrderedDict()
        self._lock = threading.Lock()

    def shelf(self, owner: str, collection: str, *, together: bool = False) -> DocumentCollection:
        """Return documents of an owner. If they are held `together`, they are used and removed as
        one; only these can be listed and cleared."""
        return _MemoryShelf(self, owner, collection, together)

    def get(self, key: _Key, id: str) -> Document:
        with self._lock:
            group = self._groups.get(key)
            if group is None or id not in group.held:
                raise _not_found(key, id)
            self._groups.move_to_end(key)
            held = group.held[id]
        return _document(id, held)

    def list(
        self, key: _Key, after: str | int | None, limit: int, newest_first: bool
    ) -> list[Document]:
        with self._lock:
            held = self._groups[key].held if key in self._groups else {}
            if isinstance(after, str) and after not in held:
                raise _not_found(key, after)
            last = held[after].number if isinstance(after, str) else after
            following = (
                item
                for item in (reversed(held.items()) if newest_first else held.items())
                if last is None
                or (item[1].number < last if newest_first else item[1].number > last)
            )
            listed = list(islice(following, limit))
        return [_document(*item) for item in listed]

    def put_all(
        self, key: _Key, values: Mapping[str, Mapping[str, Any]], expect: Mapping[str, int]
    ) -> int:
        """Save documents, unless their group is too large, and return the version of the last one.
        Raises `LimitExceeded` if the group is too large and a version is expected, and `Conflict`
        if a document has another version."""
        texts = {id: write_long_json(value) for id, value in values.items()}
        with self._lock:
            group = self._groups.get(key) or _Group()
            for id, expected in expect.items():
                if expected != group.version(id):
                    raise _conflict(key, id)
            replaced = sum(len(group.held[id].data) for id in texts if id in group.held)
            more = sum(map(len, texts.values())) - replaced
            if group.size + more > self._size:
                if expect:
                    raise LimitExceeded(
                        f"{key[2] or key[1]} is too large: the limit is {self._size} bytes",
                        hint="run the server with a store",
                    )
                return group.version(next(reversed(texts)))
            for id, data in texts.items():
                self._number += 1
                number = group.held[id].number if id in group.held else self._number
                group.held[id] = _Held(group.version(id) + 1, number, data)
            group.size += more
            self._used += more
            self._groups[key] = group
            self._groups.move_to_end(key)
            while self._used > self._size:
                self._remove(next(iter(self._groups)))
            return group.version(next(reversed(texts)))

    def delete(self, key: _Key, id: str, expect: int | None) -> bool:
        with self._lock:
            group = self._groups.get(key)
            if group is None or id not in group.held:
                return False
            if expect not in (None, group.version(id)):
                raise _conflict(key, id)
            size = len(group.held.pop(id).data)
            group.size -= size
            self._used -= size
            if not group.held:
                self._remove(key)
            return True

    def clear(self, key: _Key) -> int:
        with self._lock:
            return self._remove(key)

    def _remove(self, key: _Key) -> int:
        group = self._groups.pop(key, None)
        if group is None:
            return 0
        self._used -= group.size
        return len(group.held)


def _document(id: str, held: _Held) -> Document:
    return Document(id, held.version, read_json(held.data), held.number)


def _not_found(key: _Key, id: str) -> NotFound:
    return NotFound(f"no document {id} in {key[1]}")


def _conflict(key: _Key, id: str) -> Conflict:
    return Conflict(f"document {id} in {key[1]} has changed since it was read")


class _MemoryShelf:
    def __init__(self, memory: MemoryCache, owner: str, collection: str, together: bool) -> None:
        self._memory = memory
        self._owner = owner
        self._collection = collection
        self._together = together

    def get(self, id: str) -> Document:
        return self._memory.get(self._key(id), id)

    def put(self, id: str, value: Mapping[str, Any], *, expect: int | None = None) -> int:
        expected = {} if expect is None else {id: expect}
        return self._memory.put_all(self._key(id), {id: value}, expected)

    def put_all(
        self, values: Mapping[str, Mapping[str, Any]], *, expect: Mapping[str, int]
    ) -> None:
        self._memory.put_all(self._key(), values, expect)

    def delete(self, id: str, *, expect: int | None = None) -> bool:
        return self._memory.delete(self._key(id), id, expect)

    def clear(self) -> int:
        return self._memory.clear(self._key())

    def list(
        self, *, after: str | int | None = None, limit: int = 20, newest_first: bool = True
    ) -> list[Document]:
        return self._memory.list(self._key(), after, limit, newest_first)

    def _key(self, id: str = "") -> _Key:
        return self._owner, self._collection, "" if self._together else id
