"""Tools, sources of tools, and reactions (client actions).

A tool is a function that a model can request and a plugin runs:

    def roll(arguments, run):
        return str(random.randint(1, arguments["sides"]))

    Tool("roll", "Roll a die.", roll, {"properties": {"sides": {"type": "integer"}}})

`genai_host.api.tool` makes one from a typed function. A tool may do I/O. Each call runs in its own
thread, and several calls can run concurrently.

A `ToolSource` or `ToolSet` is for tools that a plugin cannot name in advance, because they have
settings or must be looked up. A `ReactionType` defines the form of an action for a client.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar, get_args

from attrs import field, frozen

from genai_host.api.calls import CancelToken, ToolSchema
from genai_host.api.messages import Image, Message, Part, Text, ToolCall, ToolResult, result_parts
from genai_host.api.settings import SETTINGS
from genai_host.api.validators import (
    ADDRESS_OR_EMPTY,
    ANY_BY_NAME,
    BOOLEAN,
    CALLABLE,
    TEXT,
    Must,
    one_of,
    strings,
)
from genai_host.util.text import short_repr

Approval = Literal["allow", "ask", "deny"]
"""Approval rule: `allow` runs the tool when a model requests it, `ask` only after a person approved
the call, `deny` never."""

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
    """Output of a tool call.

    Attributes:
        content: Text and images for the model; a string becomes a `Text`.
        error: Whether the call failed; the content describes the failure.
        reactions: Client actions: JSON, each with a `type`.
        context: JSON that replaces the context from here on; None leaves it unchanged.
        ends: Whether to end the turn without another call of the model.

    Raises:
        ValidationError: The content has parts of another kind.
        TypeError: A field has a value of the wrong type.
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
        """Its text parts, joined by line breaks."""
        return "\n".join(part.text for part in self.content if isinstance(part, Text))


class ToolContext(Protocol):
    """Context of a tool call.

    Attributes:
        context: JSON from the client, for this turn; a copy of its own for each call.
        limits: Cancels the call. A tool that waits or computes for long checks it.
    """

    @property
    def context(self) -> Mapping[str, Any]: ...

    @property
    def limits(self) -> CancelToken: ...


ToolReturn: TypeAlias = ToolOutput | str | Text | Image | Sequence[str | Text | Image] | None
"""Result of a tool function; None for an output without content."""


def always(context: Mapping[str, Any]) -> bool:
    """`Tool.available_when` of a tool that is available in every context."""
    return True


def _is_time(value: Any) -> bool:
    return type(value) in (int, float) and value > 0 and math.isfinite(value)


@frozen
class Tool:
    """A declaration of a tool.

    Attributes:
        name: Unique among all plugins; `[a-zA-Z_][a-zA-Z0-9_-]*`, at most 64 characters.
        description: What it does and when to use it, for the model.
        run: Runs it. Receives the arguments, validated against the parameters, and the
            `ToolContext`. The model receives the message of an exception.
        parameters: JSON Schema of an object, or a function that returns it when it is first needed.
        approval: `allow`, `ask` or `deny`; see `Approval`.
        idempotent: Whether it may run again if it is unknown whether it ran before.
        timeout: Timeout of one call.
        available_when: Whether it is available in a context; otherwise it is not offered.
    """

    name: str = field(
        validator=Must(
            f"a string that matches `{_NAME.pattern}`",
            lambda value: isinstance(value, str) and bool(_NAME.fullmatch(value)),
        )
    )
    description: str = field(
        validator=Must(
            "a non-blank string", lambda value: isinstance(value, str) and bool(value.strip())
        )
    )
    run: Callable[[Mapping[str, Any], ToolContext], ToolReturn] = field(validator=CALLABLE)
    parameters: Mapping[str, Any] | Callable[[], Mapping[str, Any]] = field(
        factory=dict,
        validator=Must(
            "a JSON Schema, or a function that makes it",
            lambda value: callable(value) or ANY_BY_NAME.holds(value),
        ),
    )
    approval: Approval = field(default="allow", validator=one_of(_APPROVALS), kw_only=True)
    idempotent: bool = field(default=False, validator=BOOLEAN, kw_only=True)
    timeout: float = field(
        default=60.0, validator=Must("a number of seconds above 0", _is_time), kw_only=True
    )
    available_when: Callable[[Mapping[str, Any]], bool] = field(
        default=always, validator=CALLABLE, kw_only=True
    )

    @property
    def schema(self) -> ToolSchema:
        """The tool as sent to the model.

        Raises:
            ValidationError: Its parameters cannot be described.
        """
        given = self.parameters
        parameters = given() if callable(given) else given
        return ToolSchema(
            self.name, self.description, {"type": "object", "properties": {}, **parameters}
        )


@frozen
class AvailableTool:
    """A tool that can be offered to a model.

    Attributes:
        schema: The tool as sent to the model.
        approval: Its approval rule.
    """

    schema: ToolSchema
    approval: Approval = "allow"

    @property
    def name(self) -> str:
        """Name of the tool."""
        return self.schema.name


def output_of(given: ToolReturn) -> ToolOutput:
    """Convert the result of a tool function to a `ToolOutput`.

    Raises:
        ValidationError: The result has a part of another kind.
        TypeError: The result is not an output.
    """
    if isinstance(given, ToolOutput):
        return given
    if given is None or isinstance(given, (str, Part, list, tuple)):
        return ToolOutput(given)
    raise TypeError(f"{short_repr(given)} is not an output of a tool")


def tool_message(calls: Sequence[ToolCall], outputs: Sequence[ToolOutput]) -> Message:
    """The message with the results of a model's tool calls.

    Args:
        calls: The calls.
        outputs: One output per call, in the same order.

    Raises:
        ValueError: The numbers of calls and outputs differ.
    """
    results = [
        ToolResult(call.id, call.name, output.content, output.error)
        for call, output in zip(calls, outputs, strict=True)
    ]
    return Message("tool", results)


S = TypeVar("S")


class ToolSource(ABC):
    """A source of tools that are looked up when needed, for example on a server.

    Attributes:
        name: Unique among all plugins; `[a-z0-9-]+`. Its tools are offered as `NAME__TOOL`.
    """

    name: str

    @abstractmethod
    def tools(self, limits: CancelToken) -> Iterable[Tool]:
        """The current tools.

        Called from any thread whenever tools are offered, and when a tool is called that it has not
        listed, so cache slow lookups. If it raises, its tools are not offered for a while; tools
        that it listed before can still be called.

        Raises:
            Exception: The tools cannot be listed.
        """

    def unavailable_reason(self) -> str | None:
        """Why it has no tools now, for example `the sandbox is not downloaded: run ...`; None if it
        has tools, or the reason is unknown.

        It may read files and the environment, and does no other I/O.
        """
        return None

    def close(self) -> None:
        """Release all resources. Calls of its tools may be in progress."""


@frozen
class ToolSet(Generic[S]):
    """A declaration of tools with settings, in the table `[tools.NAME]`.

        ToolSet("files", Settings, lambda settings: [reader(settings.folder)])

    Attributes:
        name: Unique among all plugins and their sources; `[a-z0-9-]+`. Its tools are offered as
            `NAME__TOOL`.
        settings: Attrs class of its settings; see `genai_host.api.settings`.
        open: Returns the tools, or a `ToolSource` if they can change; its name is ignored. Called
            once, when tools are first needed. Raises `ConfigurationError` with the `setting` that
            is wrong.
    """

    name: str = field(validator=TEXT)
    settings: type[S] = field(validator=SETTINGS)
    open: Callable[[S], Iterable[Tool] | ToolSource] = field(validator=CALLABLE)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable() and bool(value) and " " not in value


@frozen
class ReactionType:
    """A declaration of a type of reaction (client action).

        ReactionType("redirect", {"properties": {"url": {"type": "string"}}, "required": ["url"]})

    A tool that returns a reaction of this type in another form fails. Reactions of undeclared types
    are passed on unchecked.

    Attributes:
        name: The `type` of these reactions, unique among all plugins.
        schema: JSON Schema of the fields, without `type`.
        ends: Whether to end the turn without another call of the model, as `ToolOutput.ends`.
        text_view: Function that renders a reaction as text, `package.module:name`, imported when
            needed; empty for none. Receives the reaction and the terminal width in columns; returns
            a text or a list of lines.
        pictures: Fields with images: a `data:` URL, an object with `media_type` and `data`
            (base64), or base64 whose type is in the field `media_type` of the reaction.
    """

    name: str = field(validator=Must("printable and without spaces", _is_name))
    schema: Mapping[str, Any] = field(factory=dict, validator=ANY_BY_NAME)
    ends: bool = field(default=False, validator=BOOLEAN, kw_only=True)
    text_view: str = field(default="", validator=ADDRESS_OR_EMPTY, kw_only=True)
    pictures: Sequence[str] = field(default=(), converter=strings, kw_only=True)
