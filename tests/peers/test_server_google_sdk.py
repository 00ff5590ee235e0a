"""The official `google-genai` SDK as a client of our Gemini API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import google.genai as genai
import pytest
from attrs import frozen
from gemini_form import Api
from google.genai import errors, types
from pydantic import BaseModel

from genai_host import Host
from genai_host.api import (
    Completion,
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


@frozen
class Side:
    client: genai.Client
    fake: FakeModel
    host: Host


@pytest.fixture(params=["v1", "v1beta"])
def side(make_host: MakeHost, request: pytest.FixtureRequest) -> Iterator[Side]:
    with Api.serving(make_host) as api:
        options = types.HttpOptions(
            base_url=api.url,
            api_version=request.param,
            retry_options=types.HttpRetryOptions(attempts=1),
        )
        client = genai.Client(api_key="key", http_options=options)
        try:
            yield Side(client, api.fake, api.host)
        finally:
            client.close()


def test_generate(side: Side) -> None:
    usage = Usage(3, 5, reasoning_tokens=2)
    message = Message("assistant", [Reasoning("hm"), Text("hello")])
    side.fake.answer = lambda prompt: Completion(message, usage=usage)
    picture = types.Part.from_bytes(data=b"\x89PNG", mime_type="image/png")
    reply = side.client.models.generate_content(
        model="fake", contents=["look", picture],
        config=types.GenerateContentConfig(
            system_instruction="be kind", temperature=0.5, max_output_tokens=9,
            stop_sequences=["X"], thinking_config=types.ThinkingConfig(include_thoughts=True),
            safety_settings=[
                types.SafetySetting(
                    category=types.HarmCategory.HARM_CATEGORY_HARASSMENT,
                    threshold=types.HarmBlockThreshold.BLOCK_NONE,
                )
            ],
        ),
    )  # fmt: skip
    assert reply.text == "hello"
    assert reply.parts is not None
    assert [part.thought for part in reply.parts] == [True, None]
    assert reply.candidates is not None
    assert reply.candidates[0].finish_reason == types.FinishReason.STOP
    assert reply.usage_metadata is not None
    assert reply.usage_metadata.total_token_count == 8
    assert reply.usage_metadata.thoughts_token_count == 2
    assert (reply.model_version, bool(reply.response_id)) == ("fake", True)
    (prompt,) = side.fake.prompts
    assert prompt.messages == (
        Message("system", "be kind"),
        Message("user", ["look", Image(b"\x89PNG", "image/png")]),
    )
    assert prompt.parameters == {"temperature": 0.5, "max_tokens": 9, "stop": ["X"]}


def test_stream(side: Side) -> None:
    side.fake.answer = lambda prompt: "a" * 20
    stream = side.client.models.generate_content_stream(model="fake", contents="hi")
    pieces = list(stream)
    assert "".join(piece.text or "" for piece in pieces) == "a" * 20
    assert len(pieces) == 4
    assert pieces[-1].candidates is not None
    assert pieces[-1].candidates[0].finish_reason == types.FinishReason.STOP


def test_an_error_in_a_stream(side: Side) -> None:
    """It comes after the first piece: then the status has been sent."""

    def answer(prompt: RecordedPrompt) -> Any:
        return Completion(Message("assistant", '{"a": '))

    side.fake.answer = answer
    stream = side.client.models.generate_content_stream(
        model="fake", contents="hi", config={"response_mime_type": "application/json"}
    )
    assert next(iter(stream)).text == '{"a": '
    with pytest.raises(errors.APIError) as caught:
        list(stream)
    assert caught.value.code == 502
    assert caught.value.status == "UNAVAILABLE"


def test_functions_are_called(side: Side) -> None:
    """By the SDK itself, which describes them as well."""

    def weather(city: str, days: int = 1) -> str:
        """The weather of a city."""
        return f"{city} is sunny for {days} days"

    def answer(prompt: RecordedPrompt) -> Any:
        last = prompt.messages[-1]
        if last.role == "tool":
            (part,) = last.content
            assert isinstance(part, ToolResult)
            return part.content[0].text  # type: ignore[union-attr]  # it is text
        call = ToolCall("c1", "weather", {"city": "Bonn", "days": 2})
        signature = VendorPart("gemini", {"thoughtSignature": "AQID"})
        return Completion(Message("assistant", [call, signature]), "tool_calls")

    side.fake.answer = answer
    reply = side.client.models.generate_content(
        model="fake", contents="hi", config=types.GenerateContentConfig(tools=[weather])
    )
    assert reply.text == "Bonn is sunny for 2 days"
    assert side.fake.prompts[-1].messages[1].content == (
        ToolCall("c1", "weather", {"city": "Bonn", "days": 2}),
        VendorPart("gemini", {"thoughtSignature": "AQID"}),
    )
    chat = side.client.chats.create(
        model="fake", config=types.GenerateContentConfig(tools=[weather])
    )
    pieces = [piece.text or "" for piece in chat.send_message_stream("hi")]
    assert "".join(pieces) == "Bonn is sunny for 2 days"


class Trip(BaseModel):  # type: ignore[misc]  # pydantic is in few environments
    city: str
    days: int | None = None
    stops: list[str] = []


def test_classes(side: Side) -> None:
    side.fake.answer = lambda prompt: '{"city": "Bonn", "days": null, "stops": ["a"]}'
    config = types.GenerateContentConfig(
        response_mime_type="application/json", response_schema=Trip
    )
    reply = side.client.models.generate_content(model="fake", contents="hi", config=config)
    assert reply.parsed == Trip(city="Bonn", stops=["a"])
    schema = side.fake.prompts[-1].schema
    assert schema is not None
    assert schema["properties"]["city"]["type"] == "string"
    assert "null" in str(schema["properties"]["days"])


def test_a_list_of_classes_and_json_schema(side: Side) -> None:
    side.fake.answer = lambda prompt: '[{"city": "Bonn"}]'
    config: Any = {"response_mime_type": "application/json", "response_schema": list[Trip]}
    reply = side.client.models.generate_content(model="fake", contents="hi", config=config)
    assert reply.parsed == [Trip(city="Bonn")]
    side.fake.answer = lambda prompt: '{"city": "Bonn"}'
    config = {
        "response_mime_type": "application/json",
        "response_json_schema": Trip.model_json_schema(),
    }
    reply = side.client.models.generate_content(model="fake", contents="hi", config=config)
    assert reply.parsed == {"city": "Bonn"}


def test_chats(side: Side) -> None:
    side.fake.answer = lambda prompt: f"{len(prompt.messages)} {prompt.text}"
    chat = side.client.chats.create(model="fake")
    assert chat.send_message("hi").text == "1 hi"
    assert "".join(piece.text or "" for piece in chat.send_message_stream("and")) == "3 and"
    assert chat.send_message("now").text == "5 now"
    assert [message.role for message in side.fake.prompts[-1].messages] == [
        "user", "assistant", "user", "assistant", "user",
    ]  # fmt: skip


def test_embeddings(side: Side) -> None:
    reply = side.client.models.embed_content(
        model="fake-embed",
        contents=["a", "b"],
        config=types.EmbedContentConfig(task_type="RETRIEVAL_QUERY"),
    )
    assert reply.embeddings is not None
    expected = side.host.embed(["a", "b"], model="fake-embed").vectors
    assert [each.values for each in reply.embeddings] == [pytest.approx(each) for each in expected]


def test_models(side: Side) -> None:
    names = {model.name for model in side.client.models.list(config={"page_size": 2})}
    assert {"models/fake@fake", "models/fake-embed@fake", "models/feature:chat"} <= names
    model = side.client.models.get(model="fake")
    assert model.name == "models/fake"
    assert model.supported_actions == ["generateContent", "streamGenerateContent", "countTokens"]
    reply = side.client.models.generate_content(model="models/fake@fake", contents="hi")
    assert reply.text == "hi"
    assert side.client.models.generate_content(model="feature:chat", contents="hi").text == "hi"


def test_errors(side: Side) -> None:
    with pytest.raises(errors.ClientError) as caught:
        side.client.models.generate_content(model="nobody", contents="hi")
    assert (caught.value.code, caught.value.status) == (404, "NOT_FOUND")
    side.fake.faults = {0: RateLimited("slowly", retry_after=3), 1: ServiceUnavailable("gone")}
    with pytest.raises(errors.ClientError) as caught:
        side.client.models.generate_content(model="fake", contents="hi")
    assert (caught.value.code, caught.value.status) == (429, "RESOURCE_EXHAUSTED")
    assert caught.value.message is not None
    with pytest.raises(errors.ServerError) as failed:
        list(side.client.models.generate_content_stream(model="fake", contents="hi"))
    assert (failed.value.code, failed.value.status) == (503, "UNAVAILABLE")
    with pytest.raises(errors.ClientError, match="candidateCount"):
        side.client.models.generate_content(
            model="fake", contents="hi", config={"candidate_count": 2}
        )
