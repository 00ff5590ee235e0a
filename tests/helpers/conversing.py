"""Conversations with features and models of tests, and their records."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from genai_vendor_mock import MockProvider

from genai_host import Conversation, Host, InMemoryRecord
from genai_host.api import Answer, Feature, FeatureSteps, Message, NoSettings, Prompt
from genai_host.errors import TurnPaused
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost


def says(text: str, **fields: Any) -> Prompt:
    return Prompt([Message("user", text)], **fields)


def answering(answer: Callable[[Any], Answer]) -> Callable[[Any], FeatureSteps]:
    """A feature that answers a turn at once."""

    def respond(turn: Any) -> FeatureSteps:
        yield from ()
        return answer(turn)

    return respond


def host_of(
    make_host: MakeHost, respond: Callable[..., Any], *, settings: type[Any] = NoSettings,
    clock: Any = None, **fields: Any,
) -> Host:  # fmt: skip
    """Return a host with a feature `f` that answers with a function."""
    feature = Feature("f", settings, respond, **fields)
    return make_host(f=InlinePlugin(features=[feature]), clock=clock)


def scripted(host: Host, *replies: Any, feature: str = "chat", **options: Any) -> Conversation:
    """Return a conversation whose model, at the provider `script`, gives these replies."""
    host.instances.add("script", "mock", {"replies": list(replies)})
    return host.open(feature, provider="script", **options)


def mock_of(host: Host, name: str = "script") -> MockProvider:
    provider = host.instances[name].provider
    assert isinstance(provider, MockProvider)
    return provider


def paused(conversation: Conversation, message: Any = "hi") -> Conversation:
    """Say something to a feature that pauses."""
    with pytest.raises(TurnPaused):
        conversation.say(message)
    return conversation


def texts(conversation: Conversation) -> list[str]:
    return [message.text for message in conversation.history]


def recorded(conversation: Conversation) -> InMemoryRecord:
    assert isinstance(conversation.record, InMemoryRecord)
    return conversation.record


def as_json(conversation: Conversation) -> list[Any]:
    """Return the record as JSON, as another process reads it."""
    record: list[Any] = json.loads(json.dumps(recorded(conversation).to_json(), allow_nan=False))
    return record


def reopened(host: Host, record: InMemoryRecord) -> Conversation:
    """Reopen a conversation from its JSON, as another process does."""
    data = json.loads(json.dumps(record.to_json(host.codec), allow_nan=False))
    return host.reopen(InMemoryRecord.from_json(data, host.codec))
