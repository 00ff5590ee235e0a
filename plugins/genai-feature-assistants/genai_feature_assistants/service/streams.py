"""What happens in runs, to whoever listens in this process, as server-sent events.

Source: OpenAI API reference, "Assistants streaming".
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from genai_feature_assistants.service.shelf import Object
from genai_host.api import RouteResponse
from genai_host.api.json_text import write_json

_Heard = tuple[str, Object]
DONE = b"event: done\ndata: [DONE]\n\n"


class Streams:
    """Of one process. May be used from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listening: dict[str, list[queue.SimpleQueue[_Heard | None]]] = {}

    def tell(self, run: str, event: str, value: Object) -> None:
        """Something has happened in a run."""
        self._put(run, (event, value))

    def end(self, run: str) -> None:
        """Nothing more will happen here."""
        self._put(run, None)

    def is_heard(self, run: str) -> bool:
        return run in self._listening

    @contextmanager
    def listen(self, run: str) -> Iterator[Iterator[_Heard]]:
        """What happens from now on, until the end."""
        heard: queue.SimpleQueue[_Heard | None] = queue.SimpleQueue()
        with self._lock:
            self._listening.setdefault(run, []).append(heard)
        try:
            yield iter(heard.get, None)
        finally:
            with self._lock:
                self._listening[run].remove(heard)
                if not self._listening[run]:
                    del self._listening[run]

    def _put(self, run: str, value: _Heard | None) -> None:
        with self._lock:
            for heard in self._listening.get(run, ()):
                heard.put(value)


def events_reply(body: Generator[bytes, None, None]) -> RouteResponse:
    """Events as they come; what is raised before the first of them is a reply of its own.

    body   nothing first, once all is in order
    """
    next(body)
    headers = {"content-type": "text/event-stream", "cache-control": "no-cache"}
    return RouteResponse(body, headers=headers, silence=b": waiting\n\n")


def event_of(name: str, value: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + write_json(value) + b"\n\n"
