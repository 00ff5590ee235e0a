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

_HANDLERS: dict[str, dict[str, str]] = {
    "/assistants": {"GET": "assistants.page", "POST": "assistants.create"},
    "/assistants/{assistant}": {
        "GET": "assistants.show",
        "POST": "assistants.update",
        "DELETE": "assistants.delete",
    },
    "/threads": {"POST": "threads.create"},
    "/threads/runs": {"POST": "runs.create_with_thread"},
    "/threads/{thread}": {
        "GET": "threads.show",
        "POST": "threads.update",
        "DELETE": "threads.delete",
    },
    "/threads/{thread}/messages": {"GET": "messages.page", "POST": "threads.add_message"},
    "/threads/{thread}/messages/{message}": {
        "GET": "messages.show",
        "POST": "messages.update",
        "DELETE": "messages.delete",
    },
    "/threads/{thread}/runs": {"GET": "runs.page", "POST": "runs.create"},
    "/threads/{thread}/runs/{run}": {"GET": "runs.show", "POST": "runs.update"},
    "/threads/{thread}/runs/{run}/cancel": {"POST": "runs.cancel"},
    "/threads/{thread}/runs/{run}/submit_tool_outputs": {"POST": "runs.submit"},
    "/threads/{thread}/runs/{run}/steps": {"GET": "steps.page"},
    "/threads/{thread}/runs/{run}/steps/{step}": {"GET": "steps.show"},
    "/vector_stores": {"GET": "vector_stores.page", "POST": "vector_stores.create"},
    "/vector_stores/{store}": {
        "GET": "vector_stores.show",
        "POST": "vector_stores.update",
        "DELETE": "vector_stores.delete",
    },
    "/vector_stores/{store}/search": {"POST": "vector_stores.search"},
    "/vector_stores/{store}/files": {"GET": "store_files.page", "POST": "store_files.create"},
    "/vector_stores/{store}/files/{file}": {
        "GET": "store_files.show",
        "POST": "store_files.update",
        "DELETE": "store_files.delete",
    },
    "/vector_stores/{store}/files/{file}/content": {"GET": "store_files.content"},
    "/vector_stores/{store}/file_batches": {"POST": "store_files.create_batch"},
    "/vector_stores/{store}/file_batches/{batch}": {"GET": "store_files.show_batch"},
    "/vector_stores/{store}/file_batches/{batch}/cancel": {"POST": "store_files.cancel_batch"},
    "/vector_stores/{store}/file_batches/{batch}/files": {"GET": "store_files.page_of_batch"},
}
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
    for path, methods in _HANDLERS.items():
        for method, name in methods.items():
            yield HttpRoute(
                method,  # type: ignore[arg-type] # they are those of the table above
                f"/v1{path}",
                f"genai_feature_assistants.service:AssistantsService.{name}",
                max_body_size=_BODY,
                rate_limited=method != "GET",  # runs are polled
                # with one handler, the worker that continues runs is loaded
                run_at_startup=name == "assistants.page",
            )


@hookimpl
def genai_commands() -> Iterable[Command]:
    yield Command(
        "assistants",
        "List assistants, and run one.",
        "genai_feature_assistants.cli:assistants",
    )
