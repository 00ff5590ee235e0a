"""Detects changes of the configuration made by other workers or by a user: of models, defaults and
provider instances, and in the file of keys."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable
from typing import Any

from genai_host.config import Config, read_config
from genai_host.errors import GenaiError
from genai_host.host import Host
from genai_host.providers.instance import ProviderInstance
from genai_host.secrets.backends import KeyFile, StoredKeys

_log = logging.getLogger(__name__)


class ConfigWatcher:
    """Applies changes of the configuration of a host. Other settings take effect at the next
    start."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._lock = threading.Lock()
        self._last_seen: Any = None
        self._applied: Any = None
        self._config: Config = host.config
        self._keys: StoredKeys | None = None
        self._instances: dict[str, ProviderInstance] = {}

    def check(self) -> None:
        """Check for changes. Called periodically, in any thread; reads only two file times usually.

        A change is applied when it is seen the second time, because some programs write a file in
        several steps. An invalid configuration is logged once and changes nothing.
        """
        if not self._lock.acquire(blocking=False):
            return
        try:
            stamps = [_stamp(path) for path in (self._host.config_file, self._host.keys.path)]
            before, self._last_seen = self._last_seen, stamps
            if stamps == before and stamps != self._applied:
                self._applied = stamps
                self._apply()
        except GenaiError as error:
            _log.warning("the configuration was not reloaded: %s", error)
        finally:
            self._lock.release()

    def _apply(self) -> None:
        config = read_config() if self._host.config_file else self._config
        keys = KeyFile(self._host.keys.path).read()
        if config != self._config:
            self._host.reconfigure(config)
            self._configure(config)
        if self._keys is not None:
            self._reopen(_changed_names(self._keys, keys))
        self._config, self._keys = config, keys
        self._instances = {each.name: each for each in self._host.instances}

    def _configure(self, config: Config) -> None:
        """Configure the changed instances, except those that this process itself changed in the
        file."""
        instances, before = self._host.instances, self._config.providers
        for name, wanted in config.providers.items():
            is_there = name in instances and instances[name].config == wanted
            if before.get(name) != wanted and not is_there:
                instances.configure(name, wanted)
        for name in self._config.providers:
            if name not in config.providers and name in instances:
                instances.configure(name, None)

    def _reopen(self, names: Iterable[str]) -> None:
        """Reopen the instances whose keys changed, unless they were opened with the new keys."""
        instances = self._host.instances
        for name in names:
            if name in instances and instances[name] is self._instances.get(name):
                instances.reopen(name)


def _stamp(path: str) -> tuple[int, int, int] | None:
    """Identity of a file's content; None if there is no file. Files are replaced, not
    overwritten."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _changed_names(before: StoredKeys, now: StoredKeys) -> list[str]:
    return [name for name in {*before, *now} if before.get(name) != now.get(name)]
