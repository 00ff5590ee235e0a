"""What embeddings must be, in whatever format they come."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from genai_host.errors import MalformedReply


def must_be_vectors(vectors: Sequence[Any], texts: int) -> None:
    """Raises `MalformedReply` unless there is a list of numbers for each text, all of
    one size."""
    if len(vectors) != texts or len({len(vector) for vector in vectors}) > 1:
        raise MalformedReply(
            f"{texts} texts came back as {len(vectors)} vectors, or as some of several sizes"
        )


def read_vector(numbers: Any) -> list[float]:
    """Raises `MalformedReply` for what is no list of finite numbers."""
    if not isinstance(numbers, list) or not all(type(each) in (int, float) for each in numbers):
        raise MalformedReply("an embedding is no list of numbers")
    try:
        vector = [float(each) for each in numbers]
    except OverflowError:
        vector = [math.inf]
    if not all(map(math.isfinite, vector)):
        raise MalformedReply("an embedding has a number that is too large")
    return vector
