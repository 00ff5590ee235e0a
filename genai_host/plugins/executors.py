"""Executors of plugins: opened with their settings, and watched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any

from genai_host.api.settings import read_settings
from genai_host.errors import ConfigurationError
from genai_host.plugins.registry import Registry
from genai_host.plugins.watchdog import Watchdog
from genai_host.util.text import did_you_mean


def open_executor(
    registry: Registry, watchdog: Watchdog, name: str, given: Mapping[str, Any]
) -> Executor:
    """Open an executor; see `Host.open_executor`."""
    declared = registry.executors.get(name)
    if declared is None:
        there = ", ".join(registry.executors) or "none: genai-host install genai-dask"
        raise ConfigurationError(
            f"unknown executor {name!r}",
            hint=did_you_mean(name, registry.executors) or f"choose from {there}",
        )
    settings = read_settings(declared.settings, given, owner=f"executor {name}")
    with watchdog.watch("executor", name, "open"):
        plugin = registry.owner("executor", name)
        return _WatchedExecutor(declared.open(settings), name, plugin, watchdog)


class _WatchedExecutor(Executor):
    """Wraps an executor, and logs its plugin if a call hangs."""

    def __init__(self, executor: Executor, name: str, plugin: str, watchdog: Watchdog) -> None:
        self._executor = executor
        self._name = name
        self._plugin = plugin
        self._watchdog = watchdog

    def __str__(self) -> str:
        return f"the executor {self._name} of the plugin {self._plugin}"

    def submit(self, function: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        with self._watchdog.watch("executor", self._name, "submit"):
            return self._executor.submit(function, *given, **named)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        end = partial(self._executor.shutdown, wait, cancel_futures=cancel_futures)
        if wait:
            end()  # its rows may take long
        else:
            self._watchdog.run("executor", self._name, "shutdown", end)
