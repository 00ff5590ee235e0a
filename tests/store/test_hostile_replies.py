"""Whatever a service replies, what is on record can be listed, summed up, searched and deleted."""

from __future__ import annotations

import json
import random
from typing import Any

import genai_feature_agent
import pytest
from hostile_json import HOSTILE, changed, places

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
from genai_host.config import BudgetConfig, BudgetsConfig, Config
from genai_host.errors import GenaiError
from genai_host.testing import InlinePlugin
from genai_host_testing.fixtures import MakeHost
from genai_host_testing.stores import MakeStore, make_store, place, postgres_server

__all__ = ["make_store", "place", "postgres_server"]

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
def test_item_a_no_value_of_a_reply_spoils_what_is_derived(
    make_host: MakeHost, make_store: MakeStore, dialect: str
) -> None:
    store = make_store()
    plugin = InlinePlugin(
        providers=[ProviderType("scripted", NoSettings, Scripted)],
        models=[Model("m", [dialect], capabilities=["tools"])],
        offerings=[Offering("m", "scripted", "m")],
        tools=[Tool("look", "looks", lambda arguments, context: "seen", {"type": "object"})],
    )
    day = BudgetConfig(day_tokens=10**15)
    host = make_host(
        plugin=plugin,
        agent=genai_feature_agent,
        store=store,
        config=Config(budgets=BudgetsConfig(total=day)),
    )
    provider: Any = host.instances["scripted"].provider
    chance, asked, answered = random.Random(0), 0, 0
    for path in filter(None, places(_REPLIES[dialect])):
        for hostile in chance.sample(HOSTILE, 4):
            # as from a service: half a surrogate pair is escaped
            provider.body = json.dumps(changed(_REPLIES[dialect], path, hostile)).encode()
            asked += 1
            with host.open("agent", "m") as conversation:
                try:
                    conversation.say("hi")
                    answered += 1
                except GenaiError:
                    pass
    assert answered > asked // 3
    for opened in (store, make_store()):  # as after a restart
        listed = opened.conversations(limit=None)
        assert len(listed) == asked
        assert {each.status for each in listed} <= {"idle", "failed"}
        assert len(opened.search("hi", limit=10**6)) == asked
        assert sum(each.calls for each in opened.usage()) >= asked
        assert all(0 <= each.input_tokens < 2**63 for each in opened.usage())
        health = opened.health()
        assert health is not None
        assert health.faults == ()
    for summary in listed:
        json.dumps(store.export(summary.id)).encode()
        store.delete(summary.id)
    assert store.conversations(limit=None) == []
