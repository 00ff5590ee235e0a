"""OpenAI's responses: streams."""

from __future__ import annotations

import json
from typing import Any

import pytest
from garbage import cut, cuts
from hypothesis import given
from hypothesis import strategies as st
from responses_form import (
    LOOK,
    OPAQUE,
    THOUGHT,
    WIRE_LOOK,
    event,
    message,
    of,
    output_text,
    read,
    response,
    sent_again,
    stream,
)

from genai_host.api import Completion, Delta, Reasoning, StreamEvent, ToolCall, Usage
from genai_host.api.codec import usual_codec
from genai_host.errors import (
    BadRequest,
    GenaiError,
    MalformedReply,
    RateLimited,
    ServiceUnavailable,
)
from genai_host.http.stream_parsers import read_sse


def test_a_stream_gives_its_pieces_and_then_the_whole() -> None:
    whole = response(THOUGHT, message(output_text("ab")), WIRE_LOOK, usage={"input_tokens": 3})
    summary = "response.reasoning_summary_text.delta"
    empty_call = {**WIRE_LOOK, "arguments": ""}
    pieces, found = stream(
        [
            event("response.created", response=response(status="in_progress")),
            event("response.in_progress", response=response(status="in_progress")),
            event("response.output_item.added", output_index=0, item={"type": "reasoning"}),
            event("response.reasoning_summary_part.added", output_index=0, summary_index=0),
            event(summary, output_index=0, summary_index=0, delta="h"),
            event(summary, output_index=0, summary_index=0, delta="m"),
            event(summary, output_index=0, summary_index=1, delta="so"),
            event("response.output_item.done", output_index=0, item=THOUGHT),
            event("response.output_item.added", output_index=1, item=message()),
            event("response.content_part.added", output_index=1, part=output_text("")),
            event("response.output_text.delta", output_index=1, delta="a", obfuscation="x"),
            event("response.output_text.delta", output_index=1, delta="b"),
            event("response.output_text.done", output_index=1, text="ab"),
            event("response.output_item.done", output_index=1, item=message(output_text("ab"))),
            event("response.output_item.added", output_index=2, item=empty_call),
            event("response.function_call_arguments.delta", output_index=2, delta='{"at"'),
            event("response.function_call_arguments.done", output_index=2, arguments="{}"),
            event("response.output_item.done", output_index=2, item=WIRE_LOOK),
            event("keepalive"),
            event("response.completed", response=whole),
        ]
    )
    assert pieces == [
        Delta(reasoning="h"),
        Delta(reasoning="m"),
        Delta(reasoning="\n\nso"),
        Delta("a"),
        Delta("b"),
        Delta(tool_call=LOOK),
    ]
    assert found == read(whole)
    assert found.message == of(Reasoning("hm\n\nso"), OPAQUE, "ab", LOOK)


@pytest.mark.parametrize("last", [b"[DONE]", b""], ids=["done", "nothing"])
def test_the_answer_is_put_together_where_the_last_event_lacks_it(last: bytes) -> None:
    """As some servers send it; and some end with a mark of another format."""
    added = {**WIRE_LOOK, "arguments": ""}
    arguments = "response.function_call_arguments"
    events = [
        event("response.output_text.delta", delta="a"),
        event("response.output_text.delta", delta="b"),
        event("response.output_item.added", output_index=1, item=added),
        event(f"{arguments}.delta", output_index=1, delta='{"at":'),
        event(f"{arguments}.delta", output_index=1, delta='"é"}'),
        event("response.completed", response={"usage": {"input_tokens": 3}}),
        *([StreamEvent(last)] if last else []),
    ]
    expected = Completion(of("ab", LOOK), "tool_calls", Usage(3), vendor_finish="completed")
    assert stream(events)[1] == expected
    events[4] = event(f"{arguments}.done", output_index=1, arguments='{"at":"é"}')
    assert stream(events)[1] == expected


@pytest.mark.parametrize("is_begun", [True, False])
@pytest.mark.parametrize("output", [True, False])
def test_items_that_share_an_index_are_told_apart(is_begun: bool, output: bool) -> None:
    calls = [{**WIRE_LOOK, "id": f"fc_{id}", "call_id": id} for id in ("1", "2")]
    events = [event("response.output_text.delta", delta="a")]
    for call in calls:
        added = {**call, "arguments": ""}
        about = {"item_id": call["id"], "arguments": WIRE_LOOK["arguments"]}
        events += [
            *[event("response.output_item.added", item=added)] * is_begun,
            *[event("response.function_call_arguments.done", **about)] * is_begun,
            event("response.output_item.done", item=call),
        ]
    whole = [message(output_text("a")), *calls] if output else []
    pieces, found = stream([*events, event("response.completed", response={"output": whole})])
    expected = [ToolCall(id, "look", LOOK.arguments) for id in ("1", "2")]
    assert pieces == [Delta("a"), *(Delta(tool_call=call) for call in expected)]
    assert found.message == of("a", *expected)


def test_an_item_that_is_repeated_gives_a_call_once() -> None:
    done = event("response.output_item.done", output_index=0, item=WIRE_LOOK)
    end = event("response.completed", response={})
    pieces, found = stream([done, done, end])
    assert pieces == [Delta(tool_call=LOOK)]
    assert found.message == of(LOOK)


def test_the_end_may_have_another_name() -> None:
    end = event("response.done", response=response(message(output_text("a"))))
    assert stream([end])[1].text == "a"


def test_a_refusal_is_shown_as_it_comes() -> None:
    pieces, found = stream(
        [
            event("response.output_item.added", output_index=0, item=message()),
            event("response.refusal.delta", output_index=0, delta="I "),
            event("response.refusal.delta", output_index=0, delta="won't."),
            event("response.completed"),
        ]
    )
    assert pieces == [Delta("I "), Delta("won't.")]
    assert (found.text, found.finish) == ("I won't.", "content_filter")


def test_an_answer_that_is_cut_at_its_limit_is_told_apart() -> None:
    details = {"incomplete_details": {"reason": "max_output_tokens"}}
    end = event("response.incomplete", response={**details, "output": []})
    _, found = stream([event("response.output_text.delta", delta="a"), end])
    assert (found.text, found.finish) == ("a", "length")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"type": "error", "code": "rate_limit_exceeded", "message": "no"}, RateLimited),
        ({"type": "error", "code": "ERR", "message": "no", "param": None}, ServiceUnavailable),
        ({"type": "error", "error": {"code": "invalid_prompt", "message": "no"}}, BadRequest),
        ({"error": {"code": 503, "message": "no"}}, ServiceUnavailable),
    ],
    ids=str,
)
def test_an_error_amid_a_stream_is_raised(data: Any, kind: type[GenaiError]) -> None:
    first = event("response.output_text.delta", delta="a")
    with pytest.raises(kind, match="no"):
        stream([first, StreamEvent(json.dumps(data).encode())])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"type": 3}',
        b'{"type": "response.output_text.delta", "delta": 3}',
        b'{"type": "response.output_item.done", "item": 3}',
        b'{"type": "response.function_call_arguments.delta", "output_index": 9, "delta": "x"}',
        b'{"type": "response.completed", "response": []}',
    ],
)
def test_what_is_no_event_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedReply, match="the reply is malformed: "):
        stream([StreamEvent(data)])


objects = st.dictionaries(st.text(max_size=3), st.none() | st.integers() | st.text(), max_size=3)


@st.composite
def answers(draw: st.DrawFn) -> tuple[dict[str, Any], list[StreamEvent]]:
    """A response in one piece, and the events of the same in many."""
    output: list[dict[str, Any]] = []
    events: list[StreamEvent] = [event("response.created", response={})]
    for index in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["message", "function_call", "reasoning"]))
        text = draw(st.text(max_size=9))
        if kind == "message":
            item = message(output_text(text))
            name = "response.output_text.delta"
        elif kind == "reasoning":
            item = {**THOUGHT, "summary": [{"type": "summary_text", "text": text}]}
            name = "response.reasoning_summary_text.delta"
        else:
            text = draw(objects.map(json.dumps) | st.text(max_size=9))
            item = {**WIRE_LOOK, "call_id": str(index), "arguments": text}
            name = "response.function_call_arguments.delta"
        nothing: dict[str, Any] = {"arguments": ""} if "arguments" in item else {"content": []}
        empty = {**item, **nothing}
        output.append(item)
        events.append(event("response.output_item.added", output_index=index, item=empty))
        for piece in cut(text, draw(cuts)):
            events.append(event(name, output_index=index, delta=piece))
        events.append(event("response.output_item.done", output_index=index, item=item))
    whole = response(*output, usage={"input_tokens": draw(st.integers(0, 9))})
    events.append(event("response.completed", response=whole))
    return whole, events


@given(answer=answers(), places=cuts)
def test_an_answer_is_the_same_in_one_piece_and_in_many_however_they_come(
    answer: tuple[dict[str, Any], list[StreamEvent]], places: list[int]
) -> None:
    whole, events = answer
    pieces, found = stream(events)
    assert found == read(whole)
    assert "".join(piece.text for piece in pieces) == found.text
    assert tuple(piece.tool_call for piece in pieces if piece.tool_call) == found.tool_calls
    data = b"".join(b"event: x\ndata: " + each.data + b"\n\n" for each in events)
    assert stream(list(read_sse(cut(data, places)))) == (pieces, found)


@given(answer=answers())
def test_the_pieces_alone_give_the_same(answer: tuple[dict[str, Any], list[StreamEvent]]) -> None:
    whole, events = answer
    usage = {"usage": whole["usage"]}
    assert stream([*events[:-1], event("response.completed", response=usage)])[1] == read(whole)


@given(answer=answers())
def test_what_a_model_says_can_be_sent_again(
    answer: tuple[dict[str, Any], list[StreamEvent]],
) -> None:
    completion = read(answer[0])
    items = sent_again(completion)
    calls = [item for item in items if item.get("type") == "function_call"]
    assert read({"output": calls}).tool_calls == completion.tool_calls
    texts = [item["content"] for item in items if item.get("role") == "assistant"]
    assert "".join(texts) == completion.text
    last = items[-1] if items else {}
    assert last.get("type") != "reasoning"
    usual_codec().from_json(json.loads(json.dumps(usual_codec().to_json(completion))), Completion)
