"""The host where a loop runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from genai_host import AsyncHost, Host
from genai_host.api import Answer, Feature, NoSettings, Story, Turn, Wait
from genai_host.errors import RateLimited, TurnWaiting
from genai_host.testing import MadePlugin


def run(coroutine: Any) -> Any:
    return asyncio.run(coroutine)


def test_a_turn_can_be_awaited(make_host: Callable[..., Host]) -> None:
    async def main() -> None:
        async with AsyncHost(make_host()) as host:
            async with await host.open("chat", model="mock") as conversation:
                answer = await conversation.say("hi there")
            assert answer.text == "hi there"
            assert len(conversation.history) == 2

    run(main())


def test_events_come_one_by_one_and_the_loop_runs_on(make_host: Callable[..., Host]) -> None:
    async def main() -> None:
        async with AsyncHost(make_host()) as host:
            conversation = await host.open("chat", "mock")
            seen = []
            async for event in conversation.stream("a b c"):
                seen.append(event.text)
                await asyncio.sleep(0)
            assert "".join(seen) == "a b c"

    run(main())


def test_conversations_run_side_by_side(make_host: Callable[..., Host]) -> None:
    async def main() -> None:
        async with AsyncHost(make_host()) as host:
            conversations = [await host.open("chat", "mock") for _ in range(20)]
            answers = await asyncio.gather(
                *(each.say(f"q{number}") for number, each in enumerate(conversations))
            )
            assert [answer.text for answer in answers] == [f"q{number}" for number in range(20)]

    run(main())


def test_errors_are_those_of_the_host(make_host: Callable[..., Host]) -> None:
    async def main() -> None:
        host = make_host()
        host.instances.add("script", "mock", {"replies": [{"status": 429}, {"status": 429}]})
        async with AsyncHost(host) as outer:
            conversation = await outer.open("chat", provider="script")
            with pytest.raises(RateLimited):
                await conversation.say("x")
            with pytest.raises(RateLimited):
                async for _ in conversation.stream("x"):
                    pass

    run(main())


@pytest.mark.parametrize("streamed", [False, True])
def test_cancelling_the_task_cancels_the_turn(
    make_host: Callable[..., Host], streamed: bool
) -> None:
    async def main() -> None:
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

    run(main())


def test_leaving_a_stream_ends_the_turn(make_host: Callable[..., Host]) -> None:
    async def main() -> None:
        async with AsyncHost(make_host()) as host:
            conversation = await host.open("chat", "mock")
            events = conversation.stream("a b c")
            async for event in events:
                assert event.text == "a"
                break
            await events.aclose()  # type: ignore[attr-defined]
            assert (await conversation.say("again")).text == "again"
            assert len(conversation.history) == 2

    run(main())


def test_a_turn_that_waits_can_be_resumed(make_host: Callable[..., Host]) -> None:
    def respond(turn: Turn[NoSettings]) -> Story:
        given = yield from Wait("word")
        return Answer(given)

    async def main() -> None:
        feature = Feature("f", NoSettings, respond, roles={})
        async with AsyncHost(make_host(f=MadePlugin(features=[feature]))) as host:
            conversation = await host.open("f")
            with pytest.raises(TurnWaiting):
                await conversation.say("x")
            assert (await conversation.resume("now")).text == "now"

    run(main())


def test_the_plain_host_works_where_a_loop_runs(make_host: Callable[..., Host]) -> None:
    async def main() -> None:
        assert make_host().open("chat", "mock").say("hi").text == "hi"

    run(main())
