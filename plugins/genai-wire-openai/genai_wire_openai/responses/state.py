"""Responses that are stored between requests.

They are documents of the host's store if they must last or if there are several processes.
Otherwise they are in the memory of this process, up to a limit: the least recently used are
removed first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genai_host import Host
from genai_host.api import Document
from genai_host.errors import NotFound, StoreError
from genai_host.serving import DocumentCollection, MemoryCache, warn_unrecorded
from genai_wire_openai.responses.fields import ResponseNotFound
from genai_wire_openai.responses.items import is_id

RESPONSES = "responses"
_MEMORY = 8 * 2**20
_LIFE = 30 * 24 * 3600  # seconds, as for responses at OpenAI
_SWEPT = 10


class ResponseStore:
    """Stored responses of one host. Users see only their own."""

    def __init__(self, host: Host, size: int = _MEMORY) -> None:
        self._host = host
        self._memory = MemoryCache(size)
        # another process may get the next request
        self._keeps_all = host.config.server.record_api_calls or host.config.server.workers > 1

    def now(self) -> int:
        return int(self._host.clock.now().timestamp())

    def keep_response(self, user: str, id: str, value: Mapping[str, Any], asked: bool) -> None:
        """Store a response, as the client asked or by default. If the store fails, it is held in
        memory."""
        value = {**value, "until": self.now() + _LIFE}
        if self._host.store is not None and (asked or self._keeps_all):
            try:
                documents = self._host.store_for(user).documents(RESPONSES)
                documents.put(id, value)
                for _ in range(_SWEPT):  # removes more expired responses than are added
                    oldest = documents.list(limit=1, newest_first=False)[0]
                    if oldest.value["until"] >= self.now():
                        break
                    documents.delete(oldest.id)
                return
            except StoreError as error:
                warn_unrecorded(error)
        self._memory.shelf(user, RESPONSES).put(id, value)

    def find(self, user: str, id: str) -> Mapping[str, Any]:
        """Return a stored response. Raises `NotFound` if the user has no such response, or it has
        expired."""
        return self._found(user, id)[1].value

    def delete(self, user: str, id: str) -> None:
        """Delete a response. Raises `NotFound` if the user has no such response."""
        shelf, _ = self._found(user, id)
        shelf.delete(id)

    def in_store(self, user: str, collection: str) -> DocumentCollection | None:
        """Return documents of the host's store; None if it has none."""
        if self._host.store is None:
            return None
        return self._host.store_for(user).documents(collection)

    def in_memory(self, user: str, collection: str) -> DocumentCollection:
        """Return documents in memory that are removed together."""
        return self._memory.shelf(user, collection, together=True)

    def _found(self, user: str, id: str) -> tuple[DocumentCollection, Document]:
        if is_id(id):
            shelves = [self._memory.shelf(user, RESPONSES), self.in_store(user, RESPONSES)]
            for shelf in filter(None, shelves):
                try:
                    found = shelf.get(id)
                except NotFound:
                    continue
                if found.value["until"] < self.now():
                    shelf.delete(id)
                    continue
                return shelf, found
        raise ResponseNotFound(f"unknown id {id!r}")
