"""A served host, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from genai_host import Host
from genai_host.server.server import Server

__all__ = ["served"]


@contextmanager
def served(host: Host, **given: Any) -> Iterator[Server]:
    """Serve the host on a free local port: `server.url`. The arguments are those of
    `ServerSettings`. At the end it does not wait for requests in progress.
    """
    with Server(host, **{"port": 0, "graceful_timeout": 0.0, **given}) as server:
        yield server
