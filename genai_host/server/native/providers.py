"""Provider instances: add, change, enable, disable, remove. Changes are written to the
configuration file and take effect immediately."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from genai_host.api import RouteRequest, RouteResponse, Secret, json_response
from genai_host.api.json_reader import body_of
from genai_host.api.json_text import write_json
from genai_host.api.settings import describe
from genai_host.config import edit_config, must_be_writable, read_config
from genai_host.errors import (
    ConfigurationError,
    Conflict,
    NotFound,
    PermissionDenied,
    ValidationError,
)
from genai_host.host import Host
from genai_host.providers.config_edits import (
    add_instance,
    enable_instance,
    remove_instance,
    set_keys,
    type_named,
    unset_keys,
)
from genai_host.providers.instance import ProviderInstance
from genai_host.serializers.listings import absent_row, provider_row
from genai_host.util.names import PLAIN_NAME


def listed(request: RouteRequest, host: Host) -> RouteResponse:
    rows = [instance_row(host, each) for each in host.instances]
    rows += [_absent(name, reason) for name, reason in host.instances.unknown.items()]
    return json_response({"data": rows})


def show(request: RouteRequest, host: Host) -> RouteResponse:
    return json_response(_named(host, request.parameters["name"]))


def create(request: RouteRequest, host: Host) -> RouteResponse:
    must_be_allowed(request, host)
    body = body_of(request)
    name, type = body.text("name"), body.text("type")
    settings, enabled = body.mapping("settings") or {}, body.flag("enabled")
    body.nothing_else()
    if not re.fullmatch(PLAIN_NAME, name):
        raise ValidationError(f"a name must match {PLAIN_NAME}", path=body.at("name"))
    type_named(host.registry.providers, type)
    plain, secrets = _sorted(host, type, settings)
    with edit_config(file_of(host)) as document:
        if name in document.get("providers", {}):
            raise Conflict(f"provider {name!r} already exists")
        add_instance(document, host.registry.providers, name, type, plain)
        if enabled is False:
            enable_instance(document, host.registry.providers, name, enabled=False)
        _keep(host, name, secrets)
    return json_response(_applied(host, name), 201)


def change(request: RouteRequest, host: Host) -> RouteResponse:
    """Change an instance. A null setting is removed."""
    must_be_allowed(request, host)
    name = request.parameters["name"]
    body = body_of(request)
    enabled, settings = body.flag("enabled"), body.mapping("settings") or {}
    body.nothing_else()
    type = instance_named(host, name).type.name
    taken_out = [key for key, value in settings.items() if value is None]
    plain, secrets = _sorted(host, type, {k: v for k, v in settings.items() if v is not None})
    with edit_config(file_of(host)) as document:
        if enabled is not None:
            enable_instance(document, host.registry.providers, name, enabled=enabled)
        if plain:
            values = {f"providers.{name}.{key}": value for key, value in plain.items()}
            set_keys(document, host.registry.providers, values)
        there = document.get("providers", {}).get(name, {})
        unset_keys(document, [f"providers.{name}.{key}" for key in taken_out if key in there])
        _keep(host, name, secrets)
    return json_response(_applied(host, name))


def remove(request: RouteRequest, host: Host) -> RouteResponse:
    """Remove an instance. Its keys remain. If it has the name of its type, its defaults apply
    again."""
    must_be_allowed(request, host)
    name = request.parameters["name"]
    _named(host, name)
    with edit_config(file_of(host)) as document:
        remove_instance(document, name)
    host.instances.unknown.pop(name, None)
    host.instances.configure(name, None)
    return RouteResponse(status=204)


def file_of(host: Host) -> str | None:
    return host.config.file or None


def must_be_allowed(request: RouteRequest, host: Host) -> None:
    if request.user:
        raise PermissionDenied("only the operator of the server can change its configuration")
    try:
        must_be_writable(file_of(host))
    except ConfigurationError as error:
        raise PermissionDenied(error.message, hint=error.hint) from error


def _sorted(
    host: Host, type: str, settings: Mapping[str, Any]
) -> tuple[dict[str, str], dict[str, str]]:
    """Separate settings, as text for the configuration, from secrets. Raises `ValidationError`."""
    known = {each.name: each for each in describe(host.registry.providers[type].settings)}
    plain, secrets = {}, {}
    for name, value in settings.items():
        if name not in known:
            raise ValidationError(
                f"unknown setting {name!r}: choose from {', '.join(known) or '(none)'}",
                path=f"$.settings.{name}",
            )
        if not known[name].secret:
            plain[name] = value if isinstance(value, str) else write_json(value).decode()
        elif isinstance(value, str) and value.strip() and value.isprintable():
            secrets[name] = value.strip()
        else:
            raise ValidationError(
                "a secret must be a string without control characters", path=f"$.settings.{name}"
            )
    return plain, secrets


def _keep(host: Host, name: str, secrets: Mapping[str, str]) -> None:
    """Save secrets as `genai-host keys set` does. The configuration is written only if this
    succeeds."""
    for setting, secret in secrets.items():
        host.keys.set(name, setting, Secret(secret))


def _applied(host: Host, name: str) -> dict[str, Any]:
    host.instances.configure(name, read_config(file_of(host)).providers.get(name))
    return _named(host, name)


def _named(host: Host, name: str) -> dict[str, Any]:
    if name in host.instances.unknown:
        return _absent(name, host.instances.unknown[name])
    return instance_row(host, instance_named(host, name))


def instance_named(host: Host, name: str) -> ProviderInstance:
    if name not in host.instances:
        raise NotFound(f"unknown provider {name!r}", hint="GET /api/v1/providers lists them")
    return host.instances[name]


def instance_row(host: Host, instance: ProviderInstance) -> dict[str, Any]:
    """Return the JSON form of an instance, without secrets."""
    given = instance.config.settings
    settings = {
        each.name: given[each.name]
        for each in describe(instance.type.settings)
        if not each.secret and each.name in given
    }
    row = provider_row(host, instance)
    status = row["status"] if instance.config.enabled else "disabled"
    step = instance.preparation()
    return {
        **row,
        "enabled": instance.config.enabled,
        "settings": settings,
        "status": status,
        "preparation": None if step is None else step.label,
    }


def _absent(name: str, reason: str) -> dict[str, Any]:
    return {**absent_row(name, reason), "enabled": True, "settings": {}, "preparation": None}
