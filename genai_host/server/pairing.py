"""Calls of tools and their results, in formats where calls need not have ids."""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

from genai_host.errors import InvalidData


class _Waiting(NamedTuple):
    given: str  # the id that it came with, if any
    id: str
    name: str


class Pairing:
    """Of one conversation, read from its beginning on."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._numbers = count(1)
        self._waiting: list[_Waiting] = []

    def call(self, given: str, name: str) -> str:
        """The id of a call: the one that it came with, or one that is made for it.

        given   may be empty, or that of an earlier call as well
        """
        id = given
        while not id or id in self._ids:
            id = f"call_{next(self._numbers)}"
        self._ids.add(id)
        self._waiting.append(_Waiting(given, id, name))
        return id

    def result(self, given: str, name: str, path: str) -> tuple[str, str]:
        """The id and the name of the call that a result answers: the one of that id, or the
        earliest of that name, or of any if it has none, that no result has answered.

        Raises `InvalidData` if there is none.
        """
        found = next((each for each in self._waiting if given and each.given == given), None)
        if found is None:
            found = next((each for each in self._waiting if name in ("", each.name)), None)
        if found is None:
            raise InvalidData(f"no call of {name or 'a tool'} waits for this result", path=path)
        self._waiting.remove(found)
        return found.id, found.name
