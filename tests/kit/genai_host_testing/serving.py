"""A host that is served, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from genai_host import Host
from genai_host.server.server import Server

__all__ = ["served"]


@contextmanager
def served(host: Host, **given: Any) -> Iterator[Server]:
    """The host, served on a free port of this machine: `server.url`. What is given is as
    `ServerSettings` takes it; it does not wait for what is under way in the end."""
    with Server(host, **{"port": 0, "graceful_timeout": 0.0, **given}) as server:
        yield server
