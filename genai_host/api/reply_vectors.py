"""What embeddings must be, in whatever format they come."""

from __future__ import annotations

import base64
import math
import sys
from array import array
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
    """Raises `MalformedReply` for what is no list of finite numbers, and for none."""
    if not isinstance(numbers, list) or not all(type(each) in (int, float) for each in numbers):
        raise MalformedReply("an embedding is no list of numbers")
    try:
        vector = [float(each) for each in numbers]
    except OverflowError:
        vector = [math.inf]
    if not vector or not all(map(math.isfinite, vector)):
        raise MalformedReply("an embedding is empty, or has a number that is too large")
    return vector


def decode_vector(text: str) -> list[float]:
    """The same from base64 of 4-byte floats, little end first."""
    try:
        numbers = array("f", base64.b64decode(text, validate=True))
    except ValueError as error:
        raise MalformedReply("an embedding is no base64 of numbers") from error
    if sys.byteorder == "big":
        numbers.byteswap()
    return read_vector(numbers.tolist())
