"""Access control of all routes of the server, so that new routes are covered."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from fronts import JSON, MODEL, Place, place
from genai_server.routes import own_routes

from genai_host.api import Secret
from genai_host.serving.router import HttpRoutes
from genai_host_testing.fake_service import json_reply
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.services.openai import chat

pytestmark = pytest.mark.part

TOKENS = {
    "ann": Secret("the-token-of-ann"),
    "bob": Secret("the-token-of-bob"),
    "": Secret("the-token-of-all"),
}
OPEN = re.compile(r"/|/page|/page/assets/.*")
OF_USERS = (
    "/api/v1/conversations/{id}", "/api/v1/jobs/{id}", "/v1/responses/{response}",
    "/v1/conversations/{conversation}",
)  # fmt: skip
OF_NOBODY = (
    "/api/blobs/{digest}", "/api/v1/features/{name}", "/api/v1/providers/{name}",
    "/api/v1/models/{name}", "/page/assets/{name}", "/v1/messages/batches", "/models/",
    "/v1/models/", "/v1beta/", "/v1/tunedModels/",
)  # fmt: skip
BODIES: dict[str, Any] = {
    "turns": {"message": "x", "stream": True},
    "resume": {"result": 1},
    "items": {"items": [{"role": "user", "content": "x"}]},
    "/v1/conversations/{conversation}": {"metadata": {"a": "b"}},
    "/api/v1/conversations/{id}": {"title": "theirs", "parameters": {"top_p": 1}},
}


@pytest.fixture
def here(make_host: MakeHost, tmp_path: Path) -> Iterator[Place]:
    with place(make_host, tmp_path, tokens=TOKENS, guess_delay=0.0) as here:
        here.service.replies = [chat("a secret of hers")]
        yield here


def send(
    here: Place, user: str, method: str, path: str, body: Any = None, **headers: str
) -> requests.Response:
    token = {"authorization": f"Bearer the-token-of-{user or 'all'}"}
    return here.send(method, path, body, headers={**JSON, **token, **headers})


class Hers:
    """One object of each kind that a user can own."""

    def __init__(self, here: Place) -> None:
        self._here = here
        self.item = "none yet"
        conversation = self._made("/api/v1/conversations", {"title": "mine"})
        self._made(f"/api/v1/conversations/{conversation}/turns", {"message": "hi"})
        self.ids = {
            "/api/v1/conversations": conversation,
            "/api/v1/jobs": self._made("/api/v1/jobs", {"message": "hi"}),
            "/v1/responses": self._made("/v1/responses", {"model": MODEL, "input": "hi"}),
            "/v1/conversations": self._made(
                "/v1/conversations", {"items": [{"role": "user", "content": "hi"}]}
            ),
        }
        send(here, "ann", "GET", f"/api/v1/jobs/{self.ids['/api/v1/jobs']}/result?wait=30")
        items = self.see("/v1/conversations/{conversation}/items").json()["data"]
        self.item = str(items[0]["id"])

    def path(self, path: str) -> str:
        """That of a route, with what is hers in it."""
        id = self.ids[path.partition("/{")[0]]
        named = {"item": self.item, "turn": "0", "number": "0"}
        return re.sub(r"{([a-z]+)}", lambda match: named.get(match[1], id), path)

    def see(self, path: str) -> requests.Response:
        return send(self._here, "ann", "GET", self.path(path))

    def all(self) -> list[Any]:
        owned = [each for each in own_routes() if each.method == "GET" and is_owned(each.path)]
        seen = [self.see(each.path) for each in owned if "images" not in each.path]
        assert {each.status_code for each in seen} == {200}
        return [each.json() for each in seen]

    def _made(self, path: str, body: Any) -> str:
        reply = send(self._here, "ann", "POST", path, body)
        assert reply.status_code < 300, reply.text
        return str(reply.json().get("id"))


def is_owned(path: str) -> bool:
    return path.startswith(OF_USERS)


def test_it_is_known_of_every_route_whether_it_is_of_a_user() -> None:
    named = [each.path for each in own_routes() if "{" in each.path]
    assert [path for path in named if not path.startswith((*OF_USERS, *OF_NOBODY))] == []


@pytest.mark.parametrize("user", ["bob", ""])
def test_with_the_id_of_another_user_every_route_is_404(here: Place, user: str) -> None:
    """Nothing is read, written or sent to a model, and no reply reveals that the object exists."""
    hers = Hers(here)
    before, count = hers.all(), len(here.service.requests)
    for route in own_routes():
        if not is_owned(route.path):
            continue
        body = None
        if route.method in ("POST", "PATCH"):
            body = BODIES.get(route.path, BODIES.get(route.path.rpartition("/")[2], {}))
        path = hers.path(route.path)
        reply = send(here, user, route.method, path, body)
        assert reply.status_code == 404, (route.key, reply.text)
        assert "of hers" not in reply.text  # random ids may have the word alone
        assert "mine" not in reply.text
    # nor in a body
    item = {"type": "item_reference", "id": hers.item}
    for path, body in (
        ("/api/v1/jobs", {"conversation": hers.ids["/api/v1/conversations"], "message": "x"}),
        ("/v1/responses", {"input": "x", "previous_response_id": hers.ids["/v1/responses"]}),
        ("/v1/responses", {"input": "x", "conversation": hers.ids["/v1/conversations"]}),
        ("/v1/responses", {"input": "x", "conversation": {"id": hers.ids["/v1/conversations"]}}),
        ("/v1/responses", {"input": [item]}),
        ("/v1/responses/input_tokens", {"input": [item]}),
    ):
        more = {"model": MODEL} if path.startswith("/v1/responses") else {}
        reply = send(here, user, "POST", path, {**more, **body})
        assert reply.status_code == 404, (path, body, reply.text)
    assert hers.all() == before
    assert len(here.service.requests) == count


@pytest.mark.parametrize("user", ["bob", ""])
def test_lists_and_repeated_keys_have_nothing_of_another_user(here: Place, user: str) -> None:
    Hers(here)
    for query in ("", "?search=secret", "?search=mine", "?limit=100"):
        listed = send(here, user, "GET", f"/api/v1/conversations{query}").json()
        assert listed["data"] == []
    key = {"idempotency-key": "one"}
    first = send(here, "ann", "POST", "/api/v1/conversations", {}, **key).json()["id"]
    assert send(here, "ann", "POST", "/api/v1/conversations", {}, **key).json()["id"] == first
    assert send(here, user, "POST", "/api/v1/conversations", {}, **key).json()["id"] != first


def test_who_is_not_let_in_reaches_no_route(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong host (DNS rebinding), a wrong origin, no token, a wrong one, and what a form can
    send: refused before anything of a route runs."""
    here.service.replies = [json_reply({})]
    answered: list[str] = []
    answer = HttpRoutes.answer

    def recorded(self: HttpRoutes, request: Any, *arguments: Any) -> Any:
        answered.append(request.path)
        return answer(self, request, *arguments)

    monkeypatch.setattr(HttpRoutes, "answer", recorded)
    good = {"authorization": "Bearer the-token-of-ann", **JSON}
    wrong: list[tuple[dict[str, Any], int]] = [
        ({"host": "evil.example"}, 421), ({"host": "127.0.0.1.evil.example"}, 421),
        ({"origin": "https://evil.example"}, 403), ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}, 403),
        ({"authorization": None}, 401), ({"authorization": "Bearer the-token-of-anne"}, 401),
        ({"content-type": "text/plain"}, 415),
    ]  # fmt: skip
    for route in own_routes():
        path = re.sub(r"{[a-z]+}", "x", route.path)
        writes = route.method not in ("GET", "DELETE")
        for change, status in wrong:
            if (status == 415 and not writes) or (status == 401 and OPEN.fullmatch(path)):
                continue
            data = b"{}" if writes else None
            reply = here.send(route.method, path, data=data, headers={**good, **change})
            assert reply.status_code == status, (route.key, change, reply.text)
    assert answered == []
    assert here.service.requests == []
