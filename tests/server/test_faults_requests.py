"""Excessive requests: they are refused at a limit, and the server continues."""

from __future__ import annotations

import gzip
import http.client
import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from fronts import FRONTS, JSON, Front, Place, place, raw
from genai_server.routes import own_routes
from raw_http import dial, statuses, until

from genai_host_testing.fake_service import FakeService
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.services.openai import chat

pytestmark = pytest.mark.part

each_front = pytest.mark.parametrize("front", FRONTS, ids=str)
WRITING = sorted(
    (route.method, route.path) for route in own_routes() if route.method not in ("GET", "DELETE")
)
DEEP = b"[" * 100_000
LAST_SLOW = "a" * 40 + "!"


@pytest.fixture
def here(make_host: MakeHost, tmp_path: Path) -> Iterator[Place]:
    with place(make_host, tmp_path) as here:
        here.service.replies = [chat("so")]
        yield here


def is_alive(here: Place) -> bool:
    return bool(here.ask(FRONTS[0], stream=False).status_code == 200)


def filled(path: str) -> str:
    """Path of a route with a value for each parameter."""
    return "/".join("x:generateContent" if part == "{call}" else part.strip("{}")
                    for part in path.split("/"))  # fmt: skip


def test_deep_json_and_a_gzip_bomb_are_refused_by_every_route(here: Place) -> None:
    """Deep nesting as the body, and in a field of it. The bomb is not decompressed, so it is
    invalid JSON."""
    closed = DEEP + b"]" * len(DEEP)
    bomb = gzip.compress(b" " * 2**25, 9)
    for method, path in WRITING:
        for body, headers in [
            (DEEP, JSON),
            (b'{"model":"remote/m","message":%b}' % closed, JSON),
            (bomb, {**JSON, "content-encoding": "gzip"}),
        ]:
            reply = here.send(method, filled(path), data=body, headers=headers)
            assert 400 <= reply.status_code < 500, (method, path, reply.text)
            assert "Traceback" not in reply.text
    assert here.service.requests == []
    assert is_alive(here)


def test_a_huge_body_is_refused_by_every_route_before_it_is_read(here: Place) -> None:
    for method, path in WRITING:
        head = raw(filled(path), b"", content_length=2**40).replace(b"POST", method.encode(), 1)
        with dial(here.url) as client:
            client.sendall(head)
            assert statuses(until(client, b"\r\n\r\n")) == [413], (method, path)
    assert is_alive(here)


@each_front
def test_a_schema_with_a_remote_ref_asks_nobody(here: Place, front: Front) -> None:
    here.service.replies = [chat('{"a": 1}')]
    with FakeService([chat("{}")]) as elsewhere:
        for schema in (
            {"$ref": f"{elsewhere.url}/schema"},
            {"type": "object", "properties": {"a": {"$ref": f"{elsewhere.url}/a#/$defs/a"}}},
            {"$schema": f"{elsewhere.url}/meta", "type": "object"},
            {"$id": f"{elsewhere.url}/id", "properties": {"a": {"$ref": "other"}}},
            {"properties": {"a": {"$dynamicRef": f"{elsewhere.url}/x"}}},
        ):
            reply = here.ask(front, stream=False, **front.shaped(schema))
            if "$schema" not in schema:  # which is a name, and nothing that is fetched
                assert reply.status_code == 400, reply.text
                assert "unresolved reference in the schema" in reply.text
        assert elsewhere.connections == 0
        assert len(here.service.requests) == 1  # nobody pays for what cannot be
    assert is_alive(here)


@each_front
def test_a_schema_with_a_slow_pattern_ends(here: Place, front: Front) -> None:
    """Backtracking would take years."""
    here.service.replies = [chat(json.dumps({"a": LAST_SLOW}))]
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}},
        "patternProperties": {"^(a+)+$": {}},
    }
    reply = here.ask(front, stream=False, **front.shaped(schema))
    assert reply.status_code >= 400, reply.text
    assert is_alive(here)


NAMES = [
    "..", "../../etc/passwd", "..\\..\\x", "\0", "a\0b", "CON", "con.txt", "x" * 300, "ü\u202e",
    "/etc/passwd", "~", "%2e%2e", "a:b", ".", "*", "'; drop table conversations; --", "\U0001f600",
]  # fmt: skip


def test_ids_are_no_file_names(here: Place, tmp_path: Path) -> None:
    """No file outside is read or written; the reply is `not found`."""
    here.opened()
    before = files(tmp_path)
    routes = [each for each in own_routes() if "{" in each.path and "batches" not in each.path]
    with closing(http.client.HTTPConnection(urlsplit(here.url).netloc, timeout=60)) as client:
        for route in routes:
            for name in NAMES:
                path = re.sub(r"{[a-z]+}", encoded(name), route.path)
                body = b"{}" if route.method in ("POST", "PATCH") else None
                client.request(route.method, path, body, JSON if body else {})
                with client.getresponse() as reply:
                    text = reply.read()
                assert 400 <= reply.status < 500, (route.method, path, text)
                assert b"root:" not in text
    for name in NAMES:
        key = {**JSON, "idempotency-key": encoded(name)[:255]}
        here.send("POST", "/api/v1/conversations", {"title": name}, headers=key)
    assert files(tmp_path).keys() == before.keys()
    assert {each.method for each in here.service.requests} <= {"GET"}  # whether it is there


def encoded(name: str) -> str:
    """Quote all of it, so that no client interprets dots as path segments."""
    return "".join(f"%{byte:02x}" for byte in name.encode())


def files(folder: Path) -> dict[str, int]:
    """All files below a directory, and their permissions."""
    return {str(each): each.stat().st_mode & 0o777 for each in folder.rglob("*") if each.is_file()}


def test_all_files_of_the_server_are_of_its_user_alone(here: Place, tmp_path: Path) -> None:
    assert is_alive(here)
    here.ask(FRONTS[-1], stream=False)
    modes = {name: mode for name, mode in files(tmp_path).items() if not name.endswith("/key")}
    assert modes
    assert {mode & 0o077 for mode in modes.values()} == {0}, modes


def test_what_is_exported_of_a_conversation_has_no_name_of_the_client(here: Place) -> None:
    """A title is not used as a file name either."""
    id = here.opened()
    here.send("PATCH", f"/api/v1/conversations/{id}", {"title": '../../x"; filename="evil.html'})
    reply: Any = here.send("GET", f"/api/v1/conversations/{id}/export")
    assert reply.status_code == 200
    assert "evil" not in reply.headers.get("content-disposition", "")
