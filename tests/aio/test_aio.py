"""The host where a loop runs."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager

import pytest
from attrs import evolve
from openai_form import gate_api

from genai_host import AsyncHost, Host
from genai_host.aio import AsyncConversation
from genai_host.api import (
    Answer,
    CallFunction,
    CancelToken,
    DialectEndpoint,
    Feature,
    FeatureSteps,
    Message,
    NoSettings,
    Pause,
    Prompt,
    Provider,
    ProviderReply,
    ProviderRequest,
    ProviderType,
    Turn,
)
from genai_host.api.cancellation import Cancellation
from genai_host.conversations.record import InMemoryRecord
from genai_host.errors import (
    Cancelled,
    ConversationBusy,
    ConversationClosed,
    NoRoute,
    NotFound,
    RateLimited,
    TurnPaused,
    ValidationError,
)
from genai_host.store import Store
from genai_host_testing import InlinePlugin
from genai_host_testing.fake_service import FakeService, json_reply
from genai_host_testing.internal.fixtures import MakeHost

LONG = 30.0


async def test_tokens_are_counted(make_host: MakeHost) -> None:
    async with AsyncHost(make_host()) as host:
        count = await host.count_tokens("one two", model="mock")
        assert count == evolve(
            host.host.count_tokens("one two", model="mock"), seconds=count.seconds
        )


async def test_models_without_a_conversation(make_host: MakeHost) -> None:
    async with AsyncHost(make_host()) as host:
        vectors = await host.embed(["one"], model="mock-embed")
        assert vectors.vectors == host.host.embed(["one"], model="mock-embed").vectors
        with pytest.raises(NoRoute):
            await host.moderate("one", model="mock")


NOT_AWAITED = {
    "budgets", "catalog", "check_configuration", "codec", "default_model", "explain", "feature",
    "instances", "jobs", "observers", "offered_tools", "open_executor", "pass_through", "plugins",
    "reconfigure", "registry", "store_for", "suspends", "tool", "toolbox", "tools",
}  # fmt: skip
"""Names of `Host` for its management and for its server, which use `AsyncHost.host`."""


def test_it_has_the_methods_of_the_host() -> None:
    public = {name for name in dir(Host) if not name.startswith("_")}
    assert public - {*dir(AsyncHost)} == NOT_AWAITED


PROMPT = Prompt([Message("user", "one two")])


async def test_a_prompt_is_answered_in_chunks_or_as_a_whole(make_host: MakeHost) -> None:
    async with AsyncHost(make_host()) as host:
        answer = host.prompt(PROMPT, model="mock")
        texts = [delta.text async for delta in answer]
        assert len(texts) > 1
        assert answer.completion is not None
        assert "".join(texts) == answer.completion.text == "one two"
        assert await answer == answer.completion
        assert (await host.prompt(PROMPT, model="mock", stream=False)).text == "one two"
        failed = host.prompt(PROMPT, model="nobody")
        for _ in range(2):
            with pytest.raises(NoRoute):
                await failed
        with pytest.raises(ValidationError):
            host.prompt(PROMPT, model=3)


@pytest.mark.part
async def test_a_text_is_completed(make_host: MakeHost, service: FakeService) -> None:
    service.replies = [json_reply({"choices": [{"index": 0, "text": " Paris"}]})]
    with gate_api(make_host, service, {}) as api:
        host = AsyncHost(api.host)
        completion = await host.complete("in", model="gate/m", stream=False)
    assert completion.text == " Paris"


@pytest.mark.parametrize("whole", [False, True])
async def test_cancelling_the_task_cancels_the_call(make_host: MakeHost, whole: bool) -> None:
    stuck = Stuck()
    plugin = InlinePlugin(providers=[ProviderType("stuck", NoSettings, lambda *_: stuck)])
    async with AsyncHost(make_host(stuck=plugin)) as host:
        answer = host.prompt(PROMPT, model="stuck/x")

        async def read() -> None:
            if whole:
                await answer
            async for _ in answer:
                pass

        task = asyncio.create_task(read())
        await stuck.began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert stuck.ended
        with pytest.raises(Cancelled):
            await answer


async def test_the_call_is_cancelled_though_a_chunk_has_just_come(make_host: MakeHost) -> None:
    async with AsyncHost(make_host()) as host:
        answer = host.prompt(PROMPT, model="mock")
        reading = asyncio.ensure_future(anext(answer))
        await asyncio.sleep(0)  # its thread is started
        for thread in threading.enumerate():
            if thread.name == "genai-host-call":
                thread.join(LONG)  # the loop does not learn of the chunk
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        with pytest.raises(Cancelled):
            await answer


async def test_a_call_ends_with_its_limits_or_if_it_is_closed(make_host: MakeHost) -> None:
    async with AsyncHost(make_host()) as host:
        limits = Cancellation()
        answer = host.prompt(PROMPT, model="mock", limits=limits)
        assert (await anext(answer)).text
        limits.cancel(RateLimited("enough"))
        with pytest.raises(RateLimited, match="enough"):
            await answer
        async with aclosing(host.prompt(PROMPT, model="mock")) as closed:
            assert (await anext(closed)).text
        assert [delta async for delta in closed] == []
        assert closed.completion is None


@pytest.mark.part
async def test_a_conversation_is_restored_from_its_event_log(make_host: MakeHost) -> None:
    async with AsyncHost(make_host()) as host:
        record = InMemoryRecord()
        await (await host.open("chat", "mock", record=record)).say("one")
        again = await host.reopen(record)
        assert [message.text for message in again.history] == ["one", "one"]


async def test_tools_and_models_without_a_conversation(make_host: MakeHost) -> None:
    async with AsyncHost(make_host()) as host:
        output = await host.call_tool("nobody")
        assert output.error
        assert await host.routes() == host.host.routes()
        assert (await host.refresh()).matrix() == (await host.probe()).matrix()


@pytest.mark.part
async def test_conversations_are_kept_and_gone_on_with(make_host: MakeHost) -> None:
    with Store() as store:
        async with AsyncHost(make_host(store=store)) as host:
            assert host.store is store
            conversation = await host.open("chat", "mock")
            await conversation.say("one")
            [summary] = await host.conversations(limit=5)
            assert (summary.id, summary.title) == (conversation.id, "one")
            again = await host.conversation(conversation.id[:-1], parameters={"temperature": 0.5})
            await again.say("two")
            assert [message.text for message in again.history] == ["one", "one", "two", "two"]
            with pytest.raises(NotFound):
                await host.conversation("zzz")
    assert AsyncHost(make_host()).store is None


async def test_a_message_can_be_said_again(make_host: MakeHost) -> None:
    async with opened(make_host) as conversation:
        await conversation.say("x")
        assert (await conversation.say(regenerate=True)).text == "x"
        texts = [event.text async for event in conversation.stream(regenerate=True)]
        assert "".join(texts) == "x"
        assert len(conversation.history) == 2


async def test_conversations_run_side_by_side(make_host: MakeHost) -> None:
    async with AsyncHost(make_host()) as host:
        conversations = [await host.open("chat", "mock") for _ in range(20)]
        answers = await asyncio.gather(
            *(each.say(f"q{number}") for number, each in enumerate(conversations))
        )
        assert [answer.text for answer in answers] == [f"q{number}" for number in range(20)]


async def test_errors_are_those_of_the_host(make_host: MakeHost) -> None:
    host = make_host()
    host.instances.add("script", "mock", {"replies": [{"status": 429}, {"status": 429}]})
    async with AsyncHost(host) as outer:
        conversation = await outer.open("chat", provider="script")
        with pytest.raises(RateLimited):
            await conversation.say("x")
        with pytest.raises(RateLimited):
            async for _ in conversation.stream("x"):
                pass


@pytest.mark.parametrize("streamed", [False, True])
async def test_cancelling_the_task_cancels_the_turn(make_host: MakeHost, streamed: bool) -> None:
    host = make_host()
    host.instances.add("stuck", "mock", {"replies": [{"fault": "hang"}, "after"]})
    async with AsyncHost(host) as outer:
        conversation = await outer.open("chat", provider="stuck")

        async def listen() -> None:
            if not streamed:
                await conversation.say("x")
            async for _ in conversation.stream("x"):
                pass

        task = asyncio.create_task(listen())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert conversation.conversation.status == "idle"
        assert conversation.history == ()


class Stuck(Provider):
    """Model that does not answer; created inside the event loop."""

    serves = {"plain": DialectEndpoint(unsupported={"stream"})}

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.ended = False
        self._loop = asyncio.get_running_loop()

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        self._loop.call_soon_threadsafe(self.began.set)
        woken = threading.Event()
        with limits.on_cancel(woken.set):
            self.ended = woken.wait(LONG)
            limits.check()
        raise AssertionError("not cancelled")

    stream = send


class Barrier(Provider):
    """Model that answers when `size` calls are waiting, or when they are cancelled."""

    serves = {"plain": DialectEndpoint(unsupported={"stream"})}

    def __init__(self, size: int) -> None:
        self._barrier = threading.Barrier(size)

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        with limits.on_cancel(self._barrier.abort):
            self._barrier.wait(LONG)
        return ProviderReply(b'{"message": {"role": "assistant", "content": []}}')

    stream = send


class BlockingFeature:
    """Feature that blocks in a function until `go_on` is set; created inside the event loop.

    all_there   set when `size` turns are blocked
    """

    def __init__(self, size: int = 1) -> None:
        self.all_there = asyncio.Event()
        self.go_on = threading.Event()
        self._loop = asyncio.get_running_loop()
        self._missing = itertools.count(size - 1, -1)
        self.plugin = InlinePlugin(features=[Feature("stage", NoSettings, self._respond, roles={})])

    def _respond(self, turn: Turn[NoSettings]) -> FeatureSteps:
        yield from CallFunction(self._stop)
        return Answer("done")

    def _stop(self) -> None:
        if next(self._missing) == 0:
            self._loop.call_soon_threadsafe(self.all_there.set)
        self.go_on.wait(LONG)


@asynccontextmanager
async def no_free_thread() -> AsyncIterator[None]:
    """asyncio's own pool is full."""
    occupied = threading.Event()
    pool = ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(pool)
    pool.submit(occupied.wait, LONG)
    try:
        yield
    finally:
        occupied.set()


async def test_any_number_of_turns_is_taken_at_once(make_host: MakeHost) -> None:
    size = 50
    crowd = ProviderType("crowd", NoSettings, lambda *_: Barrier(size))

    plugin = InlinePlugin(providers=[crowd])
    async with AsyncHost(make_host(crowd=plugin)) as host, no_free_thread():
        conversations = [await host.open("chat", "crowd/x") for _ in range(size)]
        answers = await asyncio.gather(*(each.say("x") for each in conversations))
        assert len(answers) == size


async def test_ending_a_turn_takes_no_thread_that_others_wait_for(make_host: MakeHost) -> None:
    stage = BlockingFeature(12)
    host = AsyncHost(make_host(stage=stage.plugin))
    async with no_free_thread():
        conversations = [await host.open("stage") for _ in range(12)]
        tasks = [asyncio.create_task(each.say("x")) for each in conversations]
        await asyncio.wait_for(stage.all_there.wait(), LONG)
        tasks[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(tasks[0], LONG)
        conversations[1].cancel()
        with pytest.raises(Cancelled):
            await asyncio.wait_for(tasks[1], LONG)
        await asyncio.wait_for(host.close(), LONG)
        rest = await asyncio.gather(*tasks[2:], return_exceptions=True)
        assert rest == [Cancelled("cancelled")] * 10


async def test_cancelling_who_was_refused_leaves_the_turn_alone(make_host: MakeHost) -> None:
    stage = BlockingFeature()
    async with AsyncHost(make_host(stage=stage.plugin)) as host:
        conversation = await host.open("stage")
        first = asyncio.create_task(conversation.say("x"))
        await asyncio.wait_for(stage.all_there.wait(), LONG)
        second = asyncio.create_task(conversation.say("x"))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises((asyncio.CancelledError, ConversationBusy)):
            await second
        stage.go_on.set()
        assert (await first).text == "done"


@asynccontextmanager
async def opened(make_host: MakeHost) -> AsyncIterator[AsyncConversation]:
    async with AsyncHost(make_host()) as host, await host.open("chat", "mock") as conversation:
        yield conversation


async def assert_goes_on(conversation: AsyncConversation) -> None:
    assert (await conversation.say("again")).text == "again"
    assert [message.text for message in conversation.history] == ["again", "again"]


async def test_closing_a_stream_ends_the_turn(make_host: MakeHost) -> None:
    async with opened(make_host) as conversation:
        async with aclosing(conversation.stream("a b c")) as events:
            async for event in events:
                assert event.text == "a"
                break
        assert conversation.conversation.status == "idle"
        await assert_goes_on(conversation)


async def test_a_stream_that_is_left_does_not_bar_another(make_host: MakeHost) -> None:
    async with opened(make_host) as conversation:
        for _ in range(3):
            async for event in conversation.stream("a b c"):
                assert event.text == "a"
                break
        with pytest.raises(ValueError, match="mine"):
            async for _event in conversation.stream("a b c"):
                raise ValueError("mine")
        await assert_goes_on(conversation)


async def test_a_stream_that_is_kept_is_over_with_the_next_turn(make_host: MakeHost) -> None:
    async with opened(make_host) as conversation:
        stream = conversation.stream("a b c")
        assert (await anext(stream)).text == "a"
        await assert_goes_on(conversation)
        with pytest.raises(Cancelled):
            await anext(stream)
        assert len(conversation.history) == 2


async def test_a_stream_that_others_hear_is_theirs(make_host: MakeHost) -> None:
    async with opened(make_host) as conversation:
        first, go_on = asyncio.Event(), asyncio.Event()

        async def listen() -> str:
            texts = []
            async for event in conversation.stream("a b c"):
                texts.append(event.text)
                first.set()
                await go_on.wait()
            return "".join(texts)

        listening = asyncio.create_task(listen())
        await first.wait()
        with pytest.raises(ConversationBusy):
            await conversation.say("x")
        go_on.set()
        assert await listening == "a b c"
        assert len(conversation.history) == 2


async def test_a_stream_that_is_over_is_nobodys_even_if_it_is_kept(make_host: MakeHost) -> None:
    async with opened(make_host) as conversation:
        over, go_on = asyncio.Event(), asyncio.Event()

        async def listen() -> None:
            events = conversation.stream("a b c")
            async for _ in events:
                pass
            over.set()
            await go_on.wait()
            await events.aclose()

        listening = asyncio.create_task(listen())
        await over.wait()
        assert (await conversation.say("again")).text == "again"
        go_on.set()
        await listening
        assert len(conversation.history) == 4


async def test_a_stream_that_nobody_began_to_hear_is_no_turn(make_host: MakeHost) -> None:
    async with opened(make_host) as conversation:
        later = conversation.stream("a b c")
        await assert_goes_on(conversation)
        assert "".join([event.text async for event in later]) == "a b c"
        assert len(conversation.history) == 4


async def test_closing_a_conversation_ends_a_stream_that_was_left(make_host: MakeHost) -> None:
    async with opened(make_host) as conversation:
        events = conversation.stream("a b c")
        assert (await anext(events)).text == "a"
        await conversation.close()
        assert conversation.conversation.status == "closed"
        with pytest.raises(Cancelled):
            await anext(events)
        with pytest.raises(ConversationClosed):
            await conversation.say("x")


async def test_a_turn_that_waits_can_be_resumed(make_host: MakeHost) -> None:
    def respond(turn: Turn[NoSettings]) -> FeatureSteps:
        value = yield from Pause("word")
        return Answer(value)

    feature = Feature("f", NoSettings, respond, roles={})
    async with AsyncHost(make_host(f=InlinePlugin(features=[feature]))) as host:
        conversation = await host.open("f")
        with pytest.raises(TurnPaused):
            await conversation.say("x")
        assert (await conversation.resume("now")).text == "now"


async def test_the_plain_host_works_where_a_loop_runs(make_host: MakeHost) -> None:
    assert make_host().open("chat", "mock").say("hi").text == "hi"
