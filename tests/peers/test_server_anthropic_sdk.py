"""The official `anthropic` SDK as a client of our Anthropic API."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from attrs import frozen
from fixtures import MakeHost
from peers.upstream import MODEL, served_upstream
from pydantic import BaseModel
from serving import served
from thinking_model import ThinkingModel

from genai_host import Config
from genai_host.api import (
    Completion,
    File,
    Image,
    Message,
    Opaque,
    Reasoning,
    Secret,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from genai_host.errors import ContextOverflow, RateLimited, Unavailable
from genai_host.testing import FakeModel
from genai_host.testing.fake_model import Heard
from genai_host.testing.fake_service import CUT, HANG

pytestmark = pytest.mark.peers

CONFIG = Config(models={"chat": "fake"})
HI: Any = [{"role": "user", "content": "hi"}]
CALL = ToolCall("toolu_1", "clock", {"zone": "CET"})
CLOCK: Any = {
    "name": "clock",
    "description": "what time it is",
    "input_schema": {"type": "object", "properties": {"zone": {"type": "string"}}},
}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
HIDDEN = {"type": "redacted_thinking", "data": "c2Vj"}
SIGNED = [
    Reasoning("hm"),
    Opaque("anthropic-messages", THOUGHT),
    Opaque("anthropic-messages", HIDDEN),
]
THINKING: Any = {"type": "enabled", "budget_tokens": 1024}


class Point(BaseModel):  # type: ignore[misc]  # pydantic is in few environments
    x: int
    y: int


def calls_the_clock(heard: Heard) -> str | Completion:
    if any(message.role == "tool" for message in heard.messages):
        return "It is noon."
    return Completion(Message("assistant", [*SIGNED, Text("so"), CALL]), "tool_calls", Usage(7, 3))


def png(data: bytes) -> dict[str, Any]:
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(data).decode()}
    return {"type": "image", "source": source}


@frozen
class Side:
    client: anthropic.Anthropic
    fake: FakeModel
    url: str

    def create(self, messages: Any = HI, **more: Any) -> Any:
        return self.client.messages.create(model="fake", max_tokens=2048, messages=messages, **more)

    def stream(self, messages: Any = HI, **more: Any) -> Any:
        return self.client.messages.stream(model="fake", max_tokens=2048, messages=messages, **more)


@pytest.fixture
def side(make_host: MakeHost) -> Iterator[Side]:
    fake = ThinkingModel()
    with (
        served(make_host(fake=fake, config=CONFIG)) as server,
        anthropic.Anthropic(base_url=server.url, api_key="key", max_retries=0) as client,
    ):
        yield Side(client, fake, server.url)


def test_create(side: Side) -> None:
    usage = Usage(9, 3, cached_input=2, cache_written=1)
    side.fake.answer = lambda heard: Completion(Message("assistant", "hello"), usage=usage)
    data = base64.b64encode(b"%PDF").decode()
    source = {"type": "base64", "media_type": "application/pdf", "data": data}
    content = [
        {"type": "text", "text": "look", "cache_control": {"type": "ephemeral"}},
        png(b"\x89PNG"),
        {"type": "document", "source": source, "title": "a.pdf"},
    ]
    made = side.create(
        [{"role": "user", "content": content}], system="be kind", stop_sequences=["END"],
        metadata={"user_id": "me"}, service_tier="auto",
    )  # fmt: skip
    assert [block.text for block in made.content] == ["hello"]
    assert (made.role, made.stop_reason) == ("assistant", "end_turn")
    assert (made.usage.input_tokens, made.usage.output_tokens) == (6, 3)
    assert made.usage.cache_read_input_tokens == 2
    assert made.usage.cache_creation_input_tokens == 1
    (heard,) = side.fake.prompts
    paper = File(b"%PDF", "application/pdf", "a.pdf")
    assert heard.messages == (
        Message("system", "be kind"),
        Message("user", ["look", Image(b"\x89PNG", "image/png"), paper]),
    )
    assert heard.parameters == {"max_tokens": 2048, "stop": ["END"]}


def test_a_stream_is_put_together(side: Side) -> None:
    side.fake.answer = calls_the_clock
    with side.stream(tools=[CLOCK], thinking=THINKING) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_message()
    assert {"thinking", "signature", "text", "input_json", "content_block_stop"} <= kinds
    whole = side.create(tools=[CLOCK], thinking=THINKING)
    assert [block.type for block in whole.content] == [
        "thinking", "redacted_thinking", "text", "tool_use",
    ]  # fmt: skip
    assert [block.to_dict() for block in final.content] == [
        block.to_dict() for block in whole.content
    ]
    assert final.stop_reason == whole.stop_reason == "tool_use"
    assert final.usage.input_tokens == whole.usage.input_tokens == 7
    assert final.usage.output_tokens == 3


def test_texts_of_a_stream(side: Side) -> None:
    side.fake.answer = lambda heard: "hello there, you"
    with side.stream() as stream:
        pieces = list(stream.text_stream)
        assert stream.get_final_text() == "".join(pieces) == "hello there, you"
    assert len(pieces) > 1
    events = [event.type for event in side.create(stream=True)]
    assert (events[0], events[-1]) == ("message_start", "message_stop")


def test_an_asynchronous_client(side: Side) -> None:
    async def asked() -> tuple[str, str]:
        async with anthropic.AsyncAnthropic(
            base_url=side.url, api_key="key", max_retries=0
        ) as client:
            more: Any = {"model": "fake", "max_tokens": 99, "messages": HI}
            whole = await client.messages.create(**more)
            async with client.messages.stream(**more) as stream:
                return whole.content[0].text, await stream.get_final_text()

    assert asyncio.run(asked()) == ("hi", "hi")


@pytest.mark.parametrize("streamed", [False, True])
def test_a_loop_of_tools(side: Side, streamed: bool) -> None:
    """What comes back is sent again as the SDK has it: signatures with it."""
    side.fake.answer = calls_the_clock
    if streamed:
        with side.stream(tools=[CLOCK]) as stream:
            said = stream.get_final_message()
    else:
        said = side.create(tools=[CLOCK])
    (call,) = (block for block in said.content if block.type == "tool_use")
    assert call.input == {"zone": "CET"}
    result = {"type": "tool_result", "tool_use_id": call.id, "content": [png(b"PNG")]}
    back = [
        *HI,
        {"role": "assistant", "content": said.content},
        {"role": "user", "content": [result]},
    ]
    last = side.create(back, tools=[CLOCK], tool_choice={"type": "auto"})
    assert last.content[0].text == "It is noon."
    assert side.fake.prompts[1].messages[1:] == (
        Message("assistant", [*SIGNED, Text("so"), CALL]),
        Message("tool", [ToolResult("toolu_1", "clock", [Image(b"PNG", "image/png")])]),
    )


def test_the_runner_of_tools(side: Side) -> None:
    zones = []

    @anthropic.beta_tool  # type: ignore[untyped-decorator]
    def clock(zone: str) -> str:
        """What time it is."""
        zones.append(zone)
        return "noon"

    side.fake.answer = calls_the_clock
    runner = side.client.beta.messages.tool_runner(
        model="fake", max_tokens=99, messages=HI, tools=[clock]
    )
    assert runner.until_done().content[0].text == "It is noon."
    assert zones == ["CET"]


def test_parse(side: Side) -> None:
    side.fake.answer = lambda heard: '{"x": 1, "y": 2}'
    parsed = side.client.messages.parse(
        model="fake", max_tokens=99, messages=HI, output_format=Point
    )
    assert parsed.parsed_output == Point(x=1, y=2)
    assert side.fake.prompts[0].schema is not None


def test_tokens_are_counted(side: Side) -> None:
    counted = side.client.messages.count_tokens(
        model="fake", messages=[{"role": "user", "content": "one two three"}], tools=[CLOCK]
    )
    assert counted.input_tokens == 3


def test_models(side: Side) -> None:
    names = [model.id for model in side.client.models.list(limit=1)]  # a page for each
    assert {"fake@fake", "feature:chat"} <= {*names}
    assert names == [model.id for model in side.client.models.list()]
    assert side.client.models.retrieve("fake").display_name == "fake"
    with pytest.raises(anthropic.NotFoundError):
        side.client.models.retrieve("nobody")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fault", "kind", "word"),
    [
        (RateLimited("slowly", retry_after=7), anthropic.RateLimitError, "rate_limit_error"),
        (ContextOverflow("too long"), anthropic.BadRequestError, "invalid_request_error"),
        (Unavailable("down"), anthropic.InternalServerError, "overloaded_error"),
    ],
)
def test_faults(side: Side, fault: Any, kind: Any, word: str, stream: bool) -> None:
    side.fake.faults[0] = fault
    with pytest.raises(kind, match=str(fault)) as caught:
        side.create(stream=stream)
    assert caught.value.body["error"]["type"] == word
    assert caught.value.request_id.startswith("req_")
    if isinstance(fault, RateLimited):
        assert caught.value.response.headers["retry-after"] == "7"
    if isinstance(fault, Unavailable):
        assert type(caught.value).__name__ == "OverloadedError"


def test_what_is_refused(side: Side) -> None:
    with pytest.raises(anthropic.BadRequestError, match=r"tools\[0\].type"):
        side.create(tools=[{"type": "web_search_20250305", "name": "web_search"}])
    with pytest.raises(anthropic.NotFoundError):
        side.client.messages.create(model="nobody", max_tokens=9, messages=HI)
    with pytest.raises(anthropic.NotFoundError):
        side.client.messages.batches.list()


@pytest.mark.parametrize("by", ["api_key", "auth_token"])
def test_a_key(make_host: MakeHost, by: str) -> None:
    with served(make_host(fake=FakeModel(), config=CONFIG), tokens={"": Secret("right")}) as server:
        more: Any = {"model": "fake", "max_tokens": 99, "messages": HI}
        with anthropic.Anthropic(base_url=server.url, **{by: "right"}) as client:
            assert client.messages.create(**more).content[0].text == "hi"
        with (
            anthropic.Anthropic(base_url=server.url, max_retries=0, **{by: "wrong"}) as client,
            pytest.raises(anthropic.AuthenticationError) as caught,
        ):
            client.messages.create(**more)
        assert caught.value.body["error"]["type"] == "authentication_error"


def test_a_stream_that_is_cut_upstream(make_host: MakeHost) -> None:
    with (
        served_upstream(make_host, [CUT]) as (url, _),
        anthropic.Anthropic(base_url=url, api_key="key", max_retries=0) as client,
        client.messages.stream(model=MODEL, max_tokens=9, messages=HI) as stream,
    ):
        texts = []
        with pytest.raises(anthropic.APIStatusError, match="api_error"):
            for text in stream.text_stream:
                texts.append(text)
        assert texts == ["hello"]


def test_closing_a_stream_frees_the_service(make_host: MakeHost) -> None:
    with (
        served_upstream(make_host, [HANG]) as (url, service),
        anthropic.Anthropic(base_url=url, api_key="key", max_retries=0) as client,
    ):
        with client.messages.stream(model=MODEL, max_tokens=9, messages=HI) as stream:
            assert next(iter(stream.text_stream)) == "hello"
        service.wait_until_closed()
