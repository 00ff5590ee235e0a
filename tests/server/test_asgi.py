"""The application as any ASGI server calls it; servers of others run it in tests/peers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from genai_server.application import Application
from genai_server.settings import ServerSettings

from genai_host import Host
from genai_host.api import HttpRoute, RouteRequest, RouteResponse, Secret, json_response
from genai_host.util import paths
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part


def echo(request: RouteRequest, host: Host) -> RouteResponse:
    return json_response({"name": request.parameters["name"], "root": request.root})


@pytest.fixture
def app(make_host: MakeHost) -> Iterator[Application]:
    plugin = InlinePlugin(http_routes=[HttpRoute("GET", "/echo/{name}", f"{__name__}:echo")])
    with closing(Application(make_host(echo=plugin))) as made:
        yield made


async def exchange(
    app: Application, scope: Mapping[str, Any], received: Mapping[str, Any] | None = None
) -> list[Any]:
    """The messages that the application sends for one that it receives."""
    sent: list[Any] = []
    messages = [received or {"type": "http.request"}]

    async def receive() -> Any:
        if messages:
            return messages.pop(0)
        return await asyncio.get_running_loop().create_future()

    async def send(message: Any) -> None:
        sent.append(message)

    await app(dict(scope), receive, send)
    return sent


def scope(path: str, **more: Any) -> dict[str, Any]:
    """The scope of a request, with nothing that the specification leaves out."""
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 40000),
        **more,
    }


def get(app: Application, path: str, **more: Any) -> tuple[int, bytes]:
    start, *pieces = asyncio.run(exchange(app, scope(path, **more)))
    return start["status"], b"".join(each["body"] for each in pieces)


@pytest.mark.parametrize(
    ("path", "more", "name", "root"),
    [
        ("/echo/a b%", {}, "a b%", ""),
        ("/echo/a/b", {"raw_path": b"/echo/a%2Fb"}, "a/b", ""),
        ("/below/echo/x", {"root_path": "/below"}, "x", "/below"),
        (
            "/below/echo/a/b",
            {"root_path": "/below", "raw_path": b"/below/echo/a%2Fb"},
            "a/b",
            "/below",
        ),
    ],
)
def test_item_3_paths_below_a_mount(
    app: Application, path: str, more: Mapping[str, Any], name: str, root: str
) -> None:
    status, body = get(app, path, **more)
    assert (status, json.loads(body)) == (200, {"name": name, "root": root})


def test_each_request_may_have_its_own_loop(app: Application) -> None:
    """As with the test clients of Starlette and FastAPI."""
    assert [get(app, "/echo/x")[0] for _ in range(2)] == [200, 200]


def test_two_loops_at_once_are_an_error(app: Application) -> None:
    async def main() -> None:
        await app.start()
        await asyncio.to_thread(get, app, "/echo/x")

    with pytest.raises(RuntimeError, match="another event loop"):
        asyncio.run(main())


@pytest.mark.parametrize(("client", "status"), [(("192.0.2.1", 1), 403), (None, 403)])
def test_without_a_token_only_this_machine_is_answered(
    app: Application, client: Any, status: int
) -> None:
    assert get(app, "/echo/x", client=client)[0] == status


def test_with_a_token_any_machine_is_answered(make_host: MakeHost) -> None:
    settings = ServerSettings(tokens={"": Secret("a-long-enough-token")})
    headers = [(b"host", b"localhost"), (b"authorization", b"Bearer a-long-enough-token")]
    with closing(Application(make_host(), settings)) as app:
        assert get(app, "/v1/models", client=("192.0.2.1", 1), headers=headers)[0] == 200
        assert get(app, "/v1/models", client=("192.0.2.1", 1))[0] == 401


def test_http_2_has_no_header_connection(app: Application) -> None:
    """RFC 9113, section 8.2.2."""
    headers = [(b"host", b"elsewhere.example"), (b"expect", b"100-continue")]
    for version, closes in (("1.1", True), ("2", False)):
        asked = scope("/echo/x", http_version=version, headers=headers)
        start, *_ = asyncio.run(exchange(app, asked))
        assert (start["status"], b"connection" in dict(start["headers"])) == (421, closes)


WEBSOCKET = {"type": "websocket", "scheme": "ws", "subprotocols": []}
CONNECT = {"type": "websocket.connect"}


def test_a_websocket_is_answered_as_its_request(app: Application) -> None:
    asked = scope("/echo/x", **WEBSOCKET, extensions={"websocket.http.response": {}})
    del asked["method"]
    start, body = asyncio.run(exchange(app, asked, CONNECT))
    assert (start["type"], start["status"]) == ("websocket.http.response.start", 200)
    assert body["type"] == "websocket.http.response.body"


def test_a_websocket_is_closed_without_the_extension(app: Application) -> None:
    sent = asyncio.run(exchange(app, scope("/echo/x", **WEBSOCKET), CONNECT))
    assert sent == [{"type": "websocket.close"}]


def test_another_protocol_is_an_error(app: Application) -> None:
    with pytest.raises(RuntimeError, match="'x'"):
        asyncio.run(exchange(app, {"type": "x"}))


def test_a_wrong_configuration_is_one_line_for_the_server() -> None:
    file = Path(paths.config_file())
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("[server]\nport = 'x'\n", encoding="utf-8")
    received = {"type": "lifespan.startup"}
    (sent,) = asyncio.run(exchange(Application(), {"type": "lifespan"}, received))
    assert sent["type"] == "lifespan.startup.failed"
    assert "server.port" in sent["message"]
    assert "\n" not in sent["message"]
