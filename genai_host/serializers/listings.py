"""JSON forms of models, providers, features and routes, for the CLI and the API."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import attrs

from genai_host.api import Feature, Model, Provider
from genai_host.api.settings import describe
from genai_host.catalog.join import Candidate
from genai_host.errors import NoRoute
from genai_host.host import Host
from genai_host.providers.instance import ProviderInstance


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
        "window": _window(model, running),
        "can": sorted(model.capabilities),
        "dialects": list(model.dialects),
        "runs": bool(running),
        "providers": sorted({candidate.provider for candidate in running}),
        "parameters": sorted({name for each in running for name in each.parameters}),
    }


def _window(model: Model, running: Sequence[Candidate]) -> int | None:
    """Of the first that would answer: it may be less than the model can have. Where none runs,
    that of the model."""
    return running[0].window if running else model.window


def provider_rows(host: Host) -> list[dict[str, Any]]:
    """All instances; those of a type that no plugin brings come last."""
    rows = [provider_row(host, instance) for instance in host.instances]
    return rows + [absent_row(name, reason) for name, reason in host.instances.unknown.items()]


def provider_row(host: Host, instance: ProviderInstance) -> dict[str, Any]:
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
