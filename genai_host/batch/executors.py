"""The executors of plugins, opened."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any

from genai_host.api.settings import read_settings
from genai_host.errors import ConfigurationError
from genai_host.host import Host
from genai_host.telling import nearest


def open_executor(host: Host, name: str, given: Mapping[str, Any]) -> Executor:
    """
    given   its settings by name; others are in the environment, or what is usual

    Raises `ConfigurationError` if there is none of that name, or for a setting that is wrong,
    and what the plugin raises.
    """
    declared = host.registry.executors.get(name)
    if declared is None:
        near = nearest(name, host.registry.executors)
        there = ", ".join(host.registry.executors) or "none: genai-host install genai-dask"
        raise ConfigurationError(
            f"there is no executor {name!r}",
            hint=f"did you mean {near[0]}?" if near else f"there are: {there}",
        )
    settings = read_settings(declared.settings, given, owner=f"the executor {name}")
    return declared.open(settings)
