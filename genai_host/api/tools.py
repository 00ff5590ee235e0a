"""A tool: something that a model may ask for, and that a plugin then does.

    def roll(arguments, run):
        return str(random.randint(1, arguments["sides"]))

    Tool("roll", "Roll a die.", roll, {"properties": {"sides": {"type": "integer"}}})

`tool` makes one from a typed function. A tool may do I/O; it is called in a thread of
its own, and several calls may be under way at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, get_args

from attrs import field, frozen

from genai_host.api.calls import ToolSchema
from genai_host.api.exchange import Limits
from genai_host.api.messages import (
    Image,
    Message,
    Part,
    Text,
    ToolCall,
    ToolResult,
    result_parts,
)
from genai_host.api.validators import ANY_BY_NAME, BOOLEAN, CALLABLE, Must
from genai_host.telling import shown

Approval = Literal["allow", "ask", "deny"]
"""Whether a tool may run: when a model asks for it, when a human has said so as well, or
not at all."""

_APPROVALS = get_args(Approval)
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")


def _content(given: str | Part | Iterable[str | Part] | None) -> tuple[Text | Image, ...]:
    return () if given is None else result_parts(given)


def _reactions(given: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    return tuple(given)


def _are_reactions(given: Sequence[Any]) -> bool:
    return all(isinstance(each, Mapping) and isinstance(each.get("type"), str) for each in given)


@frozen
class ToolOutput:
    """What a tool gave back, or why it failed.

    content     text and pictures for the model; a string stands for one `Text`
    error       whether the content tells the model of a failure
    reactions   JSON for a front end, each with a `type`
    context     JSON that replaces the context from here on; None leaves it as it is
    ends        whether the model is not to be asked again in this turn

    Raises `InvalidData` and `TypeError` where it is made, for anything else.
    """

    content: tuple[Text | Image, ...] = field(default=(), converter=_content)
    error: bool = field(default=False, validator=BOOLEAN, kw_only=True)
    reactions: tuple[Mapping[str, Any], ...] = field(
        default=(),
        converter=_reactions,
        validator=Must("mappings that have a `type`", _are_reactions),
        kw_only=True,
    )
    context: Mapping[str, Any] | None = field(
        default=None,
        validator=Must(
            "a mapping with strings for keys, or None",
            lambda value: value is None or ANY_BY_NAME.holds(value),
        ),
        kw_only=True,
    )
    ends: bool = field(default=False, validator=BOOLEAN, kw_only=True)

    @property
    def text(self) -> str:
        """Its texts, one below the other."""
        return "\n".join(part.text for part in self.content if isinstance(part, Text))


class ToolRun(Protocol):
    """One call of a tool, beside its arguments.

    context   JSON from the front end, for this turn; a copy of the tool's own
    limits    say when the call is to end, as a provider's do: a tool that waits, or works
              for long, asks them
    """

    @property
    def context(self) -> Mapping[str, Any]: ...

    @property
    def limits(self) -> Limits: ...


Given: TypeAlias = ToolOutput | str | Text | Image | Sequence[str | Text | Image] | None
"""What a tool may give; None for an output with no content."""


def always(context: Mapping[str, Any]) -> bool:
    """What a tool says that is of use anywhere."""
    return True


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(_NAME.fullmatch(value))


def _is_time(value: Any) -> bool:
    return type(value) in (int, float) and value > 0 and math.isfinite(value)


@frozen
class Tool:
    """What a plugin registers: something that a model may ask for.

    name          unique among all plugins; `[a-zA-Z_][a-zA-Z0-9_-]*`, at most 64
                  characters, as services want it
    description   for the model: what it does, and when to ask for it
    run           does it: gets the arguments, which the parameters were checked against,
                  and the `ToolRun`. What it raises is told to the model
    parameters    JSON Schema of an object, or what makes it when it is first asked for
    approval      whether it may run: `allow`, `ask` a human first, or `deny`
    repeatable    whether it may run again when nobody knows if it ran before
    seconds       how long one call may take
    applies       whether it is of use in a context; it is not offered where it is not
    """

    name: str = field(validator=Must(f"as `{_NAME.pattern}`", _is_name))
    description: str = field(
        validator=Must(
            "a string, and not blank", lambda value: isinstance(value, str) and bool(value.strip())
        )
    )
    run: Callable[[Mapping[str, Any], ToolRun], Given] = field(validator=CALLABLE)
    parameters: Mapping[str, Any] | Callable[[], Mapping[str, Any]] = field(
        factory=dict,
        validator=Must(
            "a JSON Schema, or a function that makes it",
            lambda value: callable(value) or ANY_BY_NAME.holds(value),
        ),
    )
    approval: Approval = field(
        default="allow",
        validator=Must(
            f"one of {', '.join(_APPROVALS)}",
            lambda value: isinstance(value, str) and value in _APPROVALS,
        ),
        kw_only=True,
    )
    repeatable: bool = field(default=False, validator=BOOLEAN, kw_only=True)
    seconds: float = field(
        default=60.0, validator=Must("a number of seconds above 0", _is_time), kw_only=True
    )
    applies: Callable[[Mapping[str, Any]], bool] = field(
        default=always, validator=CALLABLE, kw_only=True
    )

    @property
    def schema(self) -> ToolSchema:
        """As the model sees it. Raises `InvalidData` where its parameters cannot be
        described."""
        given = self.parameters
        parameters = given() if callable(given) else given
        return ToolSchema(
            self.name, self.description, {"type": "object", "properties": {}, **parameters}
        )


@frozen
class OfferedTool:
    """A tool that may be offered to a model, and whether it may run."""

    schema: ToolSchema
    approval: Approval = "allow"

    @property
    def name(self) -> str:
        return self.schema.name


def output_of(given: Given) -> ToolOutput:
    """What a tool gave, as its output. Raises `InvalidData` and `TypeError` for what is
    none."""
    if isinstance(given, ToolOutput):
        return given
    if given is None or isinstance(given, (str, Part, list, tuple)):
        return ToolOutput(given)
    raise TypeError(f"{shown(given)} is no output of a tool")


def tool_message(calls: Sequence[ToolCall], outputs: Sequence[ToolOutput]) -> Message:
    """The message that answers a model's calls: one result for each, in their order.

    Raises `ValueError` if there are not as many outputs as calls.
    """
    results = [
        ToolResult(call.id, call.name, output.content, output.error)
        for call, output in zip(calls, outputs, strict=True)
    ]
    return Message("tool", results)
