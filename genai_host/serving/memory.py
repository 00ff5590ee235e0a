"""Documents in memory, for hosts without a store or with a store that fails."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from genai_host.api.json_text import read_json, write_long_json
from genai_host.api.storage import Document
from genai_host.errors import Conflict, LimitExceeded, NotFound


class DocumentCollection(Protocol):
    """Documents of one owner in one collection; see `genai_host.store.documents`."""

    def get(self, id: str) -> Document: ...
    def put(self, id: str, value: Mapping[str, Any], *, expect: int | None = None) -> int: ...
    def delete(self, id: str) -> bool: ...


class _Held(NamedTuple):
    version: int
    data: bytes


_Key = tuple[str, str, str]  # owner, collection, id


class MemoryCache:
    """Documents in memory, as JSON. Thread-safe.

    Args:
        size: Maximum total size in bytes. The least recently used documents are removed first.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._used = 0
        self._held: OrderedDict[_Key, _Held] = OrderedDict()
        self._lock = threading.Lock()

    def shelf(self, owner: str, collection: str) -> DocumentCollection:
        return _MemoryShelf(self, owner, collection)

    def get(self, key: _Key) -> Document:
        with self._lock:
            if key not in self._held:
                raise NotFound(f"no document {key[2]} in {key[1]}")
            self._held.move_to_end(key)
            version, data = self._held[key]
        return Document(key[2], version, read_json(data))

    def put(self, key: _Key, value: Mapping[str, Any], expect: int | None) -> int:
        """Save a document, unless it is too large, and return its version. Raises `LimitExceeded`
        if a document to replace has become too large, and `Conflict` if it has another version."""
        data = write_long_json(value)
        with self._lock:
            before = self._held.get(key)
            version = before.version if before else 0
            if expect is not None and expect != version:
                raise Conflict(f"document {key[2]} in {key[1]} has changed since it was read")
            if len(data) > self._size:
                if expect is not None:
                    raise LimitExceeded(
                        f"{key[2]} is too large: the limit is {self._size} bytes",
                        hint="run the server with a store",
                    )
                return version
            self._remove(key)
            self._held[key] = _Held(version + 1, data)
            self._used += len(data)
            while self._used > self._size:
                self._remove(next(iter(self._held)))
        return version + 1

    def delete(self, key: _Key) -> bool:
        with self._lock:
            return self._remove(key)

    def _remove(self, key: _Key) -> bool:
        held = self._held.pop(key, None)
        self._used -= len(held.data) if held else 0
        return held is not None


class _MemoryShelf:
    def __init__(self, memory: MemoryCache, owner: str, collection: str) -> None:
        self._memory = memory
        self._owner = owner
        self._collection = collection

    def get(self, id: str) -> Document:
        return self._memory.get((self._owner, self._collection, id))

    def put(self, id: str, value: Mapping[str, Any], *, expect: int | None = None) -> int:
        return self._memory.put((self._owner, self._collection, id), value, expect)

    def delete(self, id: str) -> bool:
        return self._memory.delete((self._owner, self._collection, id))
