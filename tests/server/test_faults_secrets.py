"""A key that a service sends back, and tokens of clients: nowhere in what the server says or logs,
nor in what it keeps; and nothing in its log drives a terminal."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from fronts import DELTA, FRONTS, JSON, Front, Place, place, raw
from genai_server.routes import own_routes
from raw_http import exchange, statuses

from genai_host.api import Secret
from genai_host_testing.fake_service import CUT, Reply, json_reply, reply, sse_reply
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.services.openai import KEY, failure

pytestmark = pytest.mark.part

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
def here(make_host: MakeHost, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Place]:
    caplog.set_level(logging.DEBUG)
    with place(make_host, tmp_path, tokens={"": Secret(TOKEN)}, guess_delay=0.0) as here:
        here.client.headers.update({"authorization": f"Bearer {TOKEN}"})
        yield here


def assert_absent(text: Any, where: object = "") -> None:
    for secret in (KEY, TOKEN):
        assert secret not in str(text), where


@pytest.mark.parametrize("front", FRONTS, ids=str)
def test_the_key_is_in_no_error_log_or_store(
    here: Place, front: Front, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    for fault in FAULTS:
        for stream in (False, True):
            here.service.replies = [fault]
            answered = here.ask(front, stream=stream)
            assert_absent(answered.text, (fault, stream))
            assert_absent(answered.headers)
    assert any(KEY in each.headers["authorization"] for each in here.service.requests)
    assert_absent(caplog.text)
    assert_absent(here.lines)
    assert_absent(capfd.readouterr())
    for file in here.database.parent.glob("store.db*"):
        if file.is_file():
            assert_absent(file.read_bytes(), file)
    conversations = here.send("GET", "/api/v1/conversations").json()["data"]
    for each in conversations:
        path = f"/api/v1/conversations/{each['id']}"
        assert_absent(here.send("GET", path).text)
        assert_absent(here.send("GET", f"{path}/export").text)
    assert (front.name == "native") == bool(conversations)


def test_the_key_is_in_nothing_that_tells_of_the_server(here: Place) -> None:
    """Models, providers with their settings, instances, routes, the OpenAPI document, the page;
    also where the service sends the key back when it is tried."""
    here.service.replies = [FAULTS[1]]
    for route in own_routes():
        if route.method == "GET":
            path = route.path.replace("{name}", "remote").replace("{model}", "remote")
            reply = here.send("GET", path)
            assert_absent(reply.text, path)
            assert_absent(reply.headers, path)
    shown = here.send("GET", "/api/v1/providers/remote").json()
    assert shown["status"] == "needs"
    assert shown["settings"] == {"base_url": f"{here.service.url}/v1"}


def test_no_token_is_in_a_refusal(here: Place, caplog: pytest.LogCaptureFixture) -> None:
    """Nor logged: also where it stands in the address, as Gemini's clients have it."""
    nobody = {"authorization": f"Bearer {TOKEN}-wrong"}
    here.service.replies = [FAULTS[1]]
    for route in own_routes():
        path = f"{route.path}?key={TOKEN}&api_key={TOKEN}"
        for headers in (AUTHORIZED, {**JSON, **nobody}, {**JSON, "x-api-key": f"{TOKEN} "}):
            data = b"{" if route.method not in ("GET", "DELETE") else None
            answered = requests.request(
                route.method, f"{here.url}{path}", data=data, headers=headers, timeout=60
            )
            assert_absent(answered.text, path)
    # the client that is used here logs addresses as well
    own = [each.getMessage() for each in caplog.records if not each.name.startswith("urllib3")]
    assert_absent(own)
    assert_absent(here.lines)
    assert len(here.lines) > 2 * len(own_routes())  # the last may still be on its way


def test_no_control_byte_is_in_the_log(here: Place, caplog: pytest.LogCaptureFixture) -> None:
    """ESC, OSC 52, BEL, CR, C1 and marks of direction, in paths, names and errors."""
    evil = "\x1b]52;c;AAAA\x07\x1b[2J\r\x9b31m\u202e\u2028\x00"
    encoded = "".join(f"%{byte:02X}" for byte in evil.encode())
    here.service.replies = [failure(400, message=evil), failure(500, message=evil)]
    for stream in (False, True):
        answered = here.ask(FRONTS[0], stream=stream)
        assert answered.status_code >= 400
    here.send("GET", f"/{encoded}")
    here.send("GET", f"/api/v1/conversations/{encoded}")
    here.send("POST", f"/v1beta/models/{encoded}:generateContent", {"contents": []})
    here.send("POST", "/v1/messages", {"model": evil, "max_tokens": 1, "messages": []})
    for byte in evil.encode() + b"\x80\xff":
        request = raw("/x" + chr(byte), b"{}", authorization=f"Bearer {TOKEN}", connection="close")
        assert statuses(exchange(here.url, request.replace(chr(byte).encode(), bytes([byte]), 1)))
    logged = [*here.lines, *(record.getMessage() for record in caplog.records)]
    assert len(here.lines) > 6
    for line in logged:
        assert line.isprintable(), line
    assert all(line.isascii() for line in here.lines)
