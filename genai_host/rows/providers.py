"""Provider instances, and what they say of themselves."""

from __future__ import annotations

from typing import Any

import attrs

from genai_host.api import Provider
from genai_host.api.settings import describe
from genai_host.host import Host
from genai_host.instance import Instance


def provider_rows(host: Host) -> list[dict[str, Any]]:
    """All instances; those of a type that no plugin brings come last."""
    rows = [provider_row(host, instance) for instance in host.instances]
    return rows + [absent_row(name, reason) for name, reason in host.instances.unknown.items()]


def provider_row(host: Host, instance: Instance) -> dict[str, Any]:
    served = host.catalog.served[instance.name]
    provider = instance.look()
    reason = served.missing
    return {
        "name": instance.name,
        "type": instance.type.name,
        "plugin": host.registry.owner("provider", instance.type.name),
        "status": "runs" if not reason else "failed",
        "reason": reason,
        "dialects": list(served.serves),
        "default_models": dict(provider.default_models) if isinstance(provider, Provider) else {},
        "settings": [attrs.asdict(setting) for setting in describe(instance.type.settings)],
    }


def absent_row(name: str, reason: str) -> dict[str, Any]:
    """A configured instance of a type that no plugin brings."""
    return {
        "name": name,
        "type": "",
        "plugin": "",
        "status": "failed",
        "reason": reason,
        "dialects": [],
        "default_models": {},
        "settings": [],
    }
