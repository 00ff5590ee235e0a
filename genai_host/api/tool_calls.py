"""Tool calls in replies, complete or assembled from the chunks of a stream."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any, TypeVar

from attrs import evolve

from genai_host.api.json_text import read_json, write_json
from genai_host.api.messages import Part, ToolCall
from genai_host.api.reply_values import malformed

P = TypeVar("P", bound=Part)


def read_tool_call(
    id: str, name: str, arguments: Any, extra: Mapping[str, Any] | None = None
) -> ToolCall:
    """A tool call. `arguments` is an object or its JSON text, which some services encode twice;
    nothing, null and an empty list are an empty object. Anything else is stored as text. For
    `extra`, see `Part`."""
    value = arguments
    for _ in range(2):
        if isinstance(value, str):
            try:
                value = read_json(value) if value.strip() else None
            except ValueError:
                break
    if value is None or value == []:
        value = {}
    if isinstance(value, dict):
        return ToolCall(id, name, value, extra=extra)
    return ToolCall(id, name, malformed=arguments_as_text(arguments), extra=extra)


def arguments_as_text(arguments: Any) -> str:
    """Arguments as text, whether the service sent a text or an object."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else write_json(arguments).decode()


class DistinctCalls:
    """Gives each tool call of a reply a unique id, since results are paired with calls by id. A
    missing or duplicate id is replaced.

    Args:
        reserved: Ids that later calls will have.
    """

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._reserved = set(reserved)
        self._found: dict[str, ToolCall] = {}

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[ToolCall]:
        return iter(self._found.values())

    def __contains__(self, call: ToolCall) -> bool:
        return bool(call.id) and self._found.get(call.id) == call

    def add(self, call: ToolCall) -> ToolCall:
        """Add a call. Returns it with its id."""
        if not call.id or call.id in self._found:
            call = evolve(call, id=self._free_id())
        self._found[call.id] = call
        return call

    def _free_id(self) -> str:
        numbered = (f"call_{number}" for number in count(len(self._found)))
        return next(id for id in numbered if id not in self._found and id not in self._reserved)


def distinct_calls(parts: Iterable[P], *, repeated: bool = False) -> list[P]:
    """Parts of a reply in which each tool call has a unique id; see `DistinctCalls`.

    Args:
        parts: The parts.
        repeated: Whether to keep identical calls with the same id, as separate calls.
    """
    given = list(parts)
    distinct = DistinctCalls(part.id for part in given if isinstance(part, ToolCall))
    found: list[Any] = []
    for part in given:
        if not isinstance(part, ToolCall):
            found.append(part)
        elif repeated or part not in distinct:
            found.append(distinct.add(part))
    return found


_NO_NAMES = frozenset({"null", "None"})
"""Words for a missing name, which some services send as a text in later chunks."""


class ToolCallAssembler:
    """Assembles the tool calls of a streamed reply.

    A chunk can have an index, an id, a name and a part of the arguments. Services indicate a new
    call in different ways:

    - a new index
    - another id and a name, if all calls share an index
    - a name, once the arguments of the previous call are a complete object

    A chunk without a name never begins a call at a known index: some services send a new id with
    each chunk. An id, a name or a complete call may be repeated. An empty object before the
    arguments is ignored.
    """

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._at_index: dict[int, _Call] = {}  # the last one
        self._by_id: dict[tuple[int | None, str], _Call] = {}

    def add(
        self,
        *,
        index: int | None,
        id: str,
        name: str,
        arguments: str,
        extra: Mapping[str, Any] | None = None,
        parameter: str = "",
    ) -> None:
        """Add a chunk. For `extra`, see `Part`.

        Args:
            index: Its index, if it has one.
            id: Its id, or an empty string.
            name: The name of the tool, or a part of it.
            arguments: A part of the arguments.
            extra: Unknown fields.
            parameter: Name of the only parameter, if its plain text is sent instead of JSON.

        Raises:
            MalformedReply: The chunk cannot be assigned to a call.
        """
        call = self._by_id.get((index, id)) if id else None
        if call is None and index is not None:
            call = self._at_index.get(index)
        elif call is None and self._calls:
            call = self._calls[-1]
        if call is not None and not id and name in _NO_NAMES:
            name = ""
        if call is None or call.is_followed_by(id, name, arguments):
            call = _Call(len(self._calls) if index is None else index, name or _name(call))
            self._calls.append(call)
        if index is not None:
            self._at_index[index] = call
        if id:
            self._by_id.setdefault((index, id), call)
        call.parameter = call.parameter or parameter
        call.add(id, name, arguments)
        if extra is not None:
            call.extras.append(extra)

    def calls(self) -> list[ToolCall]:
        """All calls so far, in order."""
        return distinct_calls(self.received())

    def received(self) -> list[ToolCall]:
        """All calls so far, in order, with the ids that the service gave."""
        return [each.call() for each in sorted(self._calls, key=lambda call: call.place)]


def _name(call: _Call | None) -> str:
    return call.name if call is not None else ""


def _add_missing(fields: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add fields that an object, or an object in it, does not have."""
    for name, value in more.items():
        if not isinstance(value, Mapping):
            fields.setdefault(name, value)
        elif isinstance(own := fields.setdefault(name, {}), dict):
            _add_missing(own, value)


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
        self.parameter = ""
        self.extras: list[Mapping[str, Any]] = []
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
            return id != self.id or (self._is_whole() and self._is_different(arguments))
        if self._is_whole():
            return bool(arguments.strip()) or name != self.name
        return self._is_begun and name != self.name != ""

    def add(self, id: str, name: str, arguments: str) -> None:
        self.id = self.id or id
        self._is_named_again = bool(name) and self._is_whole()
        is_repeated = bool(id and name and self.parameter) or self._is_named_again
        if is_repeated and len(arguments) == self._size and arguments == self.text():
            return
        if name and name != self.name:
            if self._is_begun and self.name:
                raise malformed("a tool call has two names")
            self.name += name
        if self._is_placeholder() and arguments.lstrip().startswith("{"):
            self._pieces, self._size, self._scanned, self._scan = [], 0, 0, _Scan()
        if arguments:
            self._pieces.append(arguments)
            self._size += len(arguments)
            self._is_begun = self._is_begun or bool(arguments.strip())

    def text(self) -> str:
        return "".join(self._pieces)

    def call(self) -> ToolCall:
        if self.parameter:
            return ToolCall(self.id, self.name, {self.parameter: self.text()}, extra=self._extra())
        return read_tool_call(self.id, self.name, self.text(), self._extra())

    def _extra(self) -> Mapping[str, Any] | None:
        """The fields of all chunks; earlier ones have priority."""
        fields: dict[str, Any] = {}
        for each in self.extras:
            _add_missing(fields, each)
        return fields or None

    def _is_different(self, arguments: str) -> bool:
        """Whether other arguments follow the complete ones."""
        given = arguments.strip()
        return bool(given) and not self._is_placeholder() and given != self.text().strip()

    def _is_placeholder(self) -> bool:
        """Whether the arguments are an empty object, which some services send before the real
        ones."""
        return not self.parameter and self._size <= len(_EMPTY) and self.text() == _EMPTY

    def _is_whole(self) -> bool:
        """Whether the arguments are a complete value, which plain text never is; each chunk is
        scanned once."""
        if self.parameter:
            return False
        for piece in self._pieces[self._scanned :]:
            self._scan.feed(piece)
        self._scanned = len(self._pieces)
        return self._scan.is_whole


_EMPTY = "{}"
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
