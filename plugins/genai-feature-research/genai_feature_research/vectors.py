"""The vectors of a table: one row each, all of one size. A row of zeros is none, as it has
no direction."""

from __future__ import annotations

import base64
import binascii
from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

_ALIKE = 6  # decimals: what differs in less is as alike on any machine


@frozen(eq=False)
class VectorColumn:
    """
    matrix   rows by size, 32-bit; without a vector in any row the size may be 0
    """

    matrix: Matrix

    @classmethod
    def empty(cls, rows: int = 0, size: int = 0) -> VectorColumn:
        import numpy as np

        return cls(np.zeros((rows, size), dtype=np.float32))

    @classmethod
    def of(cls, rows: Sequence[Sequence[float] | None]) -> VectorColumn:
        """From rows as a caller has them: lists or arrays of numbers; None or an empty one
        where there is none. Raises `UnfitVector`."""
        import numpy as np

        sizes = [0 if row is None else _length(row, number) for number, row in enumerate(rows)]
        size = next(filter(None, sizes), 0)
        matrix = np.zeros((len(rows), size), dtype=np.float32)
        for number, row in enumerate(rows):
            if not sizes[number]:
                continue
            if sizes[number] != size:
                why = f"it has {sizes[number]} numbers, and others of the table have {size}"
                raise UnfitVector(why, number)
            matrix[number] = _numbers(row, number)
        finite = np.isfinite(matrix).all(axis=1)
        if not finite.all():
            raise UnfitVector("a number in it is not finite", int(np.argmin(finite)))
        return cls(matrix)

    @classmethod
    def unpacked(cls, text: str, size: int) -> VectorColumn:
        """What `packed` gave. Raises `ValueError` for anything else."""
        import numpy as np

        try:
            data = base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise ValueError(f"vectors that are not whole: {error}") from error
        numbers = np.frombuffer(data, dtype="<f4").astype(np.float32)
        if not np.isfinite(numbers).all():
            raise ValueError("vectors that are not finite")
        return cls(numbers.reshape(-1, size) if size else numbers.reshape(0, 0))

    def packed(self, first: int = 0) -> str:
        """The rows from one on, as base64 of 32-bit numbers, the lowest byte first."""
        return base64.b64encode(self.matrix[first:].astype("<f4").tobytes()).decode()

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def size(self) -> int:
        """How many numbers a vector has."""
        return int(self.matrix.shape[1])

    def missing(self) -> list[int]:
        """The rows that have none."""
        return [int(row) for row in (~self.matrix.any(axis=1)).nonzero()[0]]

    def row(self, number: int) -> list[float]:
        """Empty if there is none."""
        found = self.matrix[number]
        return [float(each) for each in found] if found.any() else []

    def filled(self, rows: Sequence[int], vectors: Iterable[Sequence[float]]) -> VectorColumn:
        """With these in place of what these rows had. Where they are of another size, the
        others have none any more."""
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
        """With so many rows more, that have none."""
        import numpy as np

        more = np.zeros((rows, self.size), dtype=np.float32)
        return VectorColumn(np.concatenate([self.matrix, more]))

    def likeness(self, vector: Sequence[float]) -> list[float]:
        """The cosine of each row and a vector of the same size, from -1 to 1; -2 for a row
        that has none."""
        import numpy as np

        wanted = np.asarray(vector, dtype=np.float32)
        if not len(self) or self.size != wanted.shape[0]:
            return [-2.0] * len(self)
        with np.errstate(over="ignore"):
            lengths = np.sqrt(np.einsum("ij,ij->i", self.matrix, self.matrix))
        length = float(np.linalg.norm(wanted)) or 1.0
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            cosines = (self.matrix @ wanted) / (lengths * length)
        # numbers may be too large to be squared
        cosines = np.where((lengths > 0) & np.isfinite(cosines), cosines, -2.0)
        found: list[float] = np.round(cosines, _ALIKE).tolist()
        return found


class UnfitVector(ValueError):
    """
    row   of the table, from 0
    """

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message)
        self.row = row


def _length(row: Any, number: int) -> int:
    if isinstance(row, float) and row != row:  # how pandas says that there is none
        return 0
    is_array = getattr(row, "ndim", 0) > 0 if hasattr(row, "dtype") else hasattr(row, "__len__")
    if isinstance(row, (str, bytes)) or not is_array:
        raise UnfitVector("it is no list of numbers", number)
    return len(row)


def _numbers(row: Any, number: int) -> Any:
    if hasattr(row, "dtype"):
        if row.ndim != 1 or row.dtype.kind not in "fiu":
            raise UnfitVector("it is no list of numbers", number)
        return row
    try:
        return array("f", row)
    except (TypeError, OverflowError) as error:
        raise UnfitVector("it is no list of numbers", number) from error
