"""The parameters that a model takes, for formats whose requests name some that not every
model has and that may be left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genai_host.api import Operation
from genai_host.errors import NotFound
from genai_host.host import Host
from genai_host.server.asking import FEATURE


def parameters_taken(
    host: Host, model: str | None, operation: Operation = "chat"
) -> Mapping[str, Any]:
    """Name to JSON Schema, of the best route; none of a feature, which has its own. Raises
    `NoRoute`, and `NotFound` for a feature that is not there."""
    if model is not None and model.startswith(FEATURE):
        if operation != "chat" or model.removeprefix(FEATURE) not in host.registry.features:
            raise NotFound(f"there is no model {model!r} for {operation}")
        return {}
    return host.catalog.resolve(model, None, operation)[0].parameters
