"""What calls cost, as programs read it."""

from __future__ import annotations

from typing import Any

import attrs

from genai_host.api import Cost


def cost_row(cost: Cost) -> dict[str, Any] | None:
    """In JSON; None if nothing is known of it."""
    return attrs.asdict(cost) if cost.known else None
