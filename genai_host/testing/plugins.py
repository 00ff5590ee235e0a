"""A plugin made on the spot."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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
    hookimpl,
)


class MadePlugin:
    """A plugin that declares what it is given.

        Host(discovery=Given({"mine": MadePlugin(features=[feature])}))

    A test that needs further hooks subclasses it.
    """

    def __init__(
        self,
        *,
        providers: Iterable[ProviderType[Any]] = (),
        dialects: Iterable[Dialect[Any, Any]] = (),
        models: Iterable[Model] = (),
        offerings: Iterable[Offering] = (),
        features: Iterable[Feature[Any]] = (),
        tools: Iterable[Tool] = (),
        tool_sources: Iterable[ToolSource | ToolSet[Any]] = (),
        reactions: Iterable[ReactionType] = (),
        parts: Iterable[type[Part]] = (),
        executors: Iterable[ExecutorType[Any]] = (),
        http_routes: Iterable[HttpRoute] = (),
        commands: Iterable[Command] = (),
    ) -> None:
        self._providers = providers
        self._dialects = dialects
        self._models = models
        self._offerings = offerings
        self._features = features
        self._tools = tools
        self._tool_sources = tool_sources
        self._reactions = reactions
        self._parts = parts
        self._executors = executors
        self._http_routes = http_routes
        self._commands = commands

    @hookimpl
    def genai_providers(self) -> Iterable[ProviderType[Any]]:
        return self._providers

    @hookimpl
    def genai_dialects(self) -> Iterable[Dialect[Any, Any]]:
        return self._dialects

    @hookimpl
    def genai_models(self) -> Iterable[Model]:
        return self._models

    @hookimpl
    def genai_offerings(self) -> Iterable[Offering]:
        return self._offerings

    @hookimpl
    def genai_features(self) -> Iterable[Feature[Any]]:
        return self._features

    @hookimpl
    def genai_tools(self) -> Iterable[Tool]:
        return self._tools

    @hookimpl
    def genai_tool_sources(self) -> Iterable[ToolSource | ToolSet[Any]]:
        return self._tool_sources

    @hookimpl
    def genai_reactions(self) -> Iterable[ReactionType]:
        return self._reactions

    @hookimpl
    def genai_parts(self) -> Iterable[type[Part]]:
        return self._parts

    @hookimpl
    def genai_executors(self) -> Iterable[ExecutorType[Any]]:
        return self._executors

    @hookimpl
    def genai_http_routes(self) -> Iterable[HttpRoute]:
        return self._http_routes

    @hookimpl
    def genai_commands(self) -> Iterable[Command]:
        return self._commands
