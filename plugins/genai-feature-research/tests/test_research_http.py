"""The Assistant microservice over HTTP, and entries that are kept by id."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from genai_host import Config
from genai_host.errors import NotFound, RateLimited, ServiceUnavailable
from genai_host.store import Store
from genai_host_testing import RouteServer
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.research_engine import Scene, entries, facts

pytestmark = pytest.mark.part


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.db") as store:
        yield store


@pytest.fixture
def scene(make_host: MakeHost, store: Store) -> Scene:
    return Scene(
        make_host,
        store=store,
        config=Config(models={"chat": "fake", "embed": "words-64"}, aliases={"mine": "fake"}),
    )


@pytest.fixture
def address(scene: Scene) -> Iterator[str]:
    with RouteServer(scene.host) as server:
        yield f"{server.url}/api/assistant"


def events_of(reply: requests.Response) -> list[tuple[str, Any]]:
    events = []
    for block in reply.text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if line[0] != ":")
        if lines:
            events.append((lines["event"], json.loads(lines["data"])))
    return events


def test_item_2_a_request_is_answered(scene: Scene, address: str) -> None:
    body = {
        "input_text": "Where do rivers run to?",
        "conversation_history": entries("Hello", "Hi"),
        "search_history": facts("Rivers run to the sea."),
        "settings": {"answer_with_search": False},
    }
    reply = requests.post(address, json=body, timeout=60)
    assert reply.status_code == 200
    result = reply.json()
    assert result["answer"] == "The answer."
    assert len(result["conversation_history"]) == 4
    assert "Rivers run to the sea." in result["similar_search_results"]


def test_item_1_what_is_wrong_is_a_400_with_its_place(address: str) -> None:
    body = {"input_text": "hi", "settings": {"top_p": 7}}
    reply = requests.post(address, json=body, timeout=60)
    assert reply.status_code == 400
    assert reply.json()["error"]["path"] == "$.settings.top_p"
    assert requests.post(address, data=b"{", timeout=60).status_code == 400


def test_item_7_a_model_that_is_out_is_an_error_of_its_kind(scene: Scene, address: str) -> None:
    body = {"input_text": "hi", "settings": {"answer_with_search": False}}
    for number, (fault, status) in enumerate(
        [(RateLimited("slowly", retry_after=90.0), 429), (ServiceUnavailable("out"), 503)]
    ):
        scene.model.faults = {number: fault}
        assert requests.post(address, json=body, timeout=60).status_code == status


def test_without_a_model_it_is_the_server_that_lacks_one(make_host: MakeHost) -> None:
    scene = Scene(make_host, config=Config(models={"chat": "nobody"}))
    with RouteServer(scene.host) as server:
        reply = requests.post(f"{server.url}/api/assistant", json={"input_text": "a"}, timeout=60)
    assert reply.status_code == 503


def test_an_alias_names_the_model_and_nothing_else_does(address: str) -> None:
    body = {"input_text": "hi", "settings": {"answer_with_search": False}}
    assert requests.post(address, json={**body, "model": "mine"}, timeout=60).status_code == 200
    assert requests.post(address, json={**body, "model": "fake"}, timeout=60).status_code == 400


def test_events_are_streamed_if_accepted(scene: Scene, address: str) -> None:
    headers = {"accept": "text/event-stream"}
    body = {"input_text": "hi", "settings": {"style_pass": True}}
    reply = requests.post(address, json=body, headers=headers, timeout=60)
    assert reply.headers["content-type"] == "text/event-stream"
    events = events_of(reply)
    kinds = [kind for kind, _ in events]
    assert kinds[-1] == "result"
    assert kinds.count("result") == 1
    texts = [data["text"] for kind, data in events if kind == "progress"]
    assert texts[0] == "writing a query"
    assert "".join(data["text"] for kind, data in events if kind == "delta") == "The answer."
    assert events[-1][1]["answer"] == "The answer."


def test_failure_during_stream_is_an_error_event(scene: Scene, address: str) -> None:
    headers = {"accept": "text/event-stream"}
    scene.model.faults = {0: ServiceUnavailable("out")}
    reply = requests.post(address, json={"input_text": "hi"}, headers=headers, timeout=60)
    assert reply.status_code == 200
    kind, data = events_of(reply)[-1]
    assert (kind, data["error"]["code"]) == ("error", "unavailable")
    wrong = requests.post(address, json={"input_text": ""}, headers=headers, timeout=60)
    assert wrong.status_code == 400


def test_item_1_entries_are_kept_and_found_by_id(scene: Scene, address: str) -> None:
    def ask(question: str, history: Any) -> Any:
        body = {
            "input_text": question, "conversation_history": history, "keep_entries": True,
            "settings": {"answer_with_search": False},
        }  # fmt: skip
        reply = requests.post(address, json=body, timeout=60)
        assert reply.status_code == 200, reply.text
        return reply.json()["conversation_history"]

    first = ask("Do rivers run uphill?", entries("Hello", "Hi"))
    assert len(first) == 4
    assert all(isinstance(id, str) for id in first)
    embedded = len(scene.words.embedded)
    second = ask("Do rivers freeze?", first)
    assert second[:4] == first
    assert len(second) == 6
    assert "Do rivers run uphill?" in scene.prompts()[-1]
    assert len(scene.words.embedded) == embedded + 2, "vectors are kept as well"


@pytest.mark.parametrize("form", [lambda rows: rows, "columns", "frame"])
def test_item_1_entries_of_any_table_can_be_kept(scene: Scene, form: Any) -> None:
    rows = entries("Hello", "Hi")
    table: Any = rows
    if form == "columns":
        table = {name: [row[name] for row in rows] for name in rows[0]}
    elif form == "frame":
        import pandas as pd

        table = pd.DataFrame(rows)
    body = {"input_text": "hi", "conversation_history": table, "keep_entries": True}
    ids = scene.assistant().answer(body)["conversation_history"]
    assert len(ids) == 4
    again = scene.assistant().answer({"input_text": "hi", "conversation_history": ids})
    assert again["conversation_history"][:4] == ids


def test_item_1_an_entry_that_is_not_there_is_not_found(scene: Scene, address: str) -> None:
    body = {"input_text": "hi", "conversation_history": ["entry_1"]}
    reply = requests.post(address, json=body, timeout=60)
    assert reply.status_code == 404
    assert "$.conversation_history[0]" in reply.json()["error"]["message"]


def test_item_1_entries_of_somebody_else_are_not_found(scene: Scene) -> None:
    body = {"input_text": "hi", "keep_entries": True}
    ids = scene.assistant(owner="anna").answer(body)["conversation_history"]
    request = {"input_text": "hi", "conversation_history": ids}
    assert scene.assistant(owner="anna").answer(request)
    with pytest.raises(NotFound):
        scene.assistant(owner="bert").answer(request)
