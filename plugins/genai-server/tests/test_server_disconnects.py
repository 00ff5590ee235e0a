"""A client that disconnects ends the call of its model, in each API."""

from __future__ import annotations

import json
import threading
from http.client import HTTPConnection
from typing import Any

import pytest

from genai_host.api import CancelToken
from genai_host_testing import FakeModel, RouteServer
from genai_host_testing.fake_service import HANG
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part

_HI = {"role": "user", "content": "hi"}
_MESSAGES = {"model": "fake", "max_tokens": 9, "messages": [_HI]}


class _Hanging(FakeModel):
    def __init__(self) -> None:
        super().__init__()
        self.freed = threading.Event()
        self.faults[0] = HANG

    def hang(self, limits: CancelToken) -> None:
        try:
            super().hang(limits)
        finally:
            self.freed.set()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/chat", _MESSAGES),
        ("/v1/chat/completions", _MESSAGES),
        ("/v1/messages", _MESSAGES),
        ("/v1/responses", {"model": "fake", "input": "hi"}),
        ("/v1beta/models/fake:", {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}),
    ],
)
def test_a_client_that_goes_ends_the_call(
    make_host: MakeHost, path: str, body: dict[str, Any], stream: bool
) -> None:
    fake = _Hanging()
    if path.endswith(":"):
        path += "streamGenerateContent" if stream else "generateContent"
    else:
        body = {**body, "stream": stream}
    with RouteServer(make_host(fake=fake)) as server:
        client = HTTPConnection(server.url.removeprefix("http://"))
        client.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        assert fake.hanging.wait(20)
        client.close()
        assert fake.freed.wait(20)
