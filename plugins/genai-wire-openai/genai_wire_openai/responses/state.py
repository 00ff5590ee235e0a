"""Responses and conversations that are stored between requests.

They are documents of the host's store if they must last or if there are several processes.
Otherwise they are in the memory of this process, up to a limit: the least recently used are
removed first.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from genai_host import Host
from genai_host.api import Document
from genai_host.errors import Conflict, NotFound, StoreError, ValidationError
from genai_host.serving import DocumentCollection, MemoryCache, warn_unrecorded
from genai_wire_openai.responses.fields import (
    ConversationNotFound,
    Fields,
    ItemNotFound,
    MissingParameter,
    PreviousNotFound,
    ResponseNotFound,
)
from genai_wire_openai.responses.items import Unseal, is_id, read_items, with_id
from genai_wire_openai.responses.replies import belongs_to, item_tail
from genai_wire_openai.responses.request import read_metadata
from genai_wire_openai.responses.tools import Item, check_tools

RESPONSES = "responses"
CONVERSATIONS = "response_conversations"

_MISSING = {RESPONSES: ResponseNotFound, CONVERSATIONS: ConversationNotFound}
_MEMORY = 8 * 2**20
_LIFE = 30 * 24 * 3600  # seconds, as for responses at OpenAI
_TRIES = 20
_SWEPT = 10

T = TypeVar("T")


class ResponseStore:
    """Stored responses and conversations of one host. Users see only their own."""

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

    def keep_conversation(self, user: str, id: str, value: Mapping[str, Any]) -> None:
        """Store a new conversation, in the host's store if there is one. Raises `LimitExceeded` if
        the conversation is too large for the memory of this process."""
        if self._host.store is None:
            self._memory.shelf(user, CONVERSATIONS).put(id, value, expect=0)
        else:
            self._host.store_for(user).documents(CONVERSATIONS).put(id, value, expect=0)

    def find(self, user: str, collection: str, id: str) -> Mapping[str, Any]:
        """Return a stored value. Raises `NotFound` if the user has no such value, or it has
        expired."""
        return self._found(user, collection, id)[1].value

    def change(
        self,
        user: str,
        collection: str,
        id: str,
        make: Callable[[Mapping[str, Any]], tuple[Mapping[str, Any], T]],
    ) -> T:
        """Replace a stored value by one that `make` derives from it, with retries after concurrent
        changes. Returns the other result of `make`."""
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
        """Delete a stored value. Raises `NotFound` if the user has no such value."""
        shelf, _ = self._found(user, collection, id)
        shelf.delete(id)

    def _found(self, user: str, collection: str, id: str) -> tuple[DocumentCollection, Document]:
        if is_id(id):
            for shelf in self._shelves(user, collection):
                try:
                    found = shelf.get(id)
                except NotFound:
                    continue
                until = found.value.get("until")  # conversations do not expire
                if until is not None and until < self.now():
                    shelf.delete(id)
                    continue
                return shelf, found
        raise _MISSING[collection](f"unknown id {id!r}")

    def _shelves(self, user: str, collection: str) -> list[DocumentCollection]:
        shelves: list[DocumentCollection] = [self._memory.shelf(user, collection)]
        if self._host.store is not None:
            shelves.append(self._host.store_for(user).documents(collection))
        return shelves


_MOST = 20  # maximum number of items in one request

StoredValue = Mapping[str, Any]


def read_new_items(given: Fields, unseal: Unseal) -> list[Item]:
    """Read the items that a client adds. Raises `ValidationError`."""
    path = given.at("items")
    if len(given.values("items")) > _MOST:
        raise ValidationError(f"at most {_MOST} items can be added per request", path=path)
    items = read_items(given, "items", unseal)
    for at, item in enumerate(items):
        if item["type"] == "item_reference":
            raise ValidationError("send the item itself", path=f"{path}[{at}]")
    check_tools(items, path)
    return items


class ConversationStore:
    """Conversations of all users of one host."""

    def __init__(self, kept: ResponseStore) -> None:
        self._kept = kept

    def create(self, user: str, given: Fields, unseal: Unseal) -> dict[str, Any]:
        tail = secrets.token_hex(24)
        value: dict[str, Any] = {
            "id": f"conv_{tail}",
            "created_at": self._kept.now(),
            "metadata": read_metadata(given),
            "items": [],
            "count": 0,
        }
        value, _ = _added(value, read_new_items(given, unseal))
        self._kept.keep_conversation(user, value["id"], value)
        return _shown(value)

    def show(self, user: str, id: str) -> dict[str, Any]:
        return _shown(self._kept.find(user, CONVERSATIONS, id))

    def update(self, user: str, id: str, given: Fields) -> dict[str, Any]:
        metadata = read_metadata(given)
        return self._change(user, id, lambda value: ({**value, "metadata": metadata}, None))

    def delete(self, user: str, id: str) -> dict[str, Any]:
        """Delete a conversation with its items."""
        self._kept.delete(user, CONVERSATIONS, id)
        return {"id": id, "object": "conversation.deleted", "deleted": True}

    def items(self, user: str, id: str) -> list[Item]:
        """Return the items, oldest first."""
        items: list[Item] = self._kept.find(user, CONVERSATIONS, id)["items"]
        return items

    def item(self, user: str, id: str, item: str) -> Item:
        return _one(self.items(user, id), item)

    def add(self, user: str, id: str, items: Sequence[Item]) -> list[Item]:
        """Add items, all or none, and return them with their ids."""
        return self._kept.change(user, CONVERSATIONS, id, lambda value: _added(value, items))

    def delete_item(self, user: str, id: str, item: str) -> dict[str, Any]:
        def without(value: StoredValue) -> tuple[StoredValue, None]:
            _one(value["items"], item)
            return {**value, "items": [one for one in value["items"] if one["id"] != item]}, None

        return self._change(user, id, without)

    def _change(
        self, user: str, id: str, make: Callable[[StoredValue], tuple[StoredValue, None]]
    ) -> dict[str, Any]:
        def changed(value: StoredValue) -> tuple[StoredValue, StoredValue]:
            now, _ = make(value)
            return now, now

        return _shown(self._kept.change(user, CONVERSATIONS, id, changed))


def _shown(value: StoredValue) -> dict[str, Any]:
    return {
        "id": value["id"],
        "object": "conversation",
        "created_at": value["created_at"],
        "metadata": value["metadata"],
    }


def _one(items: Iterable[Item], id: str) -> Item:
    for item in items:
        if item["id"] == id:
            return item
    raise ItemNotFound(f"unknown item {id!r} in this conversation")


def _added(value: StoredValue, items: Sequence[Item]) -> tuple[dict[str, Any], list[Item]]:
    """The conversation with further items, which get unique ids."""
    taken = {item["id"] for item in value["items"]}
    tail = value["id"].rpartition("_")[2]
    added = []
    for number, item in enumerate(items, value["count"] + 1):
        if item["id"] in taken:
            item = {**item, "id": ""}
        added.append(with_id(item, item_tail(tail, number)))
        taken.add(added[-1]["id"])
    count = value["count"] + len(items)
    return {**value, "items": [*value["items"], *added], "count": count}, added


def must_have(given: Fields, name: str) -> None:
    """Check that a field is given, even if null. Raises `ValidationError` if the field is
    missing."""
    if name not in given.value:
        raise MissingParameter(f"{name} is missing", path=given.at(name))


class PreviousItems:
    """Previous items of requests, of all users of one host."""

    def __init__(self, kept: ResponseStore, conversations: ConversationStore) -> None:
        self._kept = kept
        self._conversations = conversations

    def before(self, user: str, previous: str | None, conversation: str | None) -> list[Item]:
        """Return the items of the conversation or of the previous responses, without instructions.
        Raises `NotFound` if the conversation or a response does not exist."""
        if conversation is not None:
            return self._conversations.items(user, conversation)
        turns: list[list[Item]] = []
        while previous is not None:
            try:
                kept = self._kept.find(user, RESPONSES, previous)
            except NotFound:
                raise PreviousNotFound(
                    f"response {previous!r} does not exist or is no longer stored"
                ) from None
            response = kept["response"]
            if response["conversation"] is not None:
                raise ValidationError(
                    f"{previous} belongs to a conversation: give "
                    f"conversation: {response['conversation']['id']!r} instead",
                    path="$.previous_response_id",
                )
            turns.append([*kept["input"], *response["output"]])
            previous = response["previous_response_id"]
        return [item for turn in reversed(turns) for item in turn]

    def input(
        self,
        user: str,
        items: Sequence[Item],
        before: Iterable[Item],
        new_tail: Callable[[], str],
    ) -> list[Item]:
        """Return the items of a request, with ids and with references replaced by their items.
        Raises `NotFound` if an item does not exist."""
        known: dict[str, Item] = {}
        if any(item["type"] == "item_reference" for item in items):
            known = {item["id"]: item for item in before}
        return [
            self._meant(user, item["id"], known)
            if item["type"] == "item_reference"
            else with_id(item, new_tail())
            for item in items
        ]

    def _meant(self, user: str, id: str, known: dict[str, Item]) -> Item:
        if id not in known:
            tail = belongs_to(id)
            known.update((item["id"], item) for item in self._items_of(user, tail))
        if id not in known:
            raise ItemNotFound(
                f"unknown item {id!r}", hint="only items of stored responses can be referenced"
            )
        return known[id]

    def _items_of(self, user: str, tail: str) -> Sequence[Item]:
        """The items of the response or conversation with this end of the id."""
        try:
            kept = self._kept.find(user, RESPONSES, f"resp_{tail}")
            return [*kept["input"], *kept["response"]["output"]]
        except NotFound:
            pass
        try:
            return self._conversations.items(user, f"conv_{tail}")
        except NotFound:
            return ()
