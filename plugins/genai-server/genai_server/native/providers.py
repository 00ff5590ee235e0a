"""Provider instances: add, change, enable, disable, remove. Changes are written to the
configuration file and take effect immediately.

Also the models of a provider, and its preparation with streamed progress. Source of the stream:
HTML Living Standard, "Server-sent events".
"""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from attrs import asdict

from genai_host.api import (
    CancelToken,
    Operation,
    Preparation,
    PreparationProgress,
    RouteRequest,
    RouteResponse,
    Secret,
    json_response,
)
from genai_host.api.cancellation import Cancellation
from genai_host.api.http_routes import sse_event
from genai_host.api.json_reader import body_of
from genai_host.api.json_text import write_json
from genai_host.api.settings import describe
from genai_host.config import edit_config, must_be_writable, read_config
from genai_host.errors import (
    ConfigurationError,
    Conflict,
    GenaiError,
    NotFound,
    PermissionDenied,
    PluginError,
    ProviderTimeout,
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
from genai_host.serializers.listings import absent_row, listed_rows, provider_row
from genai_host.serving.completion import COMMENT
from genai_host.util.names import PLAIN_NAME
from genai_host.util.text import describe_exception
from genai_server.native.fields import error_json


def listed(request: RouteRequest, host: Host) -> RouteResponse:
    rows = [instance_row(host, each) for each in host.instances]
    rows += [_absent_row(name, reason) for name, reason in host.instances.unknown.items()]
    return json_response({"data": rows})


def show(request: RouteRequest, host: Host) -> RouteResponse:
    return json_response(_row_named(host, request.parameters["name"]))


def create(request: RouteRequest, host: Host) -> RouteResponse:
    check_allowed(request, host)
    body = body_of(request)
    name, type = body.text("name"), body.text("type")
    settings, enabled = body.mapping("settings") or {}, body.flag("enabled")
    body.nothing_else()
    if not re.fullmatch(PLAIN_NAME, name):
        raise ValidationError(f"a name must match {PLAIN_NAME}", path=body.at("name"))
    type_named(host.registry.providers, type)
    plain, secrets = _split_settings(host, type, settings)
    with edit_config(config_file_of(host)) as document:
        if name in document.get("providers", {}):
            raise Conflict(f"provider {name!r} already exists")
        add_instance(document, host.registry.providers, name, type, plain)
        if enabled is False:
            enable_instance(document, host.registry.providers, name, enabled=False)
        _save_secrets(host, name, secrets)
    return json_response(_apply(host, name), 201)


def change(request: RouteRequest, host: Host) -> RouteResponse:
    """Change an instance. A null setting is removed."""
    check_allowed(request, host)
    name = request.parameters["name"]
    body = body_of(request)
    enabled, settings = body.flag("enabled"), body.mapping("settings") or {}
    body.nothing_else()
    type = instance_named(host, name).type.name
    taken_out = [key for key, value in settings.items() if value is None]
    plain, secrets = _split_settings(
        host, type, {k: v for k, v in settings.items() if v is not None}
    )
    with edit_config(config_file_of(host)) as document:
        if enabled is not None:
            enable_instance(document, host.registry.providers, name, enabled=enabled)
        if plain:
            values = {f"providers.{name}.{key}": value for key, value in plain.items()}
            set_keys(document, host.registry.providers, values)
        there = document.get("providers", {}).get(name, {})
        unset_keys(document, [f"providers.{name}.{key}" for key in taken_out if key in there])
        _save_secrets(host, name, secrets)
    return json_response(_apply(host, name))


def remove(request: RouteRequest, host: Host) -> RouteResponse:
    """Remove an instance. Its keys remain. If it has the name of its type, its defaults apply
    again."""
    check_allowed(request, host)
    name = request.parameters["name"]
    _row_named(host, name)
    with edit_config(config_file_of(host)) as document:
        remove_instance(document, name)
    host.instances.unknown.pop(name, None)
    host.instances.configure(name, None)
    return RouteResponse(status=204)


def config_file_of(host: Host) -> str | None:
    return host.config.file or None


def check_allowed(request: RouteRequest, host: Host) -> None:
    if request.user:
        raise PermissionDenied("only the operator of the server can change its configuration")
    try:
        must_be_writable(config_file_of(host))
    except ConfigurationError as error:
        raise PermissionDenied(error.message, hint=error.hint) from error


def _split_settings(
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


def _save_secrets(host: Host, name: str, secrets: Mapping[str, str]) -> None:
    """Save secrets as `genai-host keys set` does. The configuration is written only if this
    succeeds."""
    for setting, secret in secrets.items():
        host.keys.set(name, setting, Secret(secret))


def _apply(host: Host, name: str) -> dict[str, Any]:
    host.instances.configure(name, read_config(config_file_of(host)).providers.get(name))
    return _row_named(host, name)


def _row_named(host: Host, name: str) -> dict[str, Any]:
    if name in host.instances.unknown:
        return _absent_row(name, host.instances.unknown[name])
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


def _absent_row(name: str, reason: str) -> dict[str, Any]:
    return {**absent_row(name, reason), "enabled": True, "settings": {}, "preparation": None}


_LIST_TIMEOUT = 15.0  # seconds
_PREPARE_TIMEOUT = 3600.0  # seconds


def models(request: RouteRequest, host: Host) -> RouteResponse:
    """List the models that a provider reports; `for` is empty if it does not report operations."""
    instance = instance_named(host, request.parameters["name"])
    with _with_timeout(host, request.limits, _LIST_TIMEOUT, "list its models") as limits:
        rows = listed_rows(instance, limits)
    return json_response({"data": [_model_row(host, instance, row) for row in rows]})


def _model_row(host: Host, instance: ProviderInstance, row: dict[str, Any]) -> dict[str, Any]:
    dialects = host.registry.dialects
    operations: set[Operation] = {
        dialects[name].operation for name in row["dialects"] if name in dialects
    }
    return {"name": f"{instance.name}/{row['id']}", **row, "for": sorted(operations)}


def prepare(request: RouteRequest, host: Host) -> RouteResponse:
    """Run the preparation step of a provider. Closing the stream cancels it."""
    if request.user:
        raise PermissionDenied("only the operator of the server can prepare a provider")
    body = body_of(request)
    model = body.text("model")
    body.nothing_else()
    instance = instance_named(host, request.parameters["name"])
    preparation = instance.preparation(_id_of(host, model, instance.name) if model else "")
    if preparation is None:
        raise Conflict(f"provider {instance.name} requires no preparation")

    def row() -> dict[str, Any]:
        host.refresh()
        host.probe(again=instance)
        return instance_row(host, instance)

    stream = PreparationStream(preparation, host, request.limits, row)
    headers = {"content-type": "text/event-stream", "cache-control": "no-store"}
    return RouteResponse(stream, headers=headers, keepalive=COMMENT)


def _id_of(host: Host, model: str, provider: str) -> str:
    """The id of a model at a provider. Raises `NoRoute`."""
    found = host.explain(model, provider)
    return found[0].id if found else ""


class PreparationStream:
    """The body of a reply: events `progress`, and `done` or `error`.

    The step runs in a separate thread, which is cancelled by the limits, by `close`, and after an
    hour.
    """

    def __init__(
        self,
        preparation: Preparation,
        host: Host,
        limits: CancelToken,
        row: Callable[[], dict[str, Any]],
    ) -> None:
        self._row = row
        self._reports: queue.SimpleQueue[PreparationProgress | GenaiError | None]
        self._reports = queue.SimpleQueue()
        self._resources = ExitStack()
        bounded = _with_timeout(host, limits, _PREPARE_TIMEOUT, "become ready")
        self._limits = self._resources.enter_context(bounded)
        self._resources.callback(self._limits.cancel)
        threading.Thread(
            target=self._run, args=(preparation,), name="genai-host-prepare", daemon=True
        ).start()
        self._events = self._generate()

    def __iter__(self) -> Iterator[bytes]:
        return self._events

    def close(self) -> None:
        self._events.close()
        self._resources.close()

    def _run(self, preparation: Preparation) -> None:
        end: GenaiError | None = None
        try:
            preparation.run(self._reports.put, self._limits)
        except GenaiError as error:
            end = error
        except BaseException as error:  # noqa: BLE001 - a plugin may raise anything
            end = PluginError(f"the preparation failed: {describe_exception(error)}")
        self._reports.put(end)

    def _generate(self) -> Generator[bytes, None, None]:
        try:
            while isinstance(report := self._reports.get(), PreparationProgress):
                yield sse_event("progress", asdict(report))
            if report is None:
                yield sse_event("done", self._row())
            else:
                yield sse_event("error", error_json(report))
        finally:
            self._resources.close()


@contextmanager
def _with_timeout(
    host: Host, limits: CancelToken, seconds: float, what: str
) -> Iterator[Cancellation]:
    """A cancellation with the given limits and a timeout."""
    late = ProviderTimeout(f"the provider took more than {seconds:g} s to {what}")
    bound = Cancellation()
    with (
        bound,
        limits.on_cancel(bound.cancel),
        host.clock.call_later(seconds, lambda: bound.cancel(late)),
    ):
        yield bound
