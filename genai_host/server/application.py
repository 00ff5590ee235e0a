"""The host as an ASGI application.

Each request is an `Exchange`. What answers it may block, so it runs in a thread; the loop
reads and sends.
"""

from __future__ import annotations

import asyncio

from genai_host.errors import Interrupted
from genai_host.server.exchange import Exchange, Message, Receive, Send
from genai_host.server.shared import Shared

_LAST = 1.0  # seconds in which those that are ended may say so
_LEAST = 0.1  # where there is hurry


class Application:
    """The requests that are under way, until none is."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self._under_way: set[Exchange] = set()
        self._idle = asyncio.Event()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"the server does not speak {scope['type']}")
        exchange = Exchange(self.shared, scope, receive, send)
        self._under_way.add(exchange)
        try:
            await exchange.run()
        finally:
            self._under_way.discard(exchange)
            if not self._under_way:
                self._idle.set()

    async def drain(self, hurry: asyncio.Event) -> bool:
        """Let requests go on for as long as the settings say, or until there is hurry; then
        end them, and wait a second for what they say to that. Whether all have ended."""
        self.shared.is_draining = True
        await self._until_idle(self.shared.settings.drain, hurry)
        stopped = Interrupted("the server is being stopped", hint="go on with it later")
        for exchange in list(self._under_way):
            exchange.interrupt(stopped)
        await self._until_idle(_LEAST if hurry.is_set() else _LAST, asyncio.Event())
        return not self._under_way

    async def _until_idle(self, seconds: float, hurry: asyncio.Event) -> None:
        if not self._under_way:
            return
        self._idle.clear()
        waits = [asyncio.ensure_future(each.wait()) for each in (self._idle, hurry)]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()
