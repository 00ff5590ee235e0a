"""The tools of all plugins, as a user has configured them."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable, Iterator
from typing import cast

from genai_host.api import Approval, Clock, Codec, Tool, ToolSource
from genai_host.api.cancellation import Cancellation
from genai_host.config import Config, SetConfig
from genai_host.config.key import hint_for
from genai_host.errors import ConfigurationError
from genai_host.plugins.observers import Observers
from genai_host.plugins.registry import Registry
from genai_host.secrets.keys import SecretStore
from genai_host.tools.sources import (
    BETWEEN,
    ConfiguredToolSource,
    fits,
    may_have,
    of_source,
    warn_unknown,
)
from genai_host.tools.toolbox import Toolbox
from genai_host.util.names import plugin_line
from genai_host.util.text import did_you_mean, message_of

_log = logging.getLogger(__name__)


class PluginTools:
    """The tools of all plugins, with the user's settings and approval rules."""

    def __init__(
        self,
        registry: Registry,
        config: Config,
        keys: SecretStore,
        clock: Clock,
        codec: Codec,
        observers: Observers,
    ) -> None:
        self._registry = registry
        self._config = config
        self._keys = keys
        if config.tools:
            warn_unknown(config, registry.tool_sources)
        known = {*registry.tools, *registry.tool_sources}  # of plugins that are not loaded, too
        for name in config.approvals:
            if not name.endswith("*") and known.isdisjoint((name, of_source(name))):
                _log.warning("approvals: unknown tool %r", name)
        self.toolbox = Toolbox(
            registry.tools,
            clock,
            codec,
            self._sources(),
            {name: cast(Approval, approval) for name, approval in config.approvals.items()},
            registry.reactions,
            observers,
        )

    def named(self, name: str, until: Cancellation) -> Tool:
        """A tool by its name. Raises `ConfigurationError` if it is unknown, and the error of the
        cancellation."""
        found = self.toolbox.only((name,)).tools(until).get(name)
        if found is not None:
            return found
        tools = self.toolbox.tools(until)
        fault = self.toolbox.fault(name)
        if isinstance(fault, ConfigurationError):  # has its file and line
            error = copy.copy(fault)
            error.args = (f"unknown tool {name!r}: {fault}",)
            raise error from fault
        if fault is not None:
            raise ConfigurationError(f"unknown tool {name!r}: {message_of(fault)}") from fault
        reason = self.toolbox.unavailable_reason(name)
        if reason:
            raise ConfigurationError(f"tool {name!r} is unavailable: {reason}")
        source = of_source(name)
        line = "" if source in self._registry.tool_sources else plugin_line("tools", source)
        known = f"choose from {', '.join(tools)}" if tools else "no tools are available"
        hint = f"install its plugin: {line}" if line else did_you_mean(name, tools) or known
        raise ConfigurationError(f"unknown tool {name!r}", hint=hint)

    def names(self, given: Iterable[str] | None) -> tuple[str, ...] | None:
        """Validate the names of the tools that a conversation is limited to; `git__*` matches a
        prefix. None for all, as for `*`. Raises `ConfigurationError` if no tool can have such a
        name; tools of sources are not looked up."""
        if given is None:
            return None
        names = tuple(given)
        if "*" in names:
            return None
        declared, sources = self._registry.tools, self._registry.tool_sources
        for name in names:
            is_there = any(fits(each, (name,)) for each in declared)
            if not is_there and not any(may_have(each, (name,)) for each in sources):
                known = [*declared, *(f"{each}{BETWEEN}*" for each in sources)]
                raise ConfigurationError(f"unknown tool {name!r}", hint=hint_for(name, known))
        return names

    def _sources(self) -> Iterator[ToolSource]:
        for declared in self._registry.tool_sources.values():
            if isinstance(declared, ToolSource):
                yield declared
            else:
                config = self._config.tools.get(declared.name, SetConfig())
                yield ConfiguredToolSource(declared, config, self._keys, self._config.file)
