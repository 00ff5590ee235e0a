"""What our OpenAI API answers is what OpenAI's own OpenAPI document says that it is."""

from __future__ import annotations

from typing import Any

import pytest
from openai_form import Api
from peers.openai_document import Document

from genai_host.api import Completion, Message, Reasoning, Text, ToolCall, Usage
from genai_host.errors import RateLimited, ServiceUnavailable

pytestmark = pytest.mark.peers

CLOCK = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}}}
CUSTOM_CLOCK = {"type": "custom", "custom": {"name": "clock"}}
SAID = Message(
    "assistant",
    [Reasoning("hm"), Text("so"), ToolCall("a", "clock", {"zone": "UTC"}), ToolCall("b", "clock")],
)
CALLED = Completion(SAID, "tool_calls", Usage(7, 3, 2, 1))


def test_completions(api: Api, document: Document) -> None:
    document.check("CreateChatCompletionResponse", api.completed())
    document.check("CreateChatCompletionResponse", api.completed(model="feature:chat"))
    api.fake.answer = lambda heard: CALLED
    document.check("CreateChatCompletionResponse", api.completed(tools=[CLOCK]))
    document.check("CreateChatCompletionResponse", api.completed(tools=[CUSTOM_CLOCK]))
    api.fake.answer = lambda heard: '{"a": 1}'
    form = {"type": "json_object"}
    document.check("CreateChatCompletionResponse", api.completed(response_format=form))


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_why_it_ended(api: Api, document: Document, finish: Any) -> None:
    api.fake.answer = lambda heard: Completion(Message("assistant", "so"), finish)
    document.check("CreateChatCompletionResponse", api.completed())
    *chunks, _ = api.events()
    for chunk in chunks:
        document.check("CreateChatCompletionStreamResponse", chunk)


@pytest.mark.parametrize("more", [{}, {"stream_options": {"include_usage": True}}])
def test_chunks(api: Api, document: Document, more: dict[str, Any]) -> None:
    api.fake.answer = lambda heard: CALLED
    *chunks, done = api.events(tools=[CLOCK], **more)
    assert done == "[DONE]"
    assert len(chunks) > 4
    for chunk in chunks:
        document.check("CreateChatCompletionStreamResponse", chunk)


def test_what_is_told_holds_for_requests(api: Api, document: Document) -> None:
    """What a client sends back of an answer is a message of a request."""
    api.fake.answer = lambda heard: CALLED
    message = api.completed(tools=[CLOCK])["choices"][0]["message"]
    document.check("ChatCompletionResponseMessage", message)
    # what only answers have, clients leave out, or send as it is
    document.check("ChatCompletionRequestAssistantMessage", message)


def test_embeddings(api: Api, document: Document) -> None:
    reply = api.post("/v1/embeddings", {"model": "fake-embed", "input": ["a", "b"]})
    document.check("CreateEmbeddingResponse", reply.json())


def test_moderations(api: Api, document: Document) -> None:
    api.fake.flags = lambda text: text == "bad"
    reply = api.post("/v1/moderations", {"input": ["good", "bad"]})
    document.check("CreateModerationResponse", reply.json())


def test_models(api: Api, document: Document) -> None:
    document.check("ListModelsResponse", api.get("/v1/models").json())
    document.check("Model", api.get("/v1/models/fake").json())


def test_errors(api: Api, document: Document) -> None:
    document.check("Error", api.refused(n=2))
    document.check("ErrorResponse", api.get("/v1/models/nobody").json())
    document.check("ErrorResponse", api.get("/v1/else").json())
    api.fake.faults = {0: RateLimited("slowly", retry_after=9), 1: ServiceUnavailable("down")}
    for stream in (False, True):
        document.check("ErrorResponse", api.chat(stream=stream).json())
    api.fake.answer = lambda heard: "{"
    *_, last = api.events(response_format={"type": "json_object"})
    document.check("ErrorResponse", last)
