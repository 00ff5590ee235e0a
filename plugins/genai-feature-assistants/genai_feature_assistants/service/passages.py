"""The passages of a file with their vectors, as one blob, and the search among many of them.

a blob: the length of its head in 8 bytes, the head in JSON, then a row of 32-bit floats
(little-endian) for each passage, of length 1
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from genai_host.api.json_text import read_json, write_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from genai_host.store.blobs import Blobs

    Matrix = NDArray[np.float32]

_LENGTH = 8
_HELD = 256 * 2**20  # bytes of vectors and texts that stay in memory


@frozen(eq=False)
class Passages:
    """Of one file.

    embedder   the model that made the vectors, as `NAME@PROVIDER`
    texts      one for each row
    vectors    rows of length 1, or of zeros
    """

    embedder: str
    texts: Sequence[str]
    vectors: Matrix = field(repr=False)

    def to_bytes(self, label: str) -> bytes:
        """
        label   what makes the blob this file's own: equal ones would be kept once
        """
        size = int(self.vectors.shape[1])
        head = write_json(
            {"label": label, "embedder": self.embedder, "size": size, "texts": list(self.texts)}
        )
        rows = self.vectors.astype("<f4").tobytes()
        return len(head).to_bytes(_LENGTH, "little") + head + rows

    @classmethod
    def from_bytes(cls, data: bytes) -> Passages:
        import numpy as np

        end = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
        head: Any = read_json(data[_LENGTH:end])
        rows = np.frombuffer(data, dtype="<f4", offset=end)
        size = head["size"]
        return cls(head["embedder"], head["texts"], rows.reshape(-1, size) if size else rows)

    @property
    def bytes(self) -> int:
        return int(self.vectors.nbytes) + sum(map(len, self.texts))


def unit_rows(vectors: Iterable[Sequence[float]]) -> Matrix:
    """Vectors of length 1, in the directions of these; zeros where there is none."""
    import numpy as np

    rows = np.nan_to_num(np.asarray(list(vectors), dtype=np.float64))
    if rows.size == 0:
        return np.zeros((0, 0), dtype=np.float32)
    largest = np.abs(rows).max(axis=1, keepdims=True)
    rows = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    made: Matrix = unit.astype(np.float32)
    return made


@frozen
class Hit:
    """
    key     of the file, as it was given
    score   from 0 to 1: how much alike
    """

    key: str
    text: str
    score: float


def nearest(
    files: Iterable[tuple[str, Passages]],
    question: Callable[[str], Matrix],
    most: int,
    least: float = 0.0,
) -> list[Hit]:
    """The passages that are most like a question, best first. Every vector is looked at.

    files      each with a key
    question   its vectors by the embedder: one row, or several where it is asked in several
               ways; a passage counts by the best of them
    least      the score that it takes
    """
    import numpy as np

    found: list[Hit] = []
    for key, passages in files:
        if not len(passages.texts):
            continue
        asked = question(passages.embedder)
        if asked.shape[1:] != passages.vectors.shape[1:]:  # that model has changed
            continue
        scores = (passages.vectors @ asked.T).max(axis=1)
        best = np.argsort(-scores, kind="stable")[:most]
        found += [
            Hit(key, passages.texts[at], min(1.0, max(0.0, float(scores[at])))) for at in best
        ]
    found.sort(key=lambda hit: -hit.score)
    return [hit for hit in found if hit.score >= least][:most]


class Held:
    """Passages that were read lately, as many as fit. May be used from many threads."""

    def __init__(self, size: int = _HELD) -> None:
        self._size = size
        self._used = 0
        self._held: OrderedDict[str, Passages] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, id: str, blobs: Blobs) -> Passages:
        """Those of a blob, which is read if they are not here. Raises `NotFound`."""
        with self._lock:
            found = self._held.get(id)
            if found is not None:
                self._held.move_to_end(id)
                return found
        made = Passages.from_bytes(b"".join(blobs.get(id)))
        with self._lock:
            if id not in self._held:
                self._held[id] = made
                self._used += made.bytes
            while self._used > self._size and len(self._held) > 1:
                _, gone = self._held.popitem(last=False)
                self._used -= gone.bytes
        return made
