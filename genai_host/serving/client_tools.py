"""Tools that clients of an API define, and the pairing of their calls and results.

A model asks for these tools and the client runs them. `Pairing` is for formats in which calls need
not have ids.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count, groupby
from typing import Any

from genai_host.api import (
    File,
    Message,
    Part,
    SchemaValidator,
    Text,
    ToolCall,
    ToolResult,
    ToolSchema,
)
from genai_host.api.http_routes import is_deep
from genai_host.api.json_text import ValueBudget
from genai_host.errors import ValidationError


def offered_tool(
    name: str, description: str, parameters: Mapping[str, Any] | None, path: str
) -> ToolSchema:
    """A tool, if its parameters are a JSON Schema of an object: services take that on trust,
    or refuse it in words of their own.

    Raises `ValidationError`.

    Args:
        path: Where it stands in the request.
    """
    if not name:
        raise ValidationError("a tool has no name", path=path)
    parameters = parameters or {}
    if parameters.get("type", "object") != "object":
        raise ValidationError(f"the parameters of {name} are no object", path=path)
    check_schema(parameters, path)
    return ToolSchema(name, description, parameters)


_MOST_VALUES = 5000
"""Of one schema, and four times as many of all tools of a request: the check of a schema takes
about half a millisecond for each schema in it."""


def check_schema(schema: Mapping[str, Any], path: str) -> None:
    """Raises `ValidationError` if it is no JSON Schema, or too large."""
    if _size(schema) > _MOST_VALUES:
        raise ValidationError(f"the schema has more than {_MOST_VALUES} values", path=path)
    try:
        SchemaValidator(schema)
    except ValidationError as error:
        raise ValidationError(error.message, path=path + error.path.removeprefix("$")) from error


def _size(schema: Any) -> int:
    """The number of values in it."""
    count, pending = 0, [schema]
    while pending:
        value = pending.pop()
        count += 1
        if isinstance(value, Mapping):
            pending += value.values()
        elif isinstance(value, list | tuple):
            pending += value
    return count


class CallReader:
    """Reads the tool calls of one request, whose arguments come as the text of a JSON object."""

    def __init__(self) -> None:
        self._budget = ValueBudget()

    def read(self, id: str, name: str, arguments: str) -> ToolCall:
        """Arguments that are no object, or are nested too deeply, stay as the model wrote them:
        it is to see them again. Raises `ValidationError` where those of all calls have too many
        values."""
        try:
            value = self._budget.read(arguments) if arguments.strip() else {}
        except ValueError:
            value = None
        if not isinstance(value, dict) or is_deep(value):
            return ToolCall(id, name, malformed=arguments)
        return ToolCall(id, name, value)


CHOICES = ("auto", "none", "required")
"""What may be said of all tools."""


def one_of(tools: Sequence[ToolSchema], name: str) -> tuple[Sequence[ToolSchema], str]:
    """The tools and the choice, where that of a name is to be taken. One that is called as a
    choice is offered alone, which says the same."""
    if name not in CHOICES:
        return tools, name
    return [tool for tool in tools if tool.name == name], "required"


def result_and_files(
    id: str, name: str, parts: Iterable[Part], error: bool = False
) -> tuple[ToolResult, list[File]]:
    """The result of a tool, and the documents in it: a result holds texts and pictures, and says
    where a document was, which the user is to show after it.

    Raises:
        ValidationError: For other parts.
    """
    content: list[Part] = []
    files: list[File] = []
    for part in parts:
        if isinstance(part, File):
            files.append(part)
            part = Text(f"(the document {part.name or part.url or len(files)} follows)")
        content.append(part)
    return ToolResult(id, name, content, error), files


_MOST = 512
"""Tools of one request: checking each takes its time."""


def each_once(tools: Iterable[ToolSchema], path: str) -> list[ToolSchema]:
    """Raises `ValidationError` if two have one name, or there are too many."""
    by_name: dict[str, ToolSchema] = {}
    values = 0
    for tool in tools:
        values += _size(tool.parameters)
        if values > 4 * _MOST_VALUES:
            raise ValidationError(
                f"the schemas of the tools have more than {4 * _MOST_VALUES} values", path=path
            )
        if len(by_name) == _MOST:
            raise ValidationError(f"there are more than {_MOST} tools", path=path)
        if tool.name in by_name:
            raise ValidationError(f"two tools are called {tool.name}", path=path)
        by_name[tool.name] = tool
    return list(by_name.values())


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

        Args:
            given: May be empty, or that of an earlier call as well.
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

        Raises:
            ValidationError: There is none.
        """
        id = self._first(self._by_given[given]) if given else None
        if id is None:
            id = self._first(self._by_name[name]) if name else next(iter(self._waiting), None)
        if id is None:
            raise ValidationError(f"no call of {name or 'a tool'} waits for this result", path=path)
        return id, self._waiting.pop(id)

    def _first(self, ids: deque[str]) -> str | None:
        """Of those that wait."""
        while ids and ids[0] not in self._waiting:
            ids.popleft()
        return ids[0] if ids else None


def merge_consecutive(messages: Iterable[Message], *roles: str) -> list[Message]:
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
