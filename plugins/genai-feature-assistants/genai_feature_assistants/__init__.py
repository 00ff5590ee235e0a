"""OpenAI's Assistants: the API, served over any model of the host, and agents that use it.

agents      the classes for programs: an agent, its definition, its channel
service     the API under /v1: assistants, threads, runs, files
assistant   the feature that answers the messages of runs
cli         the command `genai-host assistants`
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from genai_host.api import Command, Feature, FeatureSteps, HttpRoute, NoSettings, Turn, hookimpl

_BODY = 8 * 2**20

_LIST = {"GET": "page", "POST": "create"}
_OBJECT = {"GET": "show", "POST": "update", "DELETE": "delete"}
_STORE, _BATCH = "/vector_stores/{store}", "/vector_stores/{store}/file_batches/{batch}"

_HANDLERS = (
    ("/assistants", "assistants", _LIST),
    ("/assistants/{assistant}", "assistants", _OBJECT),
    ("/threads", "threads", {"POST": "create"}),
    ("/threads/runs", "runs", {"POST": "create_with_thread"}),
    ("/threads/{thread}", "threads", _OBJECT),
    ("/threads/{thread}/messages", "messages", {"GET": "page"}),
    ("/threads/{thread}/messages", "threads", {"POST": "add_message"}),
    ("/threads/{thread}/messages/{message}", "messages", _OBJECT),
    ("/threads/{thread}/runs", "runs", _LIST),
    ("/threads/{thread}/runs/{run}", "runs", {"GET": "show", "POST": "update"}),
    ("/threads/{thread}/runs/{run}/cancel", "runs", {"POST": "cancel"}),
    ("/threads/{thread}/runs/{run}/submit_tool_outputs", "runs", {"POST": "submit"}),
    ("/threads/{thread}/runs/{run}/steps", "steps", {"GET": "page"}),
    ("/threads/{thread}/runs/{run}/steps/{step}", "steps", {"GET": "show"}),
    ("/vector_stores", "vector_stores", _LIST),
    (_STORE, "vector_stores", _OBJECT),
    (f"{_STORE}/search", "vector_stores", {"POST": "search"}),
    (f"{_STORE}/files", "store_files", _LIST),
    (f"{_STORE}/files/{{file}}", "store_files", _OBJECT),
    (f"{_STORE}/files/{{file}}/content", "store_files", {"GET": "content"}),
    (f"{_STORE}/file_batches", "store_files", {"POST": "create_batch"}),
    (_BATCH, "store_files", {"GET": "show_batch"}),
    (f"{_BATCH}/cancel", "store_files", {"POST": "cancel_batch"}),
    (f"{_BATCH}/files", "store_files", {"GET": "page_of_batch"}),
)
"""Handlers of the Assistants API, by path and method. Source: OpenAI's OpenAPI document 2.3.0."""


def respond(turn: Turn[NoSettings]) -> FeatureSteps:
    """Run `assistant.respond`, which is imported when it is first used."""
    from genai_feature_assistants import assistant

    return (yield from assistant.respond(turn))


@hookimpl
def genai_features() -> Iterable[Feature[Any]]:
    yield Feature(
        "assistant",
        NoSettings,
        respond,
        roles={"main": "chat"},
        help="Answers the messages of runs of assistants.",
    )


@hookimpl
def genai_http_routes() -> Iterable[HttpRoute]:
    for path, part, methods in _HANDLERS:
        for method, name in methods.items():
            yield HttpRoute(
                method,  # type: ignore[arg-type] # they are those of the table above
                f"/v1{path}",
                f"genai_feature_assistants.service:AssistantsService.{part}.{name}",
                max_body_size=_BODY,
                rate_limited=method != "GET",  # runs are polled
                # with one handler, the worker that continues runs is loaded
                run_at_startup=path == "/assistants" and method == "GET",
            )


@hookimpl
def genai_commands() -> Iterable[Command]:
    yield Command(
        "assistants",
        "List assistants, and run one.",
        "genai_feature_assistants.cli:assistants",
    )
