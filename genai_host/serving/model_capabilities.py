"""What a model or a feature supports, for formats whose requests can contain options that not every
model supports."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from attrs import field, frozen

from genai_host.api import Operation
from genai_host.api.dialects import CAPABILITIES
from genai_host.errors import GenaiError, NoRoute
from genai_host.host import Host

FEATURE = "feature:"
"""Prefix of model names that refer to a feature."""


@frozen
class Capabilities:
    """Options that a model or a feature supports.

    Attributes:
        parameters: JSON Schemas of the accepted parameters by name.
        capabilities: Capabilities; see `CAPABILITIES`.
        dialect: Name of the dialect; empty for a feature.
    """

    parameters: Mapping[str, Any] = field(factory=dict)
    capabilities: frozenset[str] = frozenset(CAPABILITIES)
    dialect: str = ""


def capabilities(host: Host, model: str | None, operation: Operation = "chat") -> Capabilities:
    """The capabilities of the best route. A feature accepts no model parameters.

    Args:
        host: The host.
        model: Name of the model, or `feature:NAME`; None for the default model.
        operation: Kind of call.

    Raises:
        NoRoute: No provider can run the model, or the feature is unknown.
    """
    model = host.default_model(operation).name if model is None else model
    if model.startswith(FEATURE):
        if operation != "chat" or model.removeprefix(FEATURE) not in host.registry.features:
            raise NoRoute(f"unknown model {model!r} for {operation}")
        return Capabilities()
    try:
        best = host.catalog.resolve(model, None, operation)[0]
    except NoRoute:  # keys or weights may have been added since
        best = host.refresh().resolve(model, None, operation)[0]
    return Capabilities(best.parameters, best.capabilities, best.dialect)


def replaced_kinds(host: Host, model: str | None) -> Collection[str]:
    """The kinds of tools of services that the host replaces for a model; none for a feature, which
    has its own tools."""
    is_feature = model is not None and model.startswith(FEATURE)
    return () if is_feature else host.config.server.service_tools


def suspends_for(host: Host, model: str | None, operation: Operation = "chat") -> bool:
    """Whether the server may read a streamed answer of a model in its event loop; see
    `Host.suspends`. False for a model that cannot run, which is reported by its call.

    Args:
        host: The host.
        model: Name of the model; None for the default model.
        operation: Kind of call.
    """
    try:
        return host.suspends(model, operation)
    except GenaiError:
        return False


def text_completions(host: Host, model: str) -> Capabilities | None:
    """The capabilities of the best route for text completions; None if there is none, or another
    provider is preferred for chat.

    Args:
        host: The host.
        model: Name of the model, or `feature:NAME`.
    """
    try:
        best = host.catalog.resolve(model, None, "complete")[0]
    except NoRoute:  # also of an unknown model, which is reported when it is called
        return None
    with suppress(NoRoute):  # of a model for text completions alone
        if host.catalog.resolve(model, None, "chat")[0].provider != best.provider:
            return None
    return Capabilities(best.parameters, best.capabilities, best.dialect)
