"""Functions of an agent, called when its assistant asks for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, TimeoutError as TookTooLong
from typing import Any

from attrs import field, frozen

from genai_host.api import (
    Cancellation,
    SchemaValidator,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    ToolSchema,
    output_of,
    tool,
)
from genai_host.errors import ProviderTimeout, ValidationError

MAX_AT_ONCE = 64
"""Concurrent calls of one answer; further calls get an error as their output."""

MAX_OUTPUT = 512 * 1024
"""Characters of an output; longer outputs are cut."""

_MAX_ERROR = 1000

Approve = Callable[[ToolCall], bool]


class Functions:
    """Tools by name. Each call runs in its own thread.

    Args:
        functions: Tools, or typed functions with docstrings, which become tools.
        approve: Decides whether a call of a tool with `approval="ask"` may run. None refuses
            them all.

    Raises:
        ValidationError: Two functions have the same name.
        TypeError: A function cannot be a tool.
    """

    def __init__(
        self, functions: Iterable[Tool | Callable[..., Any]] = (), approve: Approve | None = None
    ) -> None:
        self._tools: dict[str, Tool] = {}
        self._approve = approve
        for each in functions:
            made = each if isinstance(each, Tool) else tool(each)
            if made.name in self._tools:
                raise ValidationError(f"there are two functions named {made.name}")
            self._tools[made.name] = made

    @property
    def offered(self) -> list[Tool]:
        """The tools that the model is offered."""
        return [each for each in self._tools.values() if each.approval != "deny"]

    def call(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Return the result of each call, in order. A failure is a result with the error text."""
        results = [self._started(call) for call in calls[:MAX_AT_ONCE]]
        refused = f"not called: at most {MAX_AT_ONCE} calls are made concurrently"
        return [each if isinstance(each, ToolResult) else each.result() for each in results] + [
            _failed(call, refused) for call in calls[MAX_AT_ONCE:]
        ]

    def _started(self, call: ToolCall) -> _UnderWay | ToolResult:
        try:
            return _UnderWay.started(self._checked(call), call)
        except ValidationError as error:
            return _failed(call, _error_text(error))

    def _checked(self, call: ToolCall) -> Tool:
        """Return the tool of a call. Raises `ValidationError` for a call that must not run."""
        found = self._tools.get(call.name)
        if found is None:
            known = ", ".join(self._tools) or "none"
            raise ValidationError(f"unknown function {call.name!r}; choose from: {known}")
        if call.malformed:
            raise ValidationError("the arguments are not a JSON object")
        SchemaValidator(found.schema.parameters).check(call.arguments)
        if found.approval == "deny":
            raise ValidationError(f"{call.name} may not be called")
        if found.approval == "ask" and not (self._approve and self._approve(call)):
            raise ValidationError(f"{call.name} was not approved")
        return found


@frozen
class _UnderWay:
    """A call in its own daemon thread. A thread that hangs ends with the process."""

    call: ToolCall
    future: Future[Any]
    until: float

    @classmethod
    def started(cls, found: Tool, call: ToolCall) -> _UnderWay:
        until = time.monotonic() + found.timeout
        future: Future[Any] = Future()
        limits = Cancellation()
        timer = threading.Timer(found.timeout, limits.cancel, [_timed_out()])
        timer.daemon = True

        def work() -> None:
            try:
                timer.start()
                future.set_result(output_of(found.run(call.arguments, _Run(limits))))
            except BaseException as error:  # noqa: BLE001 - user code may raise anything
                future.set_exception(error)
            finally:
                timer.cancel()

        threading.Thread(target=work, name=f"function {call.name}", daemon=True).start()
        return cls(call, future, until)

    def result(self) -> ToolResult:
        """Wait for the result; a failure is one, too."""
        try:
            given = self.future.result(max(0.0, self.until - time.monotonic()))
        except TookTooLong as error:
            return _failed(self.call, _error_text(error if self.future.done() else _timed_out()))
        except BaseException as error:
            if self.future.done() and self.future.exception() is error:
                return _failed(self.call, _error_text(error))
            raise  # raised in this thread: Ctrl+C
        return ToolResult(self.call.id, self.call.name, given.content, given.error)


def _error_text(error: BaseException) -> str:
    kind = "" if isinstance(error, (ValidationError, ProviderTimeout)) else type(error).__name__
    try:
        text = " ".join(str(error)[:_MAX_ERROR].split())
    except BaseException:  # noqa: BLE001 - user code may raise anything
        text = ""
    return ": ".join(filter(None, (kind, text))) or "it failed"


def _failed(call: ToolCall, why: str) -> ToolResult:
    return ToolResult(call.id, call.name, f"Error: {why}", True)


def function_json(schema: ToolSchema) -> dict[str, Any]:
    """Return a function as the service takes it."""
    return {
        "name": schema.name,
        "description": schema.description,
        "parameters": dict(schema.parameters),
    }


def output_text(result: ToolResult) -> str:
    """Return a result as text, as the service takes it. Images are named in their place."""
    texts = [
        part.text if isinstance(part, Text) else f"[image: {part.media_type or part.url}]"
        for part in result.content
    ]
    return "\n".join(texts)[:MAX_OUTPUT]


@frozen
class _Run:
    """The context that a tool receives beside its arguments."""

    limits: Cancellation
    context: Mapping[str, Any] = field(factory=dict)


def _timed_out() -> ProviderTimeout:
    return ProviderTimeout("the function timed out", deadline="timeout")
