"""The official `ollama` SDK as a client of our Ollama API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ollama
import pytest
from attrs import frozen
from ollama_form import Api
from pydantic import BaseModel

from genai_host import Host
from genai_host.api import Completion, Image, Message, Reasoning, Text, ToolCall, ToolResult, Usage
from genai_host.errors import RateLimited
from genai_host_testing import FakeModel
from genai_host_testing.fake_model import RecordedPrompt
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.peers

HI = {"role": "user", "content": "hi"}
PICTURE = b"\x89PNG\r\n\x1a\n picture"


@frozen
class Side:
    client: ollama.Client
    fake: FakeModel
    host: Host


@pytest.fixture
def side(make_host: MakeHost) -> Iterator[Side]:
    with Api.serving(make_host) as api:
        client = ollama.Client(api.url)
        try:
            yield Side(client, api.fake, api.host)
        finally:
            client._client.close()


def test_chat(side: Side) -> None:
    message = Message("assistant", [Reasoning("hm"), Text("hello")])
    side.fake.answer = lambda prompt: Completion(message, "length", Usage(3, 5))
    reply = side.client.chat(
        "fake", [{"role": "system", "content": "be kind"}, {**HI, "images": [PICTURE]}],
        options={"temperature": 0, "num_predict": 9, "num_ctx": 99}, think=True, keep_alive="5m",
    )  # fmt: skip
    assert (reply.message.content, reply.message.thinking) == ("hello", "hm")
    assert (reply.done, reply.done_reason) == (True, "length")
    assert (reply.prompt_eval_count, reply.eval_count) == (3, 5)
    (prompt,) = side.fake.prompts
    assert prompt.messages == (
        Message("system", "be kind"),
        Message("user", ["hi", Image(PICTURE, "image/png")]),
    )
    assert prompt.parameters == {"temperature": 0, "max_tokens": 9}


def test_stream(side: Side) -> None:
    side.fake.answer = lambda prompt: "a" * 20
    pieces = list(side.client.chat("fake:latest", [HI], stream=True))
    assert "".join(piece.message.content or "" for piece in pieces) == "a" * 20
    assert [piece.done for piece in pieces] == [False, False, False, True]
    assert pieces[-1].model == "fake:latest"


def test_an_error_in_a_stream(side: Side) -> None:
    side.fake.answer = lambda prompt: '{"a": '
    stream = side.client.chat("fake", [HI], stream=True, format="json")
    assert next(stream).message.content == '{"a": '
    with pytest.raises(ollama.ResponseError, match="not valid JSON"):
        list(stream)


@pytest.mark.parametrize("stream", [False, True])
def test_tools(side: Side, stream: bool) -> None:
    """Described by the SDK; it has no ids of calls."""

    def weather(city: str, days: int) -> str:
        """The weather of a city.

        Args:
          city: which one
          days: how many
        """
        return f"{city} is sunny for {days} days"

    def answer(prompt: RecordedPrompt) -> Any:
        last = prompt.messages[-1]
        if last.role == "tool":
            return " and ".join(
                part.content[0].text  # type: ignore[union-attr]  # it is text
                for part in last.content
                if isinstance(part, ToolResult)
            )
        calls = [ToolCall(f"c{days}", "weather", {"city": "Bonn", "days": days}) for days in (1, 2)]
        return Completion(Message("assistant", calls), "tool_calls")

    side.fake.answer = answer
    messages: list[Any] = [HI]
    replies: Any = side.client.chat("fake", messages, tools=[weather], stream=stream)
    message = next(each.message for each in (replies if stream else [replies]))
    if stream:
        assert [each.done for each in replies] == [True]
    messages.append(message)
    for call in message.tool_calls or ():
        result = weather(**call.function.arguments)
        messages.append({"role": "tool", "tool_name": call.function.name, "content": result})
    reply = side.client.chat("fake", messages, tools=[weather])
    assert reply.message.content == "Bonn is sunny for 1 days and Bonn is sunny for 2 days"
    assert side.fake.prompts[-1].tools == ("weather",)


def test_format(side: Side) -> None:
    class Trip(BaseModel):  # type: ignore[misc]  # pydantic is in few environments
        city: str
        days: int

    side.fake.answer = lambda prompt: '{"city": "Bonn", "days": 2}'
    reply = side.client.chat("fake", [HI], format=Trip.model_json_schema())
    assert Trip.model_validate_json(reply.message.content or "") == Trip(city="Bonn", days=2)
    assert side.fake.prompts[-1].schema == Trip.model_json_schema()
    assert side.client.generate("fake", "hi", format="json").response


def test_generate(side: Side) -> None:
    reply = side.client.generate("fake", "hi", system="be kind", images=[PICTURE])
    assert reply.response == "hi"
    assert side.fake.prompts[-1].messages[0] == Message("system", "be kind")
    pieces = list(side.client.generate("fake", "a" * 20, stream=True))
    assert "".join(piece.response or "" for piece in pieces) == "a" * 20
    assert side.client.generate("fake").done_reason == "load"


def test_models(side: Side) -> None:
    models = {each.model: each for each in side.client.list().models}
    assert {"fake@fake", "fake-embed@fake", "feature:chat"} <= models.keys()
    shown = side.client.show("fake@fake")
    assert shown.capabilities == ["completion", "tools", "vision", "thinking"]
    assert shown.modelinfo is not None
    assert shown.modelinfo["general.basename"] == "fake@fake"
    assert side.client.ps().models == []


def test_embed(side: Side) -> None:
    expected = [list(each) for each in side.host.embed(["a", "b"], model="fake-embed").vectors]
    assert side.client.embed("fake-embed", ["a", "b"]).embeddings == expected
    assert side.client.embed("fake-embed", "a").embeddings == expected[:1]
    assert side.client.embeddings("fake-embed", "a").embedding == expected[0]


def test_errors(side: Side) -> None:
    with pytest.raises(ollama.ResponseError) as caught:
        side.client.chat("nobody", [HI])
    assert caught.value.status_code == 404
    side.fake.faults = {0: RateLimited("slowly")}
    with pytest.raises(ollama.ResponseError, match="slowly") as caught:
        list(side.client.chat("fake", [HI], stream=True))
    assert caught.value.status_code == 429
    assert side.client.pull("fake").status == "success"
    for manage in (
        side.client.push,
        side.client.delete,
        lambda name: side.client.copy(name, "other"),
        lambda name: side.client.create(name, from_="fake"),
    ):
        with pytest.raises(ollama.ResponseError, match="managed by their providers"):
            manage("fake")
