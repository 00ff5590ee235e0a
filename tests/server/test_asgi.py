"""The application as any ASGI server calls it; servers of others run it in tests/peers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from genai_server.application import Application

from genai_host import Host
from genai_host.api import HttpRoute, RouteRequest, RouteResponse, json_response
from genai_host.util import paths
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part


def echo(request: RouteRequest, host: Host) -> RouteResponse:
    return json_response({"name": request.parameters["name"], "root": request.root})


begun, cancelled = threading.Event(), threading.Event()


def wait(request: RouteRequest, host: Host) -> RouteResponse:
    """Wait for the cancellation of the request."""
    with request.limits.on_cancel(cancelled.set):
        begun.set()
        cancelled.wait(60)
    return RouteResponse()


def stream(request: RouteRequest, host: Host) -> RouteResponse:
    def pieces() -> Iterator[bytes]:
        with request.limits.on_cancel(cancelled.set):
            yield b"begun"
            cancelled.wait(60)

    return RouteResponse(pieces())


ROUTES = [
    HttpRoute("GET", "/echo/{name}", f"{__name__}:echo"),
    HttpRoute("GET", "/wait", f"{__name__}:wait"),
    HttpRoute("GET", "/stream", f"{__name__}:stream"),
]


@pytest.fixture
def app(make_host: MakeHost) -> Iterator[Application]:
    begun.clear()
    cancelled.clear()
    with closing(Application(make_host(echo=InlinePlugin(http_routes=ROUTES)))) as application:
        yield application


def never() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


async def exchange(
    app: Application, scope: Mapping[str, Any], received: Mapping[str, Any] | None = None
) -> list[Any]:
    """The messages that the application sends for one that it receives."""
    sent: list[Any] = []
    messages = [received or {"type": "http.request"}]

    async def receive() -> Any:
        return messages.pop() if messages else await never()

    async def send(message: Any) -> None:
        sent.append(message)

    await app(dict(scope), receive, send)
    return sent


def scope(path: str, **more: Any) -> dict[str, Any]:
    """The scope of a request, with nothing that the specification leaves out."""
    return {
        "type": "http", "http_version": "1.1", "method": "GET", "path": path, "query_string": b"",
        "headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 40000), **more,
    }  # fmt: skip


def get(app: Application, path: str, **more: Any) -> tuple[int, bytes]:
    start, *pieces = asyncio.run(exchange(app, scope(path, **more)))
    return start["status"], b"".join(each["body"] for each in pieces)


@pytest.mark.parametrize(("path", "raw_path", "name", "root"), [
    ("/echo/a b%", None, "a b%", ""), ("/echo/a/b", b"/echo/a%2Fb", "a/b", ""),
    ("/below/echo/x", None, "x", "/below"),
    ("/below/echo/a/b", b"/below/echo/a%2Fb", "a/b", "/below"),
    ("/é/b c/echo/x", b"/%C3%A9/b%20c/echo/x", "x", "/é/b c"),
    ("/echo/x", b"/echo/x", "x", "/up"),
])  # fmt: skip
def test_item_3_paths_below_a_mount(
    app: Application, path: str, raw_path: bytes | None, name: str, root: str
) -> None:
    paths = {"root_path": root, "raw_path": raw_path}
    more = {key: value for key, value in paths.items() if value}
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


def test_without_a_token_only_this_machine_is_answered(app: Application) -> None:
    forwarded = [(b"host", b"localhost"), (b"x-forwarded-for", b"192.0.2.1")]
    assert get(app, "/echo/x", client=("192.0.2.1", 1))[0] == 403
    assert get(app, "/echo/x", client=None)[0] == 403
    assert get(app, "/echo/x", headers=forwarded)[0] == 403


def test_with_a_configured_token_any_machine_is_answered(
    make_host: MakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = [(b"host", b"localhost"), (b"authorization", b"Bearer a-long-enough-token")]
    monkeypatch.setenv("GENAI_HOST_SERVER_TOKEN", "a-long-enough-token")
    with closing(Application(make_host())) as app:
        assert get(app, "/v1/models", client=("192.0.2.1", 1), headers=headers)[0] == 200
        assert get(app, "/v1/models", client=("192.0.2.1", 1))[0] == 401


def test_http_2_has_no_header_connection(app: Application) -> None:
    """RFC 9113, section 8.2.2."""
    headers = [(b"host", b"elsewhere.example"), (b"expect", b"100-continue")]
    for version, closes in (("1.1", True), ("2", False)):
        asgi_scope = scope("/echo/x", http_version=version, headers=headers)
        start, *_ = asyncio.run(exchange(app, asgi_scope))
        assert (start["status"], b"connection" in dict(start["headers"])) == (421, closes)


def test_a_websocket_is_answered_as_its_request_or_closed(app: Application) -> None:
    asgi_scope = scope("/echo/x", type="websocket", scheme="ws", subprotocols=[])
    connect = {"type": "websocket.connect"}
    assert asyncio.run(exchange(app, asgi_scope, connect)) == [{"type": "websocket.close"}]
    asgi_scope["extensions"] = {"websocket.http.response": {}}
    del asgi_scope["method"]
    start, body = asyncio.run(exchange(app, asgi_scope, connect))
    assert (start["type"], start["status"]) == ("websocket.http.response.start", 200)
    assert body["type"] == "websocket.http.response.body"


def test_another_protocol_is_an_error(app: Application) -> None:
    with pytest.raises(RuntimeError, match="'x'"):
        asyncio.run(exchange(app, {"type": "x"}))


@pytest.fixture
def wrong_configuration() -> None:
    file = Path(paths.config_file())
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("[server]\nport = 'x'\n", encoding="utf-8")


@pytest.mark.usefixtures("wrong_configuration")
def test_a_wrong_configuration_is_one_line_for_the_server() -> None:
    received = {"type": "lifespan.startup"}
    (sent,) = asyncio.run(exchange(Application(), {"type": "lifespan"}, received))
    assert sent["type"] == "lifespan.startup.failed"
    assert "server.port" in sent["message"]
    assert "\n" not in sent["message"]


@pytest.mark.usefixtures("wrong_configuration")
def test_a_host_that_cannot_be_opened_is_a_status_without_a_lifespan() -> None:
    assert get(Application(), "/v1/models")[0] == 503


def test_a_failed_send_cancels_the_request(app: Application) -> None:
    async def main() -> None:
        messages: list[Any] = [{"type": "http.request"}]

        async def receive() -> Any:
            return messages.pop() if messages else await never()

        async def send(message: Any) -> None:
            if message.get("body"):
                raise OSError("the client has disconnected")

        await app(scope("/stream"), receive, send)
        assert await asyncio.to_thread(cancelled.wait, 60)

    asyncio.run(main())


@pytest.mark.parametrize("how", ["cancelled task", "failed receive"])
def test_a_request_that_ends_otherwise_is_cancelled(app: Application, how: str) -> None:
    async def main() -> None:
        messages: list[Any] = [{"type": "http.request"}]

        async def receive() -> Any:
            if messages:
                return messages.pop()
            await asyncio.to_thread(begun.wait, 60)
            return await never() if how == "cancelled task" else None

        async def send(message: Any) -> None:
            raise AssertionError(message)

        task = asyncio.create_task(app(scope("/wait"), receive, send))
        assert await asyncio.to_thread(begun.wait, 60)
        if how == "cancelled task":
            task.cancel()
        assert await asyncio.to_thread(cancelled.wait, 60)
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_a_client_that_left_before_it_was_refused_is_no_error(app: Application) -> None:
    async def send(message: Any) -> None:
        raise OSError("the client has disconnected")

    asgi_scope = scope("/echo/x", headers=[(b"host", b"elsewhere.example")])
    asyncio.run(app(asgi_scope, never, send))


def test_after_the_lifespan_requests_are_refused_until_the_next(app: Application) -> None:
    async def main() -> list[int]:
        statuses = []
        for _ in range(2):
            async with app.lifespan():
                statuses.append((await exchange(app, scope("/echo/x")))[0]["status"])
            statuses.append((await exchange(app, scope("/echo/x")))[0]["status"])
        return statuses

    assert [asyncio.run(main()) for _ in range(2)] == [[200, 503, 200, 503]] * 2


def test_a_cancelled_start_does_not_spoil_the_application(app: Application) -> None:
    async def main() -> int:
        app.start().cancel()
        return int((await exchange(app, scope("/echo/x")))[0]["status"])

    assert asyncio.run(main()) == 200
