"""Contributions of the plugins, by kind and name, with the plugin of each."""

from __future__ import annotations

from typing import Any

from genai_host.api import (
    Command,
    Dialect,
    ExecutorType,
    Feature,
    HttpApi,
    HttpRoute,
    Model,
    Offering,
    Part,
    ProviderType,
    ReactionType,
    Tool,
    ToolSet,
    ToolSource,
)
from genai_host.api.messages import PARTS
from genai_host.errors import PluginError
from genai_host.plugins.contributions import KINDS, Claim, Contributions
from genai_host.util.names import APP, COMMANDS, FORMER_COMMANDS


class Registry:
    """Registered contributions. Names are unique by kind: a plugin claims all of its names before
    its contributions are added, and gets all of them or none.

    It has an attribute for each of `KINDS`; the annotations are for type checkers.

    Attributes:
        third_parties: Names of the plugins that are not part of this project.
    """

    providers: dict[str, ProviderType[Any]]
    dialects: dict[str, Dialect[Any, Any]]
    models: dict[str, Model]
    offerings: list[Offering]
    features: dict[str, Feature[Any]]
    tools: dict[str, Tool]
    tool_sources: dict[str, ToolSource | ToolSet[Any]]
    reactions: dict[str, ReactionType]
    parts: list[type[Part]]
    executors: dict[str, ExecutorType[Any]]
    http_routes: dict[str, HttpRoute]
    http_apis: dict[str, HttpApi]
    commands: dict[str, Command]

    def __init__(self) -> None:
        for name, kind in KINDS.items():
            setattr(self, name, kind.registered())
        self.third_parties: frozenset[str] = frozenset()
        self._owners: dict[Claim, str] = {}
        self._owners.update((("message part", part.type), APP) for part in PARTS)
        self._owners.update((("command", name), APP) for name in (*COMMANDS, *FORMER_COMMANDS))

    def claim(self, plugin: str, declared: Contributions) -> None:
        """Claim all names of a plugin, or none. Raises `PluginError` if a name is malformed or
        already claimed."""
        claims: set[Claim] = set()
        for kind, name in declared.claims():
            if (kind, name) in claims:
                raise PluginError(f"declares the {kind} {name!r} twice", plugin=plugin)
            owner = self._owners.get((kind, name))
            if owner is not None:
                raise PluginError(
                    f"the {kind} {name!r} is already declared by {owner}",
                    plugin=plugin,
                    hint=_which_to_disable(plugin, owner),
                )
            claims.add((kind, name))
        self._owners.update((claim, plugin) for claim in claims)

    def add(self, declared: Contributions) -> None:
        """Add the contributions of a plugin, after `claim`."""
        for name, kind in KINDS.items():
            mine, new = getattr(self, name), getattr(declared, name)
            if isinstance(mine, list):
                mine.extend(new)
            else:
                mine.update((kind.key(each), each) for each in new)

    @property
    def tool_sets(self) -> dict[str, ToolSet[Any]]:
        """Declared tool sets."""
        return {name: each for name, each in self.tool_sources.items() if isinstance(each, ToolSet)}

    def owner(self, kind: str, name: str) -> str:
        """The plugin that declared a name; empty if none did."""
        return self._owners.get((kind, name), "")

    def is_of_third_party(self, kind: str, name: str) -> bool:
        """Whether a plugin that is not part of this project declared a name."""
        return self.owner(kind, name) in self.third_parties


def _which_to_disable(plugin: str, owner: str) -> str:
    first = f"genai-host plugins disable {plugin}"
    if owner == APP:
        return first
    return f"disable one of them: {first}, or: genai-host plugins disable {owner}"
