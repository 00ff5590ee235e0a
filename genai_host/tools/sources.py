"""Sources of tools, and configured sets of tools, with timeouts.

A source that hangs or fails offers no tools for a while. A set of tools with settings is opened
with its table of the configuration when its tools are first requested.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from attrs import evolve

from genai_host.api import CancelToken, Clock, Secret, Tool, ToolSet, ToolSource
from genai_host.api.cancellation import Cancellation
from genai_host.api.settings import Setting, read_settings
from genai_host.config import Config, SetConfig
from genai_host.config.loading import place_of, placed
from genai_host.errors import ConfigurationError, LimitExceeded, ServiceUnavailable
from genai_host.plugins.registry import ContributionsByName
from genai_host.plugins.watchdog import Watchdog
from genai_host.secrets.keys import FoundKey, SecretStore
from genai_host.tools.threads import run_within
from genai_host.util.text import describe_exception, describe_with_hint, short_repr

MAX = 1000
"""Maximum number of tools of a source."""

BETWEEN = "__"
"""Separator between the name of a source and that of a tool."""

_SECONDS = 30.0  # timeout of a source, which may have to start a server
_PAUSE = 60.0  # seconds before a failed source is tried again

_log = logging.getLogger(__name__)


class ToolSources:
    """Sources of tools. Thread-safe.

    Attributes:
        seen: Tools last listed by all sources, by full name.
        faults: Why a source currently offers no tools, by its name.
    """

    def __init__(self, sources: Iterable[ToolSource], clock: Clock) -> None:
        self._sources = {source.name: source for source in sources}
        self._clock = clock
        self._lock = threading.Lock()
        self._asked_again: dict[str, float] = {}
        self.seen: dict[str, Tool] = {}
        self.faults: dict[str, BaseException] = {}

    def tools(self, until: Cancellation, only: Sequence[str] | None = None) -> Mapping[str, Tool]:
        """The current tools of all sources, by full name, without those of sources that cannot
        match `only`. Raises the error of the cancellation."""
        return {
            name: tool
            for source in self._sources.values()
            if may_have(source.name, only)
            for name, tool in self._tools(source, until).items()
        }

    def tool(self, name: str, until: Cancellation) -> Tool | None:
        """A tool by its full name; None if it is unknown. A tool that was listed before is not
        looked up again."""
        source = self._sources.get(of_source(name))
        seen = self.seen.get(name)
        return seen if seen or source is None else self._tools(source, until).get(name)

    def unavailable_reason(self, name: str) -> str:
        """Why a source has no tools now; empty if it has tools, or the reason is unknown."""
        source = self._sources.get(name)
        try:
            return (source.unavailable_reason() if source else None) or ""
        except Exception as error:  # noqa: BLE001 - a plugin may raise anything
            return describe_exception(error)

    def close(self, watchdog: Watchdog) -> None:
        for source in self._sources.values():
            try:
                if isinstance(source, ConfiguredToolSource) and not source.holds_a_source:
                    source.close()
                elif type(source).close is not ToolSource.close:
                    watchdog.run("source of tools", source.name, "close", source.close)
            except Exception:  # noqa: BLE001 - the others must be closed, too
                _log.warning("close() of the tools of %s failed", source.name, exc_info=True)

    def _tools(self, source: ToolSource, until: Cancellation) -> dict[str, Tool]:
        with self._lock:
            if self._clock.monotonic() < self._asked_again.get(source.name, 0.0):
                return {}
        found = self._asked(source, until)
        with self._lock:
            if found is None:
                self._asked_again[source.name] = self._clock.monotonic() + _PAUSE
                return {}
            others = {name: self.seen[name] for name in self.seen if of_source(name) != source.name}
            self.seen = {**others, **found}
            self.faults.pop(source.name, None)
            return found

    def _asked(self, source: ToolSource, until: Cancellation) -> dict[str, Tool] | None:
        """The tools of a source; None if it failed."""

        def failed(error: BaseException) -> None:
            self.faults[source.name] = error
            what = "the tools of %s are not there for now: %s"
            _log.warning(what, source.name, describe_with_hint(error))

        def look(scope: Cancellation) -> dict[str, Tool] | None:
            return _named(source, source.tools(scope))

        slow = LimitExceeded(f"{source.name} took longer than {_SECONDS:g} s", limit="seconds")
        try:
            return run_within(slow, self._clock, _SECONDS, source.name, look, failed, until)
        except LimitExceeded as error:
            until.check()
            failed(error)
            return None


def of_source(name: str) -> str:
    """The source of the tool with a full name."""
    return name.partition(BETWEEN)[0]


def may_have(source: str, only: Sequence[str] | None) -> bool:
    """Whether a source can have one of some tools: names, and prefixes such as `git__*`; None for
    any."""
    own = source + BETWEEN
    for name in only or ():
        if name.endswith("*"):
            if own.startswith(name[:-1]) or name.startswith(own):
                return True
        elif of_source(name) == source:
            return True
    return only is None


def fits(name: str, only: Sequence[str] | None) -> bool:
    """Whether a tool name matches."""
    return only is None or any(
        name.startswith(each[:-1]) if each.endswith("*") else name == each for each in only
    )


def _named(source: ToolSource, tools: Iterable[Tool]) -> dict[str, Tool]:
    """Tools by full name, without those whose name is too long. Raises `TypeError` if one is not a
    `Tool`."""
    found: dict[str, Tool] = {}
    for tool in islice(tools, MAX):
        if not isinstance(tool, Tool):
            raise TypeError(f"it returned {short_repr(tool)}, which is not a Tool")
        name = f"{source.name}{BETWEEN}{tool.name}"
        try:
            found[name] = evolve(tool, name=name)
        except TypeError:
            _log.warning("tool %s is left out: its name is too long", name)
    return found


class ConfiguredToolSource(ToolSource):
    """A set of tools with its settings. Thread-safe."""

    def __init__(
        self, declared: ToolSet[Any], config: SetConfig, keys: SecretStore, file: str
    ) -> None:
        self.name = declared.name
        self._declared = declared
        self._config = config
        self._keys = keys
        self._file = file
        self._lock = threading.Lock()
        self._opened: tuple[Tool, ...] | ToolSource | None = None
        self._closed = False

    def tools(self, limits: CancelToken) -> Iterable[Tool]:
        """The tools, opened on first use.

        Raises:
            ConfigurationError: A setting is invalid.
            Exception: The set cannot be opened, or its source failed.
        """
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
            opened = self._opened
        if self._closed:
            self.close()
            raise ServiceUnavailable(f"{self.name} is closed")
        return opened.tools(limits) if isinstance(opened, ToolSource) else opened

    def unavailable_reason(self) -> str | None:
        opened = self._opened
        return opened.unavailable_reason() if isinstance(opened, ToolSource) else None

    @property
    def holds_a_source(self) -> bool:
        """Whether it was opened as a source, which can be closed."""
        return isinstance(self._opened, ToolSource)

    def close(self) -> None:
        self._closed = True  # not under the lock, which another thread may hold while it waits
        if isinstance(self._opened, ToolSource):
            self._opened.close()

    def _open(self) -> tuple[Tool, ...] | ToolSource:
        owner = f"tools.{self.name}"
        try:
            settings = read_settings(
                self._declared.settings,
                self._config.settings,
                owner=owner,
                overrides=self._config.overrides,
                secrets=self._secret,
            )
            opened = self._declared.open(settings)
        except ConfigurationError as error:
            if owner not in str(error):
                error.args = (f"{owner}: {error}",)
            given = self._config.settings.keys() - self._config.overrides.keys()
            if error.setting in given:
                placed(error, self._file, "tools", self.name, error.setting)
            raise
        return opened if isinstance(opened, ToolSource) else tuple(islice(opened, MAX))

    def _secret(self, setting: Setting, given: Any) -> Secret | None:
        found = find_key(self._keys, self.name, self._config, setting)
        return None if found is None else found.secret


def find_key(keys: SecretStore, name: str, config: SetConfig, setting: Setting) -> FoundKey | None:
    """A secret of a set of tools, with its source; None if it is not set. Raises
    `ConfigurationError` if the reference to the secret is invalid."""
    given = config.settings.get(setting.name)
    return keys.find(name, setting, kind=name, given=given, table="tools")


def warn_unknown(config: Config, sources: ContributionsByName[ToolSource | ToolSet[Any]]) -> None:
    """Log a warning for each table of the configuration that names an unknown set of tools.

    It loads no plugin, because plugins with a `ToolSource` are loaded at the start.
    """
    loaded = sources.loaded
    known = [name for name in sources if not isinstance(loaded.get(name), ToolSource)]
    there = ", ".join(known) or "none"
    for name, each in config.tools.items():
        if name not in known:
            where = place_of(config.file, "tools", name)[0] if each.settings else ""
            where = where or ", ".join(each.overrides.values()) or "the configuration"
            _log.warning("%s: unknown tool set %r; choose from: %s", where, name, there)
