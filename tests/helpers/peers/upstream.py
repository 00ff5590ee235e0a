"""A served host with a service behind it whose streams stop in the middle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import genai_vendor_openai

from genai_host import Config
from genai_host.config.schema import InstanceConfig
from genai_host.testing.fake_service import FakeService, Step, sse_reply
from genai_host_testing.fixtures import MakeHost
from genai_host_testing.serving import served

__all__ = ["MODEL", "served_upstream"]

MODEL = "remote/m"
_HELLO = b'{"choices":[{"index":0,"delta":{"content":"hello"}}]}'


@contextmanager
def served_upstream(make_host: MakeHost, then: Sequence[Step]) -> Iterator[tuple[str, FakeService]]:
    """The address of the host, and the service that says `hello` and then does this, if `MODEL`
    is asked."""
    with FakeService() as service:
        service.replies = [sse_reply([_HELLO, *then])]
        remote = InstanceConfig("openai-compatible", settings={"base_url": f"{service.url}/v1"})
        host = make_host(openai=genai_vendor_openai, config=Config(providers={"remote": remote}))
        with served(host) as server:
            yield server.url, service
