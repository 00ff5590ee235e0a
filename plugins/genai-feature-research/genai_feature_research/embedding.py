"""Vectors for what has none. Where nobody embeds, all goes on without: that is warned of once."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Literal

from genai_feature_research.vectors import VectorColumn
from genai_host.api import Embed, Embeddings, Step
from genai_host.errors import GenaiError

BATCH = 256
"""Texts that are embedded by one call."""

_MOST = 8000  # characters of a text: embedders take no more, or look at no more


class Embedding:
    """Of one turn.

    warnings   what went wrong
    """

    def __init__(self, roles: frozenset[str]) -> None:
        self.warnings: list[str] = []
        self._works = "embed" in roles
        if not self._works:
            self.warnings.append("nothing here embeds texts: what is alike is not known")

    def question(self, text: str) -> Generator[Step[Any], Any, list[float]]:
        """The vector of what the user says; empty if there is none."""
        if not text.strip():
            return []
        vectors = yield from self._embed([text], "query")
        return vectors[0] if vectors else []

    def documents(self, texts: Sequence[str]) -> Generator[Step[Any], Any, list[list[float]]]:
        """The vectors of texts; none at all if they cannot be had."""
        if not all(map(str.strip, texts)):
            return []
        return (yield from self._embed(texts, "document"))

    def completed(
        self, column: VectorColumn, texts: Sequence[str], size: int, of: str
    ) -> Generator[Step[Any], Any, VectorColumn]:
        """The column with vectors of this size in all rows: those of another size are made
        anew, with a warning.

        texts   of the rows
        size    0 if nobody embeds: then all stays as it is
        of      what the table is called
        """
        if not size or not texts:
            return column
        rows = column.missing()
        if column.size not in (0, size):
            if len(rows) < len(texts):
                self.warnings.append(
                    f"the vectors of {of} had {column.size} numbers, those of the embedder have "
                    f"{size}: they were made anew"
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
        """The vectors of the same texts in other rows."""
        if not rows:
            return {}
        missing = set(rows)
        wanted = {texts[row] for row in rows}
        same = (row for row, text in enumerate(texts) if text in wanted and row not in missing)
        return {texts[row]: column.row(row) for row in same}

    def _embed(
        self, texts: Sequence[str], purpose: Literal["query", "document"]
    ) -> Generator[Step[Any], Any, list[list[float]]]:
        """Nothing if it cannot be done: for all texts, or for none."""
        vectors: list[list[float]] = []
        if not self._works:
            return vectors
        for start in range(0, len(texts), BATCH):
            try:
                batch = [text[:_MOST] for text in texts[start : start + BATCH]]
                found: Embeddings = yield from Embed(batch, purpose=purpose)
            except GenaiError as error:
                self._works = False
                self.warnings.append(f"embedding failed, and goes on without: {error.message}")
                return []
            vectors += [list(each) for each in found.vectors]
        return vectors
