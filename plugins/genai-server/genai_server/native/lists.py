"""Lists of models, features, plugins, provider types, routes, usage and budgets.

Users see only their own usage and budgets. The operator of the server sees those of all users.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC
from typing import Any, cast, get_args

from genai_host.api import Feature, Operation, RouteRequest, RouteResponse, json_response
from genai_host.api.settings import settings_schema
from genai_host.catalog.catalog import Catalog
from genai_host.catalog.join import Candidate
from genai_host.errors import GenaiError, NotFound, PermissionDenied, ValidationError
from genai_host.host import Host
from genai_host.plugins.index import plugin_row
from genai_host.plugins.results import BlockedPlugin
from genai_host.serializers.conversations import budget_row, day_in, groups_in, usage_row
from genai_host.serializers.listings import feature_row, model_rows, route_row
from genai_host.util.names import __version__
from genai_server.native.fields import read_flag


def usage(request: RouteRequest, host: Host) -> RouteResponse:
    """Return usage. `by` has groupings separated by commas, `since` and `until` are days or
    durations (`7d`), and `user` is for the operator."""
    asked, now = request.query, host.clock.now().astimezone(UTC)
    rows = host.store_for().usage(
        by=groups_in(asked.get("by", "")),
        since=day_in(asked.get("since", ""), now, "?since"),
        until=day_in(asked.get("until", ""), now, "?until"),
        user=_user_in(request),
    )
    return json_response({"data": [usage_row(row) for row in rows]})


def budgets(request: RouteRequest, host: Host) -> RouteResponse:
    if not host.config.budgets.are_kept:
        return json_response({"data": []})
    found = host.budgets.state(request.user) if request.user else host.budgets.states()
    return json_response({"data": [budget_row(budget) for budget in found]})


def _user_in(request: RouteRequest) -> str | None:
    """The user whose usage is returned. Only the operator may select others."""
    wanted = request.query.get("user")
    if not request.user:
        return wanted
    if wanted not in (None, request.user):
        raise PermissionDenied("the usage of other users is private", hint="omit user")
    return request.user


_MAX_ROUTES = 1000
_OPERATIONS = get_args(Operation)


def about(request: RouteRequest, host: Host) -> RouteResponse:
    return json_response(
        {
            "name": "genai-host",
            "version": __version__,
            "user": request.user,
            "keeps": host.store is not None,
        }
    )


def plugins(request: RouteRequest, host: Host) -> RouteResponse:
    rows = [
        plugin_row(
            each.found, None if isinstance(each, BlockedPlugin) else each.outcome(), host.config
        )
        for each in host.plugins.results
    ]
    return json_response({"data": rows})


def features(request: RouteRequest, host: Host) -> RouteResponse:
    found, catalog = host.registry.features.values(), host.probe()
    return json_response({"data": [_feature(host, catalog, each) for each in found]})


def feature(request: RouteRequest, host: Host) -> RouteResponse:
    name = request.parameters["name"]
    found = host.registry.features.get(name)
    if found is None:
        raise NotFound(f"unknown feature {name!r}", hint="GET /api/v1/features lists them")
    return json_response(_feature(host, host.probe(), found))


def _feature(host: Host, catalog: Catalog, feature: Feature[Any]) -> dict[str, Any]:
    reason = ""
    for role, operation in feature.roles.items():
        if role not in feature.optional_roles:
            try:
                catalog.resolve(host.config.models.get(operation), None, operation)
            except GenaiError as error:
                reason = error.message
    return {
        **feature_row(host, feature),
        "settings": settings_schema(feature.settings),
        "runs": not reason,
        "reason": reason,
    }


def models(request: RouteRequest, host: Host) -> RouteResponse:
    return json_response({"data": model_rows(host)})


def providers(request: RouteRequest, host: Host) -> RouteResponse:
    rows = [
        {
            "name": each.name,
            "plugin": host.registry.owner("provider", each.name),
            "settings": settings_schema(each.settings),
        }
        for each in host.registry.providers.values()
    ]
    return json_response({"data": rows})


def routes(request: RouteRequest, host: Host) -> RouteResponse:
    """List routes; those of one model with their parameters. In the list of all, a model
    configuration precedes a model of the same name."""
    model, provider = request.query.get("model"), request.query.get("provider")
    asked = request.query.get("operation", "chat" if model else "")
    if asked and asked not in _OPERATIONS:
        raise ValidationError(
            f"operation must be one of {', '.join(_OPERATIONS)}", path="?operation"
        )
    if model:
        explained = host.probe().explain(model, provider or None, cast("Operation", asked))
        found = [(each.model.name, each.name, each) for each in explained]
    else:
        found = [
            (name, full, each)
            for name, full, each in _all_routes(host)
            if provider in (None, "", each.provider) and asked in ("", each.operation)
        ]
    if read_flag(request, "runs"):
        found = [row for row in found if row[2].runs]
    rows = [
        {
            **route_row(each),
            "model": name,
            "name": full,
            **({"parameters": dict(each.parameters)} if model else {}),
        }
        for name, full, each in found[:_MAX_ROUTES]
    ]
    return json_response({"data": rows, "more": len(found) > _MAX_ROUTES})


def _all_routes(host: Host) -> Iterator[tuple[str, str, Candidate]]:
    """All routes, with the name that selects the model and the name at the provider."""
    configurations, catalog = host.config.configurations, host.probe()
    for name in configurations:
        with suppress(GenaiError):  # it has no route
            operation = catalog.model_named(name).operation
            for each in catalog.explain(name, None, operation):
                yield name, name, each
    for each in catalog.matrix():
        if each.model.name not in configurations:
            yield each.model.name, each.name, each
