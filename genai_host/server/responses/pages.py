"""Lists of items, a page at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from genai_host.api.given import number_in
from genai_host.errors import InvalidData
from genai_host.server.responses.items import Item

_MOST = 100
_USUAL = 20


def page_of(
    items: Sequence[Item], query: Mapping[str, str], show: Callable[[Item], Item]
) -> dict[str, Any]:
    """A page of items that are given oldest first.

    query   `limit` (1 to 100, 20 if unsaid), `order` (`desc` if unsaid) and `after`, the id
            of an item: those that come after it in that order

    Raises `InvalidData`.
    """
    limit = number_in(query, "limit", _USUAL, _MOST, "$.limit")
    order = query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise InvalidData("order must be asc or desc", path="$.order")
    ordered = list(items) if order == "asc" else list(reversed(items))
    if query.get("after"):
        at = next((n for n, item in enumerate(ordered) if item["id"] == query["after"]), None)
        if at is None:
            raise InvalidData(f"there is no item {query['after']!r}", path="$.after")
        ordered = ordered[at + 1 :]
    return listed([show(item) for item in ordered[:limit]], len(ordered) > limit)


def listed(items: Sequence[Item], more: bool = False) -> dict[str, Any]:
    return {
        "object": "list",
        "data": [*items],
        "first_id": items[0]["id"] if items else "",
        "last_id": items[-1]["id"] if items else "",
        "has_more": more,
    }
