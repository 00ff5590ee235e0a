"""What a model can do, for formats whose requests name things that not every model has and
that may be left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from genai_host.api import Operation
from genai_host.api.dialects import CAPABILITIES
from genai_host.errors import NoRoute, NotFound
from genai_host.host import Host
from genai_host.server.asking import FEATURE


@frozen
class Able:
    """
    parameters     that it takes, name to JSON Schema
    capabilities   as `CAPABILITIES` names them
    """

    parameters: Mapping[str, Any] = field(factory=dict)
    capabilities: frozenset[str] = frozenset(CAPABILITIES)


def able(host: Host, model: str, operation: Operation = "chat") -> Able:
    """What the best route can; a feature takes no parameters that may be left out, as it has
    models of its own. Raises `NoRoute`, and `NotFound` for a feature that is not there."""
    if model.startswith(FEATURE):
        if operation != "chat" or model.removeprefix(FEATURE) not in host.registry.features:
            raise NotFound(f"there is no model {model!r} for {operation}")
        return Able()
    try:
        best = host.catalog.resolve(model, None, operation)[0]
    except NoRoute:  # what it lacked may have come since
        best = host.refresh().resolve(model, None, operation)[0]
    return Able(best.parameters, best.capabilities)
