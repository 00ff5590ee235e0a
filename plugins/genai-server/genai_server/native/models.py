"""Model configurations: add, change, remove. Changes are written to the configuration file and take
effect immediately."""

from __future__ import annotations

import re
from typing import Any

from genai_host.api import RouteRequest, RouteResponse, json_response
from genai_host.api.json_reader import body_of
from genai_host.config import edit_config, read_config
from genai_host.errors import Conflict, NotFound, ValidationError
from genai_host.host import Host
from genai_host.providers.config_edits import add_model, remove_model, set_model
from genai_host.serializers.listings import configuration_row
from genai_host.util.names import ALIAS
from genai_server.native.providers import check_allowed, config_file_of


def show(request: RouteRequest, host: Host) -> RouteResponse:
    return json_response(configuration_row(host, _name_of(request, host)))


def create(request: RouteRequest, host: Host) -> RouteResponse:
    check_allowed(request, host)
    body = body_of(request)
    name, of = body.text("name"), body.text("of")
    order, parameters = body.texts("provider_order"), body.mapping("parameters")
    body.nothing_else()
    if not re.fullmatch(ALIAS, name):
        raise ValidationError(f"a name must match {ALIAS}", path=body.at("name"))
    if not of:
        raise ValidationError("of must be the name of a model", path=body.at("of"))
    if name in host.config.configurations:
        raise Conflict(f"model configuration {name!r} already exists")
    with edit_config(config_file_of(host)) as document:
        host.check_configuration(name, add_model(document, name, of, order, parameters))
    return json_response(_apply(host, name), 201)


def change(request: RouteRequest, host: Host) -> RouteResponse:
    """Change a configuration. Omitted fields are unchanged; a null parameter is removed."""
    check_allowed(request, host)
    name = _name_of(request, host)
    body = body_of(request)
    of, parameters = body.text("of") or None, body.mapping("parameters")
    order = body.texts("provider_order") if "provider_order" in body else None
    body.nothing_else()
    with edit_config(config_file_of(host)) as document:
        host.check_configuration(name, set_model(document, name, of, order, parameters))
    return json_response(_apply(host, name))


def remove(request: RouteRequest, host: Host) -> RouteResponse:
    check_allowed(request, host)
    name = _name_of(request, host)
    with edit_config(config_file_of(host)) as document:
        remove_model(document, name)
    host.reconfigure(read_config(config_file_of(host)))
    return RouteResponse(status=204)


def _name_of(request: RouteRequest, host: Host) -> str:
    name = request.parameters["name"]
    if name not in host.config.configurations:
        raise NotFound(
            f"unknown model configuration {name!r}", hint="GET /api/v1/models lists them"
        )
    return name


def _apply(host: Host, name: str) -> dict[str, Any]:
    host.reconfigure(read_config(config_file_of(host)))
    return configuration_row(host, name)
