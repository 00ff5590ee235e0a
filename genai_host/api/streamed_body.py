"""Streamed replies: server-sent events, and bodies whose first chunk may arrive late, for example
while a model thinks.

Source of the events: HTML Living Standard, "Server-sent events".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

from genai_host.api.http_routes import RouteRequest
from genai_host.api.json_text import write_json
from genai_host.errors import GenaiError, PluginError

_EVENTS = "text/event-stream"

_log = logging.getLogger(__name__)


def sse_event(name: str, data: Any) -> bytes:
    """Write a server-sent event with JSON as its data."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), write_json(data))


def prefers_events(request: RouteRequest) -> bool:
    """Whether a client prefers server-sent events to JSON, by order in `Accept`."""
    accepted = request.headers.get("accept", "").lower().split(",")
    kinds = [each.split(";")[0].strip() for each in accepted]
    return next((kind for kind in kinds if kind in (_EVENTS, "application/json")), "") == _EVENTS


@contextmanager
def reported() -> Iterator[None]:
    """Convert unexpected exceptions to an error that a stream can report: if the connection just
    ended, the client would take the answer for complete."""
    try:
        yield
    except (GenaiError, StopIteration):
        raise
    except Exception as error:
        _log.exception("an answer failed")
        raise PluginError("internal error; see the log of the server") from error


class StreamedBody:
    """Body of a streamed reply. Use its `begin` as `RouteResponse.begin`.

    An error before the first chunk becomes the reply. Once the headers are sent, it is reported in
    the body, like an error between chunks.

    Args:
        chunks: Generates the body.
        write_error: Writes an error as the last chunk.
    """

    def __init__(
        self, chunks: Generator[bytes, None, None], write_error: Callable[[GenaiError], bytes]
    ) -> None:
        self._chunks = chunks
        self._write_error = write_error
        self._first = b""
        self._failed: GenaiError | None = None

    def begin(self) -> None:
        """Wait for the first chunk. Raises the error that occurs before it."""
        try:
            with reported():
                self._first = next(self._chunks, b"")
        except GenaiError as error:
            self._failed = error
            raise

    def __iter__(self) -> Iterator[bytes]:
        try:
            if self._failed is not None:
                raise self._failed
            yield self._first
            with reported():
                yield from self._chunks
        except GenaiError as error:
            yield self._write_error(error)

    def close(self) -> None:
        """End the generator. Nothing follows."""
        self._first = b""
        self._chunks.close()
