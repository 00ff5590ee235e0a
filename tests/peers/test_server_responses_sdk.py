"""The official `openai` SDK as a client of our Responses API, whose replies and events are what
OpenAI's own OpenAPI document says that they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from attrs import frozen
from pydantic import BaseModel
from responses_api import CALL, CLOCK, PIXEL, Api, calls_the_clock, output_of, user

from genai_host import Host
from genai_host.api import Completion, Image, Message, Reasoning, ToolCall, Usage, VendorPart
from genai_host_testing import FakeModel
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.peers

OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "noon"}


@frozen
class Side:
    client: openai.OpenAI
    fake: FakeModel
    host: Host

    def create(self, input: Any = "hi", **more: Any) -> Any:
        return self.client.responses.create(model="fake", input=input, **more)


@pytest.fixture
def side(make_host: MakeHost, http_client: Any) -> Iterator[Side]:
    with (
        Api.serving(make_host) as api,
        openai.OpenAI(
            base_url=f"{api.url}/v1", api_key="key", max_retries=0, http_client=http_client
        ) as client,
    ):
        yield Side(client, api.fake, api.host)


def test_create(side: Side) -> None:
    side.fake.answer = lambda prompt: Completion(
        Message("assistant", "hello"), usage=Usage(7, 3, 2, 1)
    )
    content = [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": PIXEL, "detail": "auto"},
    ]
    response = side.create(
        [{"role": "user", "content": content}], instructions="be kind", temperature=0.5,
        max_output_tokens=50, metadata={"a": "b"},
    )  # fmt: skip
    assert response.output_text == "hello"
    assert response.status == "completed"
    assert response.usage.total_tokens == 10
    assert response.usage.input_tokens_details.cached_tokens == 2
    assert response.usage.output_tokens_details.reasoning_tokens == 1
    (prompt,) = side.fake.prompts
    assert prompt.messages[1] == Message("user", ["look", Image(b"\x89PNG", "image/png")])
    assert prompt.parameters == {"temperature": 0.5, "max_tokens": 50}


EVERYTHING: dict[str, Any] = {
    "instructions": "be kind",
    "tools": [CLOCK, {"type": "function", "name": "look", "parameters": None, "strict": False}],
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"name": "clock"}]},
    "text": {"verbosity": "medium", "format": {"type": "text"}}, "reasoning": {"summary": "auto"},
    "metadata": {"a": "b"}, "max_output_tokens": 50, "max_tool_calls": 3, "temperature": 0.5,
    "top_p": 0.5, "user": "me", "safety_identifier": "me", "prompt_cache_key": "key",
}  # fmt: skip


@pytest.mark.parametrize("more", [{}, {"include": ["reasoning.encrypted_content"]}])
def test_all_that_can_be_asked(side: Side, more: Any) -> None:
    side.fake.answer = calls_the_clock
    first = side.create(**EVERYTHING, **more)
    assert [item.type for item in first.output] == ["reasoning", "function_call"]
    assert side.client.responses.retrieve(first.id).output[1] == first.output[1]
    *_, last = side.create(stream=True, **EVERYTHING, **more)
    assert last.type == "response.completed"


@pytest.mark.parametrize("finish", ["length", "content_filter", "other"])
def test_incomplete_responses(side: Side, finish: Any) -> None:
    side.fake.answer = lambda prompt: Completion(Message("assistant", "so"), finish)
    assert side.create().status == "incomplete"
    *_, last = side.create(stream=True)
    assert last.type == "response.incomplete"


def test_a_picture(side: Side) -> None:
    side.fake.answer = lambda prompt: Completion(Message("assistant", [Image(b"png")]))
    *_, last = side.create(stream=True)
    assert [item.type for item in last.response.output] == ["image_generation_call"]


def test_a_stream_is_put_together(side: Side) -> None:
    side.fake.answer = lambda prompt: "hello there, you"
    texts = []
    with side.client.responses.stream(model="fake", input="hi") as stream:
        for event in stream:
            if event.type == "response.output_text.delta":
                texts.append(event.delta)
                assert event.snapshot == "".join(texts)
        final = stream.get_final_response()
    assert len(texts) > 1
    assert final.output_text == "".join(texts) == "hello there, you"
    assert side.client.responses.retrieve(final.id).output_text == final.output_text


@pytest.mark.parametrize("sealed", [False, True])
def test_thoughts_and_calls_in_a_stream(side: Side, sealed: bool) -> None:
    side.fake.answer = calls_the_clock
    more: Any = {"include": ["reasoning.encrypted_content"], "store": False} if sealed else {}
    tools: Any = [CLOCK]
    with side.client.responses.stream(model="fake", input="hi", tools=tools, **more) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert "response.reasoning_summary_text.delta" in kinds
    assert "response.function_call_arguments.done" in kinds
    thought, call = final.output
    assert thought.type == "reasoning"
    assert thought.summary[0].text == "hm"
    assert bool(thought.encrypted_content) is sealed
    assert call.type == "function_call"
    assert call.arguments == '{"zone":"CET"}'


class Point(BaseModel):  # type: ignore[misc]  # pydantic is in few environments
    x: int
    y: int


def test_parse(side: Side) -> None:
    side.fake.answer = lambda prompt: '{"x": 1, "y": 2}'
    response = side.client.responses.parse(model="fake", input="where?", text_format=Point)
    assert response.output_parsed == Point(x=1, y=2)
    assert side.fake.prompts[0].schema is not None
    with side.client.responses.stream(model="fake", input="where?", text_format=Point) as stream:
        assert stream.get_final_response().output_parsed == Point(x=1, y=2)


def test_a_loop_of_tools_by_previous_response_id(side: Side) -> None:
    side.fake.answer = calls_the_clock
    first = side.create("when?", tools=[CLOCK])
    call = first.output[1]
    assert (call.name, call.call_id) == ("clock", "c1")
    second = side.create([OUTPUT], previous_response_id=first.id, tools=[CLOCK])
    assert second.output_text == "It is noon."
    assert second.previous_response_id == first.id
    assert side.fake.prompts[1].messages[1].content[1] == VendorPart("fake", {"secret": 1})


def test_a_loop_of_tools_without_state(side: Side) -> None:
    """What comes back is sent again as the SDK has it."""
    side.fake.answer = calls_the_clock
    more: Any = {"store": False, "include": ["reasoning.encrypted_content"], "tools": [CLOCK]}
    items: list[Any] = [{"role": "user", "content": "when?"}]
    items += side.create(items, **more).output
    items.append(OUTPUT)
    assert side.create(items, **more).output_text == "It is noon."
    assert side.fake.prompts[1].messages[1].content == (
        Reasoning("hm"), VendorPart("fake", {"secret": 1}), CALL,
    )  # fmt: skip


def test_retrieve_delete_and_input_items(side: Side) -> None:
    messages = [{"role": "user", "content": text} for text in "abcde"]
    response = side.create(messages)
    listed = side.client.responses.input_items.list(response.id, limit=2, order="asc")
    items: list[Any] = list(listed)  # three pages
    assert [item.content[0].text for item in items] == list("abcde")
    assert side.client.responses.retrieve(response.id) == response
    with pytest.raises(openai.BadRequestError):
        side.client.responses.cancel(response.id)
    side.client.responses.delete(response.id)
    with pytest.raises(openai.NotFoundError):
        side.client.responses.retrieve(response.id)


ITEMS: list[Any] = [
    user([{"type": "input_image", "image_url": PIXEL},
          {"type": "input_file", "filename": "a.pdf", "file_data": "JVBERg=="}]),
    {"role": "assistant", "content": "b"},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
    {"type": "function_call", "call_id": "1", "name": "x", "arguments": "{}"}, output_of("1"),
    {"type": "image_generation_call", "result": "iVBORw=="},
]  # fmt: skip


def test_items_of_all_types(side: Side) -> None:
    kinds = [item.get("type", "message") for item in ITEMS]
    listed = side.client.responses.input_items.list(side.create(ITEMS).id, order="asc")
    assert [item.type for item in listed] == kinds
    conversation = side.client.conversations.create(items=ITEMS)
    items = side.client.conversations.items
    assert [item.type for item in items.create(conversation.id, items=ITEMS).data] == kinds
    stored: list[Any] = list(items.list(conversation.id, order="asc"))
    assert [item.type for item in stored] == kinds * 2
    for item in stored:
        assert items.retrieve(item.id, conversation_id=conversation.id) == item
    assert list(items.list(side.client.conversations.create().id)) == []


def test_conversations(side: Side) -> None:
    items: Any = [{"role": "user", "content": "one"}]
    conversation = side.client.conversations.create(items=items, metadata={"a": "b"})
    assert side.client.conversations.retrieve(conversation.id) == conversation
    changed = side.client.conversations.update(conversation.id, metadata={"c": "d"})
    assert changed.metadata == {"c": "d"}
    side.create("two", conversation=conversation.id)
    assert [message.text for message in side.fake.prompts[0].messages] == ["one", "two"]
    listed = side.client.conversations.items.list(conversation.id, limit=2, order="asc")
    messages: list[Any] = list(listed)
    assert [(item.role, item.content[0].text) for item in messages] == [
        ("user", "one"), ("user", "two"), ("assistant", "two"),
    ]  # fmt: skip
    added = side.client.conversations.items.create(conversation.id, items=items)
    item = side.client.conversations.items.retrieve(
        added.data[0].id, conversation_id=conversation.id
    )
    assert item == added.data[0]
    side.client.conversations.items.delete(added.data[0].id, conversation_id=conversation.id)
    assert len(list(side.client.conversations.items.list(conversation.id))) == 3
    assert side.client.conversations.delete(conversation.id).deleted
    with pytest.raises(openai.NotFoundError):
        side.client.conversations.items.list(conversation.id)


def test_tokens_are_counted(side: Side) -> None:
    counted = side.client.responses.input_tokens.count(model="fake", input="one two three")
    assert counted.input_tokens == 3


@pytest.mark.parametrize("stream", [False, True])
def test_a_custom_tool(side: Side, stream: bool) -> None:
    call = ToolCall("c1", "shout", {"input": "hey"})
    side.fake.answer = lambda prompt: Completion(Message("assistant", [call]), "tool_calls")
    tools = [{"type": "custom", "name": "shout"}, {"type": "web_search"}]
    if stream:
        with side.client.responses.stream(model="fake", input="hi", tools=tools) as events:
            response: Any = events.get_final_response()
    else:
        response = side.create(tools=tools)
    (item,) = response.output
    assert (item.type, item.name, item.input, item.call_id) == (
        "custom_tool_call", "shout", "hey", "c1",
    )  # fmt: skip


def test_what_is_refused(side: Side) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        side.create(tools=[{"type": "code_interpreter", "container": {"type": "auto"}}])
    assert caught.value.param == "tools[0].type"
    with pytest.raises(openai.NotFoundError) as missing:
        side.create(previous_response_id="resp_1")
    assert missing.value.code == "previous_response_not_found"
    with pytest.raises(openai.NotFoundError):
        side.client.responses.create(model="nobody", input="hi")


def test_a_failure_amid_a_stream(side: Side) -> None:
    side.fake.answer = lambda prompt: "{"
    with side.client.responses.stream(model="fake", input="hi", text_format=Point) as stream:
        *_, last = stream
        assert last.type == "response.failed"
        with pytest.raises(RuntimeError):
            stream.get_final_response()
    form: Any = {"format": {"type": "json_object"}}
    events = list(side.create(stream=True, text=form))
    assert events[-1].type == "response.failed"
    assert events[-1].response.error.code == "server_error"
