"""The hooks: all that a plugin can tell the host, and the host a plugin.

A plugin is an entry point in the group `genai_host` that names a module, or an
object, with functions marked `@hookimpl`. It implements the hooks it needs:

    from genai_host.api import Model, hookimpl

    @hookimpl
    def genai_models():
        yield Model("my-model", dialects=["openai-chat"], at={"openai": "my-model-1"})

Hooks are called when the host starts, so they import nothing heavy and open nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pluggy

from genai_host.api.calls import Completion, RouteInfo, TokenCount, Vectors, Verdict
from genai_host.api.commands import Command
from genai_host.api.dialects import Dialect
from genai_host.api.features import Feature
from genai_host.api.http_routes import HttpRoute
from genai_host.api.messages import Part
from genai_host.api.models import Model, Offering
from genai_host.api.providers import ProviderType
from genai_host.api.reactions import ReactionType
from genai_host.api.tool_sources import ToolSource
from genai_host.api.tools import Tool
from genai_host.names import GROUP

hookspec = pluggy.HookspecMarker(GROUP)
hookimpl = pluggy.HookimplMarker(GROUP)


@hookspec
def genai_api() -> int:
    """The version of this interface that the plugin was written for: `API_VERSION`.
    A plugin that leaves it out is taken to fit."""


@hookspec
def genai_providers() -> Iterable[ProviderType[Any]]:
    """The provider types that the plugin brings."""


@hookspec
def genai_dialects() -> Iterable[Dialect[Any, Any]]:
    """The dialects that the plugin brings."""


@hookspec
def genai_models() -> Iterable[Model]:
    """The models that the plugin declares."""


@hookspec
def genai_offerings() -> Iterable[Offering]:
    """Which provider has which model, under which id."""


@hookspec
def genai_features() -> Iterable[Feature[Any]]:
    """The features that the plugin brings."""


@hookspec
def genai_tools() -> Iterable[Tool]:
    """The tools that the plugin brings, for models to ask for."""


@hookspec
def genai_tool_sources() -> Iterable[ToolSource]:
    """Where the plugin looks for tools that it does not know beforehand."""


@hookspec
def genai_reactions() -> Iterable[ReactionType]:
    """The types of reactions, by which tools tell front ends what to do."""


@hookspec
def genai_parts() -> Iterable[type[Part]]:
    """The kinds of message part that the plugin brings."""


@hookspec
def genai_http_routes() -> Iterable[HttpRoute]:
    """What the plugin answers over HTTP, under paths of its own."""


@hookspec
def genai_commands() -> Iterable[Command]:
    """The subcommands that the plugin adds to the command line."""


@hookspec
def genai_on_change(kind: str, name: str, added: bool) -> None:
    """Something was added to a running host, or removed (`added` is False).

    kind   `provider`: a provider instance
    name   its name
    """


@hookspec
def genai_on_call_start(id: str, route: RouteInfo) -> None:
    """A model is about to be called; `id` pairs the start with its end."""


@hookspec
def genai_on_call_end(
    id: str,
    route: RouteInfo,
    result: Completion | Vectors | Verdict | TokenCount | None,
    error: Exception | None,
    seconds: float,
) -> None:
    """A call has ended, with a result or with an error."""
