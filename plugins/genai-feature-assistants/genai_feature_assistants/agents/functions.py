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
    output_of,
    tool,
)
from genai_host.errors import ProviderTimeout, ValidationError

MOST_AT_ONCE = 64
"""Concurrent calls of one answer; further calls get an error as their output."""

LONGEST_OUTPUT = 512 * 1024
"""Characters of an output; longer outputs are cut."""

_LONGEST_ERROR = 1000

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
        under_way = [self._started(call) for call in calls[:MOST_AT_ONCE]]
        results = [
            _result(call, _waited(each)) for call, each in zip(calls, under_way, strict=False)
        ]
        refused = f"not called: at most {MOST_AT_ONCE} calls are made concurrently"
        return results + [_failed(call, refused) for call in calls[MOST_AT_ONCE:]]

    def _started(self, call: ToolCall) -> _UnderWay:
        found = self._tools.get(call.name)
        if found is None:
            known = ", ".join(self._tools) or "none"
            return _UnderWay.failed(f"unknown function {call.name!r}; choose from: {known}")
        try:
            self._check(call, found)
        except ValidationError as error:
            return _UnderWay.failed(str(error))
        return _UnderWay.started(found, call)

    def _check(self, call: ToolCall, found: Tool) -> None:
        """Raise `ValidationError` for a call that must not run."""
        if call.malformed:
            raise ValidationError("the arguments are not a JSON object")
        SchemaValidator(found.schema.parameters).check(call.arguments)
        if found.approval == "deny":
            raise ValidationError(f"{call.name} may not be called")
        if found.approval == "ask" and not (self._approve and self._approve(call)):
            raise ValidationError(f"{call.name} was not approved")


@frozen
class _UnderWay:
    """A call in its own daemon thread. A thread that hangs ends with the process."""

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
        return cls(future, until)

    @classmethod
    def failed(cls, why: str) -> _UnderWay:
        future: Future[Any] = Future()
        future.set_exception(ValidationError(why))
        return cls(future, 0.0)


def _waited(call: _UnderWay) -> Any:
    """Return the result of a call, or its error."""
    try:
        return call.future.result(max(0.0, call.until - time.monotonic()))
    except TookTooLong as error:
        return error if call.future.done() else _timed_out()
    except BaseException as error:
        if call.future.done() and call.future.exception() is error:
            return error
        raise  # raised in this thread: Ctrl+C


def _result(call: ToolCall, given: Any) -> ToolResult:
    if isinstance(given, BaseException):
        return _failed(call, _error_text(given))
    return ToolResult(call.id, call.name, given.content, given.error)


def _error_text(error: BaseException) -> str:
    kind = "" if isinstance(error, (ValidationError, ProviderTimeout)) else type(error).__name__
    try:
        text = " ".join(str(error)[:_LONGEST_ERROR].split())
    except BaseException:  # noqa: BLE001 - user code may raise anything
        text = ""
    return ": ".join(filter(None, (kind, text))) or "it failed"


def _failed(call: ToolCall, why: str) -> ToolResult:
    return ToolResult(call.id, call.name, f"Error: {why}", True)


def output_text(result: ToolResult) -> str:
    """Return a result as text, as the service takes it. Images are named in their place."""
    texts = [
        part.text if isinstance(part, Text) else f"[image: {part.media_type or part.url}]"
        for part in result.content
    ]
    return "\n".join(texts)[:LONGEST_OUTPUT]


@frozen
class _Run:
    """The context that a tool receives beside its arguments."""

    limits: Cancellation
    context: Mapping[str, Any] = field(factory=dict)


def _timed_out() -> ProviderTimeout:
    return ProviderTimeout("the function timed out", deadline="timeout")
