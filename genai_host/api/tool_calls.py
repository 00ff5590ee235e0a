"""Tool calls in replies, complete or assembled from the chunks of a stream."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import count
from typing import Any

from attrs import evolve

from genai_host.api.dialects import malformed
from genai_host.api.json_text import read_json, write_json
from genai_host.api.messages import ToolCall


def read_tool_call(id: str, name: str, arguments: Any) -> ToolCall:
    """A tool call. `arguments` is an object or its JSON text; anything else is stored as text."""
    if arguments is None or isinstance(arguments, dict):
        return ToolCall(id, name, arguments or {})
    text = arguments_as_text(arguments)
    try:
        value = read_json(text or "{}")
    except ValueError:
        value = None
    if isinstance(value, dict):
        return ToolCall(id, name, value)
    return ToolCall(id, name, malformed=text)


def arguments_as_text(arguments: Any) -> str:
    """Arguments as text, whether the service sent a text or an object."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else write_json(arguments).decode()


def distinct_calls(calls: Iterable[ToolCall]) -> list[ToolCall]:
    """Give each call a unique id, since results are paired with calls by id. A missing or duplicate
    id is replaced; an identical call is dropped."""
    found: dict[str, ToolCall] = {}
    given = list(calls)
    taken = {call.id for call in given}
    for at, call in enumerate(given):
        if call.id and found.get(call.id) == call:
            continue
        if not call.id or call.id in found:
            call = evolve(call, id=_free_id(at, taken))
            taken.add(call.id)
        found[call.id] = call
    return list(found.values())


def _free_id(at: int, taken: set[str]) -> str:
    return next(id for number in count(at) if (id := f"call_{number}") not in taken)


class ToolCallAssembler:
    """Assembles the tool calls of a streamed reply.

    A chunk can have an index, an id, a name and a part of the arguments. Services indicate a new
    call in different ways:

    - a new index
    - another id and a name, if all calls share an index
    - a name, once the arguments of the previous call are a complete object

    A chunk without a name never begins a call at a known index: some services send a new id with
    each chunk. An id, a name or a complete call may be repeated.
    """

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._at_index: dict[int, _Call] = {}  # the last one
        self._by_id: dict[tuple[int | None, str], _Call] = {}
        self._given: set[str] = set()

    def add(self, *, index: int | None, id: str, name: str, arguments: str) -> None:
        """Add a chunk.

        Raises:
            MalformedReply: The chunk cannot be assigned to a call.
        """
        call = self._by_id.get((index, id)) if id else None
        if call is None and index is not None:
            call = self._at_index.get(index)
        elif call is None and self._calls:
            call = self._calls[-1]
        if call is None or call.is_followed_by(id, name, arguments):
            call = _Call(len(self._calls) if index is None else index, name or _name(call))
            self._calls.append(call)
        if index is not None:
            self._at_index[index] = call
        if id:
            self._by_id.setdefault((index, id), call)
        call.add(id, name, arguments)

    def calls(self) -> list[ToolCall]:
        """All calls so far, in order."""
        ordered = sorted(self._calls, key=lambda call: call.place)
        return distinct_calls(read_tool_call(each.id, each.name, each.text()) for each in ordered)

    def new_calls(self) -> list[ToolCall]:
        """The calls that this method has not returned before."""
        calls = [call for call in self.calls() if call.id not in self._given]
        self._given.update(call.id for call in calls)
        return calls


def _name(call: _Call | None) -> str:
    return call.name if call is not None else ""


class _Call:
    """A call that is received in chunks.

    Args:
        place: Position among the calls.
        name: Name of the tool.
    """

    def __init__(self, place: int, name: str) -> None:
        self.place = place
        self.id = ""
        self.name = name
        self._pieces: list[str] = []
        self._size = 0
        self._scanned = 0  # pieces
        self._scan = _Scan()
        self._is_begun = False
        self._is_named_again = False

    def is_followed_by(self, id: str, name: str, arguments: str) -> bool:
        """Whether a chunk at the same index begins another call."""
        if not name:
            return self._is_named_again and not id and bool(arguments.strip())
        if id and self.id:
            return id != self.id
        if self._is_whole():
            return bool(arguments.strip()) or name != self.name
        return self._is_begun and name != self.name

    def add(self, id: str, name: str, arguments: str) -> None:
        self.id = self.id or id
        self._is_named_again = bool(name) and self._is_whole()
        if self._is_named_again and len(arguments) == self._size and arguments == self.text():
            return
        if name and name != self.name:
            if self._is_begun:
                raise malformed("a tool call has two names")
            self.name += name
        if arguments:
            self._pieces.append(arguments)
            self._size += len(arguments)
            self._is_begun = self._is_begun or bool(arguments.strip())

    def text(self) -> str:
        return "".join(self._pieces)

    def _is_whole(self) -> bool:
        """Whether the arguments are a complete value; each chunk is scanned once."""
        for piece in self._pieces[self._scanned :]:
            self._scan.feed(piece)
        self._scanned = len(self._pieces)
        return self._scan.is_whole


_MARKS = re.compile(r'["\\{}\[\]]')


class _Scan:
    """Finds the end of an object or a list in chunks of text."""

    def __init__(self) -> None:
        self._depth = 0
        self._is_begun = False
        self._in_string = False
        self._skip = 0  # characters of the next chunk, after a backslash at the end of the last

    @property
    def is_whole(self) -> bool:
        return self._is_begun and not self._depth and not self._in_string

    def feed(self, piece: str) -> None:
        skip = self._skip
        for found in _MARKS.finditer(piece):
            at, mark = found.start(), found[0]
            if at < skip:
                continue
            if mark == "\\":
                skip = at + 2 if self._in_string else skip
            elif mark == '"':
                self._in_string = not self._in_string
            elif not self._in_string:
                self._is_begun = True
                self._depth += 1 if mark in "{[" else -1
        self._skip = max(0, skip - len(piece))
