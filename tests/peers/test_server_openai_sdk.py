"""The official `openai` SDK as a client of our OpenAI API, whose replies are what OpenAI's own
OpenAPI document says that they are; its Responses are tested in `test_server_responses_sdk`."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import genai_vendor_openai
import openai
import pytest
from attrs import frozen
from openai_form import CONFIG
from pydantic import BaseModel

from genai_host import Config
from genai_host.api import (
    Completion,
    File,
    Image,
    Message,
    Reasoning,
    Secret,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from genai_host.config.schema import InstanceConfig
from genai_host.errors import ContextOverflow, IncompleteReply, RateLimited, ServiceUnavailable
from genai_host_testing import FakeModel
from genai_host_testing.fake_model import RecordedPrompt
from genai_host_testing.fake_service import (
    CUT,
    FakeService,
    Reply,
    json_reply,
    reply,
    sse_reply,
)
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.servers import served

MODEL = "remote/m"
_HELLO = b'{"choices":[{"index":0,"delta":{"content":"hello"}}]}'


pytestmark = pytest.mark.peers

PNG = "data:image/png;base64," + base64.b64encode(b"\x89PNG").decode()
PDF = "data:application/pdf;base64," + base64.b64encode(b"%PDF").decode()
HI: Any = [{"role": "user", "content": "hi"}]
CALL = ToolCall("c1", "clock", {"zone": "CET"})
CLOCK: Any = {
    "type": "function",
    "function": {
        "name": "clock",
        "description": "what time it is",
        "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}},
    },
}


class Point(BaseModel):  # type: ignore[misc]  # pydantic is in few environments
    x: int
    y: int


def calls_the_clock(prompt: RecordedPrompt) -> str | Completion:
    if any(message.role == "tool" for message in prompt.messages):
        return "It is noon."
    return Completion(Message("assistant", [Reasoning("hm"), Text("so"), CALL]), "tool_calls")


@frozen
class Side:
    client: openai.OpenAI
    fake: FakeModel
    url: str

    def create(self, messages: Any = HI, **more: Any) -> Any:
        return self.client.chat.completions.create(model="fake", messages=messages, **more)


@pytest.fixture
def side(make_host: MakeHost, http_client: Any) -> Iterator[Side]:
    fake = FakeModel()
    with (
        served(make_host(fake=fake, config=CONFIG)) as server,
        openai.OpenAI(
            base_url=f"{server.url}/v1", api_key="key", max_retries=0, http_client=http_client
        ) as client,
    ):
        yield Side(client, fake, server.url)


def test_create(side: Side) -> None:
    side.fake.answer = lambda prompt: Completion(
        Message("assistant", "hello"), usage=Usage(7, 3, 2, 1)
    )
    content = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": PNG, "detail": "auto"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}},
    ]
    messages = [{"role": "developer", "content": "be kind"}, {"role": "user", "content": content}]
    completion = side.create(
        messages, temperature=0.5, max_completion_tokens=50, stop="END", n=1, user="me",
        metadata={"a": "b"}, store=False,
    )  # fmt: skip
    assert completion.choices[0].message.content == "hello"
    assert completion.choices[0].finish_reason == "stop"
    assert completion.usage.total_tokens == 10
    assert completion.usage.prompt_tokens_details.cached_tokens == 2
    assert completion.usage.completion_tokens_details.reasoning_tokens == 1
    (prompt,) = side.fake.prompts
    assert prompt.messages == (
        Message("system", "be kind"),
        Message(
            "user",
            ["look", Image(b"\x89PNG", "image/png"), File(b"%PDF", "application/pdf", "a.pdf")],
        ),
    )
    assert prompt.parameters == {"temperature": 0.5, "max_tokens": 50, "stop": ["END"]}


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_why_it_ended(side: Side, finish: Any) -> None:
    side.fake.answer = lambda prompt: Completion(Message("assistant", "so"), finish)
    assert side.create().choices[0].finish_reason == finish
    *_, last = side.create(stream=True)
    assert last.choices[0].finish_reason == finish


def test_a_stream(side: Side) -> None:
    side.fake.answer = lambda prompt: Completion(
        Message("assistant", "hello there, you"), usage=Usage(7, 3)
    )
    *chunks, last = side.create(stream=True, stream_options={"include_usage": True})
    texts = [chunk.choices[0].delta.content for chunk in chunks]
    assert "".join(text or "" for text in texts) == "hello there, you"
    assert len(chunks) > 3
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert last.usage.total_tokens == 10


def test_a_stream_is_put_together(side: Side) -> None:
    side.fake.answer = calls_the_clock
    completions = side.client.chat.completions
    with completions.stream(model="fake", messages=HI, tools=[CLOCK]) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert {"content.delta", "content.done", "tool_calls.function.arguments.done"} <= kinds
    (choice,) = final.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "so"
    assert choice.message.tool_calls[0].id == "c1"
    assert choice.message.tool_calls[0].function.arguments == '{"zone":"CET"}'
    message = side.create(tools=[CLOCK]).choices[0].message
    assert [call.function.arguments for call in message.tool_calls] == ['{"zone":"CET"}']


@pytest.mark.parametrize("streamed", [False, True])
def test_a_loop_of_tools(side: Side, document: Any, streamed: bool) -> None:
    """What comes back is sent again as the SDK has it."""
    side.fake.answer = calls_the_clock
    if streamed:
        completions = side.client.chat.completions
        with completions.stream(model="fake", messages=HI, tools=[CLOCK]) as stream:
            message: Any = stream.get_final_completion().choices[0].message
    else:
        message = side.create(tools=[CLOCK]).choices[0].message
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "noon"}
    document.check("ChatCompletionRequestAssistantMessage", message.to_dict())
    more: Any = {"tools": [CLOCK], "tool_choice": "auto"}
    last = side.create([*HI, message, result], **more).choices[0]
    assert (last.message.content, last.finish_reason) == ("It is noon.", "stop")
    assert side.fake.prompts[1].messages[1:] == (
        Message("assistant", [Reasoning("hm"), Text("so"), CALL]),
        Message("tool", [ToolResult("c1", "clock", "noon")]),
    )


def test_a_custom_tool(side: Side) -> None:
    call = ToolCall("c1", "patch", {"input": "*** é"})
    side.fake.answer = lambda prompt: Completion(Message("assistant", call), "tool_calls")
    tool = {"type": "custom", "custom": {"name": "patch"}}
    more = {"tools": [tool], "tool_choice": tool}
    message = side.create(**more).choices[0].message
    (called,) = message.tool_calls
    assert (called.type, called.custom.name, called.custom.input) == ("custom", "patch", "*** é")
    with side.create(stream=True, **more) as stream:
        deltas = [chunk.choices[0].delta.tool_calls for chunk in stream]
    (piece,) = (each.model_dump() for (each,) in filter(None, deltas))
    assert piece["custom"] == {"name": "patch", "input": "*** é"}
    side.create([*HI, message, {"role": "tool", "tool_call_id": "c1", "content": "done"}], **more)
    assert side.fake.prompts[-1].messages[1] == Message("assistant", call)


def test_parse(side: Side) -> None:
    side.fake.answer = lambda prompt: '{"x": 1, "y": 2}'
    completions = side.client.chat.completions
    parsed = completions.parse(model="fake", messages=HI, response_format=Point)
    assert parsed.choices[0].message.parsed == Point(x=1, y=2)
    assert set(side.fake.prompts[0].schema or {}) >= {"properties", "required"}
    with completions.stream(model="fake", messages=HI, response_format=Point) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.parsed == Point(x=1, y=2)
    form = {"type": "json_object"}
    assert side.create(response_format=form).choices[0].message.content == '{"x": 1, "y": 2}'
    side.fake.answer = lambda prompt: "{"
    with pytest.raises(openai.APIError):
        list(side.create(stream=True, response_format=form))


def test_parsed_calls(side: Side) -> None:
    call = ToolCall("c", "Point", {"x": 1, "y": 2})
    side.fake.answer = lambda prompt: Completion(Message("assistant", [call]), "tool_calls")
    parsed = side.client.chat.completions.parse(
        model="fake", messages=HI, tools=[openai.pydantic_function_tool(Point)]
    )
    calls: Any = parsed.choices[0].message.tool_calls
    assert len(calls) == 1
    assert calls[0].function.parsed_arguments == Point(x=1, y=2)


@pytest.mark.parametrize("form", [{}, {"encoding_format": "float"}])  # the SDK's own is base64
def test_embeddings(side: Side, form: Any) -> None:
    response = side.client.embeddings.create(model="fake-embed", input=["a", "b", "a"], **form)
    first, second, third = (each.embedding for each in response.data)
    assert first == third != second
    assert sum(number * number for number in first) == pytest.approx(1.0)
    assert [each.index for each in response.data] == [0, 1, 2]
    assert len(side.client.embeddings.create(model="fake-embed", input="a").data) == 1


def test_moderations(side: Side) -> None:
    side.fake.flags = lambda text: text == "bad"
    moderation = side.client.moderations.create(model="fake-moderate", input=["good", "bad"])
    assert [each.flagged for each in moderation.results] == [False, True]
    assert moderation.results[0].categories.self_harm_intent is False
    assert moderation.results[0].category_scores.hate_threatening == 0.0
    assert side.client.moderations.create(input="bad").results[0].flagged


def test_models(side: Side) -> None:
    names = [model.id for model in side.client.models.list()]
    assert {"fake@fake", "fake-embed@fake", "feature:chat"} <= {*names}
    for name in ("fake", "feature:chat"):
        retrieved = side.client.models.retrieve(name)
        assert (retrieved.id, retrieved.object) == (name, "model")
        completion = side.client.chat.completions.create(model=name, messages=HI)
        assert completion.choices[0].message.content == "hi"
    with pytest.raises(openai.NotFoundError):
        side.client.models.retrieve("nobody")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("fault", "kind", "code"), [
    (RateLimited("slowly", retry_after=7), openai.RateLimitError, "rate_limit_exceeded"),
    (ContextOverflow("too long"), openai.BadRequestError, "context_length_exceeded"),
    (ServiceUnavailable("down"), openai.InternalServerError, "unavailable"),
])  # fmt: skip
def test_faults(side: Side, fault: Any, kind: Any, code: str, stream: bool) -> None:
    side.fake.faults[0] = fault
    with pytest.raises(kind, match=str(fault)) as caught:
        side.create(stream=stream)
    assert caught.value.code == code
    retry_after = caught.value.response.headers.get("retry-after")
    assert retry_after == ("7" if isinstance(fault, RateLimited) else None)


def test_what_is_refused(side: Side) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        side.create(n=2)
    assert (caught.value.param, caught.value.type) == ("n", "invalid_request_error")
    with pytest.raises(openai.NotFoundError) as missing:
        side.client.chat.completions.create(model="nobody", messages=HI)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError):
        side.client.images.generate(prompt="a cat")


def test_a_key(make_host: MakeHost) -> None:
    host = make_host(fake=FakeModel(), config=CONFIG)
    with served(host, tokens={"": Secret(TOKEN)}) as server:
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key=TOKEN) as client:
            completion = client.chat.completions.create(model="fake", messages=HI)
            assert completion.choices[0].message.content == "hi"
        with (
            openai.OpenAI(base_url=f"{server.url}/v1", api_key="wrong", max_retries=0) as client,
            pytest.raises(openai.AuthenticationError) as caught,
        ):
            client.chat.completions.create(model="fake", messages=HI)
        assert caught.value.code == "invalid_api_key"


TOKEN = "the-right-token-of-it"


@pytest.mark.parametrize(
    "options",
    [{}, {"azure_deployment": "fake"}, {"base_url": "openai/deployments/fake"}],
    ids=["no deployment", "deployment", "base URL"],
)
def test_azure(make_host: MakeHost, options: dict[str, str]) -> None:
    with served(make_host(fake=FakeModel(), config=CONFIG), tokens={"": Secret(TOKEN)}) as server:
        place = (
            {"base_url": f"{server.url}/{options['base_url']}"}
            if "base_url" in options
            else {"azure_endpoint": server.url, **options}
        )
        with openai.AzureOpenAI(
            **place, api_key=TOKEN, api_version="2024-10-21", max_retries=0
        ) as client:
            completion = client.chat.completions.create(model="fake", messages=HI)
            assert completion.choices[0].message.content == "hi"
            stream = client.chat.completions.create(model="fake", messages=HI, stream=True)
            texts = [chunk.choices[0].delta.content for chunk in stream if chunk.choices]
            assert "".join(text or "" for text in texts) == "hi"
            if options:  # all other calls are for its deployment
                return
            vectors = client.embeddings.create(model="fake-embed", input=["a", "b"])
            assert len(vectors.data) == 2
            assert client.responses.create(model="fake", input="hi").output_text == "hi"
            assert "fake@fake" in [model.id for model in client.models.list()]
            with pytest.raises(openai.NotFoundError) as missing:
                client.chat.completions.create(model="nobody", messages=HI)
            assert missing.value.code == "model_not_found"


@contextmanager
def remote_client(
    make_host: MakeHost, *replies: Reply
) -> Iterator[tuple[openai.OpenAI, FakeService]]:
    """A client of the host, and the service behind it, which sends these replies."""
    with FakeService(list(replies)) as service:
        remote = InstanceConfig("openai-compatible", settings={"base_url": f"{service.url}/v1"})
        host = make_host(openai=genai_vendor_openai, config=Config(providers={"remote": remote}))
        with (
            served(host) as server,
            openai.OpenAI(base_url=f"{server.url}/v1", api_key="-", max_retries=0) as client,
        ):
            yield client, service


def test_a_stream_that_is_cut_upstream(make_host: MakeHost) -> None:
    with remote_client(make_host, sse_reply([_HELLO, CUT])) as (client, _):
        stream = client.chat.completions.create(model=MODEL, messages=HI, stream=True)
        texts = []
        with pytest.raises(openai.APIError) as caught:
            for chunk in stream:
                texts.append(chunk.choices[0].delta.content)
        assert "".join(text or "" for text in texts) == "hello"
        assert caught.value.code == IncompleteReply.code


def test_transcriptions(make_host: MakeHost) -> None:
    verbose = {"text": "hello", "language": "english", "duration": 2, "words": [], "task": "x"}
    replies = (
        json_reply({"text": "hello"}),
        json_reply(verbose),
        reply(b"WEBVTT\n\nhello\n", headers={"content-type": "text/vtt"}),
    )
    with remote_client(make_host, *replies) as (client, service):
        create = client.audio.transcriptions.create
        file = ("a.wav", b"RIFF")
        assert create(model=MODEL, file=file).text == "hello"
        words = ["word", "segment"]
        transcription = create(
            model=MODEL, file=file, response_format="verbose_json", timestamp_granularities=words,
            temperature=0.5,
        )  # fmt: skip
        assert (transcription.text, transcription.language) == ("hello", "english")
        assert create(model=MODEL, file=file, response_format="vtt") == "WEBVTT\n\nhello\n"
        sent = service.requests[1].body
        assert sent.count(b'name="timestamp_granularities[]"') == len(words)
        with pytest.raises(openai.BadRequestError, match="not streamed"):
            create(model=MODEL, file=file, stream=True)
