"""Tools, sources of tools, and reactions: actions that tools ask of a client.

A tool is something that a model may ask for, and that a plugin then does:

    def roll(arguments, run):
        return str(random.randint(1, arguments["sides"]))

    Tool("roll", "Roll a die.", roll, {"properties": {"sides": {"type": "integer"}}})

`genai_host.api.tool` makes one from a typed function. A tool may do I/O. Each call runs in its
own thread, and several calls can run concurrently.

A `ToolSource` or `ToolSet` is for tools that a plugin cannot name in advance, because they have
settings or must be looked up. A `ReactionType` defines the form of an action for a front end.
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
from genai_host.api.validators import ADDRESS, ANY_BY_NAME, BOOLEAN, CALLABLE, TEXT, Must, strings
from genai_host.util.text import short_repr

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

    Attributes:
        content: Text and pictures for the model; a string stands for one `Text`.
        error: Whether the content tells the model of a failure.
        reactions: JSON for a front end, each with a `type`.
        context: JSON that replaces the context from here on; None leaves it as it is.
        ends: Whether the model is not to be asked again in this turn.

    Raises:
        ValidationError: It is made, for anything else.
        TypeError: It is made, for anything else.
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


class ToolContext(Protocol):
    """One call of a tool, beside its arguments.

    Attributes:
        context: JSON from the front end, for this turn; a copy of the tool's own.
        limits: Say when the call is to end, as a provider's do: a tool that waits, or works for
            long, asks them.
    """

    @property
    def context(self) -> Mapping[str, Any]: ...

    @property
    def limits(self) -> CancelToken: ...


ToolReturn: TypeAlias = ToolOutput | str | Text | Image | Sequence[str | Text | Image] | None
"""What a tool may give; None for an output with no content."""


def always(context: Mapping[str, Any]) -> bool:
    """What a tool says that is of use anywhere."""
    return True


def _is_tool_name(value: Any) -> bool:
    return isinstance(value, str) and bool(_NAME.fullmatch(value))


def _is_time(value: Any) -> bool:
    return type(value) in (int, float) and value > 0 and math.isfinite(value)


@frozen
class Tool:
    """What a plugin registers: something that a model may ask for.

    Attributes:
        name: Unique among all plugins; `[a-zA-Z_][a-zA-Z0-9_-]*`, at most 64 characters, as
            services want it.
        description: For the model: what it does, and when to ask for it.
        run: Does it: gets the arguments, which the parameters were checked against, and the
            `ToolContext`. What it raises is told to the model.
        parameters: JSON Schema of an object, or what makes it when it is first asked for.
        approval: Whether it may run: `allow`, `ask` a human first, or `deny`.
        repeatable: Whether it may run again when nobody knows if it ran before.
        seconds: How long one call may take.
        applies: Whether it is of use in a context; it is not offered where it is not.
    """

    name: str = field(validator=Must(f"as `{_NAME.pattern}`", _is_tool_name))
    description: str = field(
        validator=Must(
            "a string, and not blank", lambda value: isinstance(value, str) and bool(value.strip())
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
        """As the model sees it. Raises `ValidationError` where its parameters cannot be
        described."""
        given = self.parameters
        parameters = given() if callable(given) else given
        return ToolSchema(
            self.name, self.description, {"type": "object", "properties": {}, **parameters}
        )


@frozen
class AvailableTool:
    """A tool that may be offered to a model, and whether it may run."""

    schema: ToolSchema
    approval: Approval = "allow"

    @property
    def name(self) -> str:
        return self.schema.name


def output_of(given: ToolReturn) -> ToolOutput:
    """What a tool gave, as its output. Raises `ValidationError` and `TypeError` for what is
    none."""
    if isinstance(given, ToolOutput):
        return given
    if given is None or isinstance(given, (str, Part, list, tuple)):
        return ToolOutput(given)
    raise TypeError(f"{short_repr(given)} is not an output of a tool")


def tool_message(calls: Sequence[ToolCall], outputs: Sequence[ToolOutput]) -> Message:
    """The message that answers a model's calls: one result for each, in their order.

    Raises:
        ValueError: There are not as many outputs as calls.
    """
    results = [
        ToolResult(call.id, call.name, output.content, output.error)
        for call, output in zip(calls, outputs, strict=True)
    ]
    return Message("tool", results)


S = TypeVar("S")


class ToolSource(ABC):
    """What a plugin registers where it cannot say which tools it has: those of a server, of
    a folder.

    Attributes:
        name: Unique among all plugins; `[a-z0-9-]+`. Its tools are offered as `NAME__TOOL`.
    """

    name: str

    @abstractmethod
    def tools(self, limits: CancelToken) -> Iterable[Tool]:
        """Those that there are now. It is asked whenever tools are offered, and where one is
        called that it has not named, from any thread: what costs time is to be done once. It
        may raise whatever says why there are none; it is left alone for a while then, and
        none is offered, but those that it has named before can be called."""

    def close(self) -> None:
        """Give back all that it holds. Calls of its tools may be under way."""


@frozen
class ToolSet(Generic[S]):
    """What a plugin registers where its tools have settings: those of a table `[tools.NAME]`.

        ToolSet("files", Settings, lambda settings: [reader(settings.folder)])

    Attributes:
        name: Unique among all plugins and their sources; `[a-z0-9-]+`. Its tools are offered as
            `NAME__TOOL`.
        settings: Attrs class of its settings; see `genai_host.api.settings`.
        open: Makes the tools, or where they may change a source of them, whose name is not asked
            for. It is called once, when tools are first wanted; a `ConfigurationError` says what is
            wrong with the settings, and which `setting` it is.
    """

    name: str = field(validator=TEXT)
    settings: type[S] = field(validator=SETTINGS)
    open: Callable[[S], Iterable[Tool] | ToolSource] = field(validator=CALLABLE)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable() and bool(value) and " " not in value


def _is_address(value: Any) -> bool:
    return value == "" or ADDRESS.holds(value)


@frozen
class ReactionType:
    """What a plugin registers: reactions of this type have this form.

        ReactionType("redirect", {"properties": {"url": {"type": "string"}}, "required": ["url"]})

    Attributes:
        name: The `type` of such reactions, unique among all plugins.
        schema: JSON Schema of its fields, `type` left out.
        ends: Whether the model is not to be asked again in the turn, for example `ToolOutput.ends`.
        text_view: Function that shows one as text, for example `package.module:name`, imported when
            one is shown; empty for none. It gets the reaction and the columns that there are, and
            gives lines, or one text.
        pictures: Fields that have a picture: a `data:` URL of an image, an object with `media_type`
            and `data` (base64), or base64 whose type is in the reaction's own `media_type`.

    A tool that gives one of another form has failed. Types that nobody registers pass.
    """

    name: str = field(validator=Must("printable, without a space", _is_name))
    schema: Mapping[str, Any] = field(factory=dict, validator=ANY_BY_NAME)
    ends: bool = field(default=False, validator=BOOLEAN, kw_only=True)
    text_view: str = field(
        default="", validator=Must("as `package.module:name`, or empty", _is_address), kw_only=True
    )
    pictures: Sequence[str] = field(default=(), converter=strings, kw_only=True)
