"""What one plugin declares: asked for once, and looked at before anybody relies on it.

Declarations that are attrs classes look at their fields themselves, when they are made;
here is what those cannot see.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from attrs import frozen

from genai_host.api import (
    Codec,
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
    Serve,
    Tool,
    ToolSet,
    ToolSource,
)
from genai_host.api.messages import PARTS
from genai_host.api.validators import ANY_BY_NAME, OPERATION, SCHEMAS, STRING_SET, TEXT, Must
from genai_host.errors import PluginError
from genai_host.telling import shown

_MOST = 10_000


@frozen(kw_only=True)
class Declarations:
    """What one plugin declares, each a tuple in the plugin's order."""

    providers: tuple[ProviderType[Any], ...] = ()
    dialects: tuple[Dialect[Any, Any], ...] = ()
    models: tuple[Model, ...] = ()
    offerings: tuple[Offering, ...] = ()
    features: tuple[Feature[Any], ...] = ()
    tools: tuple[Tool, ...] = ()
    tool_sources: tuple[ToolSource | ToolSet[Any], ...] = ()
    reactions: tuple[ReactionType, ...] = ()
    parts: tuple[type[Part], ...] = ()
    executors: tuple[ExecutorType[Any], ...] = ()
    http_routes: tuple[HttpRoute, ...] = ()
    commands: tuple[Command, ...] = ()

    def names(self) -> dict[str, list[str]]:
        """Kind to names, for lists; kinds that are empty are left out."""
        names = {
            "providers": [provider.name for provider in self.providers],
            "dialects": [dialect.name for dialect in self.dialects],
            "models": [model.name for model in self.models],
            "offerings": [f"{each.model} at {each.provider}" for each in self.offerings],
            "features": [feature.name for feature in self.features],
            "tools": [tool.name for tool in self.tools],
            "tool_sources": [source.name for source in self.tool_sources],
            "reactions": [reaction.name for reaction in self.reactions],
            "parts": [part.type for part in self.parts],
            "executors": [executor.name for executor in self.executors],
            "http_routes": [f"{route.method} {route.path}" for route in self.http_routes],
            "commands": [command.name for command in self.commands],
        }
        return {kind: list(found) for kind, found in names.items() if found}

    @property
    def size(self) -> int:
        """How much it declares."""
        return sum(map(len, self.names().values()))


def ask(hook: Any) -> Declarations:
    """Ask a plugin that is alone behind these hooks.

    Raises `PluginError` and `TypeError` for what is not what the hooks say, and
    whatever the plugin raises.
    """
    return Declarations(
        providers=_instances(hook.genai_providers, ProviderType),
        dialects=_dialects(hook.genai_dialects),
        models=_instances(hook.genai_models, Model),
        offerings=_instances(hook.genai_offerings, Offering),
        features=_instances(hook.genai_features, Feature),
        tools=_instances(hook.genai_tools, Tool),
        tool_sources=_tool_sources(hook.genai_tool_sources),
        reactions=_instances(hook.genai_reactions, ReactionType),
        parts=_part_classes(hook.genai_parts),
        executors=_instances(hook.genai_executors, ExecutorType),
        http_routes=_instances(hook.genai_http_routes, HttpRoute),
        commands=_instances(hook.genai_commands, Command),
    )


def _instances(hook: Any, *kinds: type) -> tuple[Any, ...]:
    found: list[Any] = []
    for declared in hook():
        if not isinstance(declared, Iterable):
            raise PluginError(f"{hook.name} gives {shown(declared)}, which is no list")
        found.extend(islice(declared, _MOST + 1))  # it may be endless
    if len(found) > _MOST:
        raise PluginError(f"{hook.name} gives more than {_MOST}")
    for item in found:
        if not isinstance(item, kinds):
            names = " and no ".join(kind.__name__ for kind in kinds)
            raise PluginError(f"{hook.name} gives {shown(item)}, which is no {names}")
    return tuple(found)


_OF_DIALECTS = {
    "name": TEXT,
    "operation": OPERATION,
    "endpoint": Must("a Serve", lambda value: isinstance(value, Serve)),
    "capabilities": STRING_SET,
    "parameters": SCHEMAS,
    "variant": ANY_BY_NAME,
}


def _dialects(hook: Any) -> tuple[Dialect[Any, Any], ...]:
    found = _instances(hook, Dialect)
    for dialect in found:
        for name, must in _OF_DIALECTS.items():
            must.check(dialect, name)
    return found


def _tool_sources(hook: Any) -> tuple[ToolSource | ToolSet[Any], ...]:
    found = _instances(hook, ToolSource, ToolSet)
    for source in found:
        TEXT.check(source, "name")
    return found


def _part_classes(hook: Any) -> tuple[type[Part], ...]:
    found = _instances(hook, type)
    for item in found:
        if not issubclass(item, Part) or not isinstance(getattr(item, "type", None), str):
            raise PluginError(f"{hook.name} gives {shown(item)}, which is no subclass of Part")
    if found:
        Codec((*PARTS, *found))  # raises for fields that have no JSON form
    return found
