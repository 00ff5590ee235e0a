"""Whatever clients and users send, what is on record can be listed, summed up, searched and
deleted. A new door is a row of a table here, or of `_REPLIES` in `test_hostile_replies`."""

from __future__ import annotations

import contextlib
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from genai_batch.batch import Batch
from genai_batch.work import Task
from genai_server.routes import own_routes

from genai_host import Config, Host
from genai_host.config import BudgetConfig, BudgetsConfig
from genai_host.errors import ValidationError
from genai_host.serving.router import HttpRoutes
from genai_host_testing import FakeModel
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
    return make_host(
        store=make_store(),
        fake=FakeModel(lambda heard: "found"),
        config=Config(
            models={"chat": "fake"}, budgets=BudgetsConfig(total=BudgetConfig(day_tokens=10**15))
        ),
    )


def test_item_a_no_value_of_a_request_spoils_what_is_derived(
    host: Host, make_store: MakeStore
) -> None:
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
    assert accepted > 100
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


def test_item_a_no_value_of_an_imported_file_spoils_what_is_derived(
    host: Host, make_store: MakeStore
) -> None:
    store, loaded = host.store_for(), 0
    with host.open("chat", "fake") as conversation:
        conversation.say("hi")
    for file in readable(variants(json.loads(json.dumps(store.export(conversation.id))), 1)):
        with contextlib.suppress(ValidationError):
            store.import_conversation(file, CODEC)
            loaded += 1
    assert loaded > 10
    check_store(make_store, store)


def test_item_a_no_value_of_a_row_of_a_batch_spoils_what_is_derived(
    host: Host, make_store: MakeStore, tmp_path: Path
) -> None:
    body = {"model": "fake", "messages": _MESSAGES}
    rows = (
        "hi",
        {
            "id": "a",
            "prompt": "hi",
            "system": "be kind",
            "model": "fake",
            "parameters": {"seed": 1},
        },
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
