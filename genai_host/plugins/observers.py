"""Calls observers of plugins. Their exceptions are logged and have no effect on the host.

An observer runs in the thread that it observes, for its context variables, so a hook that hangs
cannot be abandoned. It is logged, and its plugin is left out until the hook returns.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Callable, Generator, Mapping
from functools import partial, wraps
from typing import Any

import pluggy
from attrs import frozen

from genai_host.api import (
    Answer,
    Call,
    Clock,
    Completion,
    Embeddings,
    ModerationResult,
    Operation,
    RouteInfo,
    RouteRequest,
    TokenCount,
    ToolCall,
    ToolOutput,
    Transcription,
    Turn,
    Usage,
    hookimpl,
)
from genai_host.api.messages import NO_USAGE
from genai_host.errors import Cancelled
from genai_host.plugins.manager import HookManager
from genai_host.plugins.watchdog import Watchdog
from genai_host.util.forking import renew_after_fork

NO_PARAMETERS: Mapping[str, Any] = {}
_log = logging.getLogger(__name__)


class CallRecord:
    """Outcome of a provider call, filled in by the caller.

    Args:
        parent: Id of its turn for observers; empty for none.
        parameters: Parameters of the call by name, as the caller gave them.

    Attributes:
        id: Id of the call for observers; empty without observers.
        sent: Time of the request by `Clock.monotonic`; None if it was not sent.
        first: Seconds until the first chunk of the answer; None if it was not streamed.
        refused: Whether the service refused the request, which is not charged.
        result: Result of the call.
        estimated_usage: Tokens, as estimated, if the service has reported none.
        estimated_cost: US dollars, as estimated, if the cost is unknown; None without an estimate.
        raw_reply: File with the unmodified reply; empty if it is not saved.
    """

    id: str = ""
    sent: float | None = None
    first: float | None = None
    refused: bool = False
    result: Completion | Embeddings | ModerationResult | TokenCount | Transcription | None = None
    estimated_usage: Usage = NO_USAGE
    estimated_cost: float | None = None
    raw_reply: str = ""

    def __init__(self, parent: str = "", parameters: Mapping[str, Any] = NO_PARAMETERS) -> None:
        self.parent = parent
        self.parameters = parameters


class Observation:
    """A context in which an operation is observed. Its outcome is filled in by the caller.

    Args:
        start: Calls the hook of the start; None without observers.
        end: Calls the hook of the end; None without observers.
        clock: Source of time; None without observers.
        id: Id for observers; empty without observers.
        about: Arguments of both hooks.
        outcome: Returns further arguments of the second one.
    """

    __slots__ = (
        "_about", "_clock", "_end", "_outcome", "_start", "_started", "answer", "id", "output",
        "status",
    )  # fmt: skip

    def __init__(
        self,
        start: Callable[..., Any] | None = None,
        end: Callable[..., Any] | None = None,
        clock: Clock | None = None,
        id: str = "",
        about: Mapping[str, Any] = NO_PARAMETERS,
        outcome: Callable[[Observation], Mapping[str, Any]] = lambda _: NO_PARAMETERS,
    ) -> None:
        self._start = start
        self._end = end
        self._clock = clock
        self._about = about
        self._outcome = outcome
        self._started = 0.0
        self.id = id
        self.answer: Answer | None = None
        self.output: ToolOutput | None = None
        self.status = 500

    def __enter__(self) -> Observation:
        if self._clock is not None:
            self._started = self._clock.monotonic()
        if self._start is not None:
            self._start(id=self.id, **self._about)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, *rest: object
    ) -> None:
        if self._end is None or self._clock is None:
            return
        seconds = self._clock.monotonic() - self._started
        self._end(
            id=self.id,
            **self._about,
            **self._outcome(self),
            error=Cancelled("abandoned") if isinstance(error, GeneratorExit) else error,
            seconds=seconds,
        )


class Observers:
    """Plugins that implement `genai_on_...` hooks. They are called in pluggy's order: wrappers,
    then `tryfirst`, then the plugin that was registered last.

    Args:
        manager: Manager of the working plugins; None for no plugins.
        watchdog: Finds hooks that hang; None for one that logs nothing.
    """

    def __init__(
        self, manager: pluggy.PluginManager | None = None, watchdog: Watchdog | None = None
    ) -> None:
        self.watchdog = watchdog or Watchdog()
        guarded = None if manager is None else _guarded(manager, self.watchdog)
        self._hooks: pluggy.HookRelay | None = None if guarded is None else guarded.hook
        names = () if guarded is None else (name for name, _ in guarded.list_name_plugin())
        self.plugins = frozenset(names)
        self._callers: dict[str, Callable[..., Any] | None] = {}
        self._numbers = itertools.count(1)
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Begin with other ids."""
        self._origin = os.urandom(12).hex()

    def notify(self, hook: str, **arguments: Any) -> None:
        """Call a hook of each plugin that implements it."""
        caller = self._caller(hook)
        if caller is not None:
            caller(**arguments)

    def headers(self, id: str, route: RouteInfo) -> dict[str, str]:
        """Headers that plugins add to a call; for a header added twice, the first plugin wins."""
        headers: dict[str, str] = {}
        caller = self._caller("genai_call_headers")
        if caller is not None:
            given = caller(id=id, route=route)
            try:
                for each in reversed(given):
                    headers.update(_headers(each))
            except Exception:  # noqa: BLE001 - a wrapper may return anything
                # headers may contain secrets, so the value is not logged
                _log.warning(
                    "genai_call_headers returned a %s", type(given).__name__, exc_info=True
                )
        return headers

    def call(
        self,
        operation: Operation,
        route: RouteInfo,
        call: Call,
        clock: Clock,
        report: CallRecord,
    ) -> Observation:
        """Report the start and the end of a model call."""

        def outcome(_: Observation) -> Mapping[str, Any]:
            return {"result": report.result, "first_token_seconds": report.first}

        parent = report.parent
        return self._observation(
            "call", clock, outcome, parent=parent, operation=operation, route=route, call=call
        )

    def turn(
        self, feature: str, turn: Turn[Any], conversation: str, model: str, clock: Clock
    ) -> Observation:
        """Report the start and the end of a turn."""
        about = {"feature": feature, "turn": turn, "conversation": conversation, "model": model}
        return self._observation("turn", clock, lambda each: {"answer": each.answer}, **about)

    def tool(self, parent: str, call: ToolCall, clock: Clock) -> Observation:
        """Report the start and the end of a tool call."""
        about = {"parent": parent, "call": call}
        return self._observation("tool", clock, lambda each: {"output": each.output}, **about)

    def request(self, request: RouteRequest, route: str, clock: Clock) -> Observation:
        """Report the start and the end of an HTTP request."""
        about = {"request": request, "route": route}
        return self._observation("request", clock, lambda each: {"status": each.status}, **about)

    def _observation(
        self,
        what: str,
        clock: Clock,
        outcome: Callable[[Observation], Mapping[str, Any]],
        **about: Any,
    ) -> Observation:
        """The observation of an operation, with a new id if a plugin observes it."""
        start, end = self._caller(f"genai_on_{what}_start"), self._caller(f"genai_on_{what}_end")
        if start is None and end is None:
            return Observation()
        id = f"{self._origin}-{next(self._numbers)}"
        return Observation(start, end, clock, id, about, outcome)

    def _caller(self, hook: str) -> Callable[..., Any] | None:
        """Calls a hook; None if no plugin implements it. Plugins do not change, so it is cached."""
        try:
            return self._callers[hook]
        except KeyError:
            found = getattr(self._hooks, hook, None)
            caller = None if found is None else _caller_of(found)
            return self._callers.setdefault(hook, caller)


def _caller_of(hook: pluggy.HookCaller) -> Callable[..., Any] | None:
    """Return a function that calls a hook; None if no plugin implements it. Without wrappers, it
    calls the implementations in pluggy's order, which takes a third of the time."""
    found = hook.get_hookimpls()
    if not found or any(each.wrapper or each.hookwrapper for each in found):
        return hook if found else None
    calls = [(each.function, each.argnames) for each in reversed(found)]

    def call(**arguments: Any) -> list[Any]:
        results = [function(*[arguments[n] for n in names]) for function, names in calls]
        return [result for result in results if result is not None]

    return call


@frozen
class _Watched:
    """A hook of a plugin that the watchdog watches."""

    plugin: str
    hook: str
    watchdog: Watchdog

    def call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if self.hook == "genai_on_close":  # the host must be able to close
            work = partial(function, *arguments, **named)
            return self.watchdog.run("hook", self.hook, "close", work, plugin=self.plugin)
        with self.watchdog.watch("hook", self.hook, plugin=self.plugin):
            return function(*arguments, **named)

    def failed(self) -> None:
        _log.warning("plugin %s raised in %s", self.plugin, self.hook, exc_info=True)


class _Guard:
    """A plugin with guarded hooks as attributes, which never raise."""


def _guarded(manager: pluggy.PluginManager, watchdog: Watchdog) -> HookManager | None:
    """A manager of guarded observer hooks, of the same plugins in the same order; None if there are
    none.

    pluggy stops at the first hook that raises, but an observer must not affect other code.
    """
    guards = {name: _Guard() for name, _ in manager.list_name_plugin()}
    for caller in vars(manager.hook).values():
        if caller.name.startswith("genai_on_") or caller.name == "genai_call_headers":
            for number, each in enumerate(caller.get_hookimpls()):
                function = _implementation(caller.name, each, watchdog)
                setattr(guards[each.plugin_name], f"{caller.name}_{number:04}", function)
    if not any(map(vars, guards.values())):
        return None
    guarded = HookManager()
    for name, guard in guards.items():
        if vars(guard):
            guarded.register(guard, name)
    return guarded


def _implementation(hook: str, found: pluggy.HookImpl, watchdog: Watchdog) -> Callable[..., Any]:
    watched = _Watched(found.plugin_name, hook, watchdog)
    if found.wrapper or found.hookwrapper:
        function = _guard_of_wrapper(found.function, watched)
    else:
        read = _headers if hook == "genai_call_headers" else None
        function = _guard(found.function, watched, read)
    options = ("tryfirst", "trylast", "wrapper", "hookwrapper")
    mark = hookimpl(specname=hook, **{name: getattr(found, name) for name in options})
    marked: Callable[..., Any] = mark(function)
    return marked


def _guard(
    function: Callable[..., Any], watched: _Watched, read: Callable[[Any], Any] | None
) -> Callable[..., Any]:
    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        if watched.plugin in watched.watchdog.hanging:
            return None
        try:
            result = watched.call(function, *arguments, **named)
            return result if read is None else read(result)
        except Exception:  # noqa: BLE001 - an observer must not affect other code
            watched.failed()
            return None

    return call


def _guard_of_wrapper(function: Callable[..., Any], watched: _Watched) -> Callable[..., Any]:
    """A wrapper that fails before it yields is skipped; one that fails afterwards leaves the result
    unchanged."""

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Generator[None, Any, Any]:
        if watched.plugin in watched.watchdog.hanging:
            return (yield)
        wrapping: Any = function(*arguments, **named)
        try:
            watched.call(next, wrapping)
        except Exception:  # noqa: BLE001 - an observer must not affect other code
            watched.failed()
            return (yield)
        try:
            result = yield
        except BaseException:
            _close(wrapping, watched)
            raise
        try:
            watched.call(wrapping.send, result)
            raise RuntimeError("it yields more than once")
        except StopIteration as end:
            return end.value
        except Exception:  # noqa: BLE001 - an observer must not affect other code
            watched.failed()
            _close(wrapping, watched)
            return result

    return call


def _close(wrapping: Any, watched: _Watched) -> None:
    """Close a generator, which may raise or yield again."""
    try:
        watched.call(wrapping.close)
    except Exception:  # noqa: BLE001 - an observer must not affect other code
        watched.failed()


def _headers(value: Any) -> dict[str, str]:
    return {str(name): str(value[name]) for name in value or ()}
