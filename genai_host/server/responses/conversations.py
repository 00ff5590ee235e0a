"""Conversations: items that are added to, by clients and by responses."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from genai_host.errors import InvalidData
from genai_host.server.responses.fields import Fields, ItemNotFound, MissingParameter
from genai_host.server.responses.items import Item, Unseal, read_items, with_id
from genai_host.server.responses.kept import CONVERSATIONS, Kept
from genai_host.server.responses.reply import item_tail
from genai_host.server.responses.request import read_metadata

_MOST = 20  # items that a client may add at once

Value = Mapping[str, Any]


def read_new_items(given: Fields, unseal: Unseal) -> list[Item]:
    """What a client adds. Raises `InvalidData`."""
    path = given.at("items")
    values = given.list("items") or []
    if len(values) > _MOST:
        raise InvalidData(f"at most {_MOST} items may be added at once", path=path)
    items = read_items(values, path, unseal)
    for at, item in enumerate(items):
        if item["type"] == "item_reference":
            raise InvalidData("give the item itself", path=f"{path}[{at}]")
    return items


class Conversations:
    """Of the users of one host."""

    def __init__(self, kept: Kept) -> None:
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
        """With its items."""
        self._kept.delete(user, CONVERSATIONS, id)
        return {"id": id, "object": "conversation.deleted", "deleted": True}

    def items(self, user: str, id: str) -> list[Item]:
        """Oldest first."""
        items: list[Item] = self._kept.find(user, CONVERSATIONS, id)["items"]
        return items

    def item(self, user: str, id: str, item: str) -> Item:
        return _one(self.items(user, id), item)

    def add(self, user: str, id: str, items: Sequence[Item]) -> list[Item]:
        """Add items, all or none; gives them with their ids."""
        return self._kept.change(user, CONVERSATIONS, id, lambda value: _added(value, items))

    def delete_item(self, user: str, id: str, item: str) -> dict[str, Any]:
        def without(value: Value) -> tuple[Value, None]:
            _one(value["items"], item)
            return {**value, "items": [one for one in value["items"] if one["id"] != item]}, None

        return self._change(user, id, without)

    def _change(
        self, user: str, id: str, make: Callable[[Value], tuple[Value, None]]
    ) -> dict[str, Any]:
        def changed(value: Value) -> tuple[Value, Value]:
            now, _ = make(value)
            return now, now

        return _shown(self._kept.change(user, CONVERSATIONS, id, changed))


def _shown(value: Value) -> dict[str, Any]:
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
    raise ItemNotFound(f"there is no item {id!r} in this conversation")


def _added(value: Value, items: Sequence[Item]) -> tuple[dict[str, Any], list[Item]]:
    """With further items: each has an id that no other has."""
    taken = {item["id"] for item in value["items"]}
    tail = value["id"].rpartition("_")[2]
    added = []
    for number, item in enumerate(items, value["count"] + 1):
        if item.get("id") in taken:
            item = {name: field for name, field in item.items() if name != "id"}
        added.append(with_id(item, item_tail(tail, number)))
        taken.add(added[-1]["id"])
    count = value["count"] + len(items)
    return {**value, "items": [*value["items"], *added], "count": count}, added


def must_have(given: Fields, name: str) -> None:
    """Raises `InvalidData` for what is not said at all."""
    if name not in given.value:
        raise MissingParameter(f"{name} is missing", path=given.at(name))
