"""Notices what other processes have changed of the instances of providers: in the configuration,
which another worker writes where it is asked to, or a person does, and in the file of keys."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable
from typing import Any

from genai_host.config import Config, read_config
from genai_host.errors import GenaiError
from genai_host.host import Host
from genai_host.instance import Instance
from genai_host.key_file import Kept, KeyFile

_log = logging.getLogger(__name__)


class ChangedOutside:
    """Of one host. What does not concern instances holds from the next start on."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._looking = threading.Lock()
        self._seen: Any = None
        self._taken_up: Any = None
        self._config: Config = host.config
        self._keys: Kept | None = None
        self._instances: dict[str, Instance] = {}

    def look(self) -> None:
        """From time to time, in any thread: where nothing has changed, it asks for the times of
        two files. A change is taken up when it is seen the second time: not every program
        writes a file at once. A configuration that is wrong changes nothing, and is told of
        once."""
        if not self._looking.acquire(blocking=False):
            return
        try:
            stamps = [_stamp(path) for path in (self._host.config.file, self._host.keys.path)]
            before, self._seen = self._seen, stamps
            if stamps == before and stamps != self._taken_up:
                self._taken_up = stamps
                self._take_up()
        except GenaiError as error:
            _log.warning("the providers stay as they are: %s", error)
        finally:
            self._looking.release()

    def _take_up(self) -> None:
        config = read_config(self._host.config.file or None)
        keys = KeyFile(self._host.keys.path).read()
        self._configure(config)
        if self._keys is not None:
            self._reopen(_different(self._keys, keys))
        self._config, self._keys = config, keys
        self._instances = {each.name: each for each in self._host.instances}

    def _configure(self, config: Config) -> None:
        """Those that are not as they are configured; what this process has changed itself
        is."""
        instances = self._host.instances
        for name, wanted in config.providers.items():
            if name not in instances or instances[name].config != wanted:
                instances.configure(name, wanted)
        for name in self._config.providers:
            if name not in config.providers and name in instances:
                instances.configure(name, None)

    def _reopen(self, names: Iterable[str]) -> None:
        """Those with other keys, but for those that were made with them."""
        instances = self._host.instances
        for name in names:
            if name in instances and instances[name] is self._instances.get(name):
                instances.reopen(name)


def _stamp(path: str) -> tuple[int, int, int] | None:
    """None if there is no such file. Files are replaced, not written over."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _different(before: Kept, now: Kept) -> list[str]:
    return [name for name in {*before, *now} if before.get(name) != now.get(name)]
