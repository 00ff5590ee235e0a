"""One request of a client, and what is sent back for it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TypeAlias

from genai_mcp.rpc import Request, RpcError
from genai_mcp.server.messages import Outgoing
from genai_mcp.server.work import Work

SLOW = ("tools/call", "tools/list")
"""Methods that take their time."""

Sending: TypeAlias = "Generator[Outgoing, None, None]"


class Exchange:
    """Iterate once, in any thread. The last message is the answer, unless it is cancelled:
    then there is none.

    send       what is sent back for it
    refusal    why it is not done; None if it is
    is_quick   whether it is answered at once
    work       what is being done for it; None if that has not begun
    """

    def __init__(
        self,
        request: Request,
        send: Callable[[Exchange], Sending],
        refusal: RpcError | None = None,
    ) -> None:
        self.request = request
        self.refusal = refusal
        self.is_quick = refusal is not None or request.method not in SLOW
        self.cancelled = False
        self.work: Work | None = None
        self._send = send

    def __iter__(self) -> Iterator[Outgoing]:
        return self._send(self)

    def begin(self, work: Work) -> None:
        self.work = work
        if self.cancelled:  # meanwhile
            work.end()

    def cancel(self) -> None:
        """Nobody waits for it any more."""
        self.cancelled = True
        work = self.work
        if work is not None:
            work.end()
