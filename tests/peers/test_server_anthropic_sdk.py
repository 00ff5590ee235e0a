"""The official `anthropic` SDK, and LangChain's classes upon it, as clients of our Anthropic
API."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from anthropic_api import CLOCK, HI, OWN, Api
from attrs import frozen
from pydantic import BaseModel

from genai_host.api import (
    Completion,
    File,
    Image,
    Message,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    VendorPart,
)
from genai_host.errors import RateLimited, ServiceUnavailable
from genai_host_testing import FakeModel
from genai_host_testing.fake_model import RecordedPrompt
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.peers

PICTURE = b"\x89PNG\r\n\x1a\n picture"
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
REDACTED = {"type": "redacted_thinking", "data": "eA=="}
ASK: dict[str, Any] = {"model": "fake", "max_tokens": 99, "messages": [HI]}


@frozen
class Side:
    client: anthropic.Anthropic
    fake: FakeModel
    url: str


@pytest.fixture
def side(make_host: MakeHost) -> Iterator[Side]:
    with (
        Api.serving(make_host) as api,
        anthropic.Anthropic(api_key="key", base_url=api.url, max_retries=0) as client,
    ):
        yield Side(client, api.fake, api.url)


def test_create(side: Side) -> None:
    usage = Usage(9, 5, cached_tokens=3, cache_write_tokens=2, reasoning_tokens=1)
    side.fake.answer = lambda prompt: Completion(Message("assistant", "hello"), usage=usage)
    data = base64.b64encode(PICTURE).decode()
    reply = side.client.messages.create(
        model="fake",
        max_tokens=99,
        system=[{"type": "text", "text": "be kind", "cache_control": {"type": "ephemeral"}}],
        messages=[
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "look"},
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": data},
                    },
                    {
                        "type": "document",
                        "title": "a",
                        "source": {"type": "text", "media_type": "text/plain", "data": "words"},
                    },
                ],
            }
        ],
        extra_body={"temperature": 0.5},  # which it does not name any more
        stop_sequences=["X"],
        metadata={"user_id": "me"},
    )
    assert (reply.type, reply.role, reply.model) == ("message", "assistant", "fake")
    assert [block.text for block in reply.content] == ["hello"]
    assert (reply.stop_reason, reply.stop_sequence) == ("end_turn", None)
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (4, 5)
    assert reply.usage.cache_read_input_tokens == 3
    assert reply.usage.cache_creation_input_tokens == 2
    (prompt,) = side.fake.prompts
    assert prompt.messages == (
        Message("system", "be kind"),
        Message("user", ["look", Image(PICTURE, "image/png"), File(b"words", "text/plain", "a")]),
    )
    assert prompt.parameters == {"temperature": 0.5, "stop": ["X"], "max_tokens": 99}


def test_a_stream_is_put_together(side: Side) -> None:
    parts = [Text("well, then"), ToolCall("toolu_1", "clock", {"zone": "UTC"})]
    side.fake.answer = lambda prompt: Completion(
        Message("assistant", parts), "tool_calls", Usage(7, 3, cached_tokens=2)
    )
    with side.client.messages.stream(**ASK, tools=[CLOCK]) as stream:
        text = "".join(stream.text_stream)
        message = stream.get_final_message()
    assert text == "well, then"
    assert [block.type for block in message.content] == ["text", "tool_use"]
    assert message.content[1].input == {"zone": "UTC"}
    assert message.stop_reason == "tool_use"
    assert (message.usage.input_tokens, message.usage.cache_read_input_tokens) == (5, 2)
    assert message.usage.output_tokens == 3


@pytest.mark.parametrize("streamed", [False, True])
def test_thoughts_go_back_as_they_came(side: Side, streamed: bool) -> None:
    parts = [Reasoning("hm"), VendorPart(OWN, THOUGHT), VendorPart(OWN, REDACTED), Text("so")]
    side.fake.answer = lambda prompt: Completion(Message("assistant", parts))
    request = {**ASK, "max_tokens": 4096, "thinking": {"type": "enabled", "budget_tokens": 2048}}
    if streamed:
        with side.client.messages.stream(**request) as stream:
            reply = stream.get_final_message()
    else:
        reply = side.client.messages.create(**request)
    thought = next(block for block in reply.content if block.type == "thinking")
    assert (thought.thinking, thought.signature) == ("hm", "c2ln")
    back = [HI, {"role": "assistant", "content": reply.content}, HI]
    side.client.messages.create(**{**request, "messages": back})
    content = side.fake.prompts[-1].messages[1].content
    assert sorted(map(parts.index, content)) == [0, 1, 2, 3]
    # the fake says its text first, in pieces
    assert list(content) == ([parts[3], *parts[:3]] if streamed else parts)


def test_tools(side: Side) -> None:
    """It would have the conversation kept by the service, and goes on without that."""

    def weather(city: str) -> str:
        """The weather.

        Args:
            city: where
        """
        return f"{city} is sunny"

    def answer(prompt: RecordedPrompt) -> Completion:
        last = prompt.messages[-1]
        if last.role == "tool":
            (result,) = last.content
            assert isinstance(result, ToolResult)
            (text,) = result.content
            return Completion(Message("assistant", text))
        call = ToolCall("toolu_1", "weather", {"city": "Bonn"})
        return Completion(Message("assistant", [call]), "tool_calls")

    side.fake.answer = answer
    runner = side.client.beta.messages.tool_runner(**ASK, tools=[anthropic.beta_tool(weather)])
    assert runner.until_done().content[0].text == "Bonn is sunny"
    assert side.fake.prompts[-1].tools == ("weather",)


class Trip(BaseModel):  # type: ignore[misc]  # pydantic is in few environments
    city: str
    days: int | None = None


def test_classes(side: Side) -> None:
    side.fake.answer = lambda prompt: '{"city": "Bonn", "days": null}'
    reply = side.client.messages.parse(**ASK, output_format=Trip)
    assert reply.parsed_output == Trip(city="Bonn")
    schema = side.fake.prompts[-1].schema
    assert schema is not None
    assert schema["properties"]["city"]["type"] == "string"
    with side.client.messages.stream(**ASK, output_format=Trip) as stream:
        assert stream.get_final_message().parsed_output == Trip(city="Bonn")


def test_tokens(side: Side) -> None:
    count = side.client.messages.count_tokens(
        model="fake", messages=[{"role": "user", "content": "one two"}], system="be kind"
    )
    assert count.input_tokens == 4


def test_models(side: Side) -> None:
    names = [model.id for model in side.client.models.list(limit=2)]
    assert len(names) == len({*names})
    assert {"fake@fake", "feature:chat"} <= {*names}
    model = side.client.models.retrieve("fake")
    assert (model.id, model.type, model.lifecycle) == ("fake", "model", "active")
    assert model.capabilities.image_input.supported
    assert not model.capabilities.batch.supported
    assert model.created_at.year == 1970
    with pytest.raises(anthropic.NotFoundError):
        side.client.models.retrieve("nobody")


@pytest.mark.parametrize("stream", [False, True])
def test_errors(side: Side, stream: bool) -> None:
    def create(**more: Any) -> Any:
        return side.client.messages.create(**{**ASK, "stream": stream, **more})

    with pytest.raises(anthropic.NotFoundError) as missing:
        create(model="nobody")
    assert missing.value.type == "not_found_error"
    assert missing.value.request_id.startswith("req_")
    with pytest.raises(anthropic.BadRequestError, match=r"messages\[0\]"):
        create(messages=[{"role": "user", "content": [{"type": "search_result"}]}])
    side.fake.faults = {0: RateLimited("slowly", retry_after=3), 1: ServiceUnavailable("gone")}
    with pytest.raises(anthropic.RateLimitError, match="slowly") as limited:
        create()
    assert limited.value.response.headers["retry-after"] == "3"
    with pytest.raises(anthropic.OverloadedError) as gone:
        create()
    assert (gone.value.status_code, gone.value.type) == (529, "overloaded_error")


def test_an_error_in_mid_stream(side: Side) -> None:
    side.fake.answer = lambda prompt: "no JSON at all"
    form = {"type": "json_schema", "schema": {"type": "object"}}
    texts = []
    with (
        pytest.raises(anthropic.APIStatusError) as caught,
        side.client.messages.stream(**ASK, output_config={"format": form}) as stream,
    ):
        texts += stream.text_stream
    assert caught.value.type == "api_error"


class TestLangChain:
    @pytest.fixture
    def chat(self, side: Side) -> Any:
        from langchain_anthropic import ChatAnthropic

        return ChatAnthropic(
            model="fake", api_key="key", base_url=side.url, max_retries=0, max_tokens=99
        )

    def test_thoughts_go_back_as_they_came(self, side: Side, chat: Any) -> None:
        parts = [Reasoning("hm"), VendorPart(OWN, THOUGHT), Text("so")]
        side.fake.answer = lambda prompt: Completion(Message("assistant", parts))
        message = chat.invoke("hi")
        chat.invoke(["hi", message, ("human", "and?")])
        assert list(side.fake.prompts[-1].messages[1].content) == parts
