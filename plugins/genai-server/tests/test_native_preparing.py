"""Providers that can be made ready, and the models that they list, over the native API."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from attrs import define, field
from genai_server.native.openapi import description

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
)
from genai_host.errors import ServiceUnavailable
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.native_api import Api, events_of, native_api, served

pytestmark = pytest.mark.part

Report = Callable[[PreparationProgress], None]


@define
class Shelf:
    """What a provider that needs weights has, and what its step does."""

    is_there: bool = False
    asked: list[str] = field(factory=list)
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
def api(make_host: MakeHost, tmp_path: Path, shelf: Shelf) -> Iterator[Api]:
    class Needy(Provider):
        serves: Mapping[str, DialectEndpoint] = {"openai-chat": DialectEndpoint()}

        def unavailable_reason(self) -> str | None:
            return None if shelf.is_there else "the weights are missing"

        def preparation(self, model_id: str = "") -> Preparation | None:
            shelf.asked.append(model_id)
            return None if shelf.is_there else Preparation("Download it (2 MB)", shelf.get)

        def list_models(self, limits: CancelToken) -> Any:
            return shelf.listed(limits)

        def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
            raise NotImplementedError

        stream = send

    needy = ProviderType("needy", NoSettings, lambda settings, services: Needy())
    with native_api(make_host, tmp_path, needy=InlinePlugin(providers=[needy])) as api:
        yield api


def prepared(api: Api, body: Any) -> list[tuple[str, Any]]:
    reply = api.send("POST", "/providers/needy/prepare", body)
    assert reply.headers["content-type"] == "text/event-stream"
    return events_of(reply.content)


def test_item_9_a_provider_is_made_ready(api: Api, shelf: Shelf) -> None:
    before = api.get("/providers/needy")
    assert (before["status"], before["preparation"]) == ("needs", "Download it (2 MB)")
    assert api.get("/providers/mock")["preparation"] is None
    told = prepared(api, {"model": "needy/some/id"})
    assert shelf.asked[-2] == "some/id"
    assert told[0] == ("progress", {"text": "Downloading", "done": 1, "total": 2})
    assert told[1][0] == "done"
    assert (told[1][1]["status"], told[1][1]["preparation"]) == ("works", None)
    document = description()
    described = document["components"]["schemas"]["PreparationEvents"]["properties"]
    for name, data in told:
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


def test_who_leaves_cancels_it(api: Api, shelf: Shelf) -> None:
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


def test_only_who_runs_the_server_prepares(api: Api) -> None:
    with served(api.host, api.fake, "ann") as ann:
        assert ann.refused("POST", "/providers/needy/prepare", {}) == (403, "forbidden")
    assert api.refused("POST", "/providers/nobody/prepare", {}) == (404, "not_found")
    assert api.refused("POST", "/providers/needy/prepare", {"what": 1})[0] == 400


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
