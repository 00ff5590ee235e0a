"""Models, and where they run."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from genai_host.api import Model
from genai_host.errors import NoRoute
from genai_host.host import Host
from genai_host.join import Candidate


def model_rows(host: Host) -> list[dict[str, Any]]:
    """All that are declared, with the user's own names for them; and what those pass
    through."""
    found: dict[str, list[Candidate]] = {}
    for candidate in host.routes():
        found.setdefault(candidate.model.name, []).append(candidate)
    models = dict(host.catalog.models)  # where there is no provider, none is in a route
    aliases = _aliases(host)
    for name, names in aliases.items():
        if name not in models:  # what an alias passes through is declared nowhere
            models[name] = host.catalog.model_named(names[0])
            found[name] = host.catalog.explain(names[0], None, "chat")
    return [
        _row(host, model, found.get(name, ()), aliases.get(name, ()))
        for name, model in models.items()
    ]


def _aliases(host: Host) -> dict[str, list[str]]:
    """The user's own names by the model that each stands for; those that stand for none
    are left to `doctor`."""
    found: dict[str, list[str]] = {}
    for name in host.config.aliases:
        with contextlib.suppress(NoRoute):
            found.setdefault(host.catalog.model_named(name).name, []).append(name)
    return found


def _row(
    host: Host, model: Model, candidates: Sequence[Candidate], aliases: Sequence[str]
) -> dict[str, Any]:
    running = [candidate for candidate in candidates if candidate.runs]
    return {
        "name": model.name,
        "aliases": [*model.aliases, *aliases],
        "plugin": host.registry.owner("model", model.name),
        "for": model.operation,
        "window": model.window,
        "can": sorted(model.capabilities),
        "dialects": list(model.dialects),
        "runs": bool(running),
        "providers": sorted({candidate.provider for candidate in running}),
        "parameters": sorted({name for each in running for name in each.parameters}),
    }
