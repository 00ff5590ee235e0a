"""Cases of function calling: a question, three functions, and the right call.

The cases are from the Berkeley Function-Calling Leaderboard (see the README of this
distribution) and are scored as there: the arguments are right if each has one of its possible
values. Optional arguments can be omitted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import asdict, frozen
from genai_feature_agent.loop import Added

from genai_host import Host
from genai_host.api import Message, SchemaValidator, Text, Tool, ToolCall, ToolContext, ToolResult
from genai_host.errors import GenaiError, ValidationError
from genai_host_testing import InlinePlugin

CASES = Path(__file__).with_name("function_calling.jsonl")

WINDOW = 2048
"""Tokens for three functions, a question, two answers and the instructions for tools."""

_TYPES = {"dict": "object", "float": "number", "tuple": "array"}
"""The leaderboard's names of JSON Schema types, which are Python's, to the standard names."""

_SAME = re.compile(r"[ ,./\-_*^]")
"""Characters that the leaderboard ignores in strings."""

_TOKENS = 128
"""Maximum output tokens; each right call needs fewer."""

_GIVES = "Done."
"""Output of each tool; only the call and its arguments are scored."""


@frozen
class Case:
    """A case.

    Attributes:
        functions: The available functions, each with its name, description, and JSON Schema.
        name: Name of the function to call.
        possible: Possible values of each argument; an empty string means that it can be omitted.
    """

    id: str
    question: str
    functions: Sequence[Mapping[str, Any]]
    name: str
    possible: Mapping[str, Sequence[Any]]

    def plugin(self) -> InlinePlugin:
        """Return a plugin with the functions as tools."""
        return InlinePlugin(
            tools=[
                Tool(each["name"], each["description"], _run, each["parameters"])
                for each in self.functions
            ]
        )

    def accepts(self, call: ToolCall) -> bool:
        """Return whether the function exists and its schema accepts the arguments."""
        for each in self.functions:
            if each["name"] == call.name and not call.malformed:
                try:
                    SchemaValidator(each["parameters"]).check(call.arguments)
                except ValidationError:
                    return False
                return True
        return False


def read_cases(file: Path = CASES) -> list[Case]:
    """Read the cases. Names of functions are converted to valid tool names: `_` for `.`, as the
    leaderboard does for services that do not accept dots.
    """
    with file.open(encoding="utf-8") as lines:
        return [_case(json.loads(line)) for line in lines]


def _case(read: Mapping[str, Any]) -> Case:
    [[message]] = read["question"]
    [answer] = read["ground_truth"]
    [(name, possible)] = answer.items()
    functions = [
        {
            "name": _tool_name(each["name"]),
            "description": each["description"],
            "parameters": _as_json_schema(each["parameters"]),
        }
        for each in read["function"]
    ]
    return Case(read["id"], message["content"], functions, _tool_name(name), possible)


def _tool_name(name: str) -> str:
    return name.replace(".", "_")


def _as_json_schema(schema: Any) -> Any:
    """Convert a schema. `optional` of an argument is ignored, as `required` has the same
    information.
    """
    schema = {key: value for key, value in schema.items() if key != "optional"}
    schema["type"] = _TYPES.get(schema["type"], schema["type"])
    if "properties" in schema:
        properties = schema["properties"].items()
        schema["properties"] = {name: _as_json_schema(inner) for name, inner in properties}
    if "items" in schema:
        schema["items"] = _as_json_schema(schema["items"])
    return schema


def _run(arguments: Mapping[str, Any], run: ToolContext) -> str:
    return _GIVES


def _fits(arguments: Mapping[str, Any], possible: Mapping[str, Sequence[Any]]) -> bool:
    has_valid_names = all(name in possible for name in arguments)
    return has_valid_names and all(
        any(_is_same(arguments[name], value) for value in values)
        if name in arguments
        else "" in values
        for name, values in possible.items()
    )


def _is_same(argument: Any, value: Any) -> bool:
    if isinstance(argument, str) and isinstance(value, str):
        return _plain(argument) == _plain(value)
    if isinstance(argument, list) and isinstance(value, list):
        return len(argument) == len(value) and all(map(_is_same, argument, value))
    if isinstance(argument, dict) and isinstance(value, dict):
        return _fits(argument, value)  # within an object, values are again lists of possible ones
    if isinstance(argument, bool) or isinstance(value, bool):
        return argument is value
    return bool(argument == value)


def _plain(text: str) -> str:
    return _SAME.sub("", text).lower().replace("'", '"')


@frozen
class Played:
    """Result of a case.

    Attributes:
        calls: The calls that the model requested first.
        ran: Whether the host has called tools, and all of them have returned their output.
        error: The error that ended the turn; None for an answer.
    """

    case: Case
    calls: Sequence[ToolCall] = ()
    ran: bool = False
    error: GenaiError | None = None

    @property
    def called(self) -> bool:
        """Whether it called a tool, with arguments that match its schema."""
        return bool(self.calls) and all(map(self.case.accepts, self.calls))

    @property
    def chosen(self) -> bool:
        """Whether it called the right tool, and no other."""
        return self.called and [call.name for call in self.calls] == [self.case.name]

    @property
    def right(self) -> bool:
        """Whether it called the right tool with right arguments."""
        return self.chosen and _fits(self.calls[0].arguments, self.case.possible)

    @property
    def line(self) -> str:
        judged = "right" if self.right else "chosen" if self.chosen else "wrong"
        calls = [f"{call.name}({json.dumps(dict(call.arguments))})" for call in self.calls]
        expected = f"{self.case.name}({json.dumps(dict(self.case.possible))})"
        ended = "" if self.error is None else f"; {type(self.error).__name__}: {self.error}"
        return f"{self.case.id}: {judged}: {', '.join(calls) or 'no call'} for {expected}{ended}"


@frozen
class Score:
    """Numbers of cases: see `Played`.

    Attributes:
        answered: Turns that ended with an answer, and not with a limit.
    """

    cases: int
    called: int
    chosen: int
    right: int
    answered: int

    @classmethod
    def of(cls, played: Sequence[Played]) -> Score:
        return cls(
            len(played),
            sum(each.called for each in played),
            sum(each.chosen for each in played),
            sum(each.right for each in played),
            sum(each.error is None for each in played),
        )

    @property
    def counts(self) -> dict[str, int]:
        return {
            "a tool was called": self.called,
            "the right tool": self.chosen,
            "with right arguments": self.right,
            "ended with an answer": self.answered,
        }

    def to_json(self) -> dict[str, int]:
        return asdict(self)

    def __str__(self) -> str:
        counts = ", ".join(f"{what} {count}" for what, count in self.counts.items())
        return f"of {self.cases} cases, {counts}"


def play(host: Host, case: Case, model: str) -> Played:
    """Ask the agent of a host that has the tools of a case. The model is called at most twice: to
    call a tool, and to answer with its output.
    """
    conversation = host.open(
        "agent",
        model,
        parameters={"temperature": 0, "seed": 0, "max_tokens": _TOKENS},
        settings={"round_trips": 2},
    )
    calls: list[ToolCall] = []
    gave: list[str] = []
    error = None
    try:
        for event in conversation.stream(case.question):
            if event.kind != "progress" or not isinstance(event.data.data, Added):
                continue
            message = event.data.data.message
            if message.role == "tool":
                gave += _results(message)
            elif not calls:
                calls += message.tool_calls
    except GenaiError as raised:
        error = raised
    return Played(case, calls, set(gave) == {_GIVES}, error)


def _results(message: Message) -> list[str]:
    results = [part for part in message.content if isinstance(part, ToolResult)]
    return [part.text for each in results for part in each.content if isinstance(part, Text)]
