"""The host for asyncio and notebooks: each blocking call runs in a thread.

    async with AsyncHost() as host:
        conversation = await host.open("chat", model="smollm2")
        async for event in conversation.stream("hi"):
            print(event.text, end="")

`Host` can also be used where an event loop runs, but it blocks the loop.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from genai_host.api import (
    Answer,
    CancelToken,
    Completion,
    Delta,
    Embeddings,
    Message,
    ModerationResult,
    Prompt,
    TokenCount,
    ToolOutput,
    Transcription,
)
from genai_host.api.cancellation import Cancellation, ended_with
from genai_host.api.features import Event
from genai_host.conversations.conversation import Conversation, UserInput
from genai_host.errors import Cancelled, ConversationBusy
from genai_host.host import Host

if TYPE_CHECKING:  # importing the store is slow
    from genai_host.catalog.catalog import Catalog
    from genai_host.catalog.join import Candidate
    from genai_host.conversations.record import InMemoryRecord
    from genai_host.store import Store
    from genai_host.store.records import Summary

T = TypeVar("T")


class AsyncHost:
    """A `Host` with awaitable methods; accepts the same arguments.

    Attributes:
        host: The underlying host.
    """

    def __init__(self, host: Host | None = None, **arguments: Any) -> None:
        self.host = host or Host(**arguments)

    @property
    def store(self) -> Store | None:
        """As `Host.store`."""
        return self.host.store

    async def open(self, *arguments: Any, **named: Any) -> AsyncConversation:
        """As `Host.open`."""
        return AsyncConversation(await _in_thread(lambda: self.host.open(*arguments, **named)))

    async def conversation(self, id: str, *arguments: Any, **named: Any) -> AsyncConversation:
        """As `Host.conversation`."""
        return AsyncConversation(
            await _in_thread(lambda: self.host.conversation(id, *arguments, **named))
        )

    async def conversations(
        self, *, limit: int | None = 20, after: str | None = None
    ) -> list[Summary]:
        """As `Host.conversations`."""
        return await _in_thread(lambda: self.host.conversations(limit=limit, after=after))

    async def reopen(self, record: InMemoryRecord, **named: Any) -> AsyncConversation:
        """As `Host.reopen`."""
        return AsyncConversation(await _in_thread(lambda: self.host.reopen(record, **named)))

    async def call_tool(self, *arguments: Any, **named: Any) -> ToolOutput:
        """As `Host.call_tool`."""
        return await _in_thread(lambda: self.host.call_tool(*arguments, **named))

    async def probe(self, *arguments: Any) -> Catalog:
        """As `Host.probe`."""
        return await _in_thread(lambda: self.host.probe(*arguments))

    async def refresh(self) -> Catalog:
        """As `Host.refresh`."""
        return await _in_thread(self.host.refresh)

    async def routes(self) -> list[Candidate]:
        """As `Host.routes`."""
        return await _in_thread(self.host.routes)

    def prompt(
        self, prompt: Prompt, *, limits: CancelToken | None = None, **named: Any
    ) -> AsyncCompletion:
        """As `Host.prompt`."""
        return AsyncCompletion(
            lambda until: self.host.prompt(prompt, limits=until, **named), limits
        )

    def complete(
        self,
        prompt: str | Iterable[str | Sequence[int]],
        *,
        limits: CancelToken | None = None,
        **named: Any,
    ) -> AsyncCompletion:
        """As `Host.complete`."""
        return AsyncCompletion(
            lambda until: self.host.complete(prompt, limits=until, **named), limits
        )

    async def count_tokens(self, *arguments: Any, **named: Any) -> TokenCount:
        """As `Host.count_tokens`."""
        return await _in_thread(lambda: self.host.count_tokens(*arguments, **named))

    async def embed(self, *arguments: Any, **named: Any) -> Embeddings:
        """As `Host.embed`."""
        return await _in_thread(lambda: self.host.embed(*arguments, **named))

    async def moderate(self, *arguments: Any, **named: Any) -> ModerationResult:
        """As `Host.moderate`."""
        return await _in_thread(lambda: self.host.moderate(*arguments, **named))

    async def transcribe(self, *arguments: Any, **named: Any) -> Transcription:
        """As `Host.transcribe`."""
        return await _in_thread(lambda: self.host.transcribe(*arguments, **named))

    async def close(self) -> None:
        """As `Host.close`."""
        await _in_thread(self.host.close)

    async def __aenter__(self) -> AsyncHost:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


class AsyncCompletion:
    """An answer of a model, in chunks or as a whole:

        async for delta in host.prompt(prompt):
            print(delta.text, end="")

        completion = await host.prompt(prompt)

    Cancelling the task that reads it cancels the call, as does `aclose`.

    Attributes:
        completion: The answer; None until all of it was read.
    """

    def __init__(
        self,
        call: Callable[[CancelToken], Generator[Delta, None, Completion]],
        limits: CancelToken | None,
    ) -> None:
        self.completion: Completion | None = None
        self._limits = limits
        self._error: Exception | None = None
        self._until = Cancellation()
        self._deltas = call(self._until)
        self._reading = threading.Lock()  # a generator can only be closed when it waits

    def __aiter__(self) -> AsyncCompletion:
        return self

    async def __anext__(self) -> Delta:
        delta = await self._read(self._next)
        if delta is None:
            raise StopAsyncIteration
        return delta

    def __await__(self) -> Generator[Any, None, Completion]:
        return self._whole().__await__()

    async def aclose(self) -> None:
        """Cancel the call if it is in progress."""
        self._until.cancel()
        await _in_thread(self._close)

    async def _whole(self) -> Completion:
        await self._read(self._skip_to_end)
        if self._error is not None:  # a generator ends with its first error
            raise self._error
        if self.completion is None:
            raise Cancelled("the call was cancelled")
        return self.completion

    async def _read(self, work: Callable[[], T]) -> T:
        return await _awaited(lambda: self._within_limits(work), self._until.cancel)

    def _within_limits(self, work: Callable[[], T]) -> T:
        limits = self._limits
        with (
            self._reading,
            nullcontext()
            if limits is None
            else limits.on_cancel(lambda: self._until.cancel(ended_with(limits))),
        ):
            return work()

    def _next(self) -> Delta | None:
        try:
            return next(self._deltas)
        except StopIteration as end:
            self.completion = self.completion or end.value
            return None
        except Exception as error:
            self._error = error
            raise

    def _skip_to_end(self) -> None:
        while self._next() is not None:
            pass

    def _close(self) -> None:
        with self._reading:
            self._deltas.close()


class AsyncConversation:
    """A `Conversation` with awaitable methods.

    Cancelling the task that awaits a turn cancels the turn.

    Attributes:
        conversation: The underlying conversation.
    """

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self._turn: _Turn | None = None

    @property
    def id(self) -> str:
        """As `Conversation.id`."""
        return self.conversation.id

    @property
    def history(self) -> tuple[Message, ...]:
        """As `Conversation.history`."""
        return self.conversation.history

    async def say(
        self,
        message: UserInput | None = None,
        *,
        regenerate: bool = False,
        context: Mapping[str, Any] | None = None,
        output_type: Any = None,
    ) -> Answer:
        """As `Conversation.say`."""
        turn = await self._begin(_Turn(self.conversation))
        return await turn.wait_for(
            lambda: self.conversation.say(
                message, regenerate=regenerate, context=context, output_type=output_type
            )
        )

    async def resume(self, result: Any = None, *, output_type: Any = None) -> Answer:
        """As `Conversation.resume`."""
        turn = await self._begin(_Turn(self.conversation))
        return await turn.wait_for(
            lambda: self.conversation.resume(result, output_type=output_type)
        )

    def stream(
        self,
        message: UserInput | None = None,
        *,
        regenerate: bool = False,
        context: Mapping[str, Any] | None = None,
        output_type: Any = None,
    ) -> AsyncGenerator[Event, None]:
        """As `Conversation.stream`.

        An abandoned stream ends with the next turn. To end it and its turn immediately, close it:

            async with contextlib.aclosing(conversation.stream("hi")) as events:
                async for event in events:
                    ...
        """
        events = self.conversation.stream(
            message, regenerate=regenerate, context=context, output_type=output_type
        )
        turn = _Turn(self.conversation, events)
        stream = self._stream(turn)
        turn.stream = weakref.ref(stream)
        return stream

    def cancel(self) -> None:
        """As `Conversation.cancel`."""
        self.conversation.cancel()

    async def close(self) -> None:
        """As `Conversation.close`."""
        self.conversation.close()
        await self._end_abandoned_turn()

    async def __aenter__(self) -> AsyncConversation:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _stream(self, turn: _Turn) -> AsyncGenerator[Event, None]:
        await self._begin(turn)
        try:
            while (event := await turn.next_event()) is not None:
                yield event
        finally:
            await turn.end()

    async def _begin(self, turn: _Turn) -> _Turn:
        """Start a turn. Raises `ConversationBusy` before a thread is started: cancelling a refused
        call must not cancel the running turn."""
        last = self._turn
        await self._end_abandoned_turn()
        if self._turn is not last or (last is not None and not last.is_abandoned()):
            raise ConversationBusy("a turn is running", hint="wait for it, or cancel() it")
        self._turn = turn
        return turn

    async def _end_abandoned_turn(self) -> None:
        if self._turn is not None and self._turn.is_abandoned():
            with suppress(Exception):  # its outcome is no longer needed
                await self._turn.end()


class _Turn:
    """A turn, and whether it is still awaited.

    Args:
        conversation: The conversation.
        events: Events of a streamed turn; None otherwise.

    Attributes:
        stream: Returns the asynchronous stream of the events, or None if it was garbage collected.
    """

    def __init__(
        self, conversation: Conversation, events: Generator[Event, None, None] | None = None
    ) -> None:
        self.stream: Callable[[], object] = lambda: None
        self._conversation = conversation
        self._events = events
        self._is_awaited = False
        self._task: asyncio.Task[Any] | None = None
        self._ending: asyncio.Future[None] | None = None

    def is_abandoned(self) -> bool:
        """Whether no task consumes the turn: it has ended, its stream was dropped, or the last
        consumer does something else."""
        if self._is_awaited:
            return False
        if self._ending is not None or self.stream() is None:
            return True
        return self._task is asyncio.current_task()

    async def next_event(self) -> Event | None:
        """The next event; None at the end. Raises `Cancelled` if another turn was started
        meanwhile."""
        events = self._events
        if events is None or self._ending is not None:
            raise Cancelled("the stream was abandoned and another turn started")
        return await self.wait_for(lambda: next(events, None))

    async def wait_for(self, work: Callable[[], T]) -> T:
        """Wait for work of the turn, which is cancelled with the task."""
        self._task, self._is_awaited = asyncio.current_task(), True
        try:
            return await _awaited(work, self._conversation.cancel)
        finally:
            self._is_awaited = False

    async def end(self) -> None:
        """End an abandoned stream; concurrent callers wait."""
        if self._events is not None and self._ending is None:
            self._ending = _in_thread(self._events.close)
        if self._ending is not None:
            await asyncio.shield(self._ending)


async def _awaited(work: Callable[[], T], cancel: Callable[[], None]) -> T:
    """Run work in a thread. If the task is cancelled, cancel the work and wait until its thread has
    ended it."""
    waiting = _in_thread(work)
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        cancel()
        while not waiting.done():  # a turn may not have begun when it is cancelled
            await asyncio.wait([waiting], timeout=0.05)
            cancel()
        if not waiting.cancelled():
            waiting.exception()  # retrieved: the caller gets `CancelledError`
        raise


def _in_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """Run a function in a new thread.

    asyncio's thread pool is not used: if all its threads wait for answers, none is left to cancel
    them.
    """
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            outcome.set_result(context.run(work))
        except BaseException as error:  # noqa: BLE001 - it is raised where it is awaited
            outcome.set_exception(error)

    threading.Thread(target=run, name="genai-host-call", daemon=True).start()
    return asyncio.wrap_future(outcome)
