"""Handlers of paths with the name of a deployment, which is the model.

Source: Azure OpenAI REST API reference, "Chat completions - Create",
"Completions - Create", "Embeddings - Create".
"""

from __future__ import annotations

from genai_host import Host
from genai_host.api import RouteRequest, RouteResponse
from genai_host.serving import with_model
from genai_wire_openai.server import completions, handlers


def complete(request: RouteRequest, host: Host) -> RouteResponse:
    """Answer a chat completion of the deployment."""
    return handlers.complete(_of_deployment(request), host)


def complete_prompt(request: RouteRequest, host: Host) -> RouteResponse:
    """Answer a text completion of the deployment."""
    return completions.complete(_of_deployment(request), host)


def embed(request: RouteRequest, host: Host) -> RouteResponse:
    """Answer with vectors of the deployment."""
    return handlers.embed(_of_deployment(request), host)


def _of_deployment(request: RouteRequest) -> RouteRequest:
    return with_model(request, request.parameters["model"])
