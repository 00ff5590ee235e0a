"""Tells plugins what happens. One that raises is logged, and disturbs nobody."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import Any

import pluggy

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
    Turn,
    hookimpl,
)
from genai_host.errors import Cancelled
from genai_host.plugins.manager import HookManager

_log = logging.getLogger(__name__)


class CallRecord:
    """What a call has come to, filled in by who makes it.

    parent      the id of the turn that it is for, as observers are told it; empty for none
    id          its own, as they are told it; empty if there are none
    sent        when the service was called, by `Clock.monotonic`; None if it was not
    first       seconds from then to the first piece of the answer; None for one in no pieces
    refused     whether it answered that it would not do it, for which none charges
    result      what it answered
    raw_reply   the file that this is kept in as it came; empty if it is not
    """

    id: str = ""
    sent: float | None = None
    first: float | None = None
    refused: bool = False
    result: Completion | Embeddings | ModerationResult | TokenCount | None = None
    raw_reply: str = ""

    def __init__(self, parent: str = "") -> None:
        self.parent = parent


class Observation:
    """What is under way, and what it has come to, filled in by who does it.

    id   as observers are told it; empty if there are none
    """

    answer: Answer | None = None
    output: ToolOutput | None = None
    status: int = 500

    def __init__(self, id: str = "") -> None:
        self.id = id


Watching = AbstractContextManager[Observation]


class Observers:
    """The plugins that implement `genai_on_...` hooks, called as pluggy calls hooks: wrappers run,
    `tryfirst` comes first, of others the plugin that was registered last.

    manager   of the working plugins; None if there are none
    """

    def __init__(self, manager: pluggy.PluginManager | None = None) -> None:
        self._hooks = None if manager is None else _guarded(manager)
        self._watched: dict[str, bool] = {}
        self._origin = os.urandom(12).hex()
        self._numbers = itertools.count(1)

    def tell(self, hook: str, **news: Any) -> None:
        """Call a hook of each plugin that has it."""
        if self._hooks is not None:
            getattr(self._hooks, hook)(**news)

    def headers(self, id: str, route: RouteInfo) -> dict[str, str]:
        """What plugins add to the headers of a call; of two that add the same one, what the
        first of them says."""
        headers: dict[str, str] = {}
        if self._hooks is not None:
            given = self._hooks.genai_call_headers(id=id, route=route)
            try:
                for each in reversed(given):
                    headers.update(_headers(each))
            except Exception:  # noqa: BLE001 - a wrapper may give anything
                # not what it gives: headers may have secrets
                _log.warning("genai_call_headers gives a %s", type(given).__name__, exc_info=True)
        return headers

    def call(
        self,
        operation: Operation,
        route: RouteInfo,
        call: Call,
        clock: Clock,
        report: CallRecord,
    ) -> Watching:
        """Tell of the start and the end of one call of a model."""
        if not self._is_watched("call"):
            return nullcontext(Observation())
        about = {"parent": report.parent, "operation": operation, "route": route, "call": call}
        return self._watching(
            "call",
            clock,
            about,
            lambda _: {"result": report.result, "first_token_seconds": report.first},
        )

    def turn(
        self, feature: str, turn: Turn[Any], conversation: str, model: str, clock: Clock
    ) -> Watching:
        """The same of a turn of a feature."""
        if not self._is_watched("turn"):
            return nullcontext(Observation())
        about = {"feature": feature, "turn": turn, "conversation": conversation, "model": model}
        return self._watching("turn", clock, about, lambda watched: {"answer": watched.answer})

    def tool(self, parent: str, call: ToolCall, clock: Clock) -> Watching:
        """The same of a tool that runs."""
        if not self._is_watched("tool"):
            return nullcontext(Observation())
        about = {"parent": parent, "call": call}
        return self._watching("tool", clock, about, lambda watched: {"output": watched.output})

    def request(self, request: RouteRequest, route: str, clock: Clock) -> Watching:
        """The same of a request over HTTP."""
        if not self._is_watched("request"):
            return nullcontext(Observation())
        about = {"request": request, "route": route}
        return self._watching("request", clock, about, lambda watched: {"status": watched.status})

    @contextmanager
    def _watching(
        self,
        what: str,
        clock: Clock,
        about: Mapping[str, Any],
        outcome: Callable[[Observation], Mapping[str, Any]],
    ) -> Generator[Observation, None, None]:
        watched = Observation(f"{self._origin}-{next(self._numbers)}")
        started = clock.monotonic()
        self.tell(f"genai_on_{what}_start", id=watched.id, **about)
        error: BaseException | None = None
        try:
            yield watched
        except BaseException as raised:
            error = raised
            raise
        finally:
            if isinstance(error, GeneratorExit):
                error = Cancelled("abandoned")
            seconds = clock.monotonic() - started
            self.tell(
                f"genai_on_{what}_end",
                id=watched.id,
                **about,
                **outcome(watched),
                error=error,
                seconds=seconds,
            )

    def _is_watched(self, what: str) -> bool:
        """Plugins come before the first call, and stay: each hook is looked up once."""
        found = self._watched.get(what)
        if found is None:
            hooks = [getattr(self._hooks, f"genai_on_{what}_{end}", None) for end in _ENDS]
            found = any(each is not None and each.get_hookimpls() for each in hooks)
            self._watched[what] = found
        return found


_ENDS = ("start", "end")


class _Guard:
    """A plugin whose hooks raise nothing: they are its attributes."""


def _guarded(manager: pluggy.PluginManager) -> pluggy.HookRelay | None:
    """The hooks that observe, of the same plugins in the same order; None if no plugin observes.
    An observer must not break what it observes, and pluggy stops at the first hook that raises."""
    guards: dict[str, _Guard] = {}
    for name, plugin in manager.list_name_plugin():
        guard = _Guard()
        for caller in manager.get_hookcallers(plugin) or ():
            if caller.name.startswith("genai_on_") or caller.name == "genai_call_headers":
                mine = (each for each in caller.get_hookimpls() if each.plugin is plugin)
                for number, each in enumerate(mine):
                    setattr(guard, f"{caller.name}_{number}", _implementation(caller.name, each))
        if vars(guard):
            guards[name] = guard
    if not guards:
        return None
    guarded = HookManager()
    for name, guard in guards.items():
        guarded.register(guard, name)
    hooks: pluggy.HookRelay = guarded.hook
    return hooks


def _implementation(hook: str, found: pluggy.HookImpl) -> Callable[..., Any]:
    def failed() -> None:
        _log.warning("plugin %s raised in %s", found.plugin_name, hook, exc_info=True)

    if found.wrapper or found.hookwrapper:
        function = _guard_of_wrapper(found.function, failed)
    else:
        function = _guard(
            found.function, failed, _headers if hook == "genai_call_headers" else None
        )
    options = ("tryfirst", "trylast", "wrapper", "hookwrapper")
    mark = hookimpl(specname=hook, **{name: getattr(found, name) for name in options})
    marked: Callable[..., Any] = mark(function)
    return marked


def _guard(
    function: Callable[..., Any],
    failed: Callable[[], None],
    read: Callable[[Any], Any] | None,
) -> Callable[..., Any]:
    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            result = function(*arguments, **named)
            return result if read is None else read(result)
        except Exception:  # noqa: BLE001 - an observer must not break what it observes
            failed()
            return None

    return call


def _guard_of_wrapper(
    function: Callable[..., Any], failed: Callable[[], None]
) -> Callable[..., Any]:
    """One that fails before it yields is as if it was not there, one that fails afterwards leaves
    the result as it was."""

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Generator[None, Any, Any]:
        wrapping: Any = function(*arguments, **named)
        try:
            next(wrapping)
        except Exception:  # noqa: BLE001 - an observer must not break what it observes
            failed()
            return (yield)
        try:
            result = yield
        except BaseException:
            _close(wrapping, failed)
            raise
        try:
            wrapping.send(result)
            raise RuntimeError("it yields twice")
        except StopIteration as end:
            return end.value
        except Exception:  # noqa: BLE001 - an observer must not break what it observes
            failed()
            _close(wrapping, failed)
            return result

    return call


def _close(wrapping: Any, failed: Callable[[], None]) -> None:
    """A generator that yields while it is closed raises."""
    try:
        wrapping.close()
    except Exception:  # noqa: BLE001 - an observer must not break what it observes
        failed()


def _headers(value: Any) -> dict[str, str]:
    return {str(name): str(value[name]) for name in value or ()}
