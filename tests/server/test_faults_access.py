"""Access control of all routes of the server, so that new routes are covered. A key that a service
sends back, and tokens of clients: nowhere in what the server says, logs or keeps; and nothing in
its log drives a terminal."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from fronts import DELTA, FRONTS, JSON, MODEL, Front, Place, place, raw
from genai_server.routes import own_routes
from raw_http import exchange, statuses

from genai_host.api import Secret
from genai_host.serving.router import HttpRoutes
from genai_host_testing.fake_service import CUT, Reply, json_reply, reply, sse_reply
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.services.openai import KEY, chat, failure

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


TOKEN = "token-canary-5d21"
AUTHORIZED = {**JSON, "authorization": f"Bearer {TOKEN}"}
HEADERS = {"Retry-After": KEY, "X-Request-Id": KEY, "Server": KEY}
FAULTS: list[Reply] = [
    *(failure(status, HEADERS, message=f"Incorrect API key provided: {KEY}", code=KEY)
      for status in (400, 401, 403, 404, 429, 500, 503)),
    json_reply({"error": KEY}, 401, HEADERS),
    reply(f"<html>{KEY}</html>".encode(), 502, HEADERS),
    reply(f"<html>{KEY}</html>".encode(), headers=HEADERS),
    reply(KEY.encode(), headers={"Content-Encoding": KEY}),
    json_reply({KEY: KEY}),
    sse_reply([DELTA, b'{"error": {"message": "%b", "code": 500}}' % KEY.encode()]),
    sse_reply([DELTA, b"{" + KEY.encode()]),
    sse_reply([DELTA, CUT], headers=HEADERS),
    Reply([b"HTTP/1.1 200 " + KEY.encode() + b"\r\n" + KEY.encode() + b"\r\n\r\n", CUT]),
    reply(b"", 302, {"Location": f"https://{KEY}.example/{KEY}"}),
]  # fmt: skip


@pytest.fixture
def gate(make_host: MakeHost, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Place]:
    caplog.set_level(logging.DEBUG)
    with place(make_host, tmp_path, tokens={"": Secret(TOKEN)}, guess_delay=0.0) as gate:
        gate.client.headers.update({"authorization": f"Bearer {TOKEN}"})
        yield gate


def assert_absent(text: Any, where: object = "") -> None:
    for secret in (KEY, TOKEN):
        assert secret not in str(text), where


@pytest.mark.parametrize("front", FRONTS, ids=str)
def test_the_key_is_in_no_error_log_or_store(
    gate: Place,
    front: Front,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for fault in FAULTS:
        for stream in (False, True):
            gate.service.replies = [fault]
            answered = gate.ask(front, stream=stream)
            assert_absent(answered.text, (fault, stream))
            assert_absent(answered.headers)
    assert any(KEY in each.headers["authorization"] for each in gate.service.requests)
    assert_absent(caplog.text)
    assert_absent(gate.lines)
    assert_absent(capfd.readouterr())
    for file in gate.database.parent.glob("store.db*"):
        if file.is_file():
            assert_absent(file.read_bytes(), file)
    conversations = gate.send("GET", "/api/v1/conversations").json()["data"]
    for each in conversations:
        path = f"/api/v1/conversations/{each['id']}"
        assert_absent(gate.send("GET", path).text)
        assert_absent(gate.send("GET", f"{path}/export").text)
    assert (front.name == "native") == bool(conversations)


def test_the_key_is_in_nothing_that_tells_of_the_server(gate: Place) -> None:
    """Models, providers with their settings, instances, routes, the OpenAPI document, the page;
    also where the service sends the key back when it is tried."""
    gate.service.replies = [FAULTS[1]]
    for route in own_routes():
        if route.method == "GET":
            path = route.path.replace("{name}", "remote").replace("{model}", "remote")
            reply = gate.send("GET", path)
            assert_absent(reply.text, path)
            assert_absent(reply.headers, path)
    shown = gate.send("GET", "/api/v1/providers/remote").json()
    assert shown["status"] == "needs"
    assert shown["settings"] == {"base_url": f"{gate.service.url}/v1"}


def test_no_token_is_in_a_refusal(gate: Place, caplog: pytest.LogCaptureFixture) -> None:
    """Nor logged: also where it stands in the address, as Gemini's clients have it."""
    nobody = {"authorization": f"Bearer {TOKEN}-wrong"}
    gate.service.replies = [FAULTS[1]]
    for route in own_routes():
        path = f"{route.path}?key={TOKEN}&api_key={TOKEN}"
        for headers in (AUTHORIZED, {**JSON, **nobody}, {**JSON, "x-api-key": f"{TOKEN} "}):
            data = b"{" if route.method not in ("GET", "DELETE") else None
            answered = requests.request(
                route.method, f"{gate.url}{path}", data=data, headers=headers, timeout=60
            )
            assert_absent(answered.text, path)
    # the client that is used here logs addresses as well
    own = [each.getMessage() for each in caplog.records if not each.name.startswith("urllib3")]
    assert_absent(own)
    assert_absent(gate.lines)
    assert len(gate.lines) > 2 * len(own_routes())  # the last may still be on its way


def test_no_control_byte_is_in_the_log(gate: Place, caplog: pytest.LogCaptureFixture) -> None:
    """ESC, OSC 52, BEL, CR, C1 and marks of direction, in paths, names and errors."""
    evil = "\x1b]52;c;AAAA\x07\x1b[2J\r\x9b31m\u202e\u2028\x00"
    encoded = "".join(f"%{byte:02X}" for byte in evil.encode())
    gate.service.replies = [failure(400, message=evil), failure(500, message=evil)]
    for stream in (False, True):
        answered = gate.ask(FRONTS[0], stream=stream)
        assert answered.status_code >= 400
    gate.send("GET", f"/{encoded}")
    gate.send("GET", f"/api/v1/conversations/{encoded}")
    gate.send("POST", f"/v1beta/models/{encoded}:generateContent", {"contents": []})
    gate.send("POST", "/v1/messages", {"model": evil, "max_tokens": 1, "messages": []})
    for byte in evil.encode() + b"\x80\xff":
        request = raw("/x" + chr(byte), b"{}", authorization=f"Bearer {TOKEN}", connection="close")
        assert statuses(exchange(gate.url, request.replace(chr(byte).encode(), bytes([byte]), 1)))
    logged = [*gate.lines, *(record.getMessage() for record in caplog.records)]
    assert len(gate.lines) > 6
    for line in logged:
        assert line.isprintable(), line
    assert all(line.isascii() for line in gate.lines)
