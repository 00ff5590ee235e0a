"""The application in ASGI servers of others, and mounted in FastAPI; with the official SDK."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
import requests

from genai_host_testing.internal.servers import wait_until

pytestmark = pytest.mark.peers

HELPERS = Path(__file__).resolve().parents[1] / "helpers"
APP = "peers.asgi_app"
# the path of the application, and the arguments of a server at a port
SERVERS = {
    "uvicorn": ("", "uvicorn --factory {app}:plain --port {port}"),
    "hypercorn": ("", "hypercorn {app}:plain() --bind 127.0.0.1:{port}"),
    "granian": ("", "granian --interface asgi --factory {app}:plain --port {port}"),
    "fastapi": ("/below", "uvicorn --factory {app}:mounted --port {port}"),
}


@contextlib.contextmanager
def started(name: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The address of the application in a server, and the process."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    path, arguments = SERVERS[name]
    command = [sys.executable, "-m", *arguments.format(app=APP, port=port).split()]
    url = f"http://127.0.0.1:{port}{path}"
    with subprocess.Popen(command, cwd=HELPERS, start_new_session=True) as process:
        try:
            wait_until(lambda: is_ready(url))
            yield url, process
        finally:
            with contextlib.suppress(ProcessLookupError):  # some have workers
                os.killpg(process.pid, signal.SIGKILL)


def is_ready(url: str) -> bool:
    with contextlib.suppress(requests.ConnectionError):
        return requests.get(f"{url}/ready", timeout=30).status_code == 200
    return False


@pytest.fixture(scope="module", params=SERVERS)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with started(request.param) as (address, _):
        yield address


def test_item_3_the_sdk_gets_an_answer_whole_and_streamed(url: str) -> None:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="-", max_retries=0) as client:
        assert "mock" in [model.id for model in client.models.list()]
        request = {"model": "mock", "messages": [{"role": "user", "content": "one two three"}]}
        completion = client.chat.completions.create(**request)
        assert completion.choices[0].message.content == "one two three"
        chunks = client.chat.completions.create(**request, stream=True)
        pieces = [each.choices[0].delta.content or "" for each in chunks]
        assert "".join(pieces) == "one two three"
        assert len(pieces) > 2


def test_item_3_links_of_the_page_are_below_its_path(url: str) -> None:
    page = requests.get(f"{url}/", timeout=30)
    assert page.headers["content-type"].startswith("text/html")
    assert requests.get(f"{url}/page/assets/page.css", timeout=30).status_code == 200


def test_item_3_half_a_reply_is_no_whole_one(url: str) -> None:
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        requests.get(f"{url}/cut", timeout=30)


def test_item_3_a_client_that_leaves_is_noticed(url: str) -> None:
    before = requests.get(f"{url}/left", timeout=30).json()
    with requests.get(f"{url}/endless", stream=True, timeout=30) as reply:
        assert next(reply.iter_content(5)) == b"begun"
    wait_until(lambda: requests.get(f"{url}/left", timeout=30).json() == before + 1)


def test_item_3_a_websocket_is_answered_with_what_there_is_instead(url: str) -> None:
    headers = {
        "connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }  # fmt: skip
    reply = requests.get(f"{url}/v1/responses", headers=headers, timeout=30)
    # 403 without the extension of ASGI for replies to handshakes
    assert reply.status_code in (426, 403)


@pytest.mark.parametrize("name", SERVERS)
def test_item_3_a_signal_ends_it(name: str) -> None:
    with started(name) as (url, process):
        assert requests.get(f"{url}/health", timeout=30).json() == {"status": "ok"}
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, -signal.SIGTERM)
