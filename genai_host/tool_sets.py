"""The sets of tools that have settings: each opened with its table when it is first asked."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from genai_host.api import Limits, Secret, Tool, ToolSet, ToolSource
from genai_host.api.settings import Setting, read_settings
from genai_host.config import Config, SetConfig
from genai_host.config.reading import place_of, placed
from genai_host.errors import ConfigurationError, Unavailable
from genai_host.keys import FoundKey, Keys
from genai_host.tool_sources import MOST

_log = logging.getLogger(__name__)


class OpenedSet(ToolSource):
    """A set as a source of its tools. May be used from many threads.

    config   what is configured for it
    file     where that stands, for errors; empty if in no file
    """

    def __init__(self, declared: ToolSet[Any], config: SetConfig, keys: Keys, file: str) -> None:
        self.name = declared.name
        self._declared = declared
        self._config = config
        self._keys = keys
        self._file = file
        self._lock = threading.Lock()
        self._opened: tuple[Tool, ...] | ToolSource | None = None
        self._closed = False

    def tools(self, limits: Limits) -> Iterable[Tool]:
        """Raises `ConfigurationError` for settings that are wrong, and whatever `open` and
        the source that it makes raise."""
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
            opened = self._opened
        if self._closed:
            self.close()
            raise Unavailable(f"{self.name} is closed")
        return opened.tools(limits) if isinstance(opened, ToolSource) else opened

    @property
    def holds_a_source(self) -> bool:
        """Whether it was opened as a source, which can be closed, and not as a list."""
        return isinstance(self._opened, ToolSource)

    def close(self) -> None:
        self._closed = True  # not under the lock: somebody may wait under it
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
        return opened if isinstance(opened, ToolSource) else tuple(islice(opened, MOST))

    def _secret(self, setting: Setting, given: Any) -> Secret | None:
        found = find_key(self._keys, self.name, self._config, setting)
        return None if found is None else found.secret


def find_key(keys: Keys, name: str, config: SetConfig, setting: Setting) -> FoundKey | None:
    """A secret of a set of tools, and where it is; None if there is none.

    Raises `ConfigurationError` if what says so is not in order.
    """
    given = config.settings.get(setting.name)
    return keys.find(name, setting, kind=name, given=given, table="tools")


def warn_unknown(config: Config, known: Mapping[str, ToolSet[Any]]) -> None:
    """Of tables that no set of tools has: its plugin may be missing."""
    there = ", ".join(known) or "none"
    for name, each in config.tools.items():
        if name not in known:
            where = place_of(config.file, "tools", name)[0] if each.settings else ""
            where = where or ", ".join(each.overrides.values()) or "the configuration"
            _log.warning(
                "%s: no plugin has tools %r with settings; there are: %s", where, name, there
            )
