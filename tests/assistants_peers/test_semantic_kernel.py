"""Semantic Kernel's own `OpenAIAssistantAgent`, as it is published, at our Assistants API: a
conversation with functions of one of its plugins and with files, plain and in a stream."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from typing import Any

import openai
import pytest
from assistants_tour import NOTE, QUIET, Side, completion, results, touring

from genai_host.api import Completion, ToolCall
from genai_host.errors import ServiceUnavailable
from genai_host_testing.fake_model import RecordedPrompt
from genai_host_testing.internal.fixtures import MakeHost

with warnings.catch_warnings():
    # a method of the pydantic that it is on
    warnings.filterwarnings("ignore", "The `__get_pydantic_core_schema__` method")
    from semantic_kernel.agents import AssistantAgentThread, OpenAIAssistantAgent
    from semantic_kernel.agents.open_ai.run_polling_options import RunPollingOptions
    from semantic_kernel.contents import (
        AnnotationContent,
        FunctionCallContent,
        FunctionResultContent,
        StreamingAnnotationContent,
    )
    from semantic_kernel.exceptions import AgentInvokeException
    from semantic_kernel.functions import kernel_function

pytestmark = [pytest.mark.peers, *QUIET]

SOON = timedelta(milliseconds=10)


class Harbour:
    """A plugin of the kernel."""

    def __init__(self) -> None:
        self.queries: list[tuple[str, int]] = []

    @kernel_function(description="When a ship leaves.")  # type: ignore[untyped-decorator]
    def leaves(self, ship: str, day: int = 1) -> str:
        self.queries.append((ship, day))
        return f"{ship} leaves at noon"


def harbour_master(prompt: RecordedPrompt) -> Completion:
    """Looks into the files, then asks the plugin, and tells of both, with marks; what is asked
    then it answers by itself."""
    *_, last = prompt.messages
    if prompt.number == 0:
        return completion("Let me look.", ToolCall("s1", "file_search", {"query": NOTE}))
    if prompt.number == 1:
        call = ToolCall("f1", "Harbour-leaves", {"ship": "Ada", "day": 2})
        return completion(call, ToolCall("f2", "Harbour-leaves", {"ship": "Bea"}))
    if last.role == "tool":
        mark = results(RecordedPrompt(0, prompt.messages[:-2]))[0].partition("\n")[0]
        return completion(f"Nine{mark}, and then: {', '.join(results(prompt))}.")
    return completion(f"You said {len(prompt.messages)} things.")


@pytest.fixture
def side(make_host: MakeHost) -> Iterator[Side]:
    with touring(make_host) as side:
        side.fake.answer = harbour_master
        yield side


def run_with_agent(side: Side, converse: Callable[[Any, Harbour], Awaitable[None]]) -> None:
    """An agent with a plugin and a vector store, for as long as a talk takes."""

    async def talked() -> None:
        async with openai.AsyncOpenAI(
            base_url=f"{side.url}/v1", api_key="key", max_retries=0
        ) as client:
            store = side.store(harbour=NOTE)
            tools, resources = OpenAIAssistantAgent.configure_file_search_tool(store)
            definition = await client.beta.assistants.create(
                model="fake", name="Master", instructions="You know the harbour.", tools=tools,
                tool_resources=resources,
            )  # fmt: skip
            harbour = Harbour()
            agent = OpenAIAssistantAgent(
                client=client, definition=definition, plugins=[harbour],
                polling_options=RunPollingOptions(
                    run_polling_interval=SOON,
                    run_polling_backoff=SOON,
                    message_synchronization_delay=SOON,
                ),
            )  # fmt: skip
            await converse(agent, harbour)

    asyncio.run(talked())


def items_of(messages: list[Any], kind: type) -> list[Any]:
    return [item for message in messages for item in message.items if isinstance(item, kind)]


def test_item_11_semantic_kernel_converses(side: Side) -> None:
    async def converse(agent: Any, harbour: Harbour) -> None:
        between: list[Any] = []

        async def note(message: Any) -> None:
            between.append(message)

        responses: list[Any] = []
        thread: Any = None
        async for response in agent.invoke("When?", thread=thread, on_intermediate_message=note):
            responses.append(response.message)
            thread = response.thread
        assert harbour.queries == [("Ada", 2), ("Bea", 1)]
        # it sorts what was said in the same second as it likes
        assert {str(each) for each in responses} == {
            "Let me look.",
            "Nine【0:0†harbour.txt】, and then: Ada leaves at noon, Bea leaves at noon.",
        }
        (cited,) = items_of(responses, AnnotationContent)
        (file,) = side.stores.files.list(side.stores.list().data[0].id)
        assert (cited.quote, cited.file_id) == ("【0:0†harbour.txt】", file.id)
        calls = items_of(between, FunctionCallContent)
        assert [(each.id, each.name) for each in calls] == [
            ("f1", "Harbour-leaves"), ("f2", "Harbour-leaves"),
        ]  # fmt: skip
        assert [each.result for each in items_of(between, FunctionResultContent)] == [
            "Ada leaves at noon", "Bea leaves at noon",
        ]  # fmt: skip
        assert {"file_search", "Harbour-leaves"} == {*side.fake.prompts[0].tools}

        again = await agent.get_response("And now?", thread=thread)
        assert str(again.message) == "You said 5 things."
        assert again.thread.id == thread.id
        messages = [each async for each in thread.get_messages(sort_order="asc")]
        assert [each.role.value for each in messages] == [
            "user", "assistant", "assistant", "user", "assistant",
        ]  # fmt: skip
        id = thread.id
        await thread.delete()
        with pytest.raises(openai.NotFoundError):
            side.beta.threads.retrieve(id)

    run_with_agent(side, converse)


def test_item_11_semantic_kernel_hears_a_stream(side: Side) -> None:
    async def converse(agent: Any, harbour: Harbour) -> None:
        messages: list[Any] = []

        async def note(message: Any) -> None:
            messages.append(message)

        pieces, thread = [], None
        async for response in agent.invoke_stream(
            "When?", thread=thread, on_intermediate_message=note
        ):
            pieces.append(response.message)
            thread = response.thread
        assert "".join(str(piece) for piece in pieces) == (
            "Let me look.Nine【0:0†harbour.txt】, and then: Ada leaves at noon, Bea leaves at noon."
        )
        assert len(pieces) > 4
        assert harbour.queries == [("Ada", 2), ("Bea", 1)]
        (cited,) = items_of(pieces, StreamingAnnotationContent)
        (file,) = side.stores.files.list(side.stores.list().data[0].id)
        assert (cited.quote, cited.file_id) == ("【0:0†harbour.txt】", file.id)
        assert (cited.start_index, cited.end_index) == (4, 21)
        assert len(items_of(messages, FunctionResultContent)) == 2

    run_with_agent(side, converse)


def test_item_11_semantic_kernel_is_told_of_failures(side: Side) -> None:
    async def converse(agent: Any, harbour: Harbour) -> None:
        for number, invoke in enumerate((agent.invoke, agent.invoke_stream)):
            side.fake.faults[side.fake.calls] = ServiceUnavailable(f"down {number}")
            with pytest.raises(AgentInvokeException, match=f"down {number}"):
                async for _ in invoke("When?", thread=AssistantAgentThread(client=agent.client)):
                    """Nothing comes."""

    run_with_agent(side, converse)
