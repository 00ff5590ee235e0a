"""JSON forms of plugins."""

from __future__ import annotations

from typing import Any

from genai_host.config import Config
from genai_host.plugins.index import InstalledPlugin, LoadResult


def plugin_row(
    found: InstalledPlugin, outcome: LoadResult | None, config: Config
) -> dict[str, Any]:
    """Return the JSON form of a plugin.

    Args:
        found: The plugin.
        outcome: Result of loading it; None if it was not loaded.
        config: The configuration.
    """
    status, reason, fix = "unchecked", "", ""
    blocked = config.blocks(found.name, found.distribution)
    if blocked:
        status, reason = "blocked", blocked
    elif outcome is not None:
        status, reason, fix = outcome.status, outcome.reason, outcome.fix
    return {
        "name": found.name,
        "distribution": found.distribution,
        "version": found.version,
        "status": status,
        "reason": reason,
        "fix": fix,
        "provides": dict(outcome.provides) if outcome and not blocked else {},
        "entry_point": found.value,
        "record": found.record,
    }
