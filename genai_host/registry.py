"""What the plugins declared, by kind and name, and which plugin declared it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from attrs import field, frozen

from genai_host.api import (
    Command,
    Dialect,
    ExecutorType,
    Feature,
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
from genai_host.declarations import Declarations
from genai_host.errors import PluginError
from genai_host.names import APP, COMMANDS, HTTP_PATHS, PLAIN_NAME
from genai_host.telling import shown

_PLAIN_NAME = re.compile(PLAIN_NAME)
_LONGEST = 200

_PLAIN_KINDS: Mapping[str, Callable[[Declarations], Iterable[str]]] = {
    "provider": lambda declared: (provider.name for provider in declared.providers),
    "dialect": lambda declared: (dialect.name for dialect in declared.dialects),
    "feature": lambda declared: (feature.name for feature in declared.features),
    "executor": lambda declared: (executor.name for executor in declared.executors),
    "source of tools": lambda declared: (source.name for source in declared.tool_sources),
    "command": lambda declared: (command.name for command in declared.commands),
}


@frozen
class Registry:
    """All that is declared. Names are unique by kind: a plugin claims all of its names
    before any of it is added, and gets all of them or none."""

    providers: dict[str, ProviderType[Any]] = field(factory=dict)
    dialects: dict[str, Dialect[Any, Any]] = field(factory=dict)
    models: dict[str, Model] = field(factory=dict)
    offerings: list[Offering] = field(factory=list)
    features: dict[str, Feature[Any]] = field(factory=dict)
    tools: dict[str, Tool] = field(factory=dict)
    tool_sources: dict[str, ToolSource | ToolSet[Any]] = field(factory=dict)
    reactions: dict[str, ReactionType] = field(factory=dict)
    parts: list[type[Part]] = field(factory=lambda: list(PARTS))
    executors: dict[str, ExecutorType[Any]] = field(factory=dict)
    http_routes: dict[str, HttpRoute] = field(factory=dict)
    commands: dict[str, Command] = field(factory=dict)
    _owners: dict[tuple[str, str], str] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self._owners.update((("message part", part.type), APP) for part in PARTS)
        self._owners.update((("command", name), APP) for name in COMMANDS)

    def claim(self, plugin: str, declared: Declarations) -> None:
        """Take all the names that a plugin declares, or none.

        Raises `PluginError` for a name that is malformed, or taken already.
        """
        claims: set[tuple[str, str]] = set()
        for kind, name in _claims(declared):
            if (kind, name) in claims:
                raise PluginError(f"declares the {kind} {name!r} twice", plugin=plugin)
            owner = self._owners.get((kind, name))
            if owner is not None:
                raise PluginError(
                    f"the {kind} {name!r} is declared by {owner} already",
                    plugin=plugin,
                    hint=_which_to_disable(plugin, owner),
                )
            claims.add((kind, name))
        self._owners.update((claim, plugin) for claim in claims)

    def add(self, declared: Declarations) -> None:
        """Take in what a plugin declares, once it has its names."""
        self.providers.update((each.name, each) for each in declared.providers)
        self.dialects.update((each.name, each) for each in declared.dialects)
        self.models.update((each.name, each) for each in declared.models)
        self.offerings.extend(declared.offerings)
        self.features.update((each.name, each) for each in declared.features)
        self.tools.update((each.name, each) for each in declared.tools)
        self.tool_sources.update((each.name, each) for each in declared.tool_sources)
        self.reactions.update((each.name, each) for each in declared.reactions)
        self.parts.extend(declared.parts)
        self.executors.update((each.name, each) for each in declared.executors)
        self.http_routes.update((each.key, each) for each in declared.http_routes)
        self.commands.update((each.name, each) for each in declared.commands)

    @property
    def tool_sets(self) -> dict[str, ToolSet[Any]]:
        """The sources of tools that have settings."""
        return {name: each for name, each in self.tool_sources.items() if isinstance(each, ToolSet)}

    def owner(self, kind: str, name: str) -> str:
        """The plugin that declared it; empty if none did."""
        return self._owners.get((kind, name), "")


def _which_to_disable(plugin: str, owner: str) -> str:
    first = f"genai-host plugins disable {plugin}"
    if owner == APP:
        return first
    return f"disable one of them: {first}, or: genai-host plugins disable {owner}"


def _claims(declared: Declarations) -> Iterator[tuple[str, str]]:
    """Every name that must be unique, with its kind."""
    for kind, names in _PLAIN_KINDS.items():
        for name in names(declared):
            _must_be_plain(kind, name)
            yield kind, name
    for tool in declared.tools:
        yield "tool", tool.name  # which the class itself has looked at
    for reaction in declared.reactions:
        yield "reaction", reaction.name
    for route in declared.http_routes:
        _must_not_be_the_hosts(route)
        yield "HTTP route", route.key
    for part in declared.parts:
        _must_be_solid("message part", part.type)
        yield "message part", part.type
    for model in declared.models:
        for name in (model.name, *model.aliases):
            _must_be_solid("model", name)
            yield "model", name
        for provider in model.at:
            _must_be_plain("provider", provider)
            yield "offering", f"{model.name} at {provider}"
    for offering in declared.offerings:
        _must_be_solid("model", offering.model)
        _must_be_plain("provider", offering.provider)
        yield "offering", f"{offering.model} at {offering.provider}"


def _must_not_be_the_hosts(route: HttpRoute) -> None:
    if route.path.startswith(("/{", "/v1/{")):
        raise PluginError(f"{shown(route.path)} fits any path: it must begin with a word")
    if route.path in ("/", "/v1"):
        raise PluginError(f"{route.path} is the host's own")
    for path in HTTP_PATHS:
        if f"{route.path}/".startswith(f"{path}/"):
            raise PluginError(f"{shown(route.path)} is the host's own: all of {path} is")


def _must_be_plain(kind: str, name: str) -> None:
    if len(name) > _LONGEST or not _PLAIN_NAME.fullmatch(name):
        raise PluginError(f"{shown(name)} is no name for a {kind}: it must match {PLAIN_NAME}")


def _must_be_solid(kind: str, name: str) -> None:
    if not 0 < len(name) <= _LONGEST or not name.isprintable() or " " in name:
        raise PluginError(
            f"{shown(name)} is no name for a {kind}: it must be printable, without a space, "
            f"and have at most {_LONGEST} characters"
        )
