"""Responses and conversations between requests.

They are documents of the host's store where they are to last, or there are several processes,
and otherwise in the memory of this one, as much as fits: those that were not used for longest
go first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from genai_host.errors import Conflict, NotFound, StoreError
from genai_host.host import Host
from genai_host.recording import warn_unrecorded
from genai_host.server.memory import Found, Memory, Shelf
from genai_host.server.responses.fields import ConversationNotFound, ResponseNotFound
from genai_host.server.responses.items import is_id

RESPONSES = "responses"
CONVERSATIONS = "response_conversations"

_MISSING = {RESPONSES: ResponseNotFound, CONVERSATIONS: ConversationNotFound}
_MEMORY = 8 * 2**20
_LIFE = 30 * 24 * 3600  # seconds, as OpenAI keeps responses
_TRIES = 20
_SWEPT = 10

T = TypeVar("T")


class Kept:
    """Of one host, for all users of it; each sees their own only."""

    def __init__(self, host: Host, size: int = _MEMORY) -> None:
        self._host = host
        self._memory = Memory(size)
        # what is gone on from may be asked of another of them
        self._keeps_all = host.config.record_served or host.config.server.workers > 1

    def now(self) -> int:
        return int(self._host.clock.now().timestamp())

    def keep_response(self, user: str, id: str, value: Mapping[str, Any], asked: bool) -> None:
        """A store that fails keeps nobody from an answer.

        asked   whether the client said that it is to be kept
        """
        value = {**value, "until": self.now() + _LIFE}
        if self._host.store is not None and (asked or self._keeps_all):
            try:
                documents = self._host.kept(user).documents(RESPONSES)
                documents.put(id, value)
                for _ in range(_SWEPT):  # of those that are too old, some more than are put in
                    oldest = documents.list(limit=1, newest_first=False)[0]
                    if oldest.value["until"] >= self.now():
                        break
                    documents.delete(oldest.id)
                return
            except StoreError as error:
                warn_unrecorded(error)
        self._memory.shelf(user, RESPONSES).put(id, value)

    def keep_conversation(self, user: str, id: str, value: Mapping[str, Any]) -> None:
        """In the store, if there is one: whoever makes a conversation wants it to last.
        Raises `LimitExceeded` if it is too large for the memory of this process."""
        if self._host.store is None:
            self._memory.shelf(user, CONVERSATIONS).put(id, value, expect=0)
        else:
            self._host.kept(user).documents(CONVERSATIONS).put(id, value, expect=0)

    def find(self, user: str, collection: str, id: str) -> Mapping[str, Any]:
        """Raises `NotFound`, also for what is another's, and for what is too old."""
        return self._found(user, collection, id)[1].value

    def change(
        self,
        user: str,
        collection: str,
        id: str,
        make: Callable[[Mapping[str, Any]], tuple[Mapping[str, Any], T]],
    ) -> T:
        """Put another value in its place, made of the one that is there, again if somebody
        else has changed it meanwhile. What else `make` gives is given back."""
        for last in reversed(range(_TRIES)):
            shelf, found = self._found(user, collection, id)
            value, result = make(found.value)
            try:
                shelf.put(id, value, expect=found.version)
                break
            except Conflict:
                if not last:
                    raise
        return result

    def delete(self, user: str, collection: str, id: str) -> None:
        """Raises `NotFound`."""
        shelf, _ = self._found(user, collection, id)
        shelf.delete(id)

    def _found(self, user: str, collection: str, id: str) -> tuple[Shelf, Found]:
        if is_id(id):
            for shelf in self._shelves(user, collection):
                try:
                    found = shelf.get(id)
                except NotFound:
                    continue
                if found.value.get("until", self.now()) < self.now():
                    shelf.delete(id)
                    continue
                return shelf, found
        raise _MISSING[collection](f"there is no {id!r} here")

    def _shelves(self, user: str, collection: str) -> list[Shelf]:
        shelves: list[Shelf] = [self._memory.shelf(user, collection)]
        if self._host.store is not None:
            shelves.append(self._host.kept(user).documents(collection))
        return shelves
