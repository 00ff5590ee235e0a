"""OpenAI's API formats, both sides: requests of clients and requests to services.

dialects `openai-chat`, `openai-completions`, `openai-responses`, `openai-embed`, `openai-moderate`,
         `openai-transcribe`, and token counts
routes   chat completions, completions, responses, conversations, embeddings, moderations,
         transcriptions, files

- `dialect`: writes requests to services, reads their replies
- `server`: reads requests of clients, writes replies
- `responses`: the same for the Responses and Conversations API, with its stored state
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from genai_host.api import Dialect, HttpApi, HttpRoute, hookimpl

_HANDLERS = "genai_wire_openai.server.handlers"
_OPERATIONS = "genai_wire_openai.server.operations"
_RESPONSES = "genai_wire_openai.responses.api:ResponsesApi"
_FILES = "genai_wire_openai.server.files:Files"
_UPLOAD = 129 * 2**20  # a file of 128 MiB, and the form around it
_RECORDING = 26 * 2**20  # bytes; recordings have up to 25 MiB at the service
_SIZE = 32 * 2**20  # bytes, as at the service, because messages can have images
_WITHOUT_VERSION = (
    "audio/transcriptions", "batches", "chat/completions", "completions", "conversations",
    "embeddings", "files", "models", "moderations", "responses",
)  # fmt: skip
"""Paths of clients whose base URL lacks the `/v1`."""


@hookimpl
def genai_dialects() -> Iterable[Dialect[Any, Any]]:
    from genai_wire_openai.dialect.chat import OpenAIChat, OpenAIChatCount
    from genai_wire_openai.dialect.operations import (
        OpenAICompletions,
        OpenAIEmbed,
        OpenAIModerate,
        OpenAITranscribe,
    )
    from genai_wire_openai.dialect.responses import OpenAICount, OpenAIResponses

    yield from (OpenAIChat(), OpenAIResponses(), OpenAIChatCount(), OpenAICount())
    yield from (OpenAICompletions(), OpenAIEmbed(), OpenAIModerate(), OpenAITranscribe())


@hookimpl
def genai_http_apis() -> Iterable[HttpApi]:
    yield HttpApi(
        "openai",
        "genai_wire_openai.server.replies:problem_reply",
        paths="(/v1beta)?/openai(/.*)?",
        shared_paths=f"/v1(/.*)?|/({'|'.join(_WITHOUT_VERSION)})(/.*)?",
        list_models=f"{_HANDLERS}:listed",
        show_model=f"{_HANDLERS}:one",
        aliases={
            "/openai/v1": "/v1",  # Azure and Groq
            "/openai": "/v1",  # Azure with an `api-version`
            "/v1beta/openai": "/v1",  # Google's services
            **{f"/{path}": f"/v1/{path}" for path in _WITHOUT_VERSION},
        },
    )


@hookimpl
def genai_http_routes() -> Iterable[HttpRoute]:
    return _ROUTES


def _large(path: str, handler: str, size: int = _SIZE) -> HttpRoute:
    """A route for bodies with content."""
    return HttpRoute("POST", path, handler, max_body_size=size)


_DEPLOYMENT = "/openai/deployments/{model:path}"  # names may contain slashes
_CONVERSATION = "/v1/conversations/{conversation}"
_ROUTES = (
    _large("/v1/chat/completions", f"{_HANDLERS}:complete"),
    _large("/v1/completions", f"{_OPERATIONS}:complete"),
    _large("/v1/embeddings", f"{_OPERATIONS}:embed"),
    HttpRoute("POST", "/v1/moderations", f"{_OPERATIONS}:moderate"),
    _large("/v1/audio/transcriptions", f"{_OPERATIONS}:transcribe", _RECORDING),
    _large(f"{_DEPLOYMENT}/chat/completions", f"{_HANDLERS}:complete"),
    _large(f"{_DEPLOYMENT}/completions", f"{_OPERATIONS}:complete"),
    _large(f"{_DEPLOYMENT}/embeddings", f"{_OPERATIONS}:embed"),
    _large(f"{_DEPLOYMENT}/audio/transcriptions", f"{_OPERATIONS}:transcribe", _RECORDING),
    _large("/v1/responses", f"{_RESPONSES}.create"),
    _large("/v1/responses/input_tokens", f"{_RESPONSES}.count"),
    _large("/v1/responses/compact", f"{_RESPONSES}.compact"),
    HttpRoute("GET", "/v1/responses/{response}", f"{_RESPONSES}.show"),
    HttpRoute("DELETE", "/v1/responses/{response}", f"{_RESPONSES}.delete"),
    HttpRoute("POST", "/v1/responses/{response}/cancel", f"{_RESPONSES}.cancel"),
    HttpRoute("GET", "/v1/responses/{response}/input_items", f"{_RESPONSES}.input_items"),
    _large("/v1/conversations", f"{_RESPONSES}.create_conversation"),
    HttpRoute("GET", _CONVERSATION, f"{_RESPONSES}.show_conversation"),
    HttpRoute("POST", _CONVERSATION, f"{_RESPONSES}.update_conversation"),
    HttpRoute("DELETE", _CONVERSATION, f"{_RESPONSES}.delete_conversation"),
    HttpRoute("GET", f"{_CONVERSATION}/items", f"{_RESPONSES}.items"),
    _large(f"{_CONVERSATION}/items", f"{_RESPONSES}.add_items"),
    HttpRoute("GET", f"{_CONVERSATION}/items/{{item}}", f"{_RESPONSES}.item"),
    HttpRoute("DELETE", f"{_CONVERSATION}/items/{{item}}", f"{_RESPONSES}.delete_item"),
    _large("/v1/files", f"{_FILES}.create", _UPLOAD),
    HttpRoute("GET", "/v1/files", f"{_FILES}.page", rate_limited=False),
    HttpRoute("GET", "/v1/files/{file}", f"{_FILES}.show", rate_limited=False),
    HttpRoute("DELETE", "/v1/files/{file}", f"{_FILES}.delete"),
    HttpRoute("GET", "/v1/files/{file}/content", f"{_FILES}.content", rate_limited=False),
)
