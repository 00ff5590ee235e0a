"""OpenAI's Assistants: the API, served over whatever models the host has, and the agents that
use it.

    agents      the classes that a program holds: an assistant, its definition, its channel
    service     what `genai-host serve` answers under /v1: assistants, threads, runs, files
    assistant   what a run of an assistant says and asks for
    cli         the command `genai-host assistants`
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from genai_host.api import Command, Feature, FeatureSteps, HttpRoute, NoSettings, Turn, hookimpl


def respond(turn: Turn[NoSettings]) -> FeatureSteps:
    """See `assistant.respond`, which is imported when an assistant runs."""
    from genai_feature_assistants import assistant

    return (yield from assistant.respond(turn))


@hookimpl
def genai_features() -> Iterable[Feature[Any]]:
    yield Feature(
        "assistant",
        NoSettings,
        respond,
        roles={"main": "chat"},
        help="what runs of assistants are answered by",
    )


@hookimpl
def genai_http_routes() -> Iterable[HttpRoute]:
    from genai_feature_assistants.routes import routes

    yield from routes()


@hookimpl
def genai_commands() -> Iterable[Command]:
    yield Command(
        "assistants",
        "List assistants, and run one.",
        "genai_feature_assistants.cli:assistants",
    )
