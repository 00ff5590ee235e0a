"""The description of the native API holds for what it does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from genai_server.native.openapi import ENDPOINTS, description
from genai_server.routes import NATIVE, ROOT
from openapi_spec_validator import validate

from genai_host.api import Answer, Feature, FeatureSteps, NoSettings, Pause, Progress, Turn
from genai_host.errors import ServiceUnavailable
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.native_api import Api, native_api, served

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
    fits("POST", "/conversations/{id}/turns", api.said(path))
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
    made = InlinePlugin(features=[Feature("waits", NoSettings, waits, roles={})])
    with native_api(make_host, tmp_path, extra=made) as api:
        path = api.opened(feature="waits")
        fits("POST", "/conversations/{id}/turns", api.said(path))
        fits("GET", "/conversations/{id}", api.get(path))
        fits("POST", "/conversations/{id}/abandon", api.post(f"{path}/abandon"))
        api.said(path)
        fits("POST", "/conversations/{id}/resume", api.post(f"{path}/resume", {"result": 3}))
        other = api.opened()
        api.fake.faults[0] = ServiceUnavailable("away")
        heard = [
            *api.events(f"{path}/turns", {"message": "hi"}),
            *api.events(f"{path}/resume", {"result": 3}),
            *api.events(f"{other}/turns", {"message": "hi"}),
            *api.events(f"{other}/turns", {"message": "hi"}),
        ]
        fits("GET", "/conversations/{id}", api.get(other))
    described = DOCUMENT["components"]["schemas"]["TurnEvents"]["properties"]
    assert {name for name, _ in heard} == {*described} - {"reset", "retry"}
    for name, data in heard:
        schema = {**described[name], "components": DOCUMENT["components"]}
        jsonschema.validate(data, schema)


def test_an_error_is_as_described(api: Api) -> None:
    error = api.send("GET", "/conversations/nobody").json()
    jsonschema.validate(error, DOCUMENT["components"]["schemas"]["Problem"])


def test_a_user_is_told_who_they_are(api: Api) -> None:
    with served(api.host, api.fake, "ann") as ann:
        assert ann.get("")["user"] == "ann"
