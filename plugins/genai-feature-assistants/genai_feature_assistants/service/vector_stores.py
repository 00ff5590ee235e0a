"""Vector stores: files that are searched by meaning.

Source: OpenAI API reference, "Vector stores"; OpenAPI document 2.3.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from genai_wire_openai.server.files import Files
from genai_wire_openai.server.objects import Object, ObjectStore, new_id, shown

from genai_feature_assistants.service.fields import (
    matches,
    metadata_in,
    must_be_filter,
    ranking_in,
)
from genai_feature_assistants.service.indexing import (
    Held,
    Hit,
    Passages,
    nearest,
    shelf_of,
    stores_of,
    unit_rows,
)
from genai_feature_assistants.service.vector_store_files import (
    StoreFiles,
    chunking_in,
    counts_of,
)
from genai_host.api import (
    CancelToken,
    JsonReader,
    RouteRequest,
    RouteResponse,
    body_of,
    json_response,
)
from genai_host.errors import ValidationError

if TYPE_CHECKING:
    from genai_host.api import HostServices

_DAY = 24 * 3600
_MAX_FILES = 500


class VectorStores:
    """The vector stores of all users."""

    def __init__(self, host: HostServices, files: Files, store_files: StoreFiles) -> None:
        self._host = host
        self._files = files
        self._store_files = store_files
        self._held = Held()

    def create(self, request: RouteRequest) -> RouteResponse:
        given = body_of(request) if request.body else JsonReader({}, "$")
        name = given.text("name")
        metadata = metadata_in(given)
        expires = _expires_in(given)
        chunking = chunking_in(given)
        files = given.texts("file_ids")
        if len(files) > _MAX_FILES:
            raise ValidationError(f"must be at most {_MAX_FILES} files", path="$.file_ids")
        given.raw("description")
        given.nothing_else()
        made = self.make(request.user, files, name, metadata, expires, chunking)
        return json_response(self._shown(request.user, made))

    def show(self, request: RouteRequest) -> RouteResponse:
        return json_response(self._shown(request.user, self.get(request.user, _id(request))))

    def page(self, request: RouteRequest) -> RouteResponse:
        show = partial(self._shown, request.user)
        return json_response(self._shelf(request.user).page(request.query, show))

    def update(self, request: RouteRequest) -> RouteResponse:
        given = body_of(request)
        fields = {"name": given.text_or_none("name"), "metadata": metadata_in(given)}
        fields = {name: value for name, value in fields.items() if name in given}
        if "expires_after" in given.value:
            fields["expires_after"] = _expires_in(given)
        given.nothing_else()
        self._shelf(request.user).update(_id(request), **fields)
        return self.show(request)

    def delete(self, request: RouteRequest) -> RouteResponse:
        id = _id(request)
        self._shelf(request.user).delete(id, keep_place=True)
        self._store_files.forget_all(request.user, id)
        return json_response({"id": id, "object": "vector_store.deleted", "deleted": True})

    def search(self, request: RouteRequest) -> RouteResponse:
        given = body_of(request)
        is_text = isinstance(given.raw("query"), str)
        queries = [given.text("query")] if is_text else given.texts("query")
        if not any(query.strip() for query in queries):
            raise ValidationError("query is missing", path="$.query")
        most = given.whole("max_num_results", 1, 50) or 10
        ranking = given.object("ranking_options")
        least = ranking_in(ranking)["score_threshold"] if ranking is not None else 0.0
        filters = given.mapping("filters")
        if filters is not None:
            must_be_filter(filters, "$.filters")
        given.flag("rewrite_query")
        given.nothing_else()
        store = _id(request)
        hits = self.found(
            request.user, [store], queries, most, least, request.limits, filters=filters
        )
        data = [
            {
                "file_id": hit.key,
                "filename": self._files.name(request.user, hit.key),
                "score": hit.score,
                "attributes": shelf_of(self._host, request.user, store).get(hit.key)["attributes"],
                "content": [{"type": "text", "text": hit.text}],
            }
            for hit in hits
        ]
        page = {"search_query": list(queries), "data": data, "has_more": False, "next_page": None}
        return json_response({"object": "vector_store.search_results.page", **page})

    def make(
        self,
        user: str,
        files: Sequence[str],
        name: str = "",
        metadata: Mapping[str, str] | None = None,
        expires: Mapping[str, Any] | None = None,
        chunking: Mapping[str, Any] | None = None,
    ) -> Object:
        """Make a vector store, and index its files. Raises `ValidationError`: a file does not
        exist."""
        self._files.must_be(user, dict.fromkeys(files, "$.file_ids"))
        shelf = self._shelf(user)
        made: dict[str, Any] = {
            "id": new_id("vs"),
            "object": "vector_store",
            "created_at": shelf.now(),
            "name": name,
            "metadata": dict(metadata or {}),
            "expires_after": expires,
            "last_active_at": shelf.now(),
            "_deletions": self._files.deletions(user),
        }
        shelf.add(made)
        for file in files:
            self._store_files.add(user, made["id"], file, chunking)
        return made

    def get(self, user: str, id: str) -> Object:
        """Return a vector store. Raises `Missing`."""
        return self._shelf(user).get(id)

    def is_ready(self, user: str, id: str) -> bool:
        """Return whether the indexing of all files has ended."""
        waiting = shelf_of(self._host, user, id).all({"status": "in_progress"})
        return next(waiting, None) is None

    def found(
        self,
        user: str,
        stores: Sequence[str],
        queries: Sequence[str],
        most: int,
        least: float,
        limits: CancelToken,
        filters: Mapping[str, Any] | None = None,
    ) -> list[Hit]:
        """Return the passages most similar to any of the queries, best first.

        The key of each is the id of its file. Errors of the embedder are raised. Raises `Missing`:
        a vector store does not exist."""
        blobs = self._host.store_for(user).blobs()
        files: dict[str, Passages] = {}  # a file of several stores counts once
        for store in stores:
            searched = self.get(user, store)
            if self._status(searched) == "expired":
                raise ValidationError(f"the vector store {store} has expired")
            self._store_files.settle(user, searched)
            for file in shelf_of(self._host, user, store).all({"status": "completed"}):
                if filters is None or matches(file["attributes"], filters):
                    files[file["id"]] = self._held.get(file["_blob"], blobs)
            self._shelf(user).update(store, last_active_at=self._shelf(user).now())

        @cache
        def question(embedder: str) -> Any:
            given = self._host.embed(
                queries, model=embedder or None, purpose="query", limits=limits, owner=user
            )
            return unit_rows(given.vectors)

        hits = nearest(list(files.items()), question, most, least)
        # a file may have been deleted meanwhile
        return [hit for hit in hits if self._files.name(user, hit.key)]

    def _shown(self, user: str, store: Object) -> dict[str, Any]:
        self._store_files.settle(user, store)
        files = list(shelf_of(self._host, user, store["id"]).all())
        counts = counts_of(files)
        expires = store["expires_after"]
        body = shown(store)
        if not expires:  # the API has an object or no field
            del body["expires_after"]
        return {
            **body,
            "usage_bytes": sum(file["usage_bytes"] for file in files),
            "file_counts": counts,
            "status": self._status(store, counts["in_progress"]),
            "expires_at": _end_of(store) if expires else None,
        }

    def _status(self, store: Object, in_progress: int = 0) -> str:
        end = _end_of(store)
        if end is not None and end < int(self._host.clock.now().timestamp()):
            return "expired"
        return "in_progress" if in_progress else "completed"

    def _shelf(self, user: str) -> ObjectStore:
        return stores_of(self._host, user)


def _end_of(store: Object) -> int | None:
    expires = store["expires_after"]
    return store["last_active_at"] + expires["days"] * _DAY if expires else None


def _expires_in(given: JsonReader) -> dict[str, Any] | None:
    after = given.object("expires_after")
    if after is None:
        return None
    anchor = after.choice("anchor", ("last_active_at",), "last_active_at")
    days = after.whole("days", 1, 365)
    if days is None:
        raise ValidationError("days must be a number", path=after.at("days"))
    return {"anchor": anchor, "days": days}


def _id(request: RouteRequest) -> str:
    return request.parameters["store"]
