"""Refusals of a model: chat completions and responses have them apart from texts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from openai_form import HI, Api, reading_api

from genai_host_testing.fake_service import FakeService, Reply, json_reply, sse_reply
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part

PIECES = ["I cannot", " help with that."]
NO = "".join(PIECES)
PART = {"type": "refusal", "refusal": NO}
SCHEMA = {"type": "object", "properties": {}}
CHOICE = {"message": {"content": None, "refusal": NO}, "finish_reason": "stop"}
CHUNKS: list[dict[str, Any]] = [
    {"delta": {"role": "assistant", "content": "", "refusal": None}},
    *({"delta": {"refusal": piece}} for piece in PIECES),
    {"delta": {}, "finish_reason": "stop"},
]
ANSWER = {"status": "completed", "output": [
    {"id": "m", "type": "message", "role": "assistant", "content": [PART]}]}  # fmt: skip
EVENTS = [
    {"type": "response.output_item.added", "item": {"id": "m", "type": "message"}},
    *({"type": "response.refusal.delta", "item_id": "m", "delta": piece} for piece in PIECES),
    {"type": "response.completed", "response": ANSWER},
]


@pytest.fixture(params=["openai-chat", "openai-responses"])
def format(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def api(make_host: MakeHost, service: FakeService, format: str) -> Iterator[Api]:
    with reading_api(make_host, service, serves=[format]) as api:
        yield api


def refusing(format: str, *, stream: bool = False, answer: Any = ANSWER) -> Reply:
    """The reply of a service whose model refuses."""
    if not stream:
        return json_reply({"choices": [CHOICE]} if format == "openai-chat" else answer)
    events = EVENTS
    if format == "openai-chat":
        events = [{"choices": [each]} for each in CHUNKS]
    data = [json.dumps(each).encode() for each in events]
    return sse_reply([*data, b"[DONE]"] if format == "openai-chat" else data)


@pytest.mark.parametrize(
    "form",
    [{"type": "text"}, {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}],
)
def test_a_chat_completion(api: Api, service: FakeService, format: str, form: Any) -> None:
    service.replies = [refusing(format)]
    [choice] = api.completed(model="gate/m", response_format=form)["choices"]
    message = choice["message"]
    assert (message["content"], message["refusal"], choice["finish_reason"]) == (None, NO, "stop")


@pytest.mark.parametrize("model", ["gate/m", "plain/m"])  # the second service does not stream
def test_a_streamed_chat_completion(
    api: Api, service: FakeService, format: str, model: str
) -> None:
    service.replies = [refusing(format, stream=model == "gate/m")]
    *chunks, _ = api.events(model=model)
    choices = [chunk["choices"][0] for chunk in chunks]
    texts = [(each["delta"].get("content"), each["delta"].get("refusal")) for each in choices]
    assert texts[0] == ("", None)
    assert not any(content for content, _ in texts)
    assert "".join(refusal or "" for _, refusal in texts) == NO
    assert choices[-1]["finish_reason"] == "stop"


def test_a_response(api: Api, service: FakeService, format: str) -> None:
    service.replies = [refusing(format)]
    form = {"type": "json_schema", "name": "a", "schema": SCHEMA}
    asked = {"model": "gate/m", "input": "hi", "text": {"format": form}}
    reply = api.post("/v1/responses", asked).json()
    assert (reply["status"], reply["incomplete_details"]) == ("completed", None)
    [item] = reply["output"]
    assert (item["content"], item["status"]) == ([PART], "completed")


@pytest.mark.parametrize("model", ["gate/m", "plain/m"])
def test_a_streamed_response(api: Api, service: FakeService, format: str, model: str) -> None:
    service.replies = [refusing(format, stream=model == "gate/m")]
    reply = api.post("/v1/responses", {"model": model, "input": "hi", "stream": True})
    events = [json.loads(each.partition("data: ")[2]) for each in reply.text.split("\n\n")[:-1]]
    kinds = [event["type"].removeprefix("response.") for event in events]
    deltas = [event["delta"] for event in events if event["type"] == "response.refusal.delta"]
    assert kinds == [
        "created", "in_progress", "output_item.added", "content_part.added",
        *["refusal.delta"] * len(deltas), "refusal.done", "content_part.done",
        "output_item.done", "completed",
    ]  # fmt: skip
    begun, (done, part, item, completed) = events[3], events[-4:]
    assert "".join(deltas) == done["refusal"] == NO
    assert begun["part"] == {"type": "refusal", "refusal": ""}
    assert part["part"] == PART
    assert completed["response"]["output"] == [item["item"]]
    assert item["item"]["content"] == [PART]


MESSAGES: list[dict[str, Any]] = [
    HI, {"role": "assistant", "content": None, "refusal": NO}, HI,
    {"role": "assistant", "content": [PART]}, HI,
]  # fmt: skip


def sent_back(body: Any) -> list[Any]:
    """The refusals among the messages of a request to the service."""
    if "input" in body:
        return [each["content"] for each in body["input"] if each["role"] == "assistant"]
    messages = [each for each in body["messages"] if each["role"] == "assistant"]
    assert all(each["content"] is None for each in messages)
    return [[{"type": "refusal", "refusal": each["refusal"]}] for each in messages]


def test_refusals_are_sent_back_as_such(api: Api, service: FakeService, format: str) -> None:
    service.replies = [refusing(format)] * 3
    api.completed(*MESSAGES, model="gate/m")
    asked = {"model": "gate/m", "input": "hi"}
    first = api.post("/v1/responses", asked).json()
    api.post("/v1/responses", {**asked, "previous_response_id": first["id"]})
    assert sent_back(service.requests[0].json()) == [[PART]] * 2
    assert sent_back(service.requests[2].json()) == [[PART]]


def test_services_of_other_formats_receive_text(api: Api) -> None:
    api.completed(*MESSAGES, model="fake")
    assert [each.text for each in api.fake.prompts[0].messages] == ["hi", NO, "hi", NO, "hi"]


def test_a_refusal_after_text(api: Api, service: FakeService, format: str) -> None:
    said = {"type": "output_text", "text": "So: ", "annotations": []}
    answer = {"output": [{"type": "message", "content": [said, PART]}]}
    choice = {**CHOICE, "message": {"content": "So: ", "refusal": NO}}
    reply = {"choices": [choice]} if format == "openai-chat" else answer
    service.replies = [json_reply(reply)] * 2
    [choice] = api.completed(model="gate/m")["choices"]
    assert (choice["message"]["content"], choice["message"]["refusal"]) == ("So: ", NO)
    output = api.post("/v1/responses", {"model": "gate/m", "input": "hi"}).json()["output"]
    assert [part["type"] for item in output for part in item["content"]] == [
        "output_text", "refusal",
    ]  # fmt: skip


def test_a_refusal_that_is_cut(make_host: MakeHost, service: FakeService) -> None:
    service.replies = [json_reply({"choices": [{**CHOICE, "finish_reason": "length"}]})] * 2
    with reading_api(make_host, service) as api:
        [choice] = api.completed(model="gate/m")["choices"]
        response = api.post("/v1/responses", {"model": "gate/m", "input": "hi"}).json()
    assert choice["finish_reason"] == "length"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}


@pytest.mark.parametrize("stream", [False, True])
def test_clients_of_other_formats_receive_text(
    make_host: MakeHost, service: FakeService, format: str, stream: bool
) -> None:
    service.replies = [refusing(format, stream=stream)]
    asked = {"model": "gate/m", "max_tokens": 9, "messages": [HI], "stream": stream}
    with reading_api(make_host, service, serves=[format]) as api:
        text = api.post("/v1/messages", asked).text
    assert '"stop_reason":"refusal"' in text
    assert '"text":' in text
