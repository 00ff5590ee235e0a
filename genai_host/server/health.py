"""Whether the server lives, and whether it can be sent requests: for who looks after it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from genai_host.api import RouteReply, json_reply
from genai_host.errors import GenaiError
from genai_host.host import Host
from genai_host.server.heads import Head

if TYPE_CHECKING:
    from genai_host.server.application import Application

_KNOWN = 1.0  # seconds for which what was seen of the store is taken for true


class Health:
    """Of one application. It says nothing that is not for everybody."""

    def __init__(self, host: Host, application: Application) -> None:
        self._host = host
        self._application = application
        self._looking: asyncio.Future[bool] | None = None
        self._seen = 0.0

    async def reply(self, head: Head) -> RouteReply | None:
        """None for a request of something else."""
        if head.path not in ("/health", "/ready") or head.method not in ("GET", "HEAD"):
            return None
        if head.path == "/health":
            return json_reply({"status": "ok"})
        lack = await self._lack()
        return json_reply({"status": lack or "ready"}, 503 if lack else 200)

    async def _lack(self) -> str:
        """Why it is not ready; empty if it is."""
        if self._application.is_draining:
            return "stopping"
        if not self._application.is_loaded:
            return "starting"
        return "" if await self._has_store() else "no store"

    async def _has_store(self) -> bool:
        """Looked at in a thread, once for all who ask at the same time."""
        if self._looking is None or time.monotonic() - self._seen > _KNOWN:
            self._seen = time.monotonic()
            self._looking = self._application.loop.create_future()
            self._application.workers.submit(self._look)
        return await asyncio.shield(self._looking)

    def _look(self) -> None:
        try:
            if self._host.store is not None:
                self._host.store.check()
        except GenaiError:
            self._application.from_thread(self._saw, False)
        else:
            self._application.from_thread(self._saw, True)

    def _saw(self, is_there: bool) -> None:
        if self._looking is not None and not self._looking.done():
            self._looking.set_result(is_there)
