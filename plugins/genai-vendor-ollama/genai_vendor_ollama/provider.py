"""The provider `ollama`: Ollama on this machine, on another, or at ollama.com.

Source: Ollama's `envconfig`, `Host` and `ConnectableHost`, for the address in OLLAMA_HOST;
`docs/api.md`, "List Local Models" and "Show Model Information", and `api/types.go`, of August
2026. Older servers omit the capabilities.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from attrs import evolve
from genai_wire_ollama.dialect.form import error_in, read_object

from genai_host.api import (
    CancelToken,
    DialectEndpoint,
    HttpProvider,
    ListedModel,
    Operation,
    ProviderReply,
    ProviderRequest,
    ReplyStream,
    Services,
    error_of_reply,
    explain_reply,
)
from genai_host.errors import GenaiError, MalformedReply, ServiceUnavailable
from genai_vendor_ollama import OllamaSettings

_CAPABILITIES: Mapping[str, str] = {"tools": "tools", "vision": "images", "thinking": "reasoning"}
_DIALECTS: Mapping[str, tuple[str, ...]] = {
    "completion": ("ollama-chat",),
    "embedding": ("ollama-embed",),
}


def read_list(data: Any) -> list[ListedModel]:
    """Parse the models of `/api/tags`. Raises `MalformedReply`."""
    try:
        return [
            _listed(each.get("model") or each["name"], each, _details(each).get("context_length"))
            for each in data["models"]
        ]
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise MalformedReply(f"the reply is not a list of models: {error!r}") from error


def read_shown(id: str, data: Mapping[str, Any]) -> ListedModel:
    """Parse one model of `/api/show`. Raises `MalformedReply`."""
    try:
        return _listed(id, data, _shown_window(data))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise MalformedReply(f"the reply does not describe a model: {error!r}") from error


def _listed(id: str, data: Mapping[str, Any], window: Any) -> ListedModel:
    window = window if type(window) is int and window > 0 else None
    capabilities = data.get("capabilities")
    if capabilities is None:
        return ListedModel(id, window=window)
    dialects = [name for can in capabilities for name in _DIALECTS.get(can, ())]
    able = {_CAPABILITIES[can] for can in capabilities if can in _CAPABILITIES}
    if "completion" in capabilities:  # a grammar enforces schemas for any of them
        able |= {"schema"}
    return ListedModel(id, dialects, able, window)


def _details(data: Mapping[str, Any]) -> Mapping[str, Any]:
    return data.get("details") or {}


def _shown_window(data: Mapping[str, Any]) -> Any:
    """Return the context window; its key is for example `llama.context_length`."""
    info = data.get("model_info") or {}
    return next((size for name, size in info.items() if name.endswith(".context_length")), None)


_DEFAULT_PORT = 11434
_PORTS: Mapping[str, int] = {"http": 80, "https": 443}
_CLOUD = "ollama.com"


def address_of(host: str) -> str:
    """Return the address for a host; `http://127.0.0.1:11434` for an empty one.

    A host is a name or address, optionally with a scheme, port and path. An invalid port is
    replaced by the default port, and a wildcard address such as `0.0.0.0` by this machine.
    """
    host = host.strip().strip("\"'").strip()
    if host == _CLOUD:
        return f"https://{_CLOUD}"
    scheme, mark, rest = host.partition("://")
    if not mark:
        scheme, rest = "http", host
    place, slash, path = rest.partition("/")
    if "@" in place:  # a password, rejected by the later validation of addresses
        return f"{scheme}://{rest}"
    name, port = _split(place)
    number = _number(port, _PORTS.get(scheme, _DEFAULT_PORT) if mark else _DEFAULT_PORT)
    name = _reachable(name)
    shown = "" if number == _PORTS.get(scheme) else f":{number}"
    return f"{scheme}://{name}{shown}{slash}{path}".rstrip("/")


def is_cloud(name: str | None) -> bool:
    """Whether a host is ollama.com."""
    return name is not None and (name == _CLOUD or name.endswith(f".{_CLOUD}"))


def _split(place: str) -> tuple[str, str]:
    """Split a host and its port; brackets of an IPv6 address are optional without a port."""
    if place.startswith("["):
        name, _, rest = place[1:].partition("]")
        return name, rest.removeprefix(":")
    if place.count(":") == 1:
        name, _, port = place.partition(":")
        return name, port
    return place, ""


def _number(port: str, usual: int) -> int:
    fits = port.isascii() and port.isdigit() and int(port[:6]) <= 65535
    return int(port[:6]) if fits else usual


def _reachable(name: str) -> str:
    """Return a host to connect to, in the form for an address."""
    if not name:
        return "127.0.0.1"
    try:
        ip = ipaddress.ip_address(name)
    except ValueError:
        return name
    if ip.version == 4:
        return "127.0.0.1" if ip.is_unspecified else str(ip)
    return "[::1]" if ip.is_unspecified else f"[{ip}]"


_SHOW = "/api/show"
_NO_THINKING = b"does not support thinking"


class OllamaProvider(HttpProvider):
    """Provider for Ollama. Opening it does not contact the server."""

    call_limits = {"first_token_timeout": 600, "read_timeout": 300, "timeout": 3600}
    """Loading a large model takes minutes without output."""

    def __init__(self, settings: OllamaSettings, services: Services) -> None:
        super().__init__(services, address_of(settings.base_url), key=settings.api_key)
        self._in_cloud = is_cloud(urlsplit(self.base_url).hostname)
        self._ask_each = settings.ask_each
        self.serves = _serves(settings, self._in_cloud)
        self.default_models = _default_models(settings, services.instance)
        self.window = settings.num_ctx

    def unavailable_reason(self) -> str | None:
        if self._in_cloud and not self.has_key:
            return self.services.no_key("OLLAMA_API_KEY")
        return super().unavailable_reason()

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        with self._adding_start_hint():
            reply = super().send(request, limits)
            other = _without_effort(request, reply)
            return reply if other is None else super().send(other, limits)

    def stream(self, request: ProviderRequest, limits: CancelToken) -> ReplyStream | ProviderReply:
        with self._adding_start_hint():
            reply = super().stream(request, limits)
            other = _without_effort(request, reply)
            return reply if other is None else super().stream(other, limits)

    def list_models(self, limits: CancelToken) -> Iterable[ListedModel]:
        with self._adding_start_hint():
            listed = read_list(self.get("/api/tags", limits))
        return [self._asked(each, limits) if self._ask_each else each for each in listed]

    def probe(self, limits: CancelToken) -> Mapping[str, str]:
        """Report models that are not pulled; ollama.com needs no pull."""
        with self._adding_start_hint():
            if self._in_cloud:
                return super().probe(limits)
            return _NotPulled(each.id for each in read_list(self.get("/api/tags", limits)))

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        """Map an error; at ollama.com without the hint to pull the model."""
        error = explain_reply(reply, error_in)
        if error is not None and self._in_cloud and error.status == 404:
            error.hint = f"list the models: genai-host models --provider {self.services.instance}"
        return error

    def _asked(self, listed: ListedModel, limits: CancelToken) -> ListedModel:
        """Add the details of one model."""
        body = {"model": listed.id}
        reply = self.send(ProviderRequest("chat", "", listed.id, body, path=_SHOW), limits)
        if reply.status >= 300:
            raise self.map_error(reply) or error_of_reply(reply)
        return read_shown(listed.id, read_object(reply.body))

    @contextmanager
    def _adding_start_hint(self) -> Iterator[None]:
        try:
            yield
        except ServiceUnavailable as error:
            if not self._in_cloud:
                error.hint = error.hint or "start Ollama: ollama serve"
            raise


def _without_effort(
    request: ProviderRequest, reply: ReplyStream | ProviderReply
) -> ProviderRequest | None:
    """The request to repeat for a model that does not reason, without the effort: many clients
    set one for any model. None if the reply does not say so."""
    if not isinstance(reply, ProviderReply) or reply.status != 400:
        return None
    if not isinstance(request.body.get("think"), str) or _NO_THINKING not in reply.body:
        return None
    return evolve(request, body={name: v for name, v in request.body.items() if name != "think"})


class _NotPulled(Mapping[str, str]):
    """Reasons why models cannot run, by id: all ids except the pulled ones."""

    def __init__(self, pulled: Iterable[str]) -> None:
        self._pulled = frozenset(map(_with_tag, pulled))

    def __getitem__(self, id: str) -> str:
        if _with_tag(id) in self._pulled:
            raise KeyError(id)
        return f"the model is not downloaded: ollama pull {id}"

    def __iter__(self) -> Iterator[str]:
        return iter(())  # the ids that could be pulled are unknown

    def __len__(self) -> int:
        return 0


def _with_tag(id: str) -> str:
    """Add the tag `latest` to a name without a tag, like Ollama."""
    return id if ":" in id.rpartition("/")[2] else f"{id}:latest"


def _serves(settings: OllamaSettings, in_cloud: bool) -> Mapping[str, DialectEndpoint]:
    """Return the endpoints with the user's defaults. At ollama.com no schemas are enforced
    (Ollama's documentation of structured outputs).
    """
    options = dict(settings.options)
    if settings.num_ctx is not None:
        options["num_ctx"] = settings.num_ctx
    variant = {
        "options": options,
        "keep_alive": _duration(settings.keep_alive),
        "truncate": settings.truncate,
    }
    chat = DialectEndpoint(variant=variant, unsupported={"schema"} if in_cloud else ())
    others = evolve(chat, unsupported=())
    return {"ollama-chat": chat, "ollama-embed": others, "ollama-generate": others}


def _duration(keep_alive: str | float) -> str | float:
    """Return a number for a text without a unit: Ollama accepts seconds only as a number."""
    try:
        seconds = float(keep_alive)
    except ValueError:
        return keep_alive
    return seconds if math.isfinite(seconds) else str(keep_alive)


def _default_models(settings: OllamaSettings, instance: str) -> Mapping[Operation, str]:
    named: Mapping[Operation, str] = {
        "chat": settings.default_model,
        "embed": settings.default_embed_model,
    }
    return {operation: f"{instance}/{model}" for operation, model in named.items() if model}
