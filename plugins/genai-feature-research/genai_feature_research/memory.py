"""What an assistant remembers: what was said, and the facts that it found, with the vectors
of both.

A caller of the microservice brings it along. In a conversation that the host keeps, it is
made of the history: the answer of each turn carries what the turn has added to it, so that a
conversation grows by as much with each turn, however long it is.

    memory_of(history) → Memory → Memory.with_(added) → Memory
                         Added.to_part → the message of the answer → Added.in_message
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from genai_feature_research.vectors import VectorColumn
from genai_host.api import Message, VendorPart

_OWN = "research"  # as a dialect, which no model speaks: nobody is sent what is in it


@frozen
class Fact:
    """
    query   what it was found with: one query a line, as a search may go by several; for a page
            its link
    """

    title: str
    link: str
    text: str
    query: str

    def is_found_with(self, query: str) -> bool:
        """Whether it was found with a query, which is `plain`."""
        if "\n" not in self.query:
            return plain(self.query) == query
        return any(plain(each) == query for each in self.query.split("\n"))


@frozen(eq=False)
class Memory:
    """
    entries         what was said, the oldest first
    facts           what was found, the oldest first
    """

    entries: tuple[str, ...] = ()
    entry_vectors: VectorColumn = field(factory=VectorColumn.empty)
    facts: tuple[Fact, ...] = ()
    fact_vectors: VectorColumn = field(factory=VectorColumn.empty)

    def with_(self, added: Added) -> Memory:
        """With what a turn has added. What does not fit is left out: vectors of rows that are
        not there."""
        facts = (*self.facts, *added.facts)
        entries = (*self.entries, *added.entries)
        return Memory(
            entries,
            _joined(self.entry_vectors, added.entry_vectors, added.entries_from, len(entries)),
            facts,
            _joined(self.fact_vectors, added.fact_vectors, added.facts_from, len(facts)),
        )


@frozen(eq=False)
class Added:
    """What a turn has added to a memory.

    entry_vectors   of the entries from `entries_from` on: of those that were there before,
                    too, where they had none of this size
    fact_vectors    in the same way
    """

    entries: tuple[str, ...]
    entries_from: int
    entry_vectors: VectorColumn
    facts: tuple[Fact, ...]
    facts_from: int
    fact_vectors: VectorColumn

    def to_part(self) -> VendorPart:
        """Without the entries: these are the messages themselves."""
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
    def in_message(cls, message: Message) -> Added | None:
        """What stands in the message of an answer; None for one that has none, or none that
        can be read, as that of another version."""
        for part in message.content:
            if isinstance(part, VendorPart) and part.dialect == _OWN:
                try:
                    return cls._read(part.data)
                except (KeyError, TypeError, ValueError):
                    return None
        return None

    @classmethod
    def _read(cls, data: Mapping[str, Any]) -> Added:
        facts = tuple(Fact(*map(_text, each)) for each in data["facts"])
        return cls(
            (),
            _count(data["entries_from"]),
            VectorColumn.unpacked(data["entry_vectors"], _count(data["entry_size"])),
            facts,
            _count(data["facts_from"]),
            VectorColumn.unpacked(data["fact_vectors"], _count(data["fact_size"])),
        )


def memory_of(history: Iterable[Message]) -> Memory:
    """The memory of a conversation that the host keeps."""
    entries: list[str] = []
    facts: list[Fact] = []
    pieces: list[Added] = []
    for message in history:
        if message.role in ("user", "assistant"):
            entries.append(message.text)
        added = Added.in_message(message)
        if added is not None:
            facts += added.facts
            pieces.append(added)
    return Memory(
        tuple(entries),
        _pieced([(each.entries_from, each.entry_vectors) for each in pieces], len(entries)),
        tuple(facts),
        _pieced([(each.facts_from, each.fact_vectors) for each in pieces], len(facts)),
    )


def plain(text: str) -> str:
    """A text as it is compared with others: how it is spaced makes no difference, nor do
    capitals."""
    return " ".join(text.split()).casefold()


def _pieced(pieces: Sequence[tuple[int, VectorColumn]], rows: int) -> VectorColumn:
    """All pieces in one column, each row as the last one has it."""
    size = next((each.size for _, each in reversed(pieces) if each.size), 0)
    column = VectorColumn.empty(rows, size)
    for first, piece in pieces:
        if piece.size == size and len(piece) and first < rows:
            part = piece.matrix[: rows - first]
            column.matrix[first : first + len(part)] = part
    return column


def _joined(before: VectorColumn, added: VectorColumn, first: int, rows: int) -> VectorColumn:
    return _pieced([(0, before), (first, added)], rows)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError("no count")
    return value
