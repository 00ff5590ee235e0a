"""Programs that others wrote for OpenAI and Anthropic, unchanged, as clients of our server: `llm`,
LangChain, Pydantic AI."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from attrs import frozen
from openai_form import CONFIG
from pydantic import BaseModel
from thinking_model import ThinkingModel

from genai_host.api import Completion, Image, Message, Text, ToolCall, ToolResult, Usage
from genai_host_testing import FakeModel
from genai_host_testing.fake_model import RecordedPrompt
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.servers import served

pytestmark = pytest.mark.peers

CALL = ToolCall("c1", "clock", {"zone": "CET"})


class Point(BaseModel):  # type: ignore[misc]  # pydantic is in few environments
    """A place."""

    x: int
    y: int


def clock(zone: str) -> str:
    """What time it is."""
    return f"noon in {zone}"


def calls_the_clock(prompt: RecordedPrompt) -> str | Completion:
    last = prompt.messages[-1]
    if last.role == "tool":
        (result,) = last.content
        assert isinstance(result, ToolResult)
        return f"It is {result.content[0].text}."  # type: ignore[union-attr]  # it is a text
    return Completion(Message("assistant", [Text("so"), CALL]), "tool_calls", Usage(7, 3))


@frozen
class Side:
    url: str
    fake: FakeModel


@pytest.fixture
def side(make_host: MakeHost) -> Iterator[Side]:
    fake = ThinkingModel()
    with served(make_host(fake=fake, config=CONFIG)) as server:
        yield Side(server.url, fake)


class TestLlm:
    @pytest.fixture
    def model(self, side: Side, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
        monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
        monkeypatch.setenv("LLM_LOAD_PLUGINS", "")
        import llm

        lines = [
            "- model_id: mine", "  model_name: fake", f"  api_base: {side.url}/v1",
            "  supports_schema: true", "  supports_tools: true", "  vision: true",
        ]  # fmt: skip
        (tmp_path / "extra-openai-models.yaml").write_text("\n".join(lines))
        return llm.get_model("mine")

    @pytest.mark.parametrize("stream", [False, True])
    def test_a_conversation(self, side: Side, model: Any, stream: bool) -> None:
        conversation = model.conversation()
        assert conversation.prompt("hello", system="be kind", stream=stream).text() == "hello"
        assert conversation.prompt("and you?", stream=stream).text() == "and you?"
        assert [message.text for message in side.fake.prompts[1].messages] == [
            "be kind", "hello", "hello", "and you?",
        ]  # fmt: skip

    @pytest.mark.parametrize("stream", [False, True])
    def test_tools(self, side: Side, model: Any, stream: bool) -> None:
        side.fake.answer = calls_the_clock
        chain = model.chain("when?", tools=[clock], stream=stream)
        assert "It is noon in CET." in chain.text()

    def test_a_schema_and_a_picture(self, side: Side, model: Any) -> None:
        import llm

        side.fake.answer = lambda prompt: '{"x": 1, "y": 2}'
        picture = base64.b64decode(
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
        )
        attached = [llm.Attachment(type="image/png", content=picture)]
        response = model.prompt("where?", schema=Point, attachments=attached)
        assert Point.model_validate_json(response.text()) == Point(x=1, y=2)
        (prompt,) = side.fake.prompts
        assert prompt.schema is not None
        assert Image(picture, "image/png") in prompt.messages[0].content


class TestLangChain:
    @pytest.fixture(params=["openai", "anthropic"])
    def chat(self, side: Side, request: pytest.FixtureRequest) -> Any:
        more: dict[str, Any] = {"model": "fake", "api_key": "key", "max_retries": 0}
        if request.param == "openai":
            from langchain_openai import ChatOpenAI

            return ChatOpenAI(base_url=f"{side.url}/v1", **more)
        from langchain_anthropic import ChatAnthropic

        return ChatAnthropic(base_url=side.url, max_tokens=999, **more)

    def test_asking(self, side: Side, chat: Any) -> None:
        usage = Usage(7, 3)
        side.fake.answer = lambda prompt: Completion(Message("assistant", "hello you"), usage=usage)
        message = chat.invoke([("system", "be kind"), ("human", "hi")])
        assert message.text == "hello you"
        assert message.usage_metadata["total_tokens"] == 10
        assert side.fake.prompts[0].messages == (
            Message("system", "be kind"),
            Message("user", "hi"),
        )
        pieces = [piece.text for piece in chat.stream("hi")]
        assert "".join(pieces) == "hello you"
        assert len([piece for piece in pieces if piece]) > 1

        async def invoke() -> str:
            return "".join([piece.text async for piece in chat.astream("hi")])

        assert asyncio.run(invoke()) == "hello you"

    @pytest.mark.parametrize("streamed", [False, True])
    def test_tools(self, side: Side, chat: Any, streamed: bool) -> None:
        from langchain_core.messages import HumanMessage
        from langchain_core.tools import tool

        side.fake.answer = calls_the_clock
        timed = tool(clock)
        able = chat.bind_tools([timed], tool_choice="any")
        messages: list[Any] = [HumanMessage("when?")]
        if streamed:
            first, *others = able.stream(messages)
            for other in others:
                first += other
        else:
            first = able.invoke(messages)
        (call,) = first.tool_calls
        assert call["args"] == {"zone": "CET"}
        messages += [first, timed.invoke(call)]
        assert able.invoke(messages).text == "It is noon in CET."
        assert side.fake.prompts[-1].messages[1:] == (
            Message("assistant", [Text("so"), CALL]),
            Message("tool", [ToolResult(CALL.id, "clock", [Text("noon in CET")])]),
        )

    def test_structured_output(self, side: Side, chat: Any) -> None:
        def answer(prompt: RecordedPrompt) -> str | Completion:
            if not prompt.tools:
                return '{"x": 1, "y": 2}'
            call = ToolCall("c", "Point", {"x": 1, "y": 2})
            return Completion(Message("assistant", [call]), "tool_calls")

        side.fake.answer = answer
        for method in ("function_calling", "json_schema"):
            point = chat.with_structured_output(Point, method=method).invoke("where?")
            assert point == Point(x=1, y=2)

    def test_embeddings(self, side: Side) -> None:
        from langchain_openai import OpenAIEmbeddings

        embedder: Any = OpenAIEmbeddings(
            model="fake-embed", base_url=f"{side.url}/v1", api_key="key", max_retries=0,
            check_embedding_ctx_length=False,  # else it sends tokens of OpenAI's
        )  # fmt: skip
        first, second = embedder.embed_documents(["a", "b"])
        assert first == embedder.embed_query("a") != second


class TestPydanticAi:
    def agent(self, side: Side, client: openai.AsyncOpenAI, **more: Any) -> Any:
        from pydantic_ai import Agent
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        return Agent(OpenAIChatModel("fake", provider=OpenAIProvider(openai_client=client)), **more)

    def client(self, side: Side) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=f"{side.url}/v1", api_key="key", max_retries=0)

    def test_tools(self, side: Side) -> None:
        async def run_agent() -> tuple[str, str]:
            async with self.client(side) as client:
                agent = self.agent(side, client, tools=[clock], instructions="be kind")
                result = await agent.run("when?")
                async with agent.run_stream("when?") as stream:
                    return result.output, await stream.get_output()

        side.fake.answer = calls_the_clock
        result, streamed = asyncio.run(run_agent())
        assert result == "It is noon in CET."
        assert streamed in ("so", result)  # it takes the first text for the answer
        assert side.fake.prompts[0].messages[0] == Message("system", "be kind")

    def test_structured_output(self, side: Side) -> None:
        async def run_agent(form: Any) -> Any:
            async with self.client(side) as client:
                return (await self.agent(side, client, output_type=form).run("where?")).output

        from pydantic_ai import NativeOutput

        def answer(prompt: RecordedPrompt) -> str | Completion:
            if not prompt.tools:
                return '{"x": 1, "y": 2}'
            call = ToolCall("c", prompt.tools[0], {"x": 1, "y": 2})
            return Completion(Message("assistant", [call]), "tool_calls")

        side.fake.answer = answer
        assert asyncio.run(run_agent(Point)) == Point(x=1, y=2)
        assert asyncio.run(run_agent(NativeOutput(Point))) == Point(x=1, y=2)
