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
    from genai_feature_assistants.routes import routes

    yield from routes()


@hookimpl
def genai_commands() -> Iterable[Command]:
    yield Command(
        "assistants",
        "List assistants, and run one.",
        "genai_feature_assistants.cli:assistants",
    )
