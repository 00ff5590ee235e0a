"""The host for asyncio and notebooks: the same one, each wait in a thread.

    async with AsyncHost() as host:
        conversation = await host.open("chat", model="smollm2")
        async for event in conversation.stream("hi"):
            print(event.text, end="")

`Host` itself may be used where a loop runs, too; it blocks the loop while it waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from typing import Any, TypeVar

from genai_host.api import Answer, Message
from genai_host.conversation import Conversation, Said
from genai_host.events import Event
from genai_host.host import Host

T = TypeVar("T")


class AsyncHost:
    """A `Host` whose calls are awaited; it takes the same arguments.

    host   the one below
    """

    def __init__(self, host: Host | None = None, **arguments: Any) -> None:
        self.host = host or Host(**arguments)

    async def open(self, *arguments: Any, **named: Any) -> AsyncConversation:
        """As `Host.open`."""
        conversation = await asyncio.to_thread(self.host.open, *arguments, **named)
        return AsyncConversation(conversation)

    async def close(self) -> None:
        """As `Host.close`."""
        await asyncio.to_thread(self.host.close)

    async def __aenter__(self) -> AsyncHost:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


class AsyncConversation:
    """A `Conversation` whose turns are awaited.

    Cancelling the task that awaits a turn cancels the turn.

    conversation   the one below
    """

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation

    @property
    def history(self) -> tuple[Message, ...]:
        """As `Conversation.history`."""
        return self.conversation.history

    async def say(
        self, message: Said, *, context: Mapping[str, Any] | None = None, returns: Any = None
    ) -> Answer:
        """As `Conversation.say`."""
        return await self._in_thread(
            lambda: self.conversation.say(message, context=context, returns=returns)
        )

    async def resume(self, result: Any = None, *, returns: Any = None) -> Answer:
        """As `Conversation.resume`."""
        return await self._in_thread(lambda: self.conversation.resume(result, returns=returns))

    async def stream(
        self, message: Said, *, context: Mapping[str, Any] | None = None, returns: Any = None
    ) -> AsyncIterator[Event]:
        """As `Conversation.stream`."""
        events = self.conversation.stream(message, context=context, returns=returns)
        try:
            while (event := await self._in_thread(lambda: next(events, None))) is not None:
                yield event
        finally:
            await asyncio.to_thread(_close, events)

    def cancel(self) -> None:
        """As `Conversation.cancel`."""
        self.conversation.cancel()

    async def close(self) -> None:
        """As `Conversation.close`."""
        self.conversation.close()

    async def __aenter__(self) -> AsyncConversation:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Wait for a thread; being cancelled meanwhile cancels the turn, and waits for
        the thread to have noticed."""
        waiting = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            while not waiting.done():  # the turn may not have begun when it is cancelled
                self.conversation.cancel()
                await asyncio.wait([waiting], timeout=0.05)
            if not waiting.cancelled():
                waiting.exception()  # it is looked at: the caller learns that it cancelled
            raise


def _close(events: Generator[Event, None, None]) -> None:
    events.close()
