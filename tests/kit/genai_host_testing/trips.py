"""A trip, as a class of each kind that is supported as an output type."""

from __future__ import annotations

import dataclasses
from typing import TypedDict

import attrs


@attrs.frozen
class AttrsTrip:
    city: str
    days: int


@dataclasses.dataclass
class DataTrip:
    city: str
    days: int


class TypedTrip(TypedDict):
    city: str
    days: int
