"""Features: what can be conversed with."""

from __future__ import annotations

from typing import Any

import attrs

from genai_host.api import Feature
from genai_host.api.settings import describe
from genai_host.host import Host


def feature_row(host: Host, feature: Feature[Any]) -> dict[str, Any]:
    """With its roles and settings."""
    return {
        "name": feature.name,
        "help": feature.help,
        "plugin": host.registry.owner("feature", feature.name),
        "version": feature.version,
        "roles": dict(feature.roles),
        "optional": sorted(feature.optional),
        "settings": [attrs.asdict(setting) for setting in describe(feature.settings)],
    }
