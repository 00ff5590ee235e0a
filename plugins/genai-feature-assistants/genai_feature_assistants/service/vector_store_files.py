"""The files of vector stores, one by one and in batches.

Source: OpenAI API reference, "Vector store files", "Vector store file batches".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from attrs import frozen
from genai_wire_openai.server.files import Files
from genai_wire_openai.server.objects import Object, ObjectStore, new_id, shown

from genai_feature_assistants.service.fields import attributes_in
from genai_feature_assistants.service.indexing import Passages, job_of, shelf_of, stores_of
from genai_host.api import JsonReader, RouteRequest, RouteResponse, body_of, json_response
from genai_host.errors import NotFound, ValidationError

if TYPE_CHECKING:
    from genai_host.api import BackgroundWorker, HostServices

_SIZE, _OVERLAP = 800, 400  # tokens, as OpenAI has them
_MIN, _MAX = 100, 4096
_MAX_IN_BATCH = 2000
_PAGE_SIZE = 1000
_STATES = ("in_progress", "completed", "failed", "cancelled")


@frozen(eq=False, repr=False)
class StoreFiles:
    """The files of the vector stores of all users."""

    _host: HostServices
    _files: Files
    _worker: BackgroundWorker

    def create(self, request: RouteRequest) -> RouteResponse:
        store = self._store(request)
        given = body_of(request)
        file, chunking, attributes = _file_in(given)
        given.nothing_else()
        self._files.must_be(request.user, {file: "$.file_id"})
        return json_response(shown(self.add(request.user, store, file, chunking, attributes)))

    def show(self, request: RouteRequest) -> RouteResponse:
        return json_response(shown(self._shelf(request).get(request.parameters["file"])))

    def page(self, request: RouteRequest) -> RouteResponse:
        return json_response(self._shelf(request).page(request.query, where=_where(request)))

    def update(self, request: RouteRequest) -> RouteResponse:
        given = body_of(request)
        attributes = attributes_in(given)
        given.nothing_else()
        changed = self._shelf(request).update(request.parameters["file"], attributes=attributes)
        return json_response(shown(changed))

    def delete(self, request: RouteRequest) -> RouteResponse:
        id = request.parameters["file"]
        self._shelf(request).get(id)
        self.remove(request.user, request.parameters["store"], id)
        return json_response({"id": id, "object": "vector_store.file.deleted", "deleted": True})

    def content(self, request: RouteRequest) -> RouteResponse:
        found = self._shelf(request).get(request.parameters["file"])
        self._files.get(request.user, found["id"])  # it may have been deleted
        texts: Sequence[str] = ()
        if "_blob" in found:
            blobs = self._host.store_for(request.user).blobs()
            texts = Passages.from_bytes(b"".join(blobs.get(found["_blob"]))).texts
        data = [{"type": "text", "text": text} for text in texts]
        page = {"data": data, "has_more": False, "next_page": None}
        return json_response({"object": "vector_store.file_content.page", **page})

    def create_batch(self, request: RouteRequest) -> RouteResponse:
        store = self._store(request)
        given = body_of(request)
        wanted = _batch_in(given)
        self._files.must_be(request.user, {file: "$.file_ids" for file, _, _ in wanted})
        batches = self._batches(request)
        batch: dict[str, Any] = {
            "id": new_id("vsfb"),
            "object": "vector_store.files_batch",
            "created_at": batches.now(),
            "vector_store_id": store,
        }
        batches.add(batch)
        for file, chunking, attributes in wanted:
            self.add(request.user, store, file, chunking, attributes, batch["id"])
        return json_response(self._batch(request, batch))

    def show_batch(self, request: RouteRequest) -> RouteResponse:
        batch = self._batches(request).get(request.parameters["batch"])
        return json_response(self._batch(request, batch))

    def cancel_batch(self, request: RouteRequest) -> RouteResponse:
        batch = self._batches(request).get(request.parameters["batch"])
        shelf = self._shelf(request)
        for file in list(shelf.all({"_batch": batch["id"], "status": "in_progress"})):
            self._end(request.user, file)
            shelf.update(file["id"], status="cancelled")
        return json_response(self._batch(request, batch))

    def page_of_batch(self, request: RouteRequest) -> RouteResponse:
        batch = self._batches(request).get(request.parameters["batch"])
        where = {**_where(request), "_batch": batch["id"]}
        return json_response(self._shelf(request).page(request.query, where=where))

    def add(
        self,
        user: str,
        store: str,
        file: str,
        chunking: Mapping[str, Any] | None = None,
        attributes: Mapping[str, Any] | None = None,
        batch: str = "",
    ) -> Object:
        """Index a file. A file that is in the vector store already is indexed again."""
        shelf = shelf_of(self._host, user, store)
        before = shelf.find(file)
        if before is not None:
            self._forget(user, before)
        added: dict[str, Any] = {
            "id": file,
            "object": "vector_store.file",
            "created_at": shelf.now(),
            "vector_store_id": store,
            "usage_bytes": 0,
            "status": "in_progress",
            "last_error": None,
            "chunking_strategy": chunking or _static(_SIZE, _OVERLAP),
            "attributes": dict(attributes or {}),
            "_batch": batch,
            "_job": new_id("job"),
        }
        shelf.put(added)
        self._worker.submit(job_of(user, added))
        return added

    def forget_all(self, user: str, store: str) -> None:
        """Remove all files of a vector store that is deleted."""
        shelf = shelf_of(self._host, user, store)
        for file in shelf.all():
            self._forget(user, file)
        shelf.clear()
        ObjectStore(self._host, user, "batch", store).clear()

    def remove(self, user: str, store: str, file: str) -> None:
        """Remove a file, if it is still there."""
        shelf = shelf_of(self._host, user, store)
        found = shelf.find(file)
        if found is not None:
            self._forget(user, found)
            with suppress(NotFound):  # others remove it, too
                shelf.delete(file, keep_place=True)

    def settle(self, user: str, store: Object) -> None:
        """Remove the files that were deleted since the vector store was last used."""
        deletions = self._files.deletions(user)
        if store.get("_deletions") == deletions:
            return
        shelf = shelf_of(self._host, user, store["id"])
        ids = [file["id"] for file in shelf.all(page_size=_PAGE_SIZE)]
        existing = self._files.ids(user) if ids else set()
        for id in ids:
            if id not in existing:
                self.remove(user, store["id"], id)
        with suppress(NotFound):  # another client deletes the vector store
            stores_of(self._host, user).update(store["id"], _deletions=deletions)

    def _forget(self, user: str, file: Object) -> None:
        self._end(user, file)
        if "_blob" in file:
            self._host.store_for(user).blobs().remove(file["_blob"])

    def _end(self, user: str, file: Object) -> None:
        if file["status"] == "in_progress":
            job = job_of(user, file)
            self._worker.cancel(job.id)
            self._worker.queue.drop(job.id)

    def _batch(self, request: RouteRequest, batch: Object) -> dict[str, Any]:
        counts = counts_of(self._shelf(request).all({"_batch": batch["id"]}))
        status = next(
            (state for state in ("in_progress", "cancelled") if counts[state]), "completed"
        )
        if counts["total"] and counts["failed"] == counts["total"]:
            status = "failed"
        return {**shown(batch), "status": status, "file_counts": counts}

    def _store(self, request: RouteRequest) -> str:
        """Return the id of the vector store. Raises `Missing`."""
        store = stores_of(self._host, request.user).get(request.parameters["store"])
        self.settle(request.user, store)
        return request.parameters["store"]

    def _shelf(self, request: RouteRequest) -> ObjectStore:
        return shelf_of(self._host, request.user, self._store(request))

    def _batches(self, request: RouteRequest) -> ObjectStore:
        return ObjectStore(self._host, request.user, "batch", self._store(request))


def counts_of(files: Iterable[Object]) -> dict[str, int]:
    """Return the number of files in each state."""
    counts = Counter(file["status"] for file in files)
    return {**{state: counts[state] for state in _STATES}, "total": counts.total()}


def chunking_in(given: JsonReader) -> dict[str, Any] | None:
    """Return how a file is split; None for the default. Raises `ValidationError`."""
    strategy = given.object("chunking_strategy")
    if strategy is None or strategy.choice("type", ("auto", "static")) != "static":
        return None
    static = strategy.object("static")
    if static is None:
        raise ValidationError("static is missing", path=strategy.at("static"))
    size = static.whole("max_chunk_size_tokens", _MIN, _MAX) or _SIZE
    overlap = static.whole("chunk_overlap_tokens", 0)
    overlap = min(_OVERLAP, size // 2) if overlap is None else overlap
    if overlap > size // 2:
        raise ValidationError(
            "chunk_overlap_tokens must be at most half of max_chunk_size_tokens",
            path=static.at("chunk_overlap_tokens"),
        )
    return _static(size, overlap)


def _static(size: int, overlap: int) -> dict[str, Any]:
    return {
        "type": "static",
        "static": {"max_chunk_size_tokens": size, "chunk_overlap_tokens": overlap},
    }


_Wanted = tuple[str, "dict[str, Any] | None", "dict[str, Any]"]


def _file_in(given: JsonReader) -> _Wanted:
    """Return the id of a file, its chunking, and its attributes. Raises `ValidationError`."""
    return given.required_text("file_id"), chunking_in(given), attributes_in(given)


def _batch_in(given: JsonReader) -> list[_Wanted]:
    files = given.objects("files")
    found = [_file_in(each) for each in files]
    if not files:
        chunking, attributes = chunking_in(given), attributes_in(given)
        found = [(file, chunking, attributes) for file in given.texts("file_ids")]
    else:
        given.refuse("file_ids", "chunking_strategy", "attributes")
    given.nothing_else()
    if not 1 <= len(found) <= _MAX_IN_BATCH:
        raise ValidationError(f"a batch must have 1 to {_MAX_IN_BATCH} files", path="$.file_ids")
    return found


def _where(request: RouteRequest) -> dict[str, Any]:
    state = request.query.get("filter")
    if state and state not in _STATES:
        raise ValidationError(f"filter must be one of {', '.join(_STATES)}", path="$.filter")
    return {"status": state} if state else {}
