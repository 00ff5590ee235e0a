"""Responses and conversations that are stored between requests.

A conversation is a collection of documents: one for the conversation itself, then one for each
item, in order. A turn writes what it adds, in one transaction. In earlier versions a conversation
was one document with all its items, which is converted when it is next used.

They are documents of the host's store if they must last or if there are several processes.
Otherwise they are in the memory of this process, up to a limit: the least recently used are
removed first.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any

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
from genai_wire_openai.server.objects import DeletedPlaces

RESPONSES = "responses"
CONVERSATIONS = "response_conversations"
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


_HEAD = "(conversation)"
"""Id of the document of the conversation itself. No item can have it."""

_ALL = 2**31 - 1
_MAX = 20  # maximum number of items in one request
_TRIES = 20

Head = Mapping[str, Any]


def read_new_items(given: Fields, unseal: Unseal) -> list[Item]:
    """Read the items that a client adds. Raises `ValidationError`."""
    path = given.at("items")
    if len(given.values("items")) > _MAX:
        raise ValidationError(f"at most {_MAX} items can be added per request", path=path)
    items = read_items(given, "items", unseal)
    for at, item in enumerate(items):
        if item["type"] == "item_reference":
            raise ValidationError("send the item itself", path=f"{path}[{at}]")
    check_tools(items, path)
    return items


def must_have(given: Fields, name: str) -> None:
    """Check that a field is given, even if null. Raises `ValidationError` if the field is
    missing."""
    if name not in given.value:
        raise MissingParameter(f"{name} is missing", path=given.at(name))


class ConversationStore:
    """Conversations of all users of one host."""

    def __init__(self, kept: ResponseStore) -> None:
        self._kept = kept

    def create(self, user: str, given: Fields, unseal: Unseal) -> dict[str, Any]:
        """Create a conversation. Raises `LimitExceeded` if it is too large for the memory of this
        process."""
        id = f"conv_{secrets.token_hex(24)}"
        head = {
            "id": id,
            "created_at": self._kept.now(),
            "metadata": read_metadata(given),
            "count": 0,
        }
        head, added = _added(head, read_new_items(given, unseal), lambda id: False)
        self._documents(user, id).put_all(_by_id(head, added), expect={_HEAD: 0})
        return _shown(head)

    def show(self, user: str, id: str) -> dict[str, Any]:
        return _shown(self._open(user, id)[1].value)

    def update(self, user: str, id: str, given: Fields) -> dict[str, Any]:
        metadata = read_metadata(given)
        head, _ = self._change(user, id, lambda _, head: ({**head, "metadata": metadata}, []))
        return _shown(head)

    def delete(self, user: str, id: str) -> dict[str, Any]:
        """Delete a conversation with its items."""
        documents, _ = self._open(user, id)
        former = self._kept.in_store(user, CONVERSATIONS)
        if former is not None:  # a document that was converted may be left
            former.delete(id)
        documents.clear()
        self._deleted(user, id).clear()
        return {"id": id, "object": "conversation.deleted", "deleted": True}

    def items(self, user: str, id: str) -> list[Item]:
        """Return the items, oldest first."""
        documents, head = self._open(user, id)
        found = documents.list(after=head.number, limit=_ALL, newest_first=False)
        return [dict(each.value) for each in found]

    def page(
        self, user: str, id: str, after: str | None, limit: int, *, newest_first: bool
    ) -> tuple[list[Item], bool]:
        """Return items after one of them, and whether there are more. That one may have been
        deleted within a day. Raises `ValidationError` if it never existed."""
        documents, head = self._open(user, id)
        last = None if newest_first else head.number
        if after is not None:
            last = self._place(user, id, documents, after)
        found = documents.list(after=last, limit=limit + 1, newest_first=newest_first)
        items = [dict(each.value) for each in found if each.id != _HEAD]
        return items[:limit], len(items) > limit

    def item(self, user: str, id: str, item: str) -> Item:
        documents, _ = self._open(user, id)
        return dict(_one(documents, item).value)

    def add(self, user: str, id: str, items: Sequence[Item]) -> list[Item]:
        """Add items, all or none, and return them with their ids."""

        def make(documents: DocumentCollection, head: Head) -> tuple[Head, list[Item]]:
            return _added(head, items, lambda id: _has(documents, id))

        return self._change(user, id, make)[1]

    def delete_item(self, user: str, id: str, item: str) -> dict[str, Any]:
        documents, head = self._open(user, id)
        self._deleted(user, id).keep(_one(documents, item), self._kept.now())
        documents.delete(item)
        return _shown(head.value)

    def _change(
        self,
        user: str,
        id: str,
        make: Callable[[DocumentCollection, Head], tuple[Head, list[Item]]],
    ) -> tuple[Head, list[Item]]:
        """Replace the document of a conversation, and add items, with retries after concurrent
        changes."""
        for last in reversed(range(_TRIES)):
            documents, found = self._open(user, id)
            head, added = make(documents, found.value)
            expect = {_HEAD: found.version, **{item["id"]: 0 for item in added}}
            try:
                documents.put_all(_by_id(head, added), expect=expect)
                break
            except Conflict:
                if not last:
                    raise
        return head, added

    def _open(self, user: str, id: str) -> tuple[DocumentCollection, Document]:
        """The documents of a conversation, and that of the conversation itself."""
        if is_id(id):
            documents = self._documents(user, id)
            with suppress(NotFound):
                return documents, documents.get(_HEAD)
            with suppress(NotFound):
                self._convert(user, id, documents)
                return documents, documents.get(_HEAD)
        raise ConversationNotFound(f"unknown id {id!r}")

    def _convert(self, user: str, id: str, documents: DocumentCollection) -> None:
        """Convert a conversation that is one document. Raises `NotFound` if there is none."""
        former = self._kept.in_store(user, CONVERSATIONS)
        if former is None:
            return
        for last in reversed(range(_TRIES)):
            found = former.get(id)
            head = dict(found.value)
            try:
                documents.put_all(_by_id(head, head.pop("items")), expect={_HEAD: 0})
            except Conflict:  # another process converts it
                return
            try:
                if not former.delete(id, expect=found.version):  # it was deleted meanwhile
                    documents.clear()
                return
            except Conflict:  # a server of an earlier version has added a turn
                documents.clear()
                if not last:
                    raise

    def _place(self, user: str, id: str, documents: DocumentCollection, item: str) -> int:
        try:
            return _one(documents, item).number
        except ItemNotFound:
            place = self._deleted(user, id).find(item) if is_id(item) else None
        if place is None:
            raise ValidationError(f"unknown item {item!r}", path="$.after")
        return place

    def _documents(self, user: str, id: str) -> DocumentCollection:
        return self._collection(user, f"{CONVERSATIONS}/{id}")

    def _deleted(self, user: str, id: str) -> DeletedPlaces:
        return DeletedPlaces(self._collection(user, f"{CONVERSATIONS}/{id}/deleted"))

    def _collection(self, user: str, name: str) -> DocumentCollection:
        return self._kept.in_store(user, name) or self._kept.in_memory(user, name)


def _shown(head: Head) -> dict[str, Any]:
    return {
        "id": head["id"],
        "object": "conversation",
        "created_at": head["created_at"],
        "metadata": head["metadata"],
    }


def _by_id(head: Head, items: Iterable[Item]) -> dict[str, Mapping[str, Any]]:
    return {_HEAD: head, **{item["id"]: item for item in items}}


def _one(documents: DocumentCollection, item: str) -> Document:
    if is_id(item):
        with suppress(NotFound):
            return documents.get(item)
    raise ItemNotFound(f"unknown item {item!r} in this conversation")


def _has(documents: DocumentCollection, item: str) -> bool:
    try:
        documents.get(item)
    except NotFound:
        return False
    return True


def _added(
    head: Head, items: Sequence[Item], is_taken: Callable[[str], bool]
) -> tuple[dict[str, Any], list[Item]]:
    """The conversation and its new items, which get unique ids."""
    tail = head["id"].rpartition("_")[2]
    added: dict[str, Item] = {}
    count = head["count"]
    for item in items:
        count += 1
        new = with_id(dict(item), item_tail(tail, count))
        while new["id"] in added or is_taken(new["id"]):
            count += 1
            new = with_id({**item, "id": ""}, item_tail(tail, count))
        added[new["id"]] = new
    return {**head, "count": count}, list(added.values())


_MAX_READ = 1000  # maximum number of reasoning items that are looked up for one request


def _lacks_data(item: Item) -> bool:
    return item["type"] == "reasoning" and "opaque" not in item and belongs_to(item["id"]) != ""


def _with_data(item: Item, known: Mapping[str, Item]) -> Item:
    """Reasoning with the opaque data of the stored item with its id."""
    kept = known.get(item["id"], {}) if _lacks_data(item) else {}
    return {**item, "opaque": kept["opaque"]} if "opaque" in kept else item


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
                kept = self._kept.find(user, previous)
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
        self, user: str, items: Sequence[Item], before: Iterable[Item], new_tail: Callable[[], str]
    ) -> list[Item]:
        """Return the items of a request, with ids and with references replaced by their items.
        Stored reasoning has its opaque data again, which clients seldom send back. Raises
        `NotFound` if an item does not exist."""
        known: dict[str, Item] = {}
        thoughts = [each["id"] for each in items if _lacks_data(each)][-_MAX_READ:]
        if thoughts or any(item["type"] == "item_reference" for item in items):
            known = {item["id"]: item for item in before}
        find = cache(partial(self._of_response, user))
        for id in thoughts:
            if id not in known:
                known.update(find(belongs_to(id)) or self._of_conversation(user, id))
        return [
            self._meant(user, item["id"], known)
            if item["type"] == "item_reference"
            else with_id(_with_data(item, known), new_tail())
            for item in items
        ]

    def _meant(self, user: str, id: str, known: dict[str, Item]) -> Item:
        if id not in known:
            found = self._of_response(user, belongs_to(id))
            known.update(found or self._of_conversation(user, id))
        if id not in known:
            raise ItemNotFound(
                f"unknown item {id!r}", hint="only items of stored responses can be referenced"
            )
        return known[id]

    def _of_response(self, user: str, tail: str) -> Mapping[str, Item]:
        """The items of the response with this end of the id, by their ids."""
        try:
            kept = self._kept.find(user, f"resp_{tail}")
        except NotFound:
            return {}
        return {item["id"]: item for item in (*kept["input"], *kept["response"]["output"])}

    def _of_conversation(self, user: str, id: str) -> Mapping[str, Item]:
        try:
            return {id: self._conversations.item(user, f"conv_{belongs_to(id)}", id)}
        except NotFound:
            return {}
