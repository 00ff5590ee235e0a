"""Tells plugins what happens. One that raises is logged, and disturbs nobody."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from genai_host.api import Clock, Completion, RouteInfo, TokenCount, Vectors, Verdict
from genai_host.errors import Cancelled

_log = logging.getLogger(__name__)


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
        for implementation in self._implementations(hook):
            wanted = {name: news[name] for name in implementation.argnames}
            try:
                implementation.function(**wanted)
            except Exception:  # noqa: BLE001 - an observer must not break what it observes
                _log.warning(
                    "plugin %s raised in %s", implementation.plugin_name, hook, exc_info=True
                )

    @contextmanager
    def call(self, route: RouteInfo, clock: Clock, report: CallReport) -> Iterator[None]:
        """Tell of the start and the end of one call of a model."""
        watched = self._implementations("genai_on_call_start") or self._implementations(
            "genai_on_call_end"
        )
        if not watched:
            yield
            return
        id = f"{self._origin}-{next(self._numbers)}"
        started = clock.monotonic()
        self.tell("genai_on_call_start", id=id, route=route)
        error: BaseException | None = None
        try:
            yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            if isinstance(error, GeneratorExit):
                error = Cancelled("abandoned")
            self.tell(
                "genai_on_call_end",
                id=id,
                route=route,
                result=report.result,
                error=error,
                seconds=clock.monotonic() - started,
            )

    def _implementations(self, hook: str) -> list[Any]:
        """Plugins come before the first call, and stay: each hook is looked up once."""
        found = self._found.get(hook)
        if found is None:
            caller = getattr(self._hooks, hook, None)
            found = self._found[hook] = caller.get_hookimpls() if caller is not None else []
        return found


class CallReport:
    """What a call has come to, filled in by who makes it.

    sent        when the service was called, by `Clock.monotonic`; None if it was not
    refused     whether it answered that it would not do it, for which none charges
    result      what it answered
    raw_reply   the file that this is kept in as it came; empty if it is not
    """

    sent: float | None = None
    refused: bool = False
    result: Completion | Vectors | Verdict | TokenCount | None = None
    raw_reply: str = ""
