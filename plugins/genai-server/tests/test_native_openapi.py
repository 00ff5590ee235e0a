"""The description of the native API holds for what it does, and its streams end."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import requests
from genai_server.native import api as native
from genai_server.native.openapi import ENDPOINTS, description
from genai_server.routes import NATIVE, ROOT
from openapi_spec_validator import validate

from genai_host import Host
from genai_host.api import (
    Answer,
    CallFunction,
    Cancellation,
    Citation,
    Completion,
    Feature,
    FeatureSteps,
    Message,
    NoSettings,
    Now,
    Pause,
    Progress,
    RouteRequest,
    Text,
    Turn,
)
from genai_host.conversations.transcript import turns_of
from genai_host.errors import Cancelled, GenaiError, Interrupted, ServiceUnavailable
from genai_host.store import Store
from genai_host_testing import FakeModel, InlinePlugin
from genai_host_testing.internal import servers
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.native_api import CONFIG, Api, events_of, native_api, served

pytestmark = pytest.mark.part

DOCUMENT = json.loads(json.dumps(description()))


@pytest.fixture
def api(make_host: MakeHost, tmp_path: Path) -> Iterator[Api]:
    with native_api(make_host, tmp_path) as api:
        yield api


def test_it_is_in_order() -> None:
    validate(DOCUMENT)


def test_every_route_is_described_and_nothing_else() -> None:
    assert {f"{route.method} {route.path.removeprefix(ROOT)}" for route in NATIVE} == {*ENDPOINTS}


def test_it_is_served_with_what_stands_before_all_paths(api: Api) -> None:
    assert api.get("/openapi.json") == DOCUMENT
    assert description("/host")["servers"] == [{"url": "/host"}]


def fits(method: str, path: str, reply: Any, status: int = 200) -> None:
    """Whether a reply is what the document says of it."""
    described = DOCUMENT["paths"][f"{ROOT}{path}"][method.lower()]["responses"][str(status)]
    schema = described["content"]["application/json"]["schema"]
    jsonschema.validate(reply, {**schema, "components": DOCUMENT["components"]})


def test_what_comes_back_is_as_described(api: Api) -> None:
    for path in ("", "/plugins", "/features", "/models", "/provider-types", "/providers"):
        fits("GET", path, api.get(path))
    fits("GET", "/features/{name}", api.get("/features/chat"))
    fits("GET", "/routes", api.get("/routes"))
    fits("GET", "/routes", api.get("/routes?model=fake"))
    fits("GET", "/providers/{name}", api.get("/providers/mock"))
    opened = api.post("/conversations", {"title": "mine"})
    fits("POST", "/conversations", opened, 201)
    path = f"/conversations/{opened['id']}"
    fits("POST", "/conversations/{id}/turns", api.take_turn(path))
    fits("GET", "/conversations/{id}", api.get(f"{path}?details=true"))
    fits("GET", "/conversations", api.get("/conversations"))
    fits("GET", "/conversations", api.get("/conversations?search=hi"))
    fits("PATCH", "/conversations/{id}", api.patch(path, {"title": "x"}))
    fits("POST", "/conversations/{id}/cancel", api.post(f"{path}/cancel"), 202)
    fits("POST", "/conversations/{id}/undo", api.post(f"{path}/undo"))
    job = api.post("/jobs", {"message": "hi"})
    fits("POST", "/jobs", job, 202)
    fits("GET", "/jobs/{id}/result", api.get(f"/jobs/{job['id']}/result?wait=30"))
    fits("GET", "/jobs/{id}", api.get(f"/jobs/{job['id']}"))


def waits(turn: Turn[NoSettings]) -> FeatureSteps:
    yield Progress("it begins", {"of": 2})
    value = yield from Pause("number", {"least": 3})
    return Answer(f"it is {value}")


def test_turns_of_all_kinds_are_as_described(make_host: MakeHost, tmp_path: Path) -> None:
    plugin = InlinePlugin(features=[Feature("waits", NoSettings, waits, roles={})])
    with native_api(make_host, tmp_path, extra=plugin) as api:
        said = Text("cold", citations=[Citation("https://a.example")])
        api.fake.answer = lambda prompt: Completion(Message("assistant", said))
        path = api.opened(feature="waits")
        fits("POST", "/conversations/{id}/turns", api.take_turn(path))
        fits("GET", "/conversations/{id}", api.get(path))
        fits("POST", "/conversations/{id}/abandon", api.post(f"{path}/abandon"))
        api.take_turn(path)
        fits("POST", "/conversations/{id}/resume", api.post(f"{path}/resume", {"result": 3}))
        other = api.opened()
        api.fake.faults[0] = ServiceUnavailable("away")
        events = [
            *api.events(f"{path}/turns", {"message": "hi"}),
            *api.events(f"{path}/resume", {"result": 3}),
            *api.events(f"{other}/turns", {"message": "hi"}),
            *api.events(f"{other}/turns", {"message": "hi"}),
        ]
        fits("GET", "/conversations/{id}", api.get(other))
    described = DOCUMENT["components"]["schemas"]["TurnEvents"]["properties"]
    assert {name for name, _ in events} == {*described} - {"reset", "retry"}
    for name, data in events:
        schema = {**described[name], "components": DOCUMENT["components"]}
        jsonschema.validate(data, schema)


def test_an_error_is_as_described(api: Api) -> None:
    error = api.send("GET", "/conversations/nobody").json()
    jsonschema.validate(error, DOCUMENT["components"]["schemas"]["Problem"])


def test_a_user_is_told_who_they_are(api: Api) -> None:
    with served(api.host, api.fake, "ann") as ann:
        assert ann.get("")["user"] == "ann"


GO_ON = threading.Event()


def pause() -> None:
    assert GO_ON.wait(30)


def pauses(turn: Turn[NoSettings]) -> FeatureSteps:
    yield from Now()  # what is before the first step is not on record
    yield Progress("it begins")
    yield from CallFunction(pause)
    return Answer("it went on")


@pytest.fixture
def host(make_host: MakeHost, tmp_path: Path) -> Iterator[Host]:
    GO_ON.clear()
    feature = Feature("pauses", NoSettings, pauses, roles={})
    with Store(tmp_path / "store.db") as store:
        yield make_host(
            fake=FakeModel(), config=CONFIG, store=store, extra=InlinePlugin(features=[feature])
        )


def test_it_can_be_told_to_be_silent(host: Host) -> None:
    """tests/server/test_faults_behind.py covers the default, which sends comments."""
    received = b""
    with servers.served(host, keepalive_interval=0) as server, requests.Session() as client:
        path = f"{server.url}/api/v1/conversations"
        id = client.post(path, json={"feature": "pauses"}, timeout=30).json()["id"]
        body = {"message": "hi", "stream": True}
        with client.post(f"{path}/{id}/turns", json=body, stream=True, timeout=30) as reply:
            for piece in reply.iter_content(None):
                received += piece
                if received.count(b"event: ") > 1:
                    GO_ON.set()
    assert [name for name, _ in events_of(received)] == ["turn", "progress", "step", "answer"]


def outcome(host: Host, id: str) -> str:
    [turn] = turns_of(host.store_for("").entries(id, host.codec))
    return turn.outcome


def start_turn(host: Host, limits: Cancellation) -> tuple[str, Any]:
    """The id of a conversation with a turn in progress, and its stream."""
    with host.open("pauses", owner="") as conversation:
        id = conversation.id
    body = b'{"message": "hi", "stream": true}'
    reply = native.Api(host).say(RouteRequest("POST", "/x", {"id": id}, body=body, limits=limits))
    assert reply.begin is not None
    reply.begin()
    return id, reply.body


@pytest.mark.parametrize(
    ("reason", "status"),
    [(None, "failed"), (Cancelled("gone"), "failed"), (Interrupted("the end"), "unfinished")],
)
def test_a_stream_that_nobody_reads(host: Host, reason: GenaiError | None, status: str) -> None:
    """The next chunk is not requested, as with a client that reads too slowly."""
    limits = Cancellation()
    id, pieces = start_turn(host, limits)
    assert next(iter(pieces)).startswith(b"event: turn\n")
    if reason is not None:
        limits.cancel(reason)
    pieces.close()
    assert outcome(host, id) == status


def test_a_stream_whose_limits_end_says_so(host: Host) -> None:
    limits = Cancellation()
    id, body = start_turn(host, limits)
    pieces = iter(body)
    begun = [next(pieces), next(pieces)]
    limits.cancel(Interrupted("the end"))
    *_, (name, data) = events_of(b"".join([*begun, *pieces]))
    assert (name, data["code"]) == ("error", "interrupted")
    assert outcome(host, id) == "unfinished"
