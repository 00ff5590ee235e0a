"""Tools that clients of an API define, and the pairing of their calls and results.

A model asks for these tools and the client runs them. `Pairing` is for formats in which calls need
not have ids.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from attrs import evolve

from genai_host.api import (
    File,
    Part,
    SchemaValidator,
    Text,
    ToolCall,
    ToolResult,
    ToolSchema,
    VendorTool,
)
from genai_host.api.json_reader import JsonReader, is_deep
from genai_host.api.json_text import ValueBudget
from genai_host.errors import ValidationError


def offered_tool(
    name: str,
    description: str,
    parameters: Mapping[str, Any] | None,
    path: str,
    *,
    strict: bool | None = None,
    extra: Mapping[str, Any] | None = None,
) -> ToolSchema:
    """Validate a tool of a client.

    Its parameters must be a JSON Schema of an object: services do not check that, or report it in
    their own words.

    Args:
        name: Name of the tool.
        description: Description of the tool.
        parameters: JSON Schema of its parameters; None for none.
        path: Location in the request.
        strict: See `ToolSchema`.
        extra: See `ToolSchema`.

    Raises:
        ValidationError: The tool is invalid.
    """
    if not name:
        raise ValidationError("a tool has no name", path=path)
    # some SDKs send null for what is not set
    unset = {key for key in ("properties", "required") if (parameters or {}).get(key, "") is None}
    parameters = {key: each for key, each in (parameters or {}).items() if key not in unset}
    if parameters.get("type", "object") != "object":
        raise ValidationError(f"the parameters of {name} are not an object", path=path)
    check_schema(parameters, path)
    return ToolSchema(name, description, parameters, strict, extra=extra)


def vendor_tool(
    name: str, given: JsonReader, *fields: str, kind: str = "", essential: bool = False
) -> VendorTool | None:
    """A tool that the service runs itself. If the service has another format and the host does not
    replace the tool, it is ignored and reported.

    Args:
        name: Its name.
        given: The object with its definition.
        fields: Fields of the definition; none for all.
        kind: See `VendorTool`.
        essential: Whether the request must not reach a service without the tool.

    Returns:
        The tool; None if it is ignored.

    Raises:
        NoRoute: The model is unknown.
    """
    read = [given.object(name) for name in fields] or [given]
    options = [path for each in read if each is not None for path in each.others()]
    is_replaced, translated = given.replaces(kind), given.translates(kind)
    extra = given.fields_for_service(*fields)
    tool = VendorTool(name, "", extra=extra, kind=kind)
    if translated:
        given.ignored_elsewhere(options, tool)
        tool = evolve(tool, translated=True)
        is_replaced = extra is None
        if is_replaced:
            given.ignored_elsewhere([f"{given.path}.{name}"], tool)
    if extra is not None:
        ignored = options if is_replaced else [f"{given.path}.{name}"]
        given.ignored_elsewhere(ignored, tool, essential=essential)
        return tool
    if not is_replaced:
        given.drop_this(name)
        return None
    for each in read:
        if each is not None:
            each.drop_others()
    return tool


_MAX_VALUES = 5000
"""Maximum number of values in a schema; four times as many in all tools of a request. Checking
takes about half a millisecond per subschema."""


def check_schema(schema: Mapping[str, Any], path: str) -> None:
    """Check that a schema is a valid JSON Schema and not too large. Raises `ValidationError`."""
    if _size(schema) > _MAX_VALUES:
        raise ValidationError(f"the schema has more than {_MAX_VALUES} values", path=path)
    try:
        SchemaValidator(schema)
    except ValidationError as error:
        raise ValidationError(error.message, path=path + error.path.removeprefix("$")) from error


def _size(schema: Any) -> int:
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
    """Reads the tool calls of a request, whose arguments are the text of a JSON object."""

    def __init__(self) -> None:
        self._budget = ValueBudget()

    def read(
        self, id: str, name: str, arguments: str, extra: Mapping[str, Any] | None = None
    ) -> ToolCall:
        """Read a call. Invalid arguments stay as the model wrote them, since it will see them
        again. For `extra`, see `Part`. Raises `ValidationError` if the arguments of all calls have
        too many values."""
        try:
            value = self._budget.read(arguments) if arguments.strip() else {}
        except ValueError:
            value = None
        if not isinstance(value, dict) or is_deep(value):
            return ToolCall(id, name, malformed=arguments, extra=extra)
        return ToolCall(id, name, value, extra=extra)


CHOICES = ("auto", "none", "required")
"""Tool choices that are not tool names."""


def one_of(tools: Sequence[ToolSchema], name: str) -> tuple[Sequence[ToolSchema], str]:
    """The tools and the tool choice of a request that names one tool. If the tool is called `auto`,
    `none` or `required`, only this tool is offered."""
    if name not in CHOICES:
        return tools, name
    return [tool for tool in tools if tool.name == name], "required"


def result_and_files(
    id: str,
    name: str,
    parts: Iterable[Part],
    error: bool = False,
    extra: Mapping[str, Any] | None = None,
) -> tuple[ToolResult, list[File]]:
    """The result of a tool, and its documents. A result contains text and images only; it mentions
    documents, which the user's message contains. Raises `ValidationError` if there is a part of
    another kind."""
    content: list[Part] = []
    files: list[File] = []
    for part in parts:
        if isinstance(part, File):
            files.append(part)
            part = Text(f"(the document {part.name or part.url or len(files)} follows)")
        content.append(part)
    return ToolResult(id, name, content, error, extra=extra), files


MAX_TOOLS = 512
"""Maximum number of tools in a request, since each is checked."""


def each_once(tools: Iterable[ToolSchema], path: str) -> list[ToolSchema]:
    """Check that names are unique and that there are not too many tools. Raises
    `ValidationError`."""
    by_name: dict[str, ToolSchema] = {}
    values = 0
    for tool in tools:
        values += _size(tool.parameters)
        if values > 4 * _MAX_VALUES:
            raise ValidationError(
                f"the schemas of the tools have more than {4 * _MAX_VALUES} values", path=path
            )
        if len(by_name) == MAX_TOOLS:
            raise ValidationError(f"there are more than {MAX_TOOLS} tools", path=path)
        if tool.name in by_name:
            raise ValidationError(f"two tools have the name {tool.name}", path=path)
        by_name[tool.name] = tool
    return list(by_name.values())


class Pairing:
    """Pairs tool calls and results of one conversation, read from the beginning."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._numbers = count(1)
        # tool names by id; in a dict, finding the first is slow after removals
        self._waiting: OrderedDict[str, str] = OrderedDict()
        self._by_given: defaultdict[str, deque[str]] = defaultdict(deque)
        self._by_name: defaultdict[str, deque[str]] = defaultdict(deque)

    def call(self, given: str, name: str) -> str:
        """The id of a call: the given one, or a new one if that is empty or repeated."""
        id = given
        while not id or id in self._ids:
            id = f"call_{next(self._numbers)}"
        self._ids.add(id)
        self._waiting[id] = name
        self._by_given[given].append(id)
        self._by_name[name].append(id)
        return id

    def result(self, given: str, name: str, path: str) -> tuple[str, str]:
        """Find the call of a result, by its id, or else the first unanswered call with that name
        or any name. Returns its id and name. Raises `ValidationError` if there is no such call."""
        id = self._first(self._by_given[given]) if given else None
        if id is None:
            id = self._first(self._by_name[name]) if name else next(iter(self._waiting), None)
        if id is None:
            raise ValidationError(f"no call of {name or 'a tool'} waits for this result", path=path)
        return id, self._waiting.pop(id)

    def _first(self, ids: deque[str]) -> str | None:
        """The first unanswered call."""
        while ids and ids[0] not in self._waiting:
            ids.popleft()
        return ids[0] if ids else None
