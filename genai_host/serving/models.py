"""What a model or a feature supports, and the list of models in the form of the client's API.

Formats have options that not every model supports: see `Capabilities`. Several APIs have
`GET /v1/models`: see `HttpApi`. `served_models` has the names that are valid as `model` in requests
to these APIs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from attrs import field, frozen

from genai_host.api import Feature, HttpApi, HttpRoute, Operation, RouteRequest, RouteResponse
from genai_host.api.dialects import CAPABILITIES
from genai_host.catalog.catalog import Catalog
from genai_host.catalog.join import Candidate
from genai_host.errors import GenaiError, NoRoute, NotFound
from genai_host.host import Host
from genai_host.serving.apis import api_of, load, unknown_path

FEATURE = "feature:"
"""Prefix of model names that refer to a feature."""


@frozen
class Capabilities:
    """Options that a model or a feature supports.

    Attributes:
        parameters: JSON Schemas of the accepted parameters by name.
        capabilities: Capabilities; see `CAPABILITIES`.
        dialect: Name of the dialect; empty for a feature.
        refused: Parameters that the model itself does not have, at any service.
    """

    parameters: Mapping[str, Any] = field(factory=dict)
    capabilities: frozenset[str] = frozenset(CAPABILITIES)
    dialect: str = ""
    refused: frozenset[str] = frozenset()


def capabilities(host: Host, model: str | None, operation: Operation = "chat") -> Capabilities:
    """The capabilities of the best route of a model, or `feature:NAME`; of the default model if
    None. A feature accepts no model parameters. Raises `NoRoute` if no provider can run the model,
    or the feature is unknown."""
    model = host.default_model(operation).name if model is None else model
    if model.startswith(FEATURE):
        if operation != "chat" or model.removeprefix(FEATURE) not in host.registry.features:
            raise NoRoute(f"unknown model {model!r} for {operation}")
        return Capabilities()
    try:
        best = host.catalog.resolve(model, None, operation)[0]
    except NoRoute:  # keys or weights may have been added since
        best = host.refresh().resolve(model, None, operation)[0]
    refused = frozenset(name for name, schema in best.model.parameters.items() if schema is False)
    return Capabilities(best.parameters, best.capabilities, best.dialect, refused)


def replaced_kinds(host: Host, model: str | None) -> Mapping[str, str]:
    """What replaces tools of services for a model, by kind; nothing for a feature, which has its
    own tools."""
    is_feature = model is not None and model.startswith(FEATURE)
    return {} if is_feature else host.config.server.service_tools


def suspends_for(host: Host, model: str | None, operation: Operation = "chat") -> bool:
    """Whether the server may read a streamed answer of a model in its event loop; see
    `Host.suspends`. False for a model that cannot run, which is reported by its call.
    """
    try:
        return host.suspends(model, operation)
    except GenaiError:
        return False


def text_completions(host: Host, model: str) -> Capabilities | None:
    """The capabilities of the best route for text completions; None if there is none, or another
    provider is preferred for chat.
    """
    try:
        best = host.catalog.resolve(model, None, "complete")[0]
    except NoRoute:  # also of an unknown model, which is reported when it is called
        return None
    with suppress(NoRoute):  # of a model for text completions alone
        if host.catalog.resolve(model, None, "chat")[0].provider != best.provider:
            return None
    return Capabilities(best.parameters, best.capabilities, best.dialect)


@frozen
class ServedModel:
    """An entry of the list of models.

    Attributes:
        name: `model`, `model@provider`, `provider/id`, a model configuration, or `feature:NAME`.
        owner: Name of the provider; `genai-host` for a feature.
        window: Context window in tokens; None if unknown.
        capabilities: Capabilities; see `CAPABILITIES`.
        help: One line; may be empty.
    """

    name: str
    owner: str
    operation: Operation = "chat"
    window: int | None = None
    capabilities: frozenset[str] = frozenset()
    help: str = ""


def served_models(host: Host) -> list[ServedModel]:
    """The models, model configurations and features that can answer, by each of their names.

    Ids of undeclared models, `provider/id`, are not known unless they are configured. Models of
    services that were found to be unreachable are left out.
    """
    found: dict[str, ServedModel] = {}
    catalog = host.probe()
    for name in host.config.configurations:  # they replace models of the same name
        with suppress(GenaiError):  # it cannot run
            found[name] = _resolved(catalog, name)
    for route in _running(catalog):
        for name in (route.model.name, *route.model.aliases, route.name):
            if name not in host.config.configurations:
                found.setdefault(name, _of_route(name, route))
    features = map(_of_feature, host.registry.features.values())
    return [*found.values(), *features]


def _of_feature(feature: Feature[Any]) -> ServedModel:
    return ServedModel(f"{FEATURE}{feature.name}", "genai-host", help=feature.help)


def _running(catalog: Catalog) -> Iterator[Candidate]:
    """Routes of declared models, and of the default models of providers."""
    yield from (route for route in catalog.matrix() if route.runs)
    for provider in catalog.served.values():
        for operation, name in provider.default_models.items():
            with suppress(GenaiError):
                yield from catalog.resolve(name, provider.name, operation)[:1]


def _resolved(catalog: Catalog, name: str) -> ServedModel:
    operation = catalog.model_named(name).operation
    return _of_route(name, catalog.resolve(name, None, operation)[0])


def _of_route(name: str, route: Candidate) -> ServedModel:
    return ServedModel(name, route.provider, route.operation, route.window, route.capabilities)


def served_model(host: Host, name: str) -> ServedModel:
    """A model by its name, also if it is not listed, for example `provider/id`. Raises `NoRoute` if
    the model or the feature is unknown, or cannot run."""
    if not name.startswith(FEATURE):
        return _resolved(host.probe(), name)
    feature = host.registry.features.get(name.removeprefix(FEATURE))
    if feature is None:
        raise NoRoute(f"unknown model {name!r}", hint="GET /v1/models lists them")
    return _of_feature(feature)


_HERE = "genai_host.serving.models"

ROUTES: tuple[HttpRoute, ...] = (
    HttpRoute("GET", "/v1/models", f"{_HERE}:listed"),
    HttpRoute("GET", "/v1/models/{model:path}", f"{_HERE}:one"),  # names may contain slashes
)


def listed(request: RouteRequest, host: Host) -> RouteResponse:
    return _answered(request, host, lambda api: api.list_models)


def one(request: RouteRequest, host: Host) -> RouteResponse:
    """A model of the list. Its name may contain slashes."""
    return _answered(request, host, lambda api: api.show_model)


def _answered(
    request: RouteRequest, host: Host, handler: Callable[[HttpApi], str]
) -> RouteResponse:
    api = api_of(host.registry.http_apis.values(), request.path, request.headers)
    if api is None or not handler(api):
        problem = unknown_path(host, request.path)
        raise NotFound(problem.message, hint=problem.hint)
    reply: RouteResponse = load(handler(api))(request, host)
    return reply
