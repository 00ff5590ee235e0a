"""The tools of all plugins: which of them are offered, and how they are called.

    Toolbox.call → _refusal (unknown, denied, not approved, not available here)
                 → run_within → SchemaValidator.check → Tool.run → _recorded_form (truncated)

Errors become outputs for the model. Only what ends the turn is raised.
"""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from attrs import define, evolve, field, frozen

from genai_host.api import (
    Approval,
    AvailableTool,
    CancelToken,
    Clock,
    Codec,
    Image,
    ReactionType,
    SchemaValidator,
    Text,
    Tool,
    ToolCall,
    ToolOutput,
    ToolSchema,
    ToolSource,
)
from genai_host.api.cancellation import Cancellation
from genai_host.api.codec import json_round_trip
from genai_host.api.json_text import write_json
from genai_host.api.tools import always, output_of
from genai_host.errors import GenaiError, LimitExceeded, ValidationError
from genai_host.plugins.observers import Observers
from genai_host.plugins.watchdog import Watchdog
from genai_host.tools.sources import ToolSources, fits, of_source
from genai_host.tools.threads import run_within
from genai_host.util.lazy_property import lazy_property
from genai_host.util.text import describe_exception, message_of, short_repr, shorten

T = TypeVar("T")

MAX_TEXT = 100_000
"""Maximum number of characters of all texts of an output; the rest is truncated."""

MAX_IMAGES = 20 * 2**20
"""Maximum number of bytes of all images of an output; further ones are omitted."""

MAX_PARTS = 1000
"""Maximum number of texts and images of an output; further ones are omitted."""

MAX_DATA = 2**20
"""Maximum number of bytes of reactions and context, as JSON; more is an error."""

_CHECK_TIMEOUT = 5.0  # timeout of a tool's schema and of `available_when`, in seconds


_log = logging.getLogger(__name__)


@frozen
class _DescribedTool:
    """A tool with its schema, described and compiled once."""

    schema: ToolSchema
    checker: SchemaValidator


@frozen
class _Run:
    """The `ToolContext` of a call."""

    context: Mapping[str, Any]
    limits: CancelToken


@define(eq=False, repr=False, slots=False)
class _ToolCatalog:
    """The declared tools and the sources, read on first use, since many conversations use no tools.
    Toolboxes that are limited to some tools share it."""

    _declared_tools: Mapping[str, Tool]
    _approved: Callable[[Tool], Tool]
    _sources_given: Iterable[ToolSource]
    _clock: Clock
    _lock: threading.RLock = field(factory=threading.RLock, init=False)

    @lazy_property
    def declared(self) -> Mapping[str, Tool]:
        return {name: self._approved(tool) for name, tool in self._declared_tools.items()}

    @lazy_property
    def sources(self) -> ToolSources:
        return ToolSources(self._sources_given, self._clock)

    def close(self, watchdog: Watchdog) -> None:
        with self._lock:
            if "sources" not in vars(self):
                self._sources_given = ()
        self.sources.close(watchdog)


class Toolbox:
    """Offers and calls tools. Thread-safe.

    Args:
        sources: Sources of further tools, iterated once, on first use.
        approvals: Approval rules of the user by name or prefix (`git__*`).
        reactions: Types of reactions by name; undeclared types are not checked.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool],
        clock: Clock,
        codec: Codec,
        sources: Iterable[ToolSource] = (),
        approvals: Mapping[str, Approval] | None = None,
        reactions: Mapping[str, ReactionType] | None = None,
        observers: Observers | None = None,
    ) -> None:
        self._observers = observers or Observers()
        self._approvals = dict(approvals or {})
        self._only: Sequence[str] | None = None
        self._tool_catalog = _ToolCatalog(tools, self._approved, sources, clock)
        self._reactions = {} if reactions is None else reactions
        self._forms: dict[str, SchemaValidator] = {}
        self._clock = clock
        self._codec = codec
        self._described_tools: dict[str, tuple[Tool, _DescribedTool | ValidationError]] = {}

    @property
    def _tools(self) -> Mapping[str, Tool]:
        return self._tool_catalog.declared

    @property
    def _sources(self) -> ToolSources:
        return self._tool_catalog.sources

    def only(self, names: Sequence[str] | None) -> Toolbox:
        """The same toolbox, limited to some tools: names, and prefixes such as `git__*`; None for
        all."""
        if names == self._only:
            return self
        limited = copy.copy(self)  # its state is shared
        limited._only = names
        return limited

    def tools(self, until: Cancellation) -> dict[str, Tool]:
        """The current tools by name, with the user's approval rules. Raises the error of the
        cancellation."""
        sourced = self._sources.tools(until, self._only)
        sourced_tools = {name: self._approved(tool) for name, tool in sourced.items()}
        return self._selected({**sourced_tools, **self._tools})

    def fault(self, name: str) -> BaseException | None:
        """Why the source of a tool is unavailable; None if it is available."""
        return self._sources.faults.get(of_source(name))

    def unavailable_reason(self, name: str) -> str:
        """Why the source of a tool has no tools now; empty if it has, or if it is unknown."""
        return self._sources.unavailable_reason(of_source(name))

    def close(self) -> None:
        self._tool_catalog.close(self._observers.watchdog)

    def schema(self, tool: Tool) -> ToolSchema:
        """A tool as sent to the model. Raises `ValidationError` if it cannot be described."""
        return self._describe(tool).schema

    def unenforced(self, tool: Tool) -> list[str]:
        """Patterns in the parameters that are not enforced, with the reason. Raises
        `ValidationError` if the tool cannot be described."""
        return self._describe(tool).checker.unenforced()

    def offered(self, context: Mapping[str, Any], until: Cancellation) -> tuple[AvailableTool, ...]:
        """The tools available in a context and not denied, by name. A tool is omitted if it cannot
        be described or its `available_when` fails.

        Raises the error of the cancellation.
        """
        return tuple(
            AvailableTool(self.schema(tool), tool.approval)
            for tool in self.tools(until).values()
            if not self.reason_not_offered(tool, context, until)
        )

    def reason_not_offered(
        self, tool: Tool, context: Mapping[str, Any], until: Cancellation
    ) -> str:
        """Why a tool is not offered in a context; empty if it is. Raises the error of the
        cancellation."""
        if tool.approval == "deny":
            return "it is denied"
        return self._unavailable_reason(tool, context, until)

    def call(
        self,
        call: ToolCall,
        context: Mapping[str, Any],
        until: Cancellation,
        *,
        approved: bool = False,
        parent: str = "",
    ) -> ToolOutput:
        """Call a tool and wait for its output, which describes an error if the call fails.

        Raises only the error of the cancellation.
        """
        tool = self._tool(call.name, until)
        refusal = self._refusal(tool, call, context, until, approved)
        if tool is None or refusal:
            return _failed(refusal)
        with self._observers.tool(parent, call, self._clock) as watched:
            watched.output = output = self._run(tool, call, context, until)
        return output

    def _run(
        self, tool: Tool, call: ToolCall, context: Mapping[str, Any], until: Cancellation
    ) -> ToolOutput:
        def run(limits: Cancellation) -> ToolOutput:
            arguments = self._copy(call.arguments)
            try:
                self._describe(tool).checker.check(arguments)
            except ValidationError as error:
                return _failed(f"invalid arguments for {tool.name}: {message_of(error)}")
            given = tool.run(arguments, _Run(self._copy(context), limits))
            try:
                return self._recorded_form(output_of(given))
            except (ValidationError, TypeError) as error:
                raise TypeError(f"invalid output: {message_of(error)}") from error

        def failed(error: BaseException) -> ToolOutput:
            if isinstance(error, GenaiError):  # raised by the tool on purpose
                return _failed(f"{tool.name} failed: {message_of(error)}")
            _log.warning("the tool %s failed", tool.name, exc_info=error)
            return _failed(f"{tool.name} failed: {describe_exception(error)}")

        try:
            return self._within(tool.timeout, tool.name, run, failed, until)
        except LimitExceeded:
            until.check()
            _log.warning("the tool %s took longer than %g seconds", tool.name, tool.timeout)
            return _failed(
                f"{tool.name} took longer than {tool.timeout:g} seconds: it was abandoned and "
                "may still complete"
            )

    def interrupted(self, call: ToolCall) -> ToolOutput | None:
        """The output of a call whose outcome is unknown; None if the tool may run again."""
        tool = self._tools.get(call.name) or self._sources.seen.get(call.name)
        if tool is not None and tool.idempotent:
            return None
        return _failed(f"{short_repr(call.name)} was interrupted and may have completed")

    def _selected(self, tools: Mapping[str, Tool]) -> dict[str, Tool]:
        return {name: tools[name] for name in sorted(tools) if fits(name, self._only)}

    def _tool(self, name: str, until: Cancellation) -> Tool | None:
        if not fits(name, self._only):
            return None
        if name in self._tools:
            return self._tools[name]
        found = self._sources.tool(name, until)
        return None if found is None else self._approved(found)

    def _approved(self, tool: Tool) -> Tool:
        """A tool with the user's approval rule: that of its name, or else that of the longest
        matching prefix."""
        matching = [tool.name] if tool.name in self._approvals else []
        matching = matching or [
            each
            for each in self._approvals
            if each.endswith("*") and tool.name.startswith(each[:-1])
        ]
        return evolve(tool, approval=self._approvals[max(matching, key=len)]) if matching else tool

    def _refusal(
        self,
        tool: Tool | None,
        call: ToolCall,
        context: Mapping[str, Any],
        until: Cancellation,
        approved: bool,
    ) -> str:
        """Why a call is refused; empty if it is not."""
        if tool is None:
            described = ", ".join(self._selected({**self._sources.seen, **self._tools})) or "none"
            return shorten(f"unknown tool {short_repr(call.name)}; choose from: {described}")
        if tool.approval == "deny":
            return f"tool {tool.name!r} is denied"
        absence = self._unavailable_reason(tool, context, until)
        if absence:
            return f"tool {tool.name!r} is unavailable: {absence}"
        if call.malformed:
            return (
                f"the arguments of {tool.name} are not a JSON object: {short_repr(call.malformed)}"
            )
        if tool.approval == "ask" and not approved:
            return f"tool {tool.name!r} needs the approval of the user"
        return ""

    def _unavailable_reason(
        self, tool: Tool, context: Mapping[str, Any], until: Cancellation
    ) -> str:
        """Why a tool is unavailable in a context; empty if it is available."""
        before, described = self._described_tools.get(tool.name, (None, None))
        if before == tool and described is not None and tool.available_when is always:
            return message_of(described) if isinstance(described, ValidationError) else ""

        def check(_: Cancellation) -> str:
            self._describe(tool)
            found = tool.available_when(self._copy(context))
            if not isinstance(found, bool):
                raise TypeError(f"available_when returned {short_repr(found)}, not a bool")
            return "" if found else "available_when is false in this context"

        def failed(error: BaseException) -> str:
            is_expected = isinstance(error, GenaiError)
            reason = message_of(error) if is_expected else describe_exception(error)
            _log.warning("tool %s cannot be offered: %s", tool.name, reason, exc_info=error)
            return reason

        try:
            return self._within(_CHECK_TIMEOUT, tool.name, check, failed, until)
        except LimitExceeded:
            until.check()
            _log.warning("available_when of tool %s timed out", tool.name)
            return "its check for availability timed out"

    def _describe(self, tool: Tool) -> _DescribedTool:
        """Describe a tool. Raises `ValidationError` if that is not possible."""
        before, described = self._described_tools.get(tool.name, (None, None))
        if before != tool or described is None:  # threads may compute the same
            described = self._describe_afresh(tool)
            self._described_tools[tool.name] = tool, described
        if isinstance(described, ValidationError):
            raise described
        return described

    def _describe_afresh(self, tool: Tool) -> _DescribedTool | ValidationError:
        try:
            schema = tool.schema
            if schema.parameters["type"] != "object":
                raise ValidationError("its parameters are not an object")
            schema = evolve(schema, parameters=json_round_trip(schema.parameters, self._codec))
            return _DescribedTool(schema, SchemaValidator(schema.parameters))
        except ValidationError as error:
            return error
        except Exception as error:  # noqa: BLE001 - any code may make the parameters
            return ValidationError(f"it cannot be described: {describe_exception(error)}")

    def _within(
        self,
        seconds: float,
        name: str,
        work: Callable[[Cancellation], T],
        failed: Callable[[BaseException], T],
        until: Cancellation,
    ) -> T:
        slow = LimitExceeded(f"{name} took longer than {seconds:g} seconds", limit="seconds")
        return run_within(slow, self._clock, seconds, name, work, failed, until)

    def _copy(self, value: Mapping[str, Any]) -> Any:
        """A copy, since a tool may modify its arguments."""
        return json_round_trip(value, self._codec)

    def _recorded_form(self, output: ToolOutput) -> ToolOutput:
        """An output in its recorded form, bounded in size."""
        output = evolve(output, content=tuple(_truncated(output)))
        form = json_round_trip(output, self._codec)
        size = len(write_json([form.get("reactions"), form.get("context")]))
        if size > MAX_DATA:
            raise ValidationError(f"its reactions and its context have {size} bytes")
        recorded: ToolOutput = self._codec.from_json(form, ToolOutput)
        ends = [self._ends_turn(reaction) for reaction in recorded.reactions]
        return evolve(recorded, ends=True) if any(ends) else recorded

    def _ends_turn(self, reaction: Mapping[str, Any]) -> bool:
        """Whether a reaction ends the turn. Raises `ValidationError` if it does not match
        its type."""
        kind = self._reactions.get(reaction["type"])
        if kind is None:
            return False
        try:
            checker = self._forms.get(kind.name)
            if checker is None:  # concurrent threads compute the same
                checker = self._forms.setdefault(kind.name, SchemaValidator({**kind.schema}))
            checker.check({name: value for name, value in reaction.items() if name != "type"})
        except ValidationError as error:
            raise ValidationError(f"its reaction {kind.name}: {message_of(error)}") from error
        return kind.ends


def _truncated(output: ToolOutput) -> Iterator[Text | Image]:
    """The content of an output, truncated with a note if it is too large."""
    text, images = MAX_TEXT, MAX_IMAGES
    for number, part in enumerate(output.content):
        if number == MAX_PARTS:
            yield Text(f"({len(output.content) - number} more parts were omitted)")
            return
        if isinstance(part, Text):
            if len(part.text) <= text:
                yield part
            else:
                rest = len(part.text) - text
                yield Text(f"{part.text[:text]}\n(truncated: {rest} more characters)")
            text = max(0, text - len(part.text))
        elif len(part.data) <= images:
            images -= len(part.data)
            yield part
        else:
            yield Text(f"(an image of {len(part.data)} bytes was omitted)")


def _failed(reason: str) -> ToolOutput:
    return ToolOutput(Text(reason), error=True)
