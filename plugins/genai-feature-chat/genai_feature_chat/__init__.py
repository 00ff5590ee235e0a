"""The feature `chat`, a conversation with a model; and `chat-model`, its profile for programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from genai_feature_chat import chat_model
from genai_feature_chat.chat import Settings, respond
from genai_host.api import Feature, hookimpl

__all__ = ["Settings", "respond"]


@hookimpl
def genai_features() -> Iterable[Feature[Any]]:
    yield Feature(
        "chat",
        Settings,
        respond,
        roles={"main": "chat", "support": "chat"},
        optional_roles={"support"},
        help="chat with a model",
    )
    yield Feature(
        "chat-model",
        chat_model.Settings,
        chat_model.respond,
        roles={"main": "chat", "support": "chat"},
        optional_roles={"support"},
        help="a model for programs: structured output, with a rate limit",
    )
