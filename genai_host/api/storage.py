"""The store of the host as plugins see it: JSON documents and bytes, by owner, and background
jobs, whose queues `HostServices.jobs` opens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from attrs import frozen

from genai_host.api.cancellation import Cancellation

T = TypeVar("T")


@frozen
class Document:
    """A document of a plugin.

    Attributes:
        id: Id in its collection.
        version: 1 for a new document; increases with each change.
        value: JSON.
        number: Its place in the order of creation, in its collection.
    """

    id: str
    version: int
    value: Mapping[str, Any]
    number: int = 0


class DocumentCollection(Protocol):
    """JSON documents of one owner in one collection."""

    def get(self, id: str) -> Document:
        """Read a document.

        Raises:
            NotFound: No document has this id.
        """

    def put(self, id: str, value: Mapping[str, Any], *, expect: int | None = None) -> int:
        """Write a document, and return its new version.

        Args:
            id: Id of the document.
            value: JSON.
            expect: Expected current version: 0 for a new document, None for any.

        Raises:
            Conflict: The document has another version.
            ValueError: The value is not valid JSON, or the id has NUL or half of a surrogate pair.
        """

    def put_all(
        self, values: Mapping[str, Mapping[str, Any]], *, expect: Mapping[str, int]
    ) -> None:
        """Write several documents, in their order: all or none.

        Args:
            values: Values by id.
            expect: Expected current versions by id; documents that are not named may have any.

        Raises:
            Conflict: A document has another version.
            ValueError: As for `put`.
        """

    def change(
        self, id: str, make: Callable[[Mapping[str, Any]], tuple[Mapping[str, Any] | None, T]]
    ) -> T:
        """Replace a document, and retry if another process changes it at the same time.

        Args:
            id: Id of the document.
            make: Returns the new value for the current one, and the result of this method. None
                instead of a value leaves the document unchanged. Runs again for each attempt.

        Returns:
            The result that `make` returned with the value that was written.

        Raises:
            NotFound: No document has this id.
            Conflict: The document changed during each of 50 attempts.
        """

    def delete(self, id: str, *, expect: int | None = None) -> bool:
        """Delete a document. Returns False if it does not exist.

        Args:
            id: Id of the document.
            expect: Expected current version; None for any.

        Raises:
            Conflict: The document has another version.
        """

    def clear(self) -> int:
        """Delete all documents, and return their number."""

    def list(
        self,
        *,
        after: str | int | None = None,
        limit: int = 20,
        newest_first: bool = True,
        where: Mapping[str, Any] | None = None,
    ) -> list[Document]:
        """List documents in the order of their creation.

        Args:
            after: Id of a document, or its number, which may be that of a deleted one; the list
                continues after it.
            limit: Maximum number of documents.
            newest_first: Whether to reverse the order.
            where: Values that fields must have. None also matches a missing field. True and 1
                differ, 1 and 1.0 are equal.

        Raises:
            NotFound: The document `after` does not exist.
        """


class BlobStore(Protocol):
    """Bytes of one owner by their SHA-256, for example those of uploaded files."""

    def put(
        self, data: Iterable[bytes], *, conversation: str | None = None, holder: str = ""
    ) -> str:
        """Store bytes, and return their id: their SHA-256 in hex.

        Args:
            data: Chunks of the bytes.
            conversation: Id of the conversation that uses them: they are deleted with the last one
                that does. None to store them until `remove`.
            holder: Id of what uses them, for example of a file, if several may have the same
                bytes: they are stored until `remove` was called for each. Not with `conversation`.
        """

    def get(self, id: str) -> Iterator[bytes]:
        """The bytes, in chunks.

        Raises:
            NotFound: No bytes have this id.
        """

    def remove(self, id: str, *, holder: str = "") -> None:
        """Delete bytes, unless a conversation or another holder uses them."""


class OwnerStore(Protocol):
    """The store of the host, limited to one owner."""

    def documents(self, collection: str, *, conversation: str | None = None) -> DocumentCollection:
        """Documents of a plugin.

        Args:
            collection: Name of the collection; a plugin prefixes it with its own name, for example
                `shop/orders`.
            conversation: Id of a conversation, with which the documents are deleted.
        """

    def blobs(self) -> BlobStore:
        """Bytes by their digest."""

    def new_id(self) -> str:
        """Make an id for a conversation that is created later, by `HostServices.open`."""

    def delete(self, id: str) -> None:
        """Delete a conversation.

        Raises:
            NotFound: The owner has no such conversation.
        """


MAX_TRIES = 4
"""Maximum number of attempts of a job, which may be what crashes its workers."""


@frozen
class Job:
    """An entry of a job queue.

    Large or secret data is stored elsewhere: the entry is rewritten whenever a worker takes or
    returns the job.

    Attributes:
        id: Unique in the queue.
        kind: Selects the function that runs it.
        user: Owner of the job.
        about: Arguments of the function, as JSON.
        tries: Number of attempts, including this one. Attempts that ended with a shutdown or a
            failure of the store do not count.
        is_cancelled: Whether it is to stop.
    """

    id: str
    kind: str
    user: str
    about: Mapping[str, Any]
    tries: int = 1
    is_cancelled: bool = False

    @property
    def is_exhausted(self) -> bool:
        """Whether the maximum number of attempts is exceeded: the function must then end the job as
        failed."""
        return self.tries > MAX_TRIES


Work = Callable[[Job, Cancellation], None]
"""Runs a job, which is removed when the function returns. If it raises `Interrupted` on
cancellation, `StoreError` or `ConversationBusy`, the job returns to the queue. Any other
exception is logged and counts as an attempt; the job is retried up to `MAX_TRIES` times."""


class BackgroundWorker(Protocol):
    """Runs the jobs of a queue in threads of this process. Idle until `start`."""

    @property
    def queue(self) -> BackgroundQueue:
        """The queue."""

    def start(self, works: Mapping[str, Work]) -> None:
        """Start with the functions that run the jobs, by kind of job."""

    def submit(self, job: Job, *, here: bool = False) -> None:
        """Record a job, and run it in this process if there is a free slot.

        Args:
            job: Job to add.
            here: Whether to run it in this process even without a free slot.

        Raises:
            StoreError: The job could not be recorded; it does not exist.
        """

    def cancel(self, id: str) -> bool:
        """Cancel a job in any process. Returns whether it is running in this process."""

    def close(self) -> None:
        """Interrupt running jobs, and return them to the queue for other workers."""


class BackgroundQueue(Protocol):
    """A durable queue of background jobs, shared by all processes that use the store."""

    def worker(self) -> BackgroundWorker:
        """Make a worker for this queue in this process."""

    def find(self, id: str) -> Job | None:
        """Return a job; None if there is none."""

    def drop(self, id: str) -> None:
        """Remove a job, whichever worker has it."""
