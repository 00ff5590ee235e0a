"""Routes: a model at a provider, and why it cannot run."""

from __future__ import annotations

from typing import Any

from genai_host.join import Candidate


def route_row(candidate: Candidate) -> dict[str, Any]:
    return {
        "model": candidate.model.name,
        "provider": candidate.provider,
        "dialect": candidate.dialect or None,
        "id": candidate.id or None,
        "for": candidate.operation,
        "runs": candidate.runs,
        "reasons": list(candidate.reasons),
        "can": sorted(candidate.capabilities),
        "window": candidate.window,
    }
