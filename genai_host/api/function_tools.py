"""Tools from typed functions.

    @tool
    def roll(sides: Annotated[int, "how many sides the die has"] = 6) -> str:
        \"\"\"Roll a die.\"\"\"
        return str(random.randint(1, sides))

The name of the tool is that of the function, its description the docstring, its parameters the
signature. They are read when the tool is first offered, so creating a tool is fast.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Annotated, Any, get_args, get_origin, get_type_hints, overload

from genai_host.api.codec import default_codec
from genai_host.api.json_text import write_json
from genai_host.api.messages import Image, Text
from genai_host.api.schema import build, schemas_of
from genai_host.api.tools import Approval, Tool, ToolContext, ToolOutput, ToolReturn
from genai_host.errors import ValidationError
from genai_host.util.text import docstring

Function = Callable[..., Any]

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_NO_TOOLS = (
    (inspect.iscoroutinefunction, "async"),
    (inspect.isasyncgenfunction, "an async generator"),
    (inspect.isgeneratorfunction, "a generator"),
    (lambda given: isinstance(given, partial), "not a function"),  # a routine from Python 3.14 on
    (lambda given: not inspect.isroutine(given) or inspect.isbuiltin(given), "not a function"),
)
_SECTION = re.compile(
    r"^(:\w+.*:|(Args|Arguments|Parameters|Returns|Raises|Examples?|Notes?)(:|\s*\n-+))", re.M
)


@overload
def tool(function: Function, /) -> Tool: ...


@overload
def tool(
    function: Function,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    approval: Approval = "allow",
    idempotent: bool = False,
    timeout: float = 60.0,
    available_when: Callable[[Mapping[str, Any]], bool] | None = None,
) -> Tool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    approval: Approval = "allow",
    idempotent: bool = False,
    timeout: float = 60.0,
    available_when: Callable[[Mapping[str, Any]], bool] | None = None,
) -> Callable[[Function], Tool]: ...


def tool(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    **fields: Any,
) -> Tool | Callable[[Function], Tool]:
    """Create a `Tool` from a function: `@tool`, `@tool(idempotent=True)` or `tool(function)`.

    Arguments are converted to the types of the parameters, including attrs classes. A string in the
    annotation describes a parameter: `Annotated[int, "how many"]`. A parameter of type
    `ToolContext` receives the context of the call. A result that is not a `ToolReturn` is written
    as JSON.

    Args:
        function: The function.
        name: Name of the tool; None for the name of the function.
        description: Description; None for the docstring up to a section such as `Args:`.
        **fields: Further fields of `Tool`.

    Raises:
        TypeError: The function cannot be a tool.
    """
    if function is None:
        return lambda decorated: tool(decorated, name=name, description=description, **fields)
    called = getattr(function, "__name__", type(function).__name__)
    signature = _Signature(function, called)
    fields = {field: value for field, value in fields.items() if value is not None}
    return Tool(
        called if name is None else name,
        _description(function, called) if description is None else description,
        _Runs(function, signature),
        signature.parameters,
        **fields,
    )


def _description(function: Function, called: str) -> str:
    text = docstring(function)
    section = _SECTION.search(text)
    text = (text[: section.start()] if section else text).strip()
    if not text:
        raise TypeError(f"{called} has no description: write a docstring, or give `description`")
    return text


class _Signature:
    """The parameters of a function. Types are resolved on first use, since they may be defined
    later."""

    def __init__(self, function: Function, called: str) -> None:
        own = function.__func__ if isinstance(function, staticmethod) else function
        for is_one, kind in _NO_TOOLS:
            if is_one(own):
                raise TypeError(f"{called} is {kind}: a tool is a plain function")
        self._function = function
        self._called = called
        self._parameters = inspect.signature(function).parameters
        for each in self._parameters.values():
            if each.kind not in _BY_NAME:
                raise TypeError(f"{called}: parameter {each} cannot be given by name")
            if each.annotation is each.empty:
                raise TypeError(f"{called}: parameter {each.name} has no type")
        # cached
        self.parameters = cache(self._make_parameters)
        self._types = cache(self._find_types)

    def built(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Convert the arguments to their types. Raises `ValidationError` if an argument does not
        match."""
        types = self._types()
        built = {}
        for name, value in arguments.items():
            if name not in types or types[name] is ToolContext:
                raise ValidationError(f"unknown argument {name!r}")
            try:
                built[name] = build(value, _bare(types[name]))
            except ValidationError as error:
                raise ValidationError(f"argument {name!r}: {error}") from error
        return built

    @property
    def runs(self) -> list[str]:
        """The parameters that receive the `ToolContext`."""
        return [name for name, form in self._types().items() if form is ToolContext]

    def _make_parameters(self) -> dict[str, Any]:
        types = {name: form for name, form in self._types().items() if form is not ToolContext}
        schemas, definitions = schemas_of(types)
        parameters: dict[str, Any] = {
            "type": "object",
            "properties": {name: self._described(name, schemas[name]) for name in types},
            "additionalProperties": False,
        }
        required = [
            name for name in types if self._parameters[name].default is inspect.Parameter.empty
        ]
        if required:
            parameters["required"] = required
        if definitions:
            parameters["$defs"] = definitions
        return parameters

    def _described(self, name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        described = dict(schema)
        descriptions = [each for each in get_args(self._types()[name])[1:] if isinstance(each, str)]
        if get_origin(self._types()[name]) is Annotated and descriptions:
            described["description"] = " ".join(descriptions)
        default = self._parameters[name].default
        if default is not inspect.Parameter.empty:
            described["default"] = default_codec().to_json(default)
        return described

    def _find_types(self) -> dict[str, Any]:
        function: Any = inspect.unwrap(self._function)
        try:
            hints = get_type_hints(function, include_extras=True)
        except (NameError, TypeError) as error:
            raise ValidationError(f"cannot resolve the types of {self._called}: {error}") from error
        return {name: hints[name] for name in self._parameters}


class _Runs:
    """Calls the function as a tool."""

    def __init__(self, function: Function, signature: _Signature) -> None:
        self._function = function
        self._signature = signature

    def __call__(self, arguments: Mapping[str, Any], run: ToolContext) -> ToolReturn:
        built = self._signature.built(arguments)
        built.update(dict.fromkeys(self._signature.runs, run))
        result = self._function(**built)
        if _is_given(result):
            given: ToolReturn = result
            return given
        return write_json(default_codec().to_json(result)).decode()


def _bare(form: Any) -> Any:
    return get_args(form)[0] if get_origin(form) is Annotated else form


def _is_given(value: Any) -> bool:
    """Whether a value is a valid result of a tool."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(isinstance(each, (str, Text, Image)) for each in value)
    return value is None or isinstance(value, (ToolOutput, str, Text, Image))
