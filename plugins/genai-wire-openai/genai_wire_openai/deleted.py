"""Places of deleted documents in their lists.

A client asks for the next page of a list by the id of the last object that it has. Others, or the
client itself, may have deleted that object meanwhile. So its place is kept for a day.
"""

from __future__ import annotations

from contextlib import suppress

from genai_host.api import Document
from genai_host.errors import Conflict, NotFound
from genai_host.serving import DocumentCollection

_LIFE = 24 * 3600  # seconds
_SWEPT = 2


class DeletedPlaces:
    """Places of the documents that were deleted from one collection.

    Args:
        marks: Documents for them.
    """

    def __init__(self, marks: DocumentCollection) -> None:
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
