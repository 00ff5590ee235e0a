"""Tells plugins what happens. One that raises is logged, and disturbs nobody."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

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
)
from genai_host.errors import Cancelled

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
    """The plugins that implement `genai_on_...` hooks.

    hooks   pluggy's hook relay; None if there are no plugins
    """

    def __init__(self, hooks: Any = None) -> None:
        self._hooks = hooks
        self._found: dict[str, list[Any]] = {}
        self._origin = os.urandom(12).hex()
        self._numbers = itertools.count(1)

    def tell(self, hook: str, **news: Any) -> None:
        """Call a hook of each plugin that has it."""
        self._each(hook, news, lambda _: None)

    def headers(self, id: str, route: RouteInfo) -> dict[str, str]:
        """What plugins add to the headers of a call."""
        headers: dict[str, str] = {}
        self._each(
            "genai_call_headers",
            {"id": id, "route": route},
            lambda given: headers.update({str(name): str(given[name]) for name in given or ()}),
        )
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
            "call", clock, about, lambda _: {"result": report.result, "first": report.first}
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

    def _each(self, hook: str, news: Mapping[str, Any], take: Callable[[Any], None]) -> None:
        for implementation in self._implementations(hook):
            wanted = {name: news[name] for name in implementation.argnames}
            try:
                take(implementation.function(**wanted))
            except Exception:  # noqa: BLE001 - an observer must not break what it observes
                _log.warning(
                    "plugin %s raised in %s", implementation.plugin_name, hook, exc_info=True
                )

    def _is_watched(self, what: str) -> bool:
        start, end = f"genai_on_{what}_start", f"genai_on_{what}_end"
        return bool(self._implementations(start) or self._implementations(end))

    def _implementations(self, hook: str) -> list[Any]:
        """Plugins come before the first call, and stay: each hook is looked up once."""
        found = self._found.get(hook)
        if found is None:
            caller = getattr(self._hooks, hook, None)
            found = self._found[hook] = caller.get_hookimpls() if caller is not None else []
        return found
