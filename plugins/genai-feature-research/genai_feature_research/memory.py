"""Memory of an assistant: the messages, the facts found, and the vectors of both.

    memory_of(history) → ResearchMemory → ResearchMemory.with_(added) → ResearchMemory
                         MemoryAdditions.to_part → the answer → MemoryAdditions.in_message

A caller of the microservice sends the memory with each request. In a conversation stored by the
host, it is derived from the history: the answer of each turn contains the additions of that turn,
so that their size does not depend on the length of the conversation.

The vectors of a table (`VectorColumn`) have one size. A row of zeros means no vector, because it
has no direction. `Embedding` computes missing vectors. Without an embedding model, or if embedding
fails, the turn continues without vectors, with one warning.
"""

from __future__ import annotations

import base64
import binascii
from array import array
from collections.abc import Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from attrs import field, frozen

from genai_host.api import Embed, Embeddings, Message, Step, VendorPart
from genai_host.errors import GenaiError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

_ALIKE = 6  # decimals: smaller differences depend on the machine


@frozen(eq=False)
class VectorColumn:
    """Vectors of the rows of a table: an array of shape (rows, size), 32-bit. The size may be 0 if
    no row has a vector."""

    matrix: Matrix

    @classmethod
    def empty(cls, rows: int = 0, size: int = 0) -> VectorColumn:
        import numpy as np

        return cls(np.zeros((rows, size), dtype=np.float32))

    @classmethod
    def of(cls, rows: Sequence[Sequence[float] | None]) -> VectorColumn:
        """Make a column from the rows of a caller: lists or arrays of numbers; None or an empty
        sequence for no vector. Raises `InvalidVector`.
        """
        import numpy as np

        sizes = [0 if row is None else _length(row, number) for number, row in enumerate(rows)]
        size = next(filter(None, sizes), 0)
        matrix = np.zeros((len(rows), size), dtype=np.float32)
        for number, row in enumerate(rows):
            if not sizes[number]:
                continue
            if sizes[number] != size:
                why = f"the vector has {sizes[number]} numbers, others in the table have {size}"
                raise InvalidVector(why, number)
            matrix[number] = _numbers(row, number)
        finite = np.isfinite(matrix).all(axis=1)
        if not finite.all():
            raise InvalidVector("a number in the vector is not finite", int(np.argmin(finite)))
        return cls(matrix)

    @classmethod
    def unpacked(cls, text: str, size: int) -> VectorColumn:
        """Decode the output of `packed`. Raises `ValueError` if it is invalid."""
        import numpy as np

        try:
            data = base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise ValueError(f"invalid vectors: {error}") from error
        numbers = np.frombuffer(data, dtype="<f4").astype(np.float32)
        if not np.isfinite(numbers).all():
            raise ValueError("vectors contain numbers that are not finite")
        return cls(numbers.reshape(-1, size) if size else numbers.reshape(0, 0))

    def packed(self, first: int = 0) -> str:
        """Return the rows from `first` as base64 of little-endian 32-bit numbers."""
        return base64.b64encode(self.matrix[first:].astype("<f4").tobytes()).decode()

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def size(self) -> int:
        """Number of dimensions of a vector."""
        return int(self.matrix.shape[1])

    def missing(self) -> list[int]:
        """Numbers of the rows without a vector."""
        import numpy as np

        return [int(row) for row in np.flatnonzero(~self.matrix.any(axis=1))]

    def row(self, number: int) -> list[float]:
        """Return a vector; empty if the row has none."""
        found = self.matrix[number]
        return [float(each) for each in found] if found.any() else []

    def filled(self, rows: Sequence[int], vectors: Iterable[Sequence[float]]) -> VectorColumn:
        """Return a copy with new vectors in some rows; a new size removes all other vectors."""
        import numpy as np

        new = np.asarray(list(vectors), dtype=np.float32)
        if new.size == 0:
            return self
        kept = self.matrix
        if new.shape[1] != self.size:
            kept = np.zeros((len(self), new.shape[1]), dtype=np.float32)
        matrix = kept.copy()
        matrix[list(rows)] = new
        return VectorColumn(matrix)

    def longer(self, rows: int) -> VectorColumn:
        """Return a copy with additional rows without vectors."""
        import numpy as np

        more = np.zeros((rows, self.size), dtype=np.float32)
        return VectorColumn(np.concatenate([self.matrix, more]))

    def similarity(self, vector: Sequence[float]) -> list[float]:
        """Return the cosine similarity of each row to a vector, -1 to 1; -2 for a row without
        one.
        """
        import numpy as np

        wanted = np.asarray(vector, dtype=np.float32)
        if not len(self) or self.size != wanted.shape[0]:
            return [-2.0] * len(self)
        with np.errstate(over="ignore"):
            lengths = np.sqrt(np.einsum("ij,ij->i", self.matrix, self.matrix))
        length = float(np.linalg.norm(wanted)) or 1.0
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            cosines = (self.matrix @ wanted) / (lengths * length)
        # the squares of large numbers overflow
        cosines = np.where((lengths > 0) & np.isfinite(cosines), cosines, -2.0)
        found: list[float] = np.round(cosines, _ALIKE).tolist()
        return found


class InvalidVector(ValueError):
    """A vector that does not match the others. `row` is its number in the table, from 0."""

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message)
        self.row = row


def _length(row: Any, number: int) -> int:
    if isinstance(row, float) and row != row:  # pandas uses NaN for a missing value
        return 0
    is_array = getattr(row, "ndim", 0) > 0 if hasattr(row, "dtype") else hasattr(row, "__len__")
    if isinstance(row, (str, bytes)) or not is_array:
        raise InvalidVector("must be a list of numbers", number)
    return len(row)


def _numbers(row: Any, number: int) -> Any:
    if hasattr(row, "dtype"):
        if row.ndim != 1 or row.dtype.kind not in "fiu":
            raise InvalidVector("must be a list of numbers", number)
        return row
    try:
        return array("f", row)
    except (TypeError, OverflowError) as error:
        raise InvalidVector("must be a list of numbers", number) from error


BATCH = 256
"""Number of texts per embedding call."""

_MAX = 8000  # characters per text: embedding models reject or ignore the rest


class Embedding:
    """Embedding calls of one turn; `warnings` are errors that did not end it."""

    def __init__(self, roles: frozenset[str]) -> None:
        self.warnings: list[str] = []
        self._works = "embed" in roles
        if not self._works:
            self.warnings.append("no embedding model is available: similar entries are not found")

    def question(self, text: str) -> Generator[Step[Any], Any, list[float]]:
        """Return the vector of the message; empty if it is unavailable."""
        if not text.strip():
            return []
        vectors = yield from self._embed([text], "query")
        return vectors[0] if vectors else []

    def documents(self, texts: Sequence[str]) -> Generator[Step[Any], Any, list[list[float]]]:
        """Return the vectors of texts; empty if they are unavailable."""
        if not all(map(str.strip, texts)):
            return []
        return (yield from self._embed(texts, "document"))

    def completed(
        self, column: VectorColumn, texts: Sequence[str], size: int, of: str
    ) -> Generator[Step[Any], Any, VectorColumn]:
        """Return the column of the table `of` with vectors of this size in all rows; unchanged for
        size 0, without an embedding model. Vectors of another size are computed again, with a
        warning."""
        if not size or not texts:
            return column
        rows = column.missing()
        if column.size not in (0, size):
            if len(rows) < len(texts):
                self.warnings.append(
                    f"the vectors of {of} had {column.size} numbers, those of the embedder have "
                    f"{size}: they were computed again"
                )
            rows = list(range(len(texts)))
        rows = [row for row in rows if texts[row].strip()]
        known = self._known(column, texts, rows) if column.size == size else {}
        wanted = [row for row in rows if texts[row] not in known]
        vectors = yield from self._embed([texts[row] for row in wanted], "document")
        if len(vectors) != len(wanted):
            return column
        found = dict(zip(wanted, vectors, strict=True))
        found.update({row: known[texts[row]] for row in rows if row not in found})
        return column.filled(list(found), found.values())

    def _known(
        self, column: VectorColumn, texts: Sequence[str], rows: Sequence[int]
    ) -> dict[str, list[float]]:
        """Return the vectors of the same texts in other rows."""
        if not rows:
            return {}
        missing = set(rows)
        wanted = {texts[row] for row in rows}
        same = (row for row, text in enumerate(texts) if text in wanted and row not in missing)
        return {texts[row]: column.row(row) for row in same}

    def _embed(
        self, texts: Sequence[str], purpose: Literal["query", "document"]
    ) -> Generator[Step[Any], Any, list[list[float]]]:
        """Embed all texts; return an empty list if that fails."""
        vectors: list[list[float]] = []
        for start in range(0, len(texts) if self._works else 0, BATCH):
            try:
                batch = [text[:_MAX] for text in texts[start : start + BATCH]]
                found: Embeddings = yield from Embed(batch, purpose=purpose)
            except GenaiError as error:
                self._works = False
                self.warnings.append(f"continuing without embeddings: {error.message}")
                return []
            vectors += [list(each) for each in found.vectors]
        return vectors


_OWN = "research"  # name of a dialect that no model supports, so that the part is never sent


@frozen
class Fact:
    """A search result or a page. `query` has the queries that found it, one per line; the link for
    a page."""

    title: str
    link: str
    text: str
    query: str

    def is_found_with(self, query: str) -> bool:
        """Whether a query, normalized by `plain`, found it."""
        return any(plain(each) == query for each in self.query.split("\n"))


@frozen(eq=False)
class ResearchMemory:
    """Entries (messages) and facts of a conversation, oldest first, with their vectors."""

    entries: tuple[str, ...] = ()
    entry_vectors: VectorColumn = field(factory=VectorColumn.empty)
    facts: tuple[Fact, ...] = ()
    fact_vectors: VectorColumn = field(factory=VectorColumn.empty)

    def with_(self, added: MemoryAdditions) -> ResearchMemory:
        """Return a copy with the additions of a turn, except vectors of rows that do not exist."""
        facts = (*self.facts, *added.facts)
        entries = (*self.entries, *added.entries)
        return ResearchMemory(
            entries,
            _pieced(
                [(0, self.entry_vectors), (added.entries_from, added.entry_vectors)], len(entries)
            ),
            facts,
            _pieced([(0, self.fact_vectors), (added.facts_from, added.fact_vectors)], len(facts)),
        )


@frozen(eq=False)
class MemoryAdditions:
    """Additions of a turn to a memory.

    Attributes:
        entry_vectors: Vectors of the entries from `entries_from` on. They include earlier entries
            that had no vector of this size.
        fact_vectors: Vectors of the facts, likewise.
    """

    entries: tuple[str, ...]
    entries_from: int
    entry_vectors: VectorColumn
    facts: tuple[Fact, ...]
    facts_from: int
    fact_vectors: VectorColumn

    def to_part(self) -> VendorPart:
        """Return the part for the message, without the entries, which are messages themselves."""
        return VendorPart(
            _OWN,
            {
                "entries_from": self.entries_from,
                "entry_vectors": self.entry_vectors.packed(),
                "entry_size": self.entry_vectors.size,
                "facts": [[each.title, each.link, each.text, each.query] for each in self.facts],
                "facts_from": self.facts_from,
                "fact_vectors": self.fact_vectors.packed(),
                "fact_size": self.fact_vectors.size,
            },
        )

    @classmethod
    def in_message(cls, message: Message) -> MemoryAdditions | None:
        """Return the additions in the message of an answer; None if there are none or they are
        unreadable, for example from another version.
        """
        parts = (part for part in message.content if isinstance(part, VendorPart))
        data: Any = next((part.data for part in parts if part.dialect == _OWN), None)
        if data is None:
            return None
        try:
            return cls(
                (),
                _count(data["entries_from"]),
                VectorColumn.unpacked(data["entry_vectors"], _count(data["entry_size"])),
                tuple(Fact(*map(_text, each)) for each in data["facts"]),
                _count(data["facts_from"]),
                VectorColumn.unpacked(data["fact_vectors"], _count(data["fact_size"])),
            )
        except (KeyError, TypeError, ValueError):
            return None


def memory_of(history: Iterable[Message]) -> ResearchMemory:
    """Return the memory of a conversation that the host stores."""
    entries: list[str] = []
    facts: list[Fact] = []
    pieces: list[MemoryAdditions] = []
    for message in history:
        if message.role in ("user", "assistant"):
            entries.append(message.text)
        added = MemoryAdditions.in_message(message)
        if added is not None:
            facts += added.facts
            pieces.append(added)
    return ResearchMemory(
        tuple(entries),
        _pieced([(each.entries_from, each.entry_vectors) for each in pieces], len(entries)),
        tuple(facts),
        _pieced([(each.facts_from, each.fact_vectors) for each in pieces], len(facts)),
    )


def line(text: str) -> str:
    return " ".join(text.split())


def plain(text: str) -> str:
    """Normalize whitespace and case of a text for comparison."""
    return line(text).casefold()


def _pieced(pieces: Sequence[tuple[int, VectorColumn]], rows: int) -> VectorColumn:
    """Merge pieces into one column; for each row the last piece wins."""
    size = next((each.size for _, each in reversed(pieces) if each.size), 0)
    column = VectorColumn.empty(rows, size)
    for first, piece in pieces:
        if piece.size == size and len(piece) and first < rows:
            part = piece.matrix[: rows - first]
            column.matrix[first : first + len(part)] = part
    return column


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a string")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError("not a count")
    return value
