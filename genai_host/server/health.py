"""Whether the server lives, and whether it can be sent requests: for who looks after it."""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import Future

from genai_host.api import RouteReply, json_reply
from genai_host.errors import GenaiError
from genai_host.host import Host
from genai_host.server.heads import Head
from genai_host.server.workers import Workers

_KNOWN = 1.0  # seconds for which what was seen of the store is taken for true

_log = logging.getLogger(__name__)


class Health:
    """Of one host, and one loop. It says nothing that is not for everybody."""

    def __init__(self, host: Host, workers: Workers) -> None:
        self._host = host
        self._workers = workers
        self._looking: Future[bool] | None = None
        self._seen = 0.0

    async def reply(self, head: Head, lack: str) -> RouteReply | None:
        """None for a request of something else.

        lack   why the server can answer nothing now; empty if it can
        """
        if head.path not in ("/health", "/ready") or head.method not in ("GET", "HEAD"):
            return None
        if head.path == "/health":
            return json_reply({"status": "ok"})
        if not lack and not await self._has_store():
            lack = "no store"
        return json_reply({"status": lack or "ready"}, 503 if lack else 200)

    async def _has_store(self) -> bool:
        """Looked at in a thread, once for all who ask at the same time."""
        is_old = time.monotonic() - self._seen > _KNOWN
        if self._looking is None or (self._looking.done() and is_old):
            looking: Future[bool] = Future()
            self._workers.submit(lambda: looking.set_result(self._look()))
            self._looking, self._seen = looking, time.monotonic()
        # who goes must not end it for the others
        return await asyncio.shield(asyncio.wrap_future(self._looking))

    def _look(self) -> bool:
        try:
            if self._host.store is not None:
                self._host.store.check()
        except GenaiError:
            return False
        except BaseException:  # noqa: BLE001 - those who wait are told, whatever it is
            _log.exception("the store cannot be looked at")
            return False
        return True
