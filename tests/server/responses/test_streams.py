"""Responses in events: in order, with what clients put together from them, and how they end."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from genai_wire_openai.responses.fields import Fields
from genai_wire_openai.responses.replies import Events, ResponseHead
from genai_wire_openai.responses.request import read_request
from responses_api import CLOCK, Api

from genai_host.api import Completion, Delta, Message, Reasoning, Text, ToolCall, VendorPart
from genai_host.errors import GenaiError, IncompleteReply, RateLimited
from genai_host.serving.completion import CompletionStream, streamed

pytestmark = pytest.mark.part

CALL = ToolCall("c1", "clock", {"zone": "é"})


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def items_of(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event["item"] for event in events if event["type"] == f"response.output_item.{kind}"]


def test_a_text(api: Api) -> None:
    events = api.events("hello there")
    assert kinds(events) == [
        "created", "in_progress", "output_item.added", "content_part.added",
        "output_text.delta", "output_text.delta", "output_text.done", "content_part.done",
        "output_item.done", "completed",
    ]  # fmt: skip
    created, _, added, part, one, two, text, _, done, completed = events
    assert created["response"]["status"] == "in_progress"
    assert added["item"]["content"] == []
    assert added["item"]["status"] == "in_progress"
    assert part["part"] == {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    assert (one["delta"] + two["delta"], text["text"]) == ("hello there", "hello there")
    assert {event["item_id"] for event in (part, one, two, text)} == {added["item"]["id"]}
    assert completed["response"]["output"] == [done["item"]]
    assert completed["response"]["id"] == created["response"]["id"]
    assert completed["response"]["status"] == "completed"
    stored = api.ok("GET", f"/responses/{created['response']['id']}")
    assert stored == completed["response"]


def test_a_call(api: Api) -> None:
    api.fake.answer = lambda prompt: Completion(Message("assistant", ["so", CALL]), "tool_calls")
    events = api.events(tools=[CLOCK])
    assert kinds(events)[8:] == [
        "output_item.done", "output_item.added", "function_call_arguments.delta",
        "function_call_arguments.done", "output_item.done", "completed",
    ][1:]  # fmt: skip
    added, delta, arguments, done, completed = events[-5:]
    assert (added["item"]["arguments"], added["item"]["status"]) == ("", "in_progress")
    assert delta["delta"] == arguments["arguments"] == done["item"]["arguments"] == '{"zone":"é"}'
    assert [event["output_index"] for event in (added, delta, arguments, done)] == [1] * 4
    assert completed["response"]["output"][1] == done["item"]


def test_an_answer_that_is_cut(api: Api) -> None:
    api.fake.answer = lambda prompt: Completion(Message("assistant", "so"), "length")
    *_, done, last = api.events()
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert done["item"]["status"] == "incomplete"
    assert last["response"]["output"] == [done["item"]]


def test_an_answer_of_nothing(api: Api) -> None:
    api.fake.answer = lambda prompt: Completion(Message("assistant", []))
    events = api.events()
    assert kinds(events) == ["created", "in_progress", "completed"]
    assert events[-1]["response"]["output"] == []


def test_what_came_in_no_pieces_is_told_at_the_end(api: Api) -> None:
    """The model of this test does not stream what it thinks."""
    thought = [Reasoning("hm"), VendorPart("fake", {"secret": 1})]
    api.fake.answer = lambda prompt: Completion(Message("assistant", [*thought, "so"]))
    events = api.events()
    assert "reasoning_summary_text.delta" in kinds(events)
    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["reasoning", "message"]
    assert "encrypted_content" not in output[0]
    assert "secret" not in json.dumps(events)
    done = items_of(events, "done")
    assert sorted(item["id"] for item in done) == sorted(item["id"] for item in output)


def test_items_are_done_in_order_where_thoughts_are_sealed(api: Api) -> None:
    """Clients keep them as they are done, and send them again."""
    thought = [Reasoning("hm"), VendorPart("fake", {"secret": 1})]
    api.fake.answer = lambda prompt: Completion(Message("assistant", [*thought, "so", CALL]))
    events = api.events(include=["reasoning.encrypted_content"], store=False)
    done = items_of(events, "done")
    assert done == events[-1]["response"]["output"]
    assert [item["type"] for item in done] == ["reasoning", "message", "function_call"]
    assert done[0]["encrypted_content"]
    api.fake.answer = lambda prompt: "fine"
    output = {"type": "function_call_output", "call_id": "c1", "output": "noon"}
    api.response([{"role": "user", "content": "hi"}, *done, output])
    assert list(api.fake.prompts[-1].messages[1].content) == [*thought, Text("so"), CALL]


def events_of(
    pieces: list[Delta], end: Completion | GenaiError, **more: Any
) -> list[dict[str, Any]]:
    """The events of an answer that comes in these pieces."""

    def answer() -> Any:
        yield from pieces
        if isinstance(end, Exception):
            raise end
        return end

    request = read_request(Fields({"model": "m", "input": "hi"}, "$"), lambda text: None)
    reply = ResponseHead(request, 1)
    events = Events(reply, lambda item: item, lambda c, o: reply.finished(c, o, 2), **more)
    data = b"".join(events.write(CompletionStream(answer()))).decode()
    return [json.loads(block.partition("data: ")[2]) for block in data.split("\n\n")[:-1]]


@pytest.mark.parametrize("hold", [False, True])
def test_thoughts_texts_and_calls_in_pieces(hold: bool) -> None:
    thought, secret = Reasoning("hmhm"), VendorPart("fake", 1)
    pieces = [
        Delta(reasoning="hm"), Delta(reasoning="hm"), Delta("a"), Delta("b"),
        Delta(tool_call=CALL), Delta("c"),
    ]  # fmt: skip
    end = Completion(Message("assistant", [secret, thought, "ab", CALL, "c"]))
    events = events_of(pieces, end, hold=hold)
    output = events[-1]["response"]["output"]
    done = items_of(events, "done")
    for items in (items_of(events, "added"), done):
        assert [item["id"] for item in items] == [item["id"] for item in output]
    assert [item["type"] for item in output] == [
        "reasoning", "message", "function_call", "message",
    ]  # fmt: skip
    assert output[0]["summary"] == [{"type": "summary_text", "text": "hmhm"}]
    assert output[0]["opaque"] == [{"dialect": "fake", "data": 1}]
    assert [output[at]["content"][0]["text"] for at in (1, 3)] == ["ab", "c"]
    assert ("opaque" in done[0]) is hold  # else it was done before that was known


def test_an_answer_whose_pieces_are_not_the_whole() -> None:
    """What was told holds: a text is not told twice, and a call not lost."""
    end = Completion(Message("assistant", ["a", CALL, "b"]))
    for pieces in ([Delta("ab")], [Delta("ab"), Delta(tool_call=CALL)]):
        events = events_of(pieces, end, hold=False)
        output = events[-1]["response"]["output"]
        assert [item["type"] for item in output] == ["message", "function_call"]
        assert output[0]["content"][0]["text"] == "ab"


@pytest.mark.parametrize(
    ("error", "code"),
    [(IncompleteReply("cut"), "server_error"), (RateLimited("slowly"), "rate_limit_exceeded")],
)
def test_an_error_amid_a_stream(error: GenaiError, code: str) -> None:
    events = events_of([Delta("so")], error, hold=False)
    last = events[-1]
    assert last["type"] == "response.failed"
    assert not {"response.completed", "response.incomplete"} & {e["type"] for e in events}
    response = last["response"]
    assert (response["status"], response["error"]["code"]) == ("failed", code)
    assert response["output"][0]["content"][0]["text"] == "so"
    assert response["output"][0]["status"] == "incomplete"


def test_a_bug_amid_a_stream_is_told_without_its_words(caplog: Any) -> None:
    events = events_of([Delta("so")], RuntimeError("key sk-1"), hold=False)  # type: ignore[arg-type]
    assert events[-1]["response"]["error"]["code"] == "server_error"
    assert "sk-1" not in json.dumps(events)
    assert "key sk-1" in caplog.text


def test_nothing_of_a_failed_response_is_kept(api: Api) -> None:
    api.fake.answer = lambda prompt: "{"
    schema = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}
    events = api.events(text={"format": schema})
    assert events[-1]["type"] == "response.failed"
    api.error("GET", f"/responses/{events[-1]['response']['id']}")


def test_a_stream_that_nobody_reads_is_closed(api: Api) -> None:
    """Also before its first bytes are asked for."""
    closed = threading.Event()

    def answer() -> Any:
        try:
            yield Delta("so")
            yield Delta("so")
        finally:
            closed.set()

    reply = ResponseHead(read_request(Fields({"input": "hi"}, "$"), lambda text: None), 1)
    events = Events(reply, lambda item: item, lambda c, o: {}, hold=False)
    answering = CompletionStream(answer())
    body: Any = streamed(answering, events.write).body
    answering.begin()
    body.close()
    assert closed.is_set()
