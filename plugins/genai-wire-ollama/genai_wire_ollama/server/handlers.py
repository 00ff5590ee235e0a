"""Handlers of chat, generate, embeddings and models.

`/api/embeddings` is the predecessor of `/api/embed`.

Source: Ollama's `docs/api.md`, "Generate a chat completion", "Generate a completion", "Generate
Embeddings", "Generate Embedding", "List Local Models", "Show Model Information", "List Running
Models", "Version"; `api/types.go`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from genai_host import Host
from genai_host.api import (
    EXTRA_BODY,
    Embeddings,
    HttpProblem,
    JsonReader,
    Message,
    RouteRequest,
    RouteResponse,
    body_of,
    json_response,
)
from genai_host.errors import NoRoute, NotFound, ValidationError
from genai_host.serving import (
    ChatRequest,
    ServedModel,
    capabilities,
    complete_texts,
    served_model,
    served_models,
    streamed,
    text_completions,
)
from genai_wire_ollama.dialect.operations import NAME
from genai_wire_ollama.server.replies import (
    LINES,
    SPACE,
    ChatWriter,
    as_message,
    as_response,
    nanoseconds,
    problem_reply,
    reply,
)
from genai_wire_ollama.server.requests import (
    OF_THE_MACHINE,
    drop_others,
    images_in,
    messages_in,
    model_in,
    parameters_in,
    refuse_what_is_not_done,
    schema_in,
    thinking_in,
    tools_in,
)

_MAX = 2048
"""Maximum number of texts per request, similar to that of services."""


def embed(request: RouteRequest, host: Host) -> RouteResponse:
    body = body_of(request)
    sent, model = model_in(body)
    given = body.raw("input")
    texts = [given] if isinstance(given, str) else [*body.texts("input")]
    if len(texts) > _MAX:
        raise ValidationError(f"the number of texts must be at most {_MAX}", path=body.at("input"))
    found = _embedded(texts, body, model, request, host)
    return json_response(
        {
            "model": sent,
            "embeddings": found.vectors,
            "total_duration": nanoseconds(found.seconds),
            "load_duration": 0,
            "prompt_eval_count": found.usage.input_tokens,
        }
    )


def embeddings(request: RouteRequest, host: Host) -> RouteResponse:
    body = body_of(request)
    _, model = model_in(body)
    prompt = body.text("prompt")
    found = _embedded([prompt] if prompt else [], body, model, request, host)
    return json_response({"embedding": found.vectors[0] if found.vectors else []})


def _embedded(
    texts: list[str], body: JsonReader, model: str, request: RouteRequest, host: Host
) -> Embeddings:
    taken = capabilities(host, model, "embed").parameters
    parameters: dict[str, Any] = {}
    options = body.object("options")
    if options is not None:
        names = [name for name in OF_THE_MACHINE if name in options and name in taken]
        parameters = {name: options.raw(name) for name in names}
        options.drop_others()
    dimensions, truncate = body.whole("dimensions"), body.flag("truncate")
    if dimensions:
        parameters["dimensions"] = dimensions
    if truncate is not None and "truncate" in taken:
        parameters["truncate"] = truncate
    drop_others(body)
    if not texts:
        return Embeddings([])
    limits, user = request.limits, request.user
    return host.embed(texts, model=model, parameters=parameters, limits=limits, owner=user)


VERSION = "0.13.5"
"""Version of Ollama whose API this is. Clients detect features by it."""

_NO_TIME = "0001-01-01T00:00:00Z"  # as in Ollama's client
_ARCHITECTURE = "genai-host"
_ABLE: Mapping[str, str] = {"tools": "tools", "images": "vision", "reasoning": "thinking"}
_OPERATIONS: Mapping[str, str] = {"chat": "completion", "embed": "embedding"}


def tags(request: RouteRequest, host: Host) -> RouteResponse:
    """List the models."""
    found = [each for each in served_models(host) if each.operation in _OPERATIONS]
    return json_response({"models": [_listed(each) for each in found]})


def show(request: RouteRequest, host: Host) -> RouteResponse:
    """Describe one model."""
    _, name = model_in(body_of(request))
    model = served_model(host, name)
    if model.operation not in _OPERATIONS:
        raise NotFound(f"{model.name} is not available through this API")
    info: dict[str, Any] = {"general.architecture": _ARCHITECTURE, "general.basename": model.name}
    if model.window is not None:
        info[f"{_ARCHITECTURE}.context_length"] = model.window
    return json_response(
        {
            "modelfile": f"# {model.name}, at {model.owner}\n",
            "parameters": "",
            "template": "",
            "details": _details(model),
            "model_info": info,
            "capabilities": _capabilities(model),
            "modified_at": _NO_TIME,
        }
    )


def running(request: RouteRequest, host: Host) -> RouteResponse:
    """Return no running models: only their providers know which are loaded."""
    return json_response({"models": []})


def version(request: RouteRequest, host: Host) -> RouteResponse:
    return json_response({"version": VERSION})


def pull(request: RouteRequest, host: Host) -> RouteResponse:
    """Answer a request to download a model: there is nothing to do for one that is available."""
    _, name = model_in(body_of(request))
    try:
        served_model(host, name)
    except (NoRoute, NotFound):
        return elsewhere(request, host)
    return json_response({"status": "success"})


def elsewhere(request: RouteRequest, host: Host) -> RouteResponse:
    """Refuse requests to download, create or remove models."""
    message = "models are managed by their providers, not by this server"
    problem = HttpProblem(
        405, "method_not_allowed", message, "list models: genai-host models", headers={"allow": ""}
    )
    return problem_reply(problem)


def _listed(model: ServedModel) -> dict[str, Any]:
    details = _details(model)
    if model.window is not None:
        details["context_length"] = model.window
    return {
        "name": model.name,
        "model": model.name,
        "modified_at": _NO_TIME,
        "size": 0,
        "digest": hashlib.sha256(model.name.encode(errors="surrogatepass")).hexdigest(),
        "details": details,
        "capabilities": _capabilities(model),
    }


def _details(model: ServedModel) -> dict[str, Any]:
    return {
        "parent_model": "",
        "format": "",
        "family": model.owner,
        "families": [model.owner],
        "parameter_size": "",
        "quantization_level": "",
    }


def _capabilities(model: ServedModel) -> list[str]:
    able = [capability for name, capability in _ABLE.items() if name in model.capabilities]
    return [_OPERATIONS[model.operation], *able]


def chat(request: RouteRequest, host: Host) -> RouteResponse:
    """Answer a chat, streamed unless `stream` is false."""
    body = body_of(request)
    sent, model = model_in(body)
    can = capabilities(host, model)
    is_own = can.dialect == NAME and EXTRA_BODY in can.parameters
    body.carry(NAME, lambda: is_own)
    schema = schema_in(body)
    is_streamed = body.flag("stream") is not False
    thoughts, thinking = thinking_in(body, can)
    refuse_what_is_not_done(body)
    messages = messages_in(body)
    tools = tools_in(body)
    parameters = {**parameters_in(body, can.parameters), **thinking, **drop_others(body)}
    writer = ChatWriter(sent, thoughts, as_message, host.clock)
    if not messages:
        return json_response(writer.nothing(what_is_wanted(body)))
    del body  # its values take memory while the service answers
    asked = ChatRequest(
        model=model,
        messages=messages,
        tools=tools,
        schema=schema,
        parameters=parameters,
        stream=is_streamed,
    )
    return reply(writer, host, asked, request)


def what_is_wanted(body: JsonReader) -> str:
    """Return the reason of a request without a message: to load or unload the model. Both have no
    effect, because providers manage their models."""
    return "unload" if body.raw("keep_alive") in (0, "0", "0s") else "load"


def generate(request: RouteRequest, host: Host) -> RouteResponse:
    """Answer a prompt, or fill the gap before a suffix, streamed unless `stream` is false."""
    body = body_of(request)
    sent, model = model_in(body)
    if body.text("suffix"):
        return _filled(body, sent, model, request, host)
    can = capabilities(host, model)
    schema = schema_in(body)
    is_streamed = body.flag("stream") is not False
    thoughts, thinking = thinking_in(body, can)
    refuse_what_is_not_done(body, "template", "raw", "context", "width", "height", "steps")
    system, prompt = body.text("system"), body.text("prompt")
    images = images_in(body)
    parameters = {**parameters_in(body, can.parameters), **thinking}
    drop_others(body)
    writer = ChatWriter(sent, thoughts, as_response, host.clock)
    if not (prompt or images):
        return json_response(writer.nothing(what_is_wanted(body)))
    asked = ChatRequest(
        model=model,
        messages=[
            *([Message("system", system)] if system else []),
            Message("user", [*([prompt] if prompt else []), *images]),
        ],
        schema=schema,
        parameters=parameters,
        stream=is_streamed,
    )
    return reply(writer, host, asked, request)


def _filled(
    body: JsonReader, sent: str, model: str, request: RouteRequest, host: Host
) -> RouteResponse:
    """Answer with the text between a prompt and its suffix, by a service with text completions."""
    can = text_completions(host, model)
    if can is None:
        served_model(host, model)  # raises `NoRoute` for an unknown one
        message = "suffix is not supported here: no provider of the model has text completions"
        raise ValidationError(message, path=body.at("suffix"))
    is_streamed = body.flag("stream") is not False
    unsupported = ("template", "raw", "context", "system", "images", "format", "think")
    refuse_what_is_not_done(body, *unsupported)
    parameters = parameters_in(body, can.parameters)
    drop_others(body)
    answering = complete_texts(
        host,
        request,
        body.text("prompt"),
        model=model,
        suffix=body.text("suffix"),
        parameters=parameters,
        stream=is_streamed,
    )
    writer = ChatWriter(sent, thoughts=True, place=as_response, clock=host.clock)
    if is_streamed:
        return streamed(answering, writer.lines, LINES, SPACE)
    return json_response(writer.whole(answering.finish()))
