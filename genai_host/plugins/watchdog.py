"""Finds code of plugins that hangs. It cannot be interrupted, so it is logged with its plugin."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable

from genai_host.api import CancelToken, Clock
from genai_host.api.cancellation import ended_with
from genai_host.util import concurrency
from genai_host.util.forking import renew_after_fork

_log = logging.getLogger(__name__)

HANGS = 10.0
"""Seconds after which code counts as hanging."""


class Watchdog:
    """Logs code of plugins that does not return. One timer is set while code is watched, not one
    for each call. Code without a plugin is the host's own, and not logged.

    Args:
        clock: Source of time; None for hosts with a given clock, which may stand still while code
            runs: then only code that ends its work is logged.
        owner: Returns the plugin with a contribution, by kind and name; empty if there is none.

    Attributes:
        hanging: Plugins with a hook that hangs.
        watched: Code that is running.
        is_set: Whether the timer is set.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        owner: Callable[[str, str], str] = lambda kind, name: "",
    ) -> None:
        self.now: Callable[[], float] = (lambda: 0.0) if clock is None else clock.monotonic
        self._clock = clock
        self._owner = owner
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Begin without code that is watched."""
        self.hanging: frozenset[str] = frozenset()
        self.watched: set[Watched] = set()
        self._lock = threading.Lock()
        self.is_set = self._clock is None

    def watch(
        self,
        kind: str,
        name: str,
        method: str = "",
        *,
        plugin: str = "",
        limits: CancelToken | None = None,
    ) -> Watched:
        """A context in which code of a plugin runs.

        Args:
            kind: Kind of contribution, or `hook`.
            name: Name of the contribution or hook.
            method: The method that is called.
            plugin: The plugin; empty for the owner of the contribution.
            limits: The code may run until this is cancelled; None if it must return soon.
        """
        return Watched(self, kind, name, method, plugin, limits)

    def run(
        self, kind: str, name: str, method: str, work: Callable[[], object], *, plugin: str = ""
    ) -> None:
        """Run code of a plugin that ends its work, and wait for it until it counts as hanging: the
        host must be able to close. It runs in a separate thread. The time is real, since a given
        clock may stand still.

        Args:
            kind: Kind of contribution, or `hook`.
            name: Name of the contribution or hook.
            method: The method that is called.
            work: The code.
            plugin: The plugin; empty for the owner of the contribution.

        Raises:
            BaseException: Whatever the code raises until then; later exceptions are logged.
        """
        watched = self.watch(kind, name, method, plugin=plugin)
        done = concurrency.new_event()
        failed: list[BaseException] = []

        def run() -> None:
            try:
                with watched:
                    work()
            except BaseException as error:  # noqa: BLE001 - it is raised by the caller
                failed.append(error)
                if done.is_set():
                    _log.warning("%s of the %s %s failed", method, kind, name, exc_info=error)
            finally:
                done.set()

        watched.start()
        concurrency.new_thread(f"genai-host-{method}", run).start()
        if not done.wait(HANGS):
            done.set()
            self._log_hanging(watched, HANGS)
            self._find_hanging()
        if failed:
            raise failed[0]

    def returned(self, watched: Watched) -> None:
        """Log that code that hung has returned."""
        watched.hangs = False
        seconds = max(self.now() - watched.since, HANGS)
        self._warn("plugin %s has returned from %s after %.0f seconds", watched, seconds)
        self._find_hanging()

    def look_after(self, seconds: float) -> None:
        """Look for code that hangs, unless the timer is set."""
        with self._lock:
            if self.is_set or self._clock is None:
                return
            self.is_set = True
        self._clock.call_later(seconds, self._look)

    def _look(self) -> None:
        self.is_set = False  # before the code is listed, so that none is missed
        now = self.now()
        due = math.inf
        for each in list(self.watched):
            if each.since == math.inf and each.runs and each.limits is not None:
                is_cancelled = ended_with(each.limits) is not None
                each.since = now if is_cancelled else math.inf  # since the last look
            since = each.since
            if now - since >= HANGS:
                self._log_hanging(each, now - since)
            elif not each.hangs:
                due = min(due, since + HANGS, now + HANGS)
        self._find_hanging()
        if due < math.inf:
            self.look_after(due - now)

    def _log_hanging(self, watched: Watched, seconds: float) -> None:
        with self._lock:  # the timer and the caller of `run` may find it at the same time
            if watched.hangs or watched not in self.watched:
                return
            watched.hangs = True
        what = "plugin %s has not returned from %s for %.0f seconds: its caller waits"
        if watched.kind == "hook":
            what += ", and the plugin is skipped until it returns"
        self._warn(what, watched, seconds)

    def _warn(self, message: str, watched: Watched, seconds: float) -> None:
        kind, name = watched.kind, watched.name
        plugin = watched.plugin or self._owner(kind, name)
        if plugin:
            what = name if kind == "hook" else f"{watched.method} of the {kind} {name}"
            _log.warning(message, plugin, what, seconds)

    def _find_hanging(self) -> None:
        with self._lock:
            every = list(self.watched)
            self.hanging = frozenset(e.plugin for e in every if e.hangs and e.kind == "hook")


class Watched:
    """A context in which code of a plugin runs, except while it is paused.

    Attributes:
        since: When the code was called, or was seen to be cancelled if it may run until then;
            infinite before, and while it is paused.
        runs: Whether the code runs now, and not its caller.
        hangs: Whether the code was logged as hanging.
    """

    __slots__ = (
        "_watchdog", "hangs", "kind", "limits", "method", "name", "plugin", "runs", "since",
    )  # fmt: skip

    def __init__(
        self,
        watchdog: Watchdog,
        kind: str,
        name: str,
        method: str,
        plugin: str,
        limits: CancelToken | None,
    ) -> None:
        self.kind = kind
        self.name = name
        self.method = method
        self.plugin = plugin
        self.limits = limits
        self.runs = True
        self.hangs = False
        self.since = math.inf
        self._watchdog = watchdog

    def __enter__(self) -> Watched:
        """Begin to watch the code, unless `start` has."""
        watchdog = self._watchdog
        if self not in watchdog.watched:
            if self.limits is None:
                self.since = watchdog.now()
            watchdog.watched.add(self)
            if not watchdog.is_set:
                watchdog.look_after(HANGS)
        return self

    start = __enter__  # earlier, if the context is entered in another thread

    def __exit__(self, *exc: object) -> None:
        self._watchdog.watched.discard(self)
        if self.hangs:
            self._watchdog.returned(self)

    def resume(self) -> None:
        """The code is called again."""
        self.runs = True
        if self.limits is None:
            self.since = self._watchdog.now()

    def pause(self) -> None:
        """The code has returned. Cheap, since it is called for each chunk of an answer."""
        if self.hangs:
            self._watchdog.returned(self)
        self.runs = False
        self.since = math.inf
