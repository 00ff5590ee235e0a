"""What the plugins declared, by kind and name, and which plugin declared it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from attrs import field, frozen

from genai_host.api import (
    Command,
    Dialect,
    Feature,
    Model,
    Offering,
    Part,
    ProviderType,
)
from genai_host.api.messages import PARTS
from genai_host.errors import PluginError
from genai_host.names import COMMANDS, PLAIN_NAME

_PLAIN_NAME = re.compile(PLAIN_NAME)
_MODEL_NAME = re.compile(r"[^\s\x00-\x1f\x7f]+")


@frozen(kw_only=True)
class Declarations:
    """What one plugin declares, each a tuple in the plugin's order."""

    providers: tuple[ProviderType[Any], ...] = ()
    dialects: tuple[Dialect[Any, Any], ...] = ()
    models: tuple[Model, ...] = ()
    offerings: tuple[Offering, ...] = ()
    features: tuple[Feature[Any], ...] = ()
    parts: tuple[type[Part], ...] = ()
    commands: tuple[Command, ...] = ()

    def names(self) -> dict[str, list[str]]:
        """Kind to names, for lists; kinds that are empty are left out."""
        names = {
            "providers": [provider.name for provider in self.providers],
            "dialects": [dialect.name for dialect in self.dialects],
            "models": [model.name for model in self.models],
            "offerings": [f"{each.model} at {each.provider}" for each in self.offerings],
            "features": [feature.name for feature in self.features],
            "parts": [part.type for part in self.parts],
            "commands": [command.name for command in self.commands],
        }
        return {kind: list(found) for kind, found in names.items() if found}


_PLAIN_KINDS: Mapping[str, Callable[[Declarations], Iterable[str]]] = {
    "provider": lambda declared: (provider.name for provider in declared.providers),
    "dialect": lambda declared: (dialect.name for dialect in declared.dialects),
    "feature": lambda declared: (feature.name for feature in declared.features),
    "command": lambda declared: (command.name for command in declared.commands),
}


@frozen
class Registry:
    """All that is declared. Names are unique by kind: whoever comes second with a
    name is refused as a whole, with the name of who has it."""

    providers: dict[str, ProviderType[Any]] = field(factory=dict)
    dialects: dict[str, Dialect[Any, Any]] = field(factory=dict)
    models: dict[str, Model] = field(factory=dict)
    offerings: list[Offering] = field(factory=list)
    features: dict[str, Feature[Any]] = field(factory=dict)
    parts: list[type[Part]] = field(factory=lambda: list(PARTS))
    commands: dict[str, Command] = field(factory=dict)
    _owners: dict[tuple[str, str], str] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self._owners.update((("message part", part.type), "genai-host") for part in PARTS)
        self._owners.update((("command", name), "genai-host") for name in COMMANDS)

    def add(self, plugin: str, declared: Declarations) -> None:
        """Take in all that a plugin declares, or nothing.

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
                    hint=f"disable one of them: genai-host plugins disable {plugin}",
                )
            claims.add((kind, name))
        self._owners.update((claim, plugin) for claim in claims)
        self.providers.update((each.name, each) for each in declared.providers)
        self.dialects.update((each.name, each) for each in declared.dialects)
        self.models.update((each.name, each) for each in declared.models)
        self.offerings.extend(declared.offerings)
        self.features.update((each.name, each) for each in declared.features)
        self.parts.extend(declared.parts)
        self.commands.update((each.name, each) for each in declared.commands)

    def owner(self, kind: str, name: str) -> str:
        """The plugin that declared it; empty if none did."""
        return self._owners.get((kind, name), "")


def _claims(declared: Declarations) -> Iterator[tuple[str, str]]:
    """Every name that must be unique, with its kind."""
    for kind, names in _PLAIN_KINDS.items():
        for name in names(declared):
            _must_match(_PLAIN_NAME, kind, name)
            yield kind, name
    for part in declared.parts:
        yield "message part", part.type
    for model in declared.models:
        for name in (model.name, *model.aliases):
            _must_match(_MODEL_NAME, "model", name)
            yield "model", name
        for provider in model.at:
            yield "offering", f"{model.name} at {provider}"
    for offering in declared.offerings:
        yield "offering", f"{offering.model} at {offering.provider}"


def _must_match(pattern: re.Pattern[str], kind: str, name: object) -> None:
    if not isinstance(name, str) or not pattern.fullmatch(name):
        raise PluginError(f"{name!r} is no name for a {kind}: it must match {pattern.pattern}")
