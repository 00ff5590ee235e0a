"""Bodies of streamed replies whose first chunk may take long, for example while a model thinks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

from genai_host.errors import GenaiError, PluginError

_log = logging.getLogger(__name__)


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
