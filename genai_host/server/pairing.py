"""Calls of tools and their results, in formats where calls need not have ids."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable
from itertools import chain, count, groupby

from genai_host.api import Message
from genai_host.errors import InvalidData


class Pairing:
    """Of one conversation, read from its beginning on."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._numbers = count(1)
        # names of tools, by id; a dict would look for its first among all that left it
        self._waiting: OrderedDict[str, str] = OrderedDict()
        self._by_given: defaultdict[str, deque[str]] = defaultdict(deque)
        self._by_name: defaultdict[str, deque[str]] = defaultdict(deque)

    def call(self, given: str, name: str) -> str:
        """The id of a call: the one that it came with, or one that is made for it.

        given   may be empty, or that of an earlier call as well
        """
        id = given
        while not id or id in self._ids:
            id = f"call_{next(self._numbers)}"
        self._ids.add(id)
        self._waiting[id] = name
        self._by_given[given].append(id)
        self._by_name[name].append(id)
        return id

    def result(self, given: str, name: str, path: str) -> tuple[str, str]:
        """The id and the name of the call that a result answers: the one of that id, or the
        earliest of that name, or of any if it has none, that no result has answered.

        Raises `InvalidData` if there is none.
        """
        id = self._first(self._by_given[given]) if given else None
        if id is None:
            id = self._first(self._by_name[name]) if name else next(iter(self._waiting), None)
        if id is None:
            raise InvalidData(f"no call of {name or 'a tool'} waits for this result", path=path)
        return id, self._waiting.pop(id)

    def _first(self, ids: deque[str]) -> str | None:
        """Of those that wait."""
        while ids and ids[0] not in self._waiting:
            ids.popleft()
        return ids[0] if ids else None


def together(messages: Iterable[Message], *roles: str) -> list[Message]:
    """With those that follow each other of one of these roles as one: the results of calls
    that were made at once, or what a client has kept piece by piece."""
    found: list[Message] = []
    for role, alike in groupby(messages, key=lambda message: message.role):
        if role in roles:
            parts = chain.from_iterable(message.content for message in alike)
            found.append(Message(role, parts))
        else:
            found += alike
    return found
