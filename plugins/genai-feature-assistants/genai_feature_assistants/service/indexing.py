"""A file of a vector store, made searchable: its text in passages, and their vectors.

It is a job: what a killed process leaves, another does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from genai_feature_assistants.service.files import Files
from genai_feature_assistants.service.jobs import MOST_TRIES, Job
from genai_feature_assistants.service.passages import Passages, unit_rows
from genai_feature_assistants.service.shelf import Shelf
from genai_feature_assistants.service.texts import Unreadable, passages, text_of
from genai_host.api import CancelToken
from genai_host.errors import Cancelled, GenaiError, Interrupted, NotFound

if TYPE_CHECKING:
    from genai_host.host import Host

KIND = "file"
_BATCH = 64  # texts that are embedded by one call


def shelf_of(host: Host, user: str, store: str) -> Shelf:
    """The files of a vector store."""
    return Shelf(host, user, "vector store file", store)


def job_of(user: str, store: str, file: str) -> Job:
    return Job(f"{store}/{file}", KIND, user, {"store": store, "file": file})


class Indexing:
    """Of one host."""

    def __init__(self, host: Host, files: Files) -> None:
        self._host = host
        self._files = files

    def do(self, job: Job, limits: CancelToken) -> None:
        """The work of a job. Its end is written into the file's object."""
        user, store, file = job.user, job.about["store"], job.about["file"]
        shelf = shelf_of(self._host, user, store)
        try:
            found = shelf.get(file)
            if found["status"] != "in_progress":
                return
            if job.tries > MOST_TRIES:
                raise Unreadable("it ended those who read it", "invalid_file")
            self._end(shelf, job, self._index(user, found, limits))
        except Unreadable as error:
            self._end(shelf, job, _failed(error.code, str(error)))
        except NotFound:  # it was removed meanwhile
            return
        except Interrupted:
            raise
        except Cancelled:
            self._end(shelf, job, {"status": "cancelled"})
        except GenaiError as error:
            self._end(shelf, job, _failed("server_error", error.message))

    def _index(self, user: str, found: Any, limits: CancelToken) -> dict[str, Any]:
        file = self._files.get(user, found["id"])
        static = found["chunking_strategy"]["static"]
        texts = passages(
            text_of(self._files.data(user, found["id"]), file["filename"]),
            static["max_chunk_size_tokens"],
            static["chunk_overlap_tokens"],
        )
        vectors: list[Any] = []
        embedder = ""
        for start in range(0, len(texts), _BATCH):
            limits.check()
            given = self._host.embed(texts[start : start + _BATCH], limits=limits)
            vectors += given.vectors
            embedder = embedder_of(given.route)
        made = Passages(embedder, texts, unit_rows(vectors))
        data = made.to_bytes(f"{found['vector_store_id']}/{found['id']}")
        blob = self._host.kept(user).blobs().put([data])
        return {"status": "completed", "usage_bytes": len(data), "_blob": blob}

    def _end(self, shelf: Shelf, job: Job, fields: dict[str, Any]) -> None:
        """One that was removed, or cancelled, meanwhile stays so."""

        def make(found: Any) -> tuple[Any, bool]:
            if found["status"] != "in_progress":
                return None, False
            return {**found, **fields}, True

        try:
            is_kept = shelf.change(job.about["file"], make)
        except NotFound:
            is_kept = False
        if not is_kept and "_blob" in fields:
            self._host.kept(job.user).blobs().remove(fields["_blob"])


def embedder_of(route: Any) -> str:
    """A name under which that model is found again; empty for whatever embeds."""
    if route is None:
        return ""
    is_passed = route.model.startswith(f"{route.provider}/")
    return route.model if is_passed else f"{route.model}@{route.provider}"


def _failed(code: str, message: str) -> dict[str, Any]:
    return {"status": "failed", "last_error": {"code": code, "message": message}}
