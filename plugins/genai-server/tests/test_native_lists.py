"""Lists of what there is, and instances of providers, over the native API."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import requests
from attrs import define, field, frozen
from genai_server.native.openapi import description

from genai_host import Host
from genai_host.api import (
    CancelToken,
    DialectEndpoint,
    ListedModel,
    NoSettings,
    Preparation,
    PreparationProgress,
    Provider,
    ProviderReply,
    ProviderRequest,
    ProviderType,
    Secret,
)
from genai_host.api.settings import settings_schema
from genai_host.config import read_config
from genai_host.errors import ConfigurationError, ServiceUnavailable
from genai_host.serving.models import served_models
from genai_host_testing import FakeModel, InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.native_api import Api, events_of, native_api, served
from genai_host_testing.suites.base import has_type

pytestmark = pytest.mark.part


Report = Callable[[PreparationProgress], None]


@define
class Shelf:
    """What a provider that needs weights has, and what its step does."""

    is_there: bool = False
    model_ids: list[str] = field(factory=list)
    run: Callable[[Report, CancelToken], None] | None = None
    listed: Callable[[CancelToken], Any] = lambda limits: ()

    def get(self, report: Report, limits: CancelToken) -> None:
        report(PreparationProgress("Downloading", 1, 2))
        if self.run is not None:
            self.run(report, limits)
        self.is_there = True


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def needy(shelf: Shelf) -> InlinePlugin:
    class Needy(Provider):
        serves: Mapping[str, DialectEndpoint] = {"openai-chat": DialectEndpoint()}

        def unavailable_reason(self) -> str | None:
            return None if shelf.is_there else "the weights are missing"

        def preparation(self, model_id: str = "") -> Preparation | None:
            shelf.model_ids.append(model_id)
            return None if shelf.is_there else Preparation("Download it (2 MB)", shelf.get)

        def list_models(self, limits: CancelToken) -> Any:
            return shelf.listed(limits)

        def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
            raise NotImplementedError

        stream = send

    kind = ProviderType("needy", NoSettings, lambda settings, services: Needy())
    return InlinePlugin(providers=[kind])


@pytest.fixture
def api(make_host: MakeHost, tmp_path: Path, needy: InlinePlugin) -> Iterator[Api]:
    import genai_vendor_openai

    with native_api(make_host, tmp_path, openai=genai_vendor_openai, needy=needy) as api:
        yield api


def test_lists_contain_declared_items(api: Api) -> None:
    assert api.get("")["keeps"] is True
    assert {"mock", "chat", "fake"} <= {row["name"] for row in api.get("/plugins")["data"]}
    assert "chat" in [row["name"] for row in api.get("/features")["data"]]
    assert api.get("/features/chat")["runs"] is True
    assert "fake" in [row["name"] for row in api.get("/models")["data"]]
    assert "openai" in [row["name"] for row in api.get("/provider-types")["data"]]
    assert api.refused("GET", "/features/nobody") == (404, "not_found")


def test_settings_have_a_schema_and_secrets_are_only_written(api: Api) -> None:
    [openai] = [row for row in api.get("/provider-types")["data"] if row["name"] == "openai"]
    key = openai["settings"]["properties"]["api_key"]
    assert key["writeOnly"] is True
    chat = api.get("/features/chat")["settings"]["properties"]
    assert chat["keep_history"]["type"] == "boolean"
    assert chat["keep_history"]["default"] is True
    assert chat["keep_history"]["description"]


def test_item_9_each_setting_of_what_is_installed_has_a_type() -> None:
    """One that cannot be described must not keep the others from it."""
    with Host() as host, served(host, FakeModel()) as api:
        rows = [*api.get("/provider-types")["data"], *api.get("/features")["data"]]
    assert {"openai", "chat"} <= {row["name"] for row in rows}
    untyped = [
        f"{row['name']}.{name}"
        for row in rows
        for name, schema in row["settings"]["properties"].items()
        if not has_type(schema, row["settings"])
    ]
    assert untyped == []


def test_item_9_an_odd_setting_takes_no_type_from_the_others() -> None:
    @frozen
    class Odd:
        key: Secret | None = None
        loop: Callable[[], str] | None = None
        place: str = "here"
        sizes: tuple[int, ...] = ()

    properties = settings_schema(Odd)["properties"]
    assert properties["key"] == {"type": "string", "writeOnly": True, "format": "password"}
    assert properties["loop"] == {}
    assert properties["place"] == {"type": "string", "default": "here"}
    assert properties["sizes"]["items"] == {"type": "integer"}


def test_routes_say_what_runs_and_why_not(api: Api) -> None:
    every = api.get("/routes")["data"]
    assert any(row["reasons"] for row in every if not row["runs"])
    running = api.get("/routes?runs=true&operation=chat")["data"]
    assert running
    assert all(row["runs"] and row["for"] == "chat" for row in running)
    fake = next(row for row in api.get("/routes?model=fake")["data"] if row["runs"])
    assert fake["parameters"]["temperature"]["type"] == "number"
    assert api.refused("GET", "/routes?model=nobody")[0] == 404
    assert api.refused("GET", "/routes?operation=sing")[0] == 400


COMPATIBLE = {
    "name": "mine",
    "type": "openai-compatible",
    "settings": {"base_url": "http://127.0.0.1:1/v1", "api_key": "sk-secret-canary"},
}


def test_an_instance_from_its_beginning_to_its_end(api: Api) -> None:
    created = api.post("/providers", COMPATIBLE)
    assert created["settings"] == {"base_url": "http://127.0.0.1:1/v1"}
    assert (created["status"], "connect" in created["reason"]) == ("unreachable", True)
    file = read_config().file
    assert "sk-secret-canary" not in Path(file).read_text(encoding="utf-8")
    assert "sk-secret-canary" not in api.send("GET", "/providers").text
    assert any(row["provider"] == "mine" for row in api.get("/routes?provider=mine")["data"])
    again = {"name": "mine", "type": "mock"}
    assert api.refused("POST", "/providers", again) == (409, "conflict")
    changed = api.patch("/providers/mine", {"settings": {"base_url": "http://127.0.0.1:2/v1"}})
    assert changed["settings"]["base_url"] == "http://127.0.0.1:2/v1"
    assert api.patch("/providers/mine", {"enabled": False})["status"] == "disabled"
    assert api.patch("/providers/mine", {"enabled": True})["status"] == "unreachable"
    assert api.send("DELETE", "/providers/mine").status_code == 204
    assert api.refused("GET", "/providers/mine") == (404, "not_found")
    assert "mine" not in read_config().providers


def test_item_3_a_model_configuration_from_its_beginning_to_its_end(api: Api) -> None:
    body = {"name": "precise", "of": "fake", "parameters": {"temperature": 0, "seed": 3}}
    created = api.post("/models", body)
    expected = {"of": "fake", "provider_order": [], "parameters": body["parameters"], "reason": ""}
    assert (created["configuration"], created["runs"]) == (expected, True)
    assert created in api.get("/models")["data"]
    assert "precise" in [each.name for each in served_models(api.host)]
    chosen = api.get("/routes?runs=true&operation=chat")["data"][0]  # what the page offers
    assert [chosen[key] for key in ("model", "name", "provider")] == ["precise", "precise", "fake"]
    path = api.opened(model="precise")
    answer = api.take_turn(path)["answer"]
    shown = api.get(path)
    assert (shown["models"], shown["configurations"]) == ({"main": "fake"}, {"main": "precise"})
    assert api.fake.prompts[-1].parameters == {"temperature": 0, "seed": 3}
    assert answer["details"][0]["data"]["configuration"] == "precise"
    assert api.refused("POST", "/models", body) == (409, "conflict")
    change = {"parameters": {"seed": None}, "provider_order": ["fake"]}
    changed = api.patch("/models/precise", change)["configuration"]
    assert (changed["parameters"], changed["provider_order"]) == ({"temperature": 0}, ["fake"])
    assert api.get("/models/precise")["configuration"] == changed
    assert api.send("DELETE", "/models/precise").status_code == 204
    assert api.refused("GET", "/models/precise") == (404, "not_found")
    assert read_config().configurations == {}


@pytest.mark.parametrize(("path", "body"), [
    ("/models", {"name": "a b", "of": "fake"}), ("/models", {"name": "mine", "of": ""}),
    ("/models", {"name": "mine", "of": "nobody"}),
    ("/models", {"name": "mine", "of": "fake", "parameters": {"nonsense": 1}}),
    ("/models", {"name": "mine", "of": "fake", "provider_order": ["nobody"]}),
    ("/models", {"name": "mine", "of": "fake", "provider_order": "fake"}),
    ("/models", {"name": "mine"}),
    ("/providers", {"name": "Mine!", "type": "openai-compatible"}),
    ("/providers", {"name": "mine", "type": "nobody"}),
    ("/providers", {"name": "mine", "type": "openai-compatible", "settings": {"nonsense": 1}}),
    ("/providers", {"name": "mine", "type": "openai-compatible", "settings": {"api_key": 3}}),
    ("/providers", {"name": "mine"}), ("/providers", []),
])  # fmt: skip
def test_what_is_wrong_makes_nothing(api: Api, path: str, body: Any) -> None:
    unknown = path == "/models" and "nobody" in str(body)
    assert api.refused("POST", path, body)[0] == (404 if unknown else 400)
    assert api.refused("GET", f"{path}/mine") == (404, "not_found")


def test_none_whose_key_cannot_be_kept_is_made(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: object) -> None:
        raise ConfigurationError("the keyring is locked")

    with monkeypatch.context() as locked:
        locked.setattr(api.host.keys, "set", fails)
        assert api.refused("POST", "/providers", COMPATIBLE) == (400, "configuration")
    assert "mine" not in read_config().providers
    assert api.post("/providers", COMPATIBLE)["status"] == "unreachable"


def test_instances_that_are_made_at_once_are_made_once(api: Api) -> None:
    names = ["same"] * 4 + [f"other{number}" for number in range(4)]
    reached = threading.Barrier(len(names))

    def make(name: str) -> int:
        body = json.dumps({"name": name, "type": "mock"})
        reached.wait(30)
        return requests.post(f"{api.url}/api/v1/providers", data=body, timeout=60).status_code

    with ThreadPoolExecutor(len(names)) as threads:
        statuses = list(threads.map(make, names))
    assert sorted(statuses[:4]) == [201, 409, 409, 409]
    assert statuses[4:] == [201] * 4
    assert {*names} <= {row["name"] for row in api.get("/providers")["data"]}
    assert {*names} <= {*read_config().providers}


def test_a_configuration_that_is_read_only_stays(
    make_host: MakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GENAI_HOST_READ_ONLY", "true")
    with native_api(make_host, tmp_path, FakeModel()) as api:
        body = {"name": "mine", "type": "mock"}
        assert api.refused("POST", "/providers", body) == (403, "forbidden")
    assert os.environ["GENAI_HOST_READ_ONLY"] == "true"


def test_item_4_what_calls_came_to(api: Api) -> None:
    path = api.opened()
    api.take_turn(path)
    api.take_turn(path, "and?")
    [row] = api.get("/usage?by=provider,feature&since=1d")["data"]
    assert (row["calls"], row["failed"], row["of"]["feature"]) == (2, {}, "chat")
    assert row["slowest"] >= row["p50"] >= 0
    assert api.get("/usage?until=2020-01-01")["data"] == []
    assert api.refused("GET", "/usage?by=weather")[0] == 400
    assert api.refused("GET", "/usage?since=soon")[0] == 400
    assert api.get("/budgets")["data"] == []


def test_users_see_what_is_theirs(api: Api) -> None:
    api.take_turn(api.opened())
    with served(api.host, api.fake, "ann") as ann:
        ann.take_turn(ann.opened())
        [row] = ann.get("/usage?by=user")["data"]
        assert (row["of"], row["calls"]) == ({"user": "ann"}, 1)
        assert ann.get("/usage?by=user&user=ann")["data"] == [row]
        assert ann.refused("GET", "/usage?user=bob") == (403, "forbidden")
    assert [row["of"]["user"] for row in api.get("/usage?by=user")["data"]] == ["", "ann"]
    assert api.get("/usage?by=user&user=ann")["data"][0]["calls"] == 1


def prepared(api: Api, body: Any) -> list[tuple[str, Any]]:
    reply = api.send("POST", "/providers/needy/prepare", body)
    assert reply.headers["content-type"] == "text/event-stream"
    return events_of(reply.content)


def test_item_9_a_provider_is_made_ready(api: Api, shelf: Shelf) -> None:
    before = api.get("/providers/needy")
    assert (before["status"], before["preparation"]) == ("needs", "Download it (2 MB)")
    assert api.get("/providers/mock")["preparation"] is None
    events = prepared(api, {"model": "needy/some/id"})
    assert shelf.model_ids[-2] == "some/id"
    assert events[0] == ("progress", {"text": "Downloading", "done": 1, "total": 2})
    assert events[1][0] == "done"
    assert (events[1][1]["status"], events[1][1]["preparation"]) == ("works", None)
    document = description()
    described = document["components"]["schemas"]["PreparationEvents"]["properties"]
    for name, data in events:
        jsonschema.validate(data, {**described[name], "components": document["components"]})
    assert api.refused("POST", "/providers/needy/prepare", {}) == (409, "conflict")


@pytest.mark.parametrize(
    ("error", "code"), [(ServiceUnavailable("gone"), "unavailable"), (OSError("full"), "plugin")]
)
def test_a_step_that_fails_says_so(api: Api, shelf: Shelf, error: Exception, code: str) -> None:
    def fail(report: Report, limits: CancelToken) -> None:
        raise error

    shelf.run = fail
    *_, (name, data) = prepared(api, {})
    assert (name, data["code"]) == ("error", code)
    assert str(error) in data["message"]
    assert api.get("/providers/needy")["status"] == "needs"


def test_disconnect_cancels_preparation(api: Api, shelf: Shelf) -> None:
    ended = threading.Event()

    def wait(report: Report, limits: CancelToken) -> None:
        woken = threading.Event()
        with limits.on_cancel(woken.set):
            woken.wait(60)
        ended.set()
        limits.check()

    shelf.run = wait
    reply = api.send("POST", "/providers/needy/prepare", {}, stream=True)
    assert next(reply.iter_lines()) == b"event: progress"
    reply.close()
    assert ended.wait(60)
    assert not shelf.is_there


def test_item_9_the_models_that_a_service_lists(api: Api, shelf: Shelf) -> None:
    shelf.listed = lambda limits: [ListedModel("a/b"), ListedModel("c", ("openai-embed",))]
    rows = api.get("/providers/needy/models")["data"]
    assert [(row["name"], row["id"], row["for"]) for row in rows] == [
        ("needy/a/b", "a/b", []),
        ("needy/c", "c", ["embed"]),
    ]

    def fail(limits: CancelToken) -> Any:
        raise ServiceUnavailable("gone")

    shelf.listed = fail
    assert api.refused("GET", "/providers/needy/models") == (503, "unavailable")
    assert api.refused("GET", "/providers/nobody/models") == (404, "not_found")


def test_only_who_runs_the_server_changes_its_configuration_and_prepares(api: Api) -> None:
    with served(api.host, api.fake, "ann") as ann:
        for method, path, body in [
            ("POST", "/providers", {"name": "mine", "type": "openai-compatible"}),
            ("PATCH", "/providers/mock", {"enabled": False}),
            ("DELETE", "/providers/mock", None),
            ("POST", "/models", {"name": "mine", "of": "fake"}),
            ("POST", "/providers/needy/prepare", {}),
        ]:
            assert ann.refused(method, path, body) == (403, "forbidden"), (method, path)
    assert api.refused("POST", "/providers/nobody/prepare", {}) == (404, "not_found")
    assert api.refused("POST", "/providers/needy/prepare", {"what": 1})[0] == 400
