"""Objects of the API between requests: documents of the host's store, each user's own.

What is private to the server stands in fields that begin with `_`, which no client sees.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from genai_host.api.http_routes import number_in
from genai_host.errors import Conflict, NotFound, ValidationError

if TYPE_CHECKING:
    from genai_host.host import Host
    from genai_host.store.documents import Documents

Object = Mapping[str, Any]
T = TypeVar("T")

_USUAL, _MOST = 20, 100
_AT_ONCE = 100


class Missing(NotFound):
    """Nobody has such an object, or somebody else."""

    code = "not_found_error"


def new_id(kind: str) -> str:
    """As `asst_` and 24 hexadecimal digits."""
    return f"{kind}_{secrets.token_hex(12)}"


def shown(value: Object) -> dict[str, Any]:
    """An object as clients see it."""
    return {name: each for name, each in value.items() if not name.startswith("_")}


class Shelf:
    """The objects of one kind that a user has, or that belong to one of another kind.

    kind    what they are called in an error, as `assistant`
    within  the id of what they belong to; empty for nothing
    """

    def __init__(self, host: Host, user: str, kind: str, within: str = "") -> None:
        self._host = host
        self._user = user
        self._kind = kind
        self._collection = f"assistants/{kind}" + (f"/{within}" if within else "")

    @property
    def _documents(self) -> Documents:
        return self._host.kept(self._user).documents(self._collection)

    def now(self) -> int:
        return int(self._host.clock.now().timestamp())

    def add(self, value: Object) -> Object:
        """Raises `Conflict` if there is one of that id."""
        self._documents.put(value["id"], value, expect=0)
        return value

    def add_once(self, value: Object) -> Object:
        """The same; one of that id that is there already stays, and is given."""
        try:
            return self.add(value)
        except Conflict:
            return self.get(value["id"])

    def put(self, value: Object) -> None:
        """Write it, whatever was there."""
        self._documents.put(value["id"], value)

    def get(self, id: str) -> Object:
        """Raises `Missing`."""
        try:
            return self._documents.get(id).value
        except NotFound:
            raise self._missing(id) from None

    def find(self, id: str) -> Object | None:
        """None if there is none."""
        try:
            return self.get(id)
        except Missing:
            return None

    def change(self, id: str, make: Callable[[Object], tuple[Object | None, T]]) -> T:
        """Change an object, as `Documents.change` does.

        Raises:
            Missing: The user has no such object.
        """
        try:
            return self._documents.change(id, make)
        except Missing:  # of another object, which `make` has asked for
            raise
        except NotFound:
            raise self._missing(id) from None

    def update(self, id: str, **fields: Any) -> Object:
        """Change fields of an object, and return the object."""

        def make(found: Object) -> tuple[Object, Object]:
            value = {**found, **fields}
            return value, value

        return self.change(id, make)

    def delete(self, id: str) -> None:
        """Raises `Missing`."""
        if not self._documents.delete(id):
            raise self._missing(id)

    def clear(self) -> None:
        self._documents.clear()

    def all(self, where: Object | None = None) -> Iterator[Object]:
        """Oldest first."""
        after: str | None = None
        while True:
            found = self._documents.list(
                after=after, limit=_AT_ONCE, newest_first=False, where=where
            )
            yield from (each.value for each in found)
            if len(found) < _AT_ONCE:
                return
            after = found[-1].id

    def last(self, count: int) -> list[Object]:
        """The newest, oldest first."""
        return [each.value for each in reversed(self._documents.list(limit=count))]

    def page(
        self,
        query: Mapping[str, str],
        show: Callable[[Object], Object] = shown,
        where: Object | None = None,
        most: int = _MOST,
        usual: int = _USUAL,
    ) -> dict[str, Any]:
        """As the API lists them: `limit` (20 unless said), `order` (`desc` unless said), and
        `after` or `before`, the id of one: those that come after it, or before it, in that
        order. Raises `ValidationError`, also for an id that is not there."""
        limit = number_in(query, "limit", usual, most, "$.limit")
        order = query.get("order") or "desc"
        if order not in ("asc", "desc"):
            raise ValidationError("order is asc or desc", path="$.order")
        before = query.get("before") or None
        after = query.get("after") or None
        if before and after:
            raise ValidationError("give after or before, not both", path="$.before")
        try:
            found = self._documents.list(
                after=after or before,
                limit=limit + 1,
                newest_first=(order == "desc") != bool(before),
                where=where,
            )
        except NotFound:
            name = "after" if after else "before"
            raise ValidationError(
                f"there is no {self._kind} {after or before!r}", path=f"$.{name}"
            ) from None
        more, found = len(found) > limit, found[:limit]
        if before:
            found.reverse()
        return listed([show(each.value) for each in found], more)

    def _missing(self, id: str) -> Missing:
        return Missing(f"No {self._kind} found with id '{id[:64]}'.")


def listed(objects: list[Object], more: bool = False) -> dict[str, Any]:
    """A page of a list."""
    return {
        "object": "list",
        "data": objects,
        "first_id": objects[0]["id"] if objects else None,
        "last_id": objects[-1]["id"] if objects else None,
        "has_more": more,
    }
