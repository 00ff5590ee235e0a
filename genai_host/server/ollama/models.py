"""The models that there are, as Ollama tells of them.

Source: Ollama's `docs/api.md`, "List Local Models", "Show Model Information", "List Running
Models", "Version"; `api/types.go`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from genai_host.api import Problem, RouteReply, RouteRequest, json_reply
from genai_host.api.given import body_of
from genai_host.errors import NotFound
from genai_host.host import Host
from genai_host.server.models import ServedModel, served_model, served_models
from genai_host.server.ollama.names import model_in
from genai_host.server.ollama.problems import problem_reply

VERSION = "0.13.5"
"""Of the Ollama whose API this is: clients look there for what it can do."""

_NO_TIME = "0001-01-01T00:00:00Z"  # as its own client has it
_ARCHITECTURE = "genai-host"
_ABLE: Mapping[str, str] = {"tools": "tools", "images": "vision", "reasoning": "thinking"}
_OPERATIONS: Mapping[str, str] = {"chat": "completion", "embed": "embedding"}


def tags(request: RouteRequest, host: Host) -> RouteReply:
    """All of them."""
    found = [each for each in served_models(host) if each.operation in _OPERATIONS]
    return json_reply({"models": [_listed(each) for each in found]})


def show(request: RouteRequest, host: Host) -> RouteReply:
    """One of them."""
    _, name = model_in(body_of(request))
    model = served_model(host, name)
    if model.operation not in _OPERATIONS:
        raise NotFound(f"{model.name} answers nothing of this API")
    info: dict[str, Any] = {
        "general.architecture": _ARCHITECTURE,
        "general.basename": model.name,
    }
    if model.window is not None:
        info[f"{_ARCHITECTURE}.context_length"] = model.window
    return json_reply(
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


def running(request: RouteRequest, host: Host) -> RouteReply:
    """None: where models run, and whether they are loaded there, is their provider's."""
    return json_reply({"models": []})


def version(request: RouteRequest, host: Host) -> RouteReply:
    return json_reply({"version": VERSION})


def elsewhere(request: RouteRequest, host: Host) -> RouteReply:
    """The reply to who wants to get, make or remove models."""
    message = "models are not managed here, but where they run"
    problem = Problem(
        405, "method_not_allowed", message, "genai-host models lists them", headers={"allow": ""}
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
    able = [word for name, word in _ABLE.items() if name in model.capabilities]
    return [_OPERATIONS[model.operation], *able]
