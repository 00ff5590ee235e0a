"""The server over HTTP in several processes, with the official client."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from genai_host_testing.fake_service import FakeService
from genai_host_testing.internal.servers import TOKEN, configure, serving
from genai_host_testing.services.openai import chat

from .mcp_clients import MODES

pytestmark = pytest.mark.process

HEADERS = {"authorization": f"Bearer {TOKEN}"}
ASKED = {"message": "hi", "model": "remote/m"}


@pytest.mark.skipif(sys.platform == "win32", reason="several workers need Unix")
def test_any_worker_answers(home: Path) -> None:
    async def use(url: str, mode: Any, version: str) -> None:
        results: list[str] = []

        async def call() -> None:
            results.append(str((await client.call_tool("ask_chat", ASKED)).content))

        async with (
            httpx2.AsyncClient(headers=HEADERS, timeout=60) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
            anyio.create_task_group() as tasks,
        ):
            assert client.protocol_version == version
            for _ in range(16):  # over several connections, which the workers share
                tasks.start_soon(call)
        assert len(results) == 16
        assert all("done" in each for each in results)

    with FakeService(answer=lambda received: chat("done")) as service:
        configure(home, service)
        with serving("--workers", "2") as server:
            for mode, version in MODES:
                anyio.run(use, f"{server.url}/mcp", mode, version)
