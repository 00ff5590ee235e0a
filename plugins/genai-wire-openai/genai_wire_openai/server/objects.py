"""Objects of the API: documents of the host's store, separate for each user.

Fields whose names begin with `_` are private to the server. No client sees them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import field, frozen

from genai_host.api import Document, number_in
from genai_host.errors import Conflict, NotFound, ValidationError

if TYPE_CHECKING:
    from genai_host.api import DocumentCollection, HostServices
    from genai_host.serving import DocumentCollection as ListedDocuments

Object = Mapping[str, Any]
T = TypeVar("T")

_DEFAULT_LIMIT, _MAX_LIMIT = 20, 100
_PAGE_SIZE = 100
_LIFE = 24 * 3600  # seconds
_SWEPT = 2


class DeletedPlaces:
    """Places of the documents that were deleted from one collection. A client asks for the next
    page of a list by the id of the last object that it has, which may have been deleted meanwhile.
    So its place is kept for a day.

    Args:
        marks: Documents for them.
    """

    def __init__(self, marks: ListedDocuments) -> None:
        self._marks = marks

    def keep(self, document: Document, now: int) -> None:
        """Keep the place of a document that is deleted next.

        The mark must be younger than the document: SQLite gives the highest number again after its
        document was deleted.
        """
        self._marks.delete(document.id)
        with suppress(Conflict):  # PostgreSQL: another process deletes the document, too
            self._marks.put(document.id, {"number": document.number, "until": now + _LIFE})
        for oldest in self._marks.list(limit=_SWEPT, newest_first=False):
            if oldest.value["until"] < now:  # removes more than are added
                self._marks.delete(oldest.id)

    def find(self, id: str) -> int | None:
        """Return the number of a deleted document; None if none had the id."""
        try:
            number: int = self._marks.get(id).value["number"]
        except NotFound:
            return None
        return number

    def clear(self) -> None:
        self._marks.clear()


class Missing(NotFound):
    """The user has no such object."""

    code = "not_found_error"


def new_id(kind: str) -> str:
    """Return a new id, for example `asst_` and 24 hexadecimal digits."""
    return f"{kind}_{secrets.token_hex(12)}"


def shown(value: Object) -> dict[str, Any]:
    """Return an object as clients see it."""
    return {name: each for name, each in value.items() if not name.startswith("_")}


@frozen(eq=False, repr=False)
class ObjectStore:
    """The objects of one kind of a user, or those that belong to another object.

    Args:
        host: A host with a store.
        user: The user of the server; empty for its owner.
        kind: Name of the objects in errors, for example `assistant`.
        within: Id of the object that they belong to; empty for none.
        plugin: Name of the plugin that stores them.
    """

    _host: HostServices
    _user: str
    _kind: str
    _within: str = ""
    _plugin: str = field(default="assistants", kw_only=True)

    @property
    def _collection(self) -> str:
        return f"{self._plugin}/{self._kind}" + (f"/{self._within}" if self._within else "")

    @property
    def _documents(self) -> DocumentCollection:
        return self._host.store_for(self._user).documents(self._collection)

    @property
    def _places(self) -> DeletedPlaces:
        marks = self._host.store_for(self._user).documents(f"{self._collection}/deleted")
        return DeletedPlaces(marks)

    def now(self) -> int:
        return int(self._host.clock.now().timestamp())

    def add(self, value: Object) -> Object:
        """Add an object. Raises `Conflict` if one of this id exists."""
        self._documents.put(value["id"], value, expect=0)
        return value

    def add_once(self, value: Object) -> Object:
        """Add an object, and return it. If one of this id exists, return that one."""
        try:
            return self.add(value)
        except Conflict:
            return self.get(value["id"])

    def put(self, value: Object) -> None:
        """Write an object, and replace an existing one."""
        self._documents.put(value["id"], value)

    def get(self, id: str) -> Object:
        """Return an object. Raises `Missing`."""
        try:
            found = self._documents.get(id).value
        except NotFound:
            raise self.missing(id) from None
        if found.get("_deleted"):
            raise self.missing(id)
        return found

    def find(self, id: str) -> Object | None:
        """Return an object; None if there is none."""
        try:
            return self.get(id)
        except Missing:
            return None

    def change(self, id: str, make: Callable[[Object], tuple[Object | None, T]]) -> T:
        """Change an object, as `Documents.change` does. Raises `Missing`."""

        def make_of_existing(found: Object) -> tuple[Object | None, T]:
            if found.get("_deleted"):
                raise self.missing(id)
            return make(found)

        return self._change(id, make_of_existing)

    def _change(self, id: str, make: Callable[[Object], tuple[Object | None, T]]) -> T:
        try:
            return self._documents.change(id, make)
        except Missing:  # of another object, which `make` has asked for
            raise
        except NotFound:
            raise self.missing(id) from None

    def update(self, id: str, **fields: Any) -> Object:
        """Change fields of an object, and return the object."""

        def make(found: Object) -> tuple[Object, Object]:
            value = {**found, **fields}
            return value, value

        return self.change(id, make)

    def withdraw(self, id: str, check: Callable[[Object], None]) -> None:
        """Mark an object as deleted: no request finds it, and only `delete` remains. It may be
        marked: its deletion was interrupted. `check` raises an error if the object cannot be
        deleted. Raises `Missing`."""

        def make(found: Object) -> tuple[Object, None]:
            if not found.get("_deleted"):
                check(found)
            return {**found, "_deleted": True}, None

        self._change(id, make)

    def delete(self, id: str, *, keep_place: bool = False) -> None:
        """Delete an object. If `keep_place`, a list can continue after it, for a day: for objects
        that clients list and delete. Raises `Missing`."""
        documents = self._documents
        if keep_place:
            with suppress(NotFound):
                self._places.keep(documents.get(id), self.now())
        if not documents.delete(id):
            raise self.missing(id)

    def clear(self) -> None:
        self._documents.clear()
        self._places.clear()

    def all(self, where: Object | None = None, *, page_size: int = _PAGE_SIZE) -> Iterator[Object]:
        """Yield the objects, oldest first. `where` has values that their fields must have, and one
        query reads `page_size` objects."""
        after: str | None = None
        while True:
            found = self._documents.list(
                after=after, limit=page_size, newest_first=False, where=where
            )
            yield from (each.value for each in found)
            if len(found) < page_size:
                return
            after = found[-1].id

    def last(self, count: int) -> list[Object]:
        """Return the newest objects, oldest first."""
        return [each.value for each in reversed(self._documents.list(limit=count))]

    def page(
        self,
        query: Mapping[str, str],
        show: Callable[[Object], Object] = shown,
        where: Object | None = None,
        most: int = _MAX_LIMIT,
        usual: int = _DEFAULT_LIMIT,
    ) -> dict[str, Any]:
        """Return a page of the list, as the API has it.

        Args:
            query: `limit` (default 20), `order` (default `desc`), and `after` or `before`: the id
                of an object, which may have been deleted within a day; the page has the objects
                after or before it in that order.
            show: Makes an object as clients see it.
            where: Values that fields of the objects must have.
            most: Highest limit.
            usual: Default of the limit.

        Raises:
            ValidationError: A parameter is invalid, or names an object that never existed.
        """
        limit, newest_first = read_page(query, most, usual)
        before = query.get("before") or None
        after = query.get("after") or None
        if before and after:
            raise ValidationError("after and before cannot be combined", path="$.before")
        list_from = partial(
            self._documents.list,
            limit=limit + 1,
            newest_first=newest_first != bool(before),
            where=where,
        )
        try:
            found = list_from(after=after or before)
        except NotFound:
            place = self._places.find(after or before or "")
            if place is None:
                name = "after" if after else "before"
                raise ValidationError(
                    f"unknown {self._kind} {after or before!r}", path=f"$.{name}"
                ) from None
            found = list_from(after=place)
        more, found = len(found) > limit, found[:limit]
        if before:
            found.reverse()
        return listed([show(each.value) for each in found], more)

    def missing(self, id: str) -> Missing:
        """Return the error of an unknown id."""
        return Missing(f"No {self._kind} found with id '{id[:64]}'.")


def read_page(
    query: Mapping[str, str], most: int = _MAX_LIMIT, usual: int = _DEFAULT_LIMIT
) -> tuple[int, bool]:
    """Return `limit` of a query of a list, and whether the newest object comes first, as `order`
    says. Raises `ValidationError`."""
    limit = number_in(query, "limit", usual, most, "$.limit")
    order = query.get("order") or "desc"
    if order not in ("asc", "desc"):
        raise ValidationError("order must be asc or desc", path="$.order")
    return limit, order == "desc"


def listed(
    objects: Sequence[Object], more: bool = False, no_id: str | None = None
) -> dict[str, Any]:
    """Return a page of a list; an empty one has `no_id` in place of ids."""
    return {
        "object": "list",
        "data": [*objects],
        "first_id": objects[0]["id"] if objects else no_id,
        "last_id": objects[-1]["id"] if objects else no_id,
        "has_more": more,
    }
