"""JSON forms of models, providers, features, routes and plugins, for the CLI and the API."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import attrs

from genai_host.api import Feature, Model, Provider
from genai_host.api.cancellation import Cancellation
from genai_host.api.settings import describe
from genai_host.catalog.catalog import Catalog
from genai_host.catalog.join import Candidate
from genai_host.errors import GenaiError, PluginError
from genai_host.host import Host
from genai_host.providers.instance import ProviderInstance


def feature_row(host: Host, feature: Feature[Any]) -> dict[str, Any]:
    """A feature, with its roles and settings."""
    return {
        "name": feature.name,
        "help": feature.help,
        "plugin": host.registry.owner("feature", feature.name),
        "version": feature.version,
        "roles": dict(feature.roles),
        "optional": sorted(feature.optional_roles),
        "settings": [attrs.asdict(setting) for setting in describe(feature.settings)],
    }


_STATES = ("works", "needs", "unreachable", "not offered")


def model_rows(host: Host) -> list[dict[str, Any]]:
    """The model configurations, the declared models with their aliases, and undeclared
    models of aliases. Models whose name is redirected by a configuration are omitted."""
    catalog = host.probe()
    found: dict[str, list[Candidate]] = {}
    for candidate in catalog.matrix():
        found.setdefault(candidate.model.name, []).append(candidate)
    models = dict(catalog.models)  # without a provider, no route has the model
    aliases = _aliases(host)
    for name, names in aliases.items():
        if name not in models:  # the target of an alias need not be declared
            models[name] = catalog.model_named(names[0])
            found[name] = catalog.explain(names[0], None, "chat")
    for name in host.config.configurations:
        if name not in aliases.get(name, ()):
            models.pop(name, None)
    return [
        *(configuration_row(host, name, catalog) for name in host.config.model_configs),
        *(
            _row(host, model, found.get(name, ()), aliases.get(name, ()))
            for name, model in models.items()
        ),
    ]


def configuration_row(host: Host, name: str, catalog: Catalog | None = None) -> dict[str, Any]:
    """A model configuration in the form of its model. If that is missing, it cannot run."""
    catalog = catalog or host.probe()
    config = host.config.configurations[name]
    model, found, reason = Model(name, dialects=()), [], ""
    try:
        model = catalog.model_named(name)
        found = catalog.explain(name, None, model.operation)
    except GenaiError as error:
        reason = error.message
    return {
        **_row(host, model, found),
        "name": name,
        "aliases": [],
        "configuration": {
            "of": config.of,
            "provider_order": list(config.provider_order),
            "parameters": dict(config.parameters),
            "reason": reason,
        },
    }


def _aliases(host: Host) -> dict[str, list[str]]:
    """The user's aliases by model. Invalid aliases are reported by `doctor`."""
    found: dict[str, list[str]] = {}
    for name in host.config.aliases:
        with contextlib.suppress(GenaiError):
            found.setdefault(host.catalog.model_named(name).name, []).append(name)
    return found


def _row(
    host: Host, model: Model, candidates: Sequence[Candidate], aliases: Sequence[str] = ()
) -> dict[str, Any]:
    names = host.config.configurations
    running = [candidate for candidate in candidates if candidate.runs]
    best = min(candidates, key=lambda each: _STATES.index(each.state), default=None)
    return {
        "name": model.name,
        "aliases": [*(each for each in model.aliases if each not in names), *aliases],
        "plugin": host.registry.owner("model", model.name),
        "for": model.operation,
        "window": running[0].window if running else model.window,  # may be less than the model's
        "can": sorted(model.capabilities),
        "dialects": list(model.dialects),
        "runs": bool(running),
        "state": best.state if best else "not offered",
        "reason": "" if running or not best else "; ".join(best.reasons),
        "providers": sorted({candidate.provider for candidate in running}),
        "parameters": sorted({name for each in running for name in each.parameters}),
        "configuration": None,
    }


def listed_rows(
    instance: ProviderInstance, above: Cancellation | None = None
) -> list[dict[str, Any]]:
    """The models that a provider lists, queried within its call limits. Raises `PluginError` if the
    plugin failed, or the error of the query."""
    try:
        with Cancellation(above) as cancellation, instance.attempt(cancellation) as attempt:
            attempt.watch.wait()
            return [
                {
                    "id": each.id,
                    "dialects": list(each.dialects or ()),
                    "can": sorted(each.capabilities or ()),
                    "window": each.window,
                }
                for each in attempt.provider.list_models(attempt.limits)
            ]
    except GenaiError as error:
        raise error.located(provider=instance.name) from error.__cause__
    except Exception as error:  # a plugin may raise anything
        raise PluginError(
            f"{instance.name} cannot list its models: {type(error).__name__}: {error}",
            provider=instance.name,
            hint="this is a fault of a plugin; -v shows where",
        ) from error


def provider_rows(host: Host) -> list[dict[str, Any]]:
    """The JSON forms of all instances; those of unknown types come last."""
    catalog = host.probe()
    rows = [provider_row(host, instance, catalog) for instance in host.instances]
    return rows + [absent_row(name, reason) for name, reason in host.instances.unknown.items()]


def provider_row(
    host: Host, instance: ProviderInstance, catalog: Catalog | None = None
) -> dict[str, Any]:
    """An instance, with its probed status."""
    served = (catalog or host.probe()).served[instance.name]
    provider = instance.look()
    return {
        "name": instance.name,
        "type": instance.type.name,
        "plugin": host.registry.owner("provider", instance.type.name),
        "status": served.state,
        "reason": served.unavailable_reason,
        "dialects": list(served.serves),
        "default_models": dict(provider.default_models) if isinstance(provider, Provider) else {},
        "settings": [attrs.asdict(setting) for setting in describe(instance.type.settings)],
    }


def absent_row(name: str, reason: str) -> dict[str, Any]:
    """A configured instance of an unknown type."""
    return {
        "name": name,
        "type": "",
        "plugin": "",
        "status": "needs",
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
        "state": candidate.state,
        "reasons": list(candidate.reasons),
        "can": sorted(candidate.capabilities),
        "window": candidate.window,
    }
