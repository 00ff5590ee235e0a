"""What our Responses API answers is what OpenAI's own OpenAPI document says that it is."""

from __future__ import annotations

from typing import Any

import pytest
from peers.openai_document import Document
from responses_api import CLOCK, PIXEL, Api, calls_the_clock, output_of, user

from genai_host.api import Completion, Image, Message

pytestmark = pytest.mark.peers


EVERYTHING: dict[str, Any] = {
    "instructions": "be kind",
    "tools": [CLOCK, {"type": "function", "name": "look", "parameters": None, "strict": False}],
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"name": "clock"}]},
    "text": {"verbosity": "medium", "format": {"type": "text"}},
    "reasoning": {"summary": "auto"},
    "metadata": {"a": "b"},
    "max_output_tokens": 50,
    "max_tool_calls": 3,
    "temperature": 0.5,
    "top_p": 0.5,
    "user": "me",
    "safety_identifier": "me",
    "prompt_cache_key": "key",
}


NULLS = ("prompt_cache_key", "safety_identifier", "usage")
"""Fields that Open Responses requires as null. OpenAI's service has them, its document does not."""


def without_nulls(response: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in response.items() if value is not None or name not in NULLS
    }


def check_response(document: Document, response: dict[str, Any]) -> None:
    document.check("Response", without_nulls(response))


def test_responses(api: Api, document: Document) -> None:
    check_response(document, api.response())
    api.fake.answer = calls_the_clock
    included = ["reasoning.encrypted_content"]
    first = api.response(**EVERYTHING, include=included)
    check_response(document, first)
    check_response(document, api.response([output_of("c1")], previous_response_id=first["id"]))
    check_response(document, api.ok("GET", f"/responses/{first['id']}"))
    api.fake.answer = lambda heard: '{"a": 1}'
    form = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
    check_response(document, api.response(text={"format": form}))


@pytest.mark.parametrize("finish", ["length", "content_filter", "other"])
def test_incomplete_responses(api: Api, document: Document, finish: Any) -> None:
    api.fake.answer = lambda heard: Completion(Message("assistant", "so"), finish)
    check_response(document, api.response())


@pytest.mark.parametrize("more", [{}, {"include": ["reasoning.encrypted_content"]}])
def test_events(api: Api, document: Document, more: dict[str, Any]) -> None:
    api.fake.answer = calls_the_clock
    told = api.events(**EVERYTHING, **more)
    api.fake.answer = lambda heard: Completion(Message("assistant", "so"), "length")
    told += api.events()
    api.fake.answer = lambda heard: Completion(Message("assistant", [Image(b"png")]))
    told += api.events()
    api.fake.answer = lambda heard: "{"
    told += api.events(text={"format": {"type": "json_object"}})
    assert {"response.incomplete", "response.failed"} < {event["type"] for event in told}
    for event in told:
        if "response" in event:
            event["response"] = without_nulls(event["response"])
        document.check(document.schema_of_event(event["type"]), event)


def test_lists_of_input(api: Api, document: Document) -> None:
    items = [
        user("a"),
        user(
            [
                {"type": "input_image", "image_url": PIXEL},
                {"type": "input_file", "filename": "a.pdf", "file_data": "JVBERg=="},
            ]
        ),
        {"role": "assistant", "content": "b"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "function_call", "call_id": "1", "name": "x", "arguments": "{}"},
        output_of("1"),
        {"type": "image_generation_call", "result": "iVBORw=="},
    ]
    response = api.response(items)
    document.check("ResponseItemList", api.ok("GET", f"/responses/{response['id']}/input_items"))
    made = api.ok("POST", "/conversations", {"items": items, "metadata": {"a": "b"}})
    document.check("ConversationResource", made)
    path = f"/conversations/{made['id']}"
    listed = api.ok("GET", f"{path}/items")
    document.check("ConversationItemList", listed)
    for item in listed["data"]:
        document.check("ConversationItem", api.ok("GET", f"{path}/items/{item['id']}"))
    document.check("ConversationItemList", api.ok("POST", f"{path}/items", {"items": items}))
    document.check("DeletedConversationResource", api.ok("DELETE", path))
    document.check("ConversationItemList", api.ok("GET", f"{_new(api)}/items"))


def _new(api: Api) -> str:
    return f"/conversations/{api.ok('POST', '/conversations', {})['id']}"


def test_counts_and_errors(api: Api, document: Document) -> None:
    counted = api.ok("POST", "/responses/input_tokens", {"model": "fake", "input": "hi"})
    document.check("TokenCountsResource", counted)
    document.check("Error", api.refused(temperature="hot"))
    document.check("Error", api.error("GET", "/responses/resp_x"))
