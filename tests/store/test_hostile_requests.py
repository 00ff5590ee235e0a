"""Whatever clients send, what is on record can be listed, summed up, searched and deleted."""

from __future__ import annotations

import contextlib
import json
import random
from typing import Any

from hostile_json import HOSTILE, changed, places

from genai_host.api import RouteRequest
from genai_host.api.cancellation import Cancellation
from genai_host.config import BudgetConfig, BudgetsConfig, Config
from genai_host.errors import ValidationError
from genai_host.server.routes import own_routes
from genai_host.serving.errors import error_reply
from genai_host.serving.router import HttpRoutes
from genai_host.store import Store
from genai_host.testing import FakeModel
from genai_host_testing.fixtures import MakeHost
from genai_host_testing.stores import CODEC, MakeStore, make_store, place, postgres_server

__all__ = ["make_store", "place", "postgres_server"]

_TEXT = {"type": "text", "text": "hi"}
_MESSAGES = [{"role": "system", "content": "be kind"}, {"role": "user", "content": [_TEXT]}]
_INPUT = [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]
_REQUESTS: dict[str, Any] = {
    "POST /api/v1/conversations": {
        "feature": "chat",
        "model": "fake",
        "title": "a",
        "settings": {"history_turns": 3},
    },
    "PATCH /api/v1/conversations/{}": {"title": "a name"},
    "POST /api/v1/conversations/{}/turns": {"message": "hi"},
    "POST /v1/chat/completions": {"model": "fake", "messages": _MESSAGES, "metadata": {"a": "b"}},
    "POST /v1/responses": {"model": "fake", "input": _INPUT, "metadata": {"a": "b"}},
    "POST /v1/conversations": {"items": _INPUT, "metadata": {"a": "b"}},
    "POST /v1/messages": {"model": "fake", "max_tokens": 9, "messages": _MESSAGES[1:]},
    "POST /v1beta/models/fake:generateContent": {
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}]
    },
    "POST /api/chat": {"model": "fake", "messages": _MESSAGES[:1], "stream": False},
}


def _remains(make_store: MakeStore, store: Store) -> None:
    """Everything derived from the store is there, also after a restart."""
    for opened in (store, make_store()):
        listed = opened.conversations(limit=None)
        assert {each.status for each in listed} <= {"idle", "failed", "interrupted"}
        opened.search("hi", limit=10**6)
        assert all(0 <= each.input_tokens < 2**53 for each in opened.usage(by=["day", "user"]))
        health = opened.health()
        assert health is not None
        assert health.faults == ()
    for each in listed:
        json.dumps(store.export(each.id)).encode()
        store.markdown(each.id, CODEC).encode()
        store.delete(each.id)
    assert store.conversations(limit=None) == []


def test_item_a_no_value_of_a_request_spoils_what_is_derived(
    make_host: MakeHost, make_store: MakeStore
) -> None:
    store = make_store()
    host = make_host(
        store=store,
        fake=FakeModel(lambda heard: "found"),
        config=Config(budgets=BudgetsConfig(total=BudgetConfig(day_tokens=10**15))),
    )
    routes = HttpRoutes(host, own_routes(), error_reply)
    chance = random.Random(0)

    def asked(name: str, body: Any) -> int:
        method, path = name.format(id).split(" ")
        with Cancellation() as limits:
            sent = json.dumps(body).encode()
            reply = routes.answer(RouteRequest(method, path, body=sent, limits=limits))
            written = reply.body if isinstance(reply.body, bytes) else b"".join(reply.body)
            assert reply.status < 500, (name, body, written)
            written.decode()
            return reply.status

    with host.open("chat", "fake") as conversation:
        conversation.say("hi")
        id = str(conversation.id)
    accepted = 0
    try:
        for name, body in _REQUESTS.items():
            assert asked(name, body) in (200, 201), name
            for path in places(body):
                for hostile in chance.sample(HOSTILE, 4):
                    accepted += asked(name, changed(body, path, hostile)) < 300
                    assert store.summary(id).status == "idle"
    finally:
        routes.close()
    assert accepted > 15
    _remains(make_store, store)


def test_item_a_no_value_of_an_imported_file_spoils_what_is_derived(
    make_host: MakeHost, make_store: MakeStore
) -> None:
    store = make_store()
    with make_host(store=store, fake=FakeModel(lambda heard: "found")).open(
        "chat", "fake"
    ) as conversation:
        conversation.say("hi")
    file = json.loads(json.dumps(store.export(str(conversation.id))))
    chance, loaded = random.Random(0), 0
    for path in filter(None, places(file)):
        for hostile in chance.sample(HOSTILE, 2):
            with contextlib.suppress(ValidationError):
                store.import_conversation(changed(file, path, hostile), CODEC)
                loaded += 1
    assert loaded > 10
    _remains(make_store, store)
