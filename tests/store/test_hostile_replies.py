"""Whatever a service replies, what is on record can be listed, summed up, searched and deleted."""

from __future__ import annotations

import contextlib
import itertools
import json
from typing import Any

import genai_feature_agent
import pytest

from genai_host import Config
from genai_host.api import (
    CancelToken,
    DialectEndpoint,
    Model,
    NoSettings,
    Offering,
    Provider,
    ProviderReply,
    ProviderRequest,
    ProviderType,
    Services,
    Tool,
)
from genai_host.config import BudgetConfig, BudgetsConfig
from genai_host.errors import GenaiError
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.faults import HOSTILE, check_store, readable, variants
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.stores import MakeStore

_CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}}
_REPLIES: dict[str, dict[str, Any]] = {
    "openai-chat": {
        "id": "c",
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "found", "tool_calls": [_CALL]},
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {
            "prompt_tokens": 3,
            "completion_tokens": 2,
            "prompt_tokens_details": {"cached_tokens": 1},
            "completion_tokens_details": {"reasoning_tokens": 1},
        },
    },
    "anthropic-messages": {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "found"},
            {"type": "tool_use", "id": "t", "name": "look", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 2, "cache_read_input_tokens": 1},
    },
    "openai-responses": {
        "id": "r",
        "object": "response",
        "status": "completed",
        "output": [
            {
                "type": "message",
                "id": "m",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "found", "annotations": []}],
            },
            {"type": "function_call", "call_id": "f", "name": "look", "arguments": '{"a": 1}'},
        ],
        "usage": {
            "input_tokens": 3,
            "output_tokens": 2,
            "input_tokens_details": {"cached_tokens": 1},
            "output_tokens_details": {"reasoning_tokens": 1},
        },
    },
}


_ENDS: dict[str, dict[str, Any]] = {
    "openai-chat": {"choices": [{"message": {"content": "done"}, "finish_reason": "stop"}]},
    "anthropic-messages": {
        "content": [{"type": "text", "text": "done"}],
        "stop_reason": "end_turn",
    },
    "openai-responses": {
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "done"}]}],
    },
}


class Scripted(Provider):
    """Replies with `body`, and ends the turn with the next reply."""

    serves = dict.fromkeys(_REPLIES, DialectEndpoint())

    def __init__(self, settings: NoSettings, services: Services) -> None:
        self.body = b""

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        body, self.body = self.body, json.dumps(_ENDS[request.dialect]).encode()
        return ProviderReply(body)

    def stream(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        return self.send(request, limits)


@pytest.mark.parametrize("dialect", _REPLIES)
def test_item_a_no_value_of_a_reply_or_a_tool_spoils_what_is_derived(
    make_host: MakeHost, make_store: MakeStore, dialect: str
) -> None:
    store = make_store()
    outputs = itertools.cycle(readable(iter(HOSTILE)))
    plugin = InlinePlugin(
        providers=[ProviderType("scripted", NoSettings, Scripted)],
        models=[Model("m", [dialect], capabilities=["tools"])],
        offerings=[Offering("m", "scripted", "m")],
        tools=[Tool("look", "looks", lambda arguments, context: next(outputs), {"type": "object"})],
    )
    day = BudgetConfig(day_tokens=10**15)
    host = make_host(
        plugin=plugin,
        agent=genai_feature_agent,
        store=store,
        config=Config(budgets=BudgetsConfig(total=day)),
    )
    provider: Any = host.instances["scripted"].provider
    replies, answered = list(variants(_REPLIES[dialect], 1)), 0
    for reply in replies:
        provider.body = reply.encode()
        with host.open("agent", "m") as conversation:
            with contextlib.suppress(GenaiError):
                conversation.say("hi")
                answered += 1
            assert conversation.record_error is None
    assert answered > len(replies) // 3
    [total] = store.usage()
    assert total.calls >= len(replies)
    assert len(store.search("hi", limit=10**6)) == len(replies)
    assert len(check_store(make_store, store)) == len(replies)
