"""ASGI 3 messages, and the connection of a request in any server.

Specification: https://asgi.readthedocs.io/en/latest/specs/www.html
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol

from genai_host.api import HttpProblem
from genai_host.serving.apis import problem_reply
from genai_server.heads import pairs_of

AsgiMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]

CONNECTION = "genai_host.connection"
"""ASGI extension that holds the `ClientConnection` of a request."""


class ClientGone(Exception):
    """The client has disconnected."""


class ClientConnection(Protocol):
    """The connection of a request."""

    def watch(self, on_disconnect: Callable[[], None]) -> None:
        """Set the function called when the client disconnects, immediately if it already has."""

    async def break_off(self) -> None:
        """Close the connection, so that the client does not mistake a partial reply for a complete
        one."""

    def end(self) -> None:
        """Stop watching: the request has ended."""


class AsgiConnection:
    """The connection of a request in any ASGI server."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._watching: asyncio.Task[None] | None = None

    def watch(self, on_disconnect: Callable[[], None]) -> None:
        self._watching = asyncio.create_task(self._wait(on_disconnect))

    async def _wait(self, on_disconnect: Callable[[], None]) -> None:
        with contextlib.suppress(Exception):  # of the server: the connection is of no more use
            while (await self._receive())["type"] != "http.disconnect":
                pass
        on_disconnect()

    async def break_off(self) -> None:
        """Nothing: servers close the connection if an application returns before its reply is
        complete. `BaseHTTPMiddleware` of Starlette completes it, even after an error."""

    def end(self) -> None:
        if self._watching is not None:
            self._watching.cancel()


async def send_problem(send: Send, problem: HttpProblem) -> None:
    """Send the reply for a problem, without a state of the server."""
    reply = problem_reply(problem)
    pairs = pairs_of(reply, {})
    await send({"type": "http.response.start", "status": reply.status, "headers": pairs})
    await send({"type": "http.response.body", "body": reply.body})
