"""Whatever clients and users send, and whatever a service replies, what is on record can be listed,
summed up, searched and deleted. A new door is a row of `_REQUESTS` or of `_REPLIES`."""

from __future__ import annotations

import contextlib
import itertools
import json
from pathlib import Path
from typing import Any

import genai_feature_agent
import pytest
from genai_batch.batch import Batch
from genai_batch.work import Task
from genai_server.routes import own_routes

from genai_host import Config, Host
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
from genai_host.errors import GenaiError, ValidationError
from genai_host.serving.router import HttpRoutes
from genai_host_testing import FakeModel, InlinePlugin
from genai_host_testing.internal.faults import HOSTILE, Door, check_store, readable, variants
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.stores import CODEC, MakeStore

pytestmark = pytest.mark.timeout(300)  # thousands of requests

_TEXT = {"type": "text", "text": "hi"}
_IMAGE = {"type": "image", "data": "iVBORw0KGgo=", "media_type": "image/png"}
_FILE = {"type": "file", "data": "aGk=", "media_type": "text/plain", "name": "a.txt"}
_SAID = {"message": {"role": "user", "content": [_TEXT, _IMAGE, _FILE]}, "context": {"a": "b"}}
_OPENED = {
    "feature": "chat",
    "model": "fake",
    "parameters": {"temperature": 1, "stop": ["X"]},
    "settings": {"history_turns": 3},
}
_MESSAGES = [{"role": "system", "content": "be kind"}, {"role": "user", "content": [_TEXT]}]
_INPUT = [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]
_REQUESTS: dict[str, Any] = {
    "POST /api/v1/conversations": {**_OPENED, "title": "a"},
    "PATCH /api/v1/conversations/{}": {"title": "a name"},
    "POST /api/v1/conversations/{}/turns": _SAID,
    "POST /api/v1/jobs": {**_OPENED, **_SAID},
    "POST /v1/chat/completions": {"model": "fake", "messages": _MESSAGES, "metadata": {"a": "b"}},
    "POST /v1/responses": {"model": "fake", "input": _INPUT, "metadata": {"a": "b"}},
    "POST /v1/conversations": {"items": _INPUT, "metadata": {"a": "b"}},
    "POST /v1/messages": {"model": "fake", "max_tokens": 9, "messages": _MESSAGES[1:]},
    "POST /v1beta/models/fake:generateContent": {
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}]
    },
    "POST /api/chat": {"model": "fake", "messages": _MESSAGES[:1], "stream": False},
}
_QUERIES = {
    "/api/v1/conversations": ("limit", "after", "search"),
    "/api/v1/conversations/{}": ("limit", "before", "details"),
    "/api/v1/usage": ("by", "since", "until", "user"),
    "/api/v1/jobs/{}/result": ("wait",),
    "/api/v1/routes": ("model", "provider", "operation"),
}
_NAMES = [json.loads(each) for each in HOSTILE if each.startswith('"')]


@pytest.fixture
def host(make_host: MakeHost, make_store: MakeStore) -> Host:
    budgets = BudgetsConfig(total=BudgetConfig(day_tokens=10**15))
    config = Config(models={"chat": "fake"}, budgets=budgets)
    return make_host(store=make_store(), fake=FakeModel(lambda prompt: "found"), config=config)


def test_item_a_no_value_of_a_request_spoils(host: Host, make_store: MakeStore) -> None:
    store = host.store_for()
    routes = HttpRoutes(host, own_routes())
    mine, another = Door(routes), Door(routes, "ann")
    for door in (mine, another):
        id = door.send("POST", "/api/v1/conversations", _OPENED)[1]["id"]
        assert door.send("POST", f"/api/v1/conversations/{id}/turns", {"message": "hi"})[0] == 200
    theirs = store.for_owner("ann").summary(id)
    id = store.conversations()[0].id
    accepted, jobs = 0, []
    for name, body in _REQUESTS.items():
        method, path = name.format(id).split(" ")
        for number, text in enumerate(itertools.chain([json.dumps(body)], variants(body, 2))):
            status, reply = mine.send(method, path, text)
            assert number or status < 300, (name, reply)
            accepted += status < 300
            jobs += [reply["id"]] if status == 202 else []
            assert store.summary(id).status == "idle"
    assert accepted > 90
    for job in jobs:
        assert mine.send("GET", f"/api/v1/jobs/{job}/result", query={"wait": "30"})[0] != 202
    for odd in _NAMES:
        for path, names in _QUERIES.items():
            for name in names:
                mine.send("GET", path.format(id), query={name: odd})
            mine.send("GET", path.format(odd))
        headers = {"idempotency-key": odd}
        mine.send("POST", f"/api/v1/conversations/{id}/turns", {"message": "hi"}, headers=headers)
        mine.send("POST", "/v1/chat/completions", {"model": f"mock/{odd}", "messages": _MESSAGES})
    routes.close()
    host.close()  # it adds up the calls that are in no event log
    check_store(make_store, store)
    assert store.for_owner("ann").conversations() == [theirs]


def test_item_a_no_value_of_an_imported_file_spoils(host: Host, make_store: MakeStore) -> None:
    store, loaded = host.store_for(), 0
    with host.open("chat", "fake") as conversation:
        conversation.say("hi")
    for file in readable(variants(json.loads(json.dumps(store.export(conversation.id))), 1)):
        with contextlib.suppress(ValidationError):
            store.import_conversation(file, CODEC)
            loaded += 1
    assert loaded > 10
    check_store(make_store, store)


def test_item_a_no_row_of_a_batch_spoils(host: Host, make_store: MakeStore, tmp_path: Path) -> None:
    body = {"model": "fake", "messages": _MESSAGES}
    seed = {"seed": 1}
    rows = (
        "hi",
        {"id": "a", "prompt": "hi", "system": "be kind", "model": "fake", "parameters": seed},
        {"custom_id": "b", "method": "POST", "url": "/v1/chat/completions", "body": body},
    )
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    lines = [text for row in rows for text in (json.dumps(row), *variants(row, 3))]
    source.write_text("\n".join(lines), encoding="utf-8")
    progress = Batch(host, source, output, Task(record=True)).run()
    results = [json.loads(line) for line in output.read_text(encoding="utf-8").split("\n") if line]
    assert len(results) == progress.rows == len(lines)
    assert 10 < progress.failed < len(lines) - 10
    assert all(each.get("response", {}).get("status_code", 200) < 500 for each in results)
    check_store(make_store, host.store_for())


_CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}}
_REPLIES: dict[str, dict[str, Any]] = {
    "openai-chat": {
        "id": "c",
        "model": "m",
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "message": {"role": "assistant", "content": "found", "tool_calls": [_CALL]},
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
        "stop_reason": "tool_use",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "found"},
            {"type": "tool_use", "id": "t", "name": "look", "input": {"a": 1}},
        ],
        "usage": {"input_tokens": 3, "output_tokens": 2, "cache_read_input_tokens": 1},
    },
    "openai-responses": {
        "id": "r",
        "object": "response",
        "status": "completed",
        "output": [
            {
                "type": "message", "id": "m", "role": "assistant", "status": "completed",
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
}  # fmt: skip
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
def test_item_a_no_reply_spoils(make_host: MakeHost, make_store: MakeStore, dialect: str) -> None:
    store = make_store()
    outputs = itertools.cycle(readable(iter(HOSTILE)))
    plugin = InlinePlugin(
        providers=[ProviderType("scripted", NoSettings, Scripted)],
        models=[Model("m", [dialect], capabilities=["tools"])],
        offerings=[Offering("m", "scripted", "m")],
        tools=[Tool("look", "looks", lambda arguments, context: next(outputs), {"type": "object"})],
    )
    config = Config(budgets=BudgetsConfig(total=BudgetConfig(day_tokens=10**15)))
    host = make_host(plugin=plugin, agent=genai_feature_agent, store=store, config=config)
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
