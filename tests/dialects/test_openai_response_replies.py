"""OpenAI's responses: whole replies, streams, and whatever else comes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from genai_wire_openai.dialect.response_replies import read_response
from genai_wire_openai.dialect.responses import OpenAIResponses
from genai_wire_openai.responses.messages import joined
from genai_wire_openai.shared import MARKED
from hypothesis import given, strategies as st

from genai_host.api import Delta, Reasoning, Text, ToolCall, Usage, VendorPart
from genai_host.errors import BadRequest, RateLimited, ServiceUnavailable
from genai_host_testing.internal.chat_replies import ChatReplies, Pieces, answer
from genai_host_testing.internal.garbage import NESTED

NAME = "openai-responses"
LOOK = ToolCall("1", "look", {"at": "é"})
WIRE_LOOK = {
    "id": "fc_1", "type": "function_call", "call_id": "1", "name": "look",
    "arguments": '{"at":"é"}', "status": "completed",
}  # fmt: skip
BEGUN_LOOK = {**WIRE_LOOK, "arguments": ""}
THOUGHT: dict[str, Any] = {
    "id": "rs_1", "type": "reasoning", "encrypted_content": "gAAA",
    "summary": [{"type": "summary_text", "text": "hm"}, {"type": "summary_text", "text": "so"}],
}  # fmt: skip
OPAQUE = VendorPart(NAME, THOUGHT)
OPEN = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]}
SEARCH = {"type": "web_search_call", "id": "x"}
REFUSAL = {"type": "refusal", "refusal": "no"}
USAGE = {"input_tokens": 10, "output_tokens": 5,
         "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
         "output_tokens_details": {"reasoning_tokens": 2}}  # fmt: skip
ODD_USAGE = {"input_tokens": 3, "input_tokens_details": [], "output_tokens_details": 0}


def output_text(text: Any) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


def message(*content: Any, **more: Any) -> dict[str, Any]:
    """An item with texts, or with other parts."""
    parts = [output_text(each) if isinstance(each, str) else each for each in content]
    return {"id": "msg_1", "type": "message", "role": "assistant", "content": parts, **more}


def response(*output: dict[str, Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    return {"id": "resp_1", "status": status, "output": [*output], "error": None, **more}


def incomplete(*output: dict[str, Any], reason: str) -> dict[str, Any]:
    return response(*output, status="incomplete", incomplete_details={"reason": reason})


def event(kind: str, index: int = 0, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "sequence_number": 1, "output_index": index, **fields}


def completed(**fields: Any) -> dict[str, Any]:
    return event("completed", response=fields)


def added(index: int, item: Any) -> dict[str, Any]:
    return event("output_item.added", index, item=item)


def done(index: int, item: Any) -> dict[str, Any]:
    return event("output_item.done", index, item=item)


A, B = (event("output_text.delta", delta=each) for each in "ab")
CALLS = [{**WIRE_LOOK, "id": f"fc_{id}", "call_id": id} for id in ("1", "2")]
TWO = [LOOK, ToolCall("2", "look", LOOK.arguments)]
DONE = event("function_call_arguments.done", 1, arguments='{"at":"é"}')
HALVES = [event("function_call_arguments.delta", 1, delta=each) for each in ('{"at":', '"é"}')]
WHOLE = response(THOUGHT, message("ab"), WIRE_LOOK, usage={"input_tokens": 3})


def shared_index(begun: bool, output: bool) -> list[Any]:
    """The events of two calls with one index."""
    events = [A]
    for call in CALLS:
        about: dict[str, Any] = {"item_id": call["id"], "arguments": WIRE_LOOK["arguments"]}
        if begun:
            events += [added(0, {**call, "arguments": ""}),
                       event("function_call_arguments.done", **about)]  # fmt: skip
        events.append(done(0, call))
    return [*events, completed(output=[message("a"), *CALLS] if output else [])]


objects = st.dictionaries(st.text(max_size=3), st.none() | st.integers() | st.text(), max_size=3)
texts = st.text(max_size=9)
items = st.lists(
    st.builds(message, texts)
    | st.builds(
        lambda text: {**THOUGHT, "summary": [{"type": "summary_text", "text": text}]}, texts
    )
    | st.builds(lambda text: {**WIRE_LOOK, "arguments": text}, objects.map(json.dumps) | texts),
    max_size=4,
)

PARTS: list[tuple[str, list[Any], str, list[Any]]] = [
    ("texts", [message("a", "b")], "stop", ["ab"]),
    ("nothing", [], "stop", []),
    ("no text", [message()], "stop", []),
    ("text as content", [{**message(), "content": "hi"}], "stop", ["hi"]),
    ("refusal after text", [message("So: ", REFUSAL)], "content_filter",
     ["So: ", Text("no", extra=MARKED)]),
    ("call", [WIRE_LOOK], "tool_calls", [LOOK]),
    ("call with an object", [{**WIRE_LOOK, "arguments": {"at": "é"}}], "tool_calls",
     [LOOK]),
    ("call with the id of its item", [{"type": "function_call", "name": "f", "id": "fc"}],
     "tool_calls", [ToolCall("fc", "f")]),
    ("call without id", [{"type": "function_call", "name": "f"}], "tool_calls",
     [ToolCall("call_0", "f")]),
    ("sealed thoughts", [THOUGHT, message("hi")], "stop",
     [Reasoning("hm\n\nso"), OPAQUE, "hi"]),
    ("open thoughts", [OPEN, WIRE_LOOK], "tool_calls",
     [Reasoning("hm"), VendorPart(NAME, OPEN), LOOK]),
    ("no thoughts", [{"type": "reasoning", "id": "x", "summary": []}, message("hi")],
     "stop", ["hi"]),
    ("others", [SEARCH, message("hi")], "stop", [VendorPart(NAME, SEARCH), "hi"]),
    ("phases", [message("a", phase="commentary"), WIRE_LOOK], "tool_calls",
     [VendorPart(NAME, {"phase": "commentary"}), "a", LOOK]),
]  # fmt: skip


class TestReplies(ChatReplies):
    dialect = OpenAIResponses()
    between_thoughts = None
    end = (completed(),)
    finishes = [
        ("completed", "stop"), ("max_output_tokens", "length"), ("max_tokens", "length"),
        ("content_filter", "content_filter"), ("steered", "other"), ("stop", "other"),
    ]  # fmt: skip
    replies = {
        name: (response(*output), answer(*parts, finish=finish, vendor="completed"))
        for name, output, finish, parts in PARTS
    } | {
        "refusal": (response(message(REFUSAL)),
                    answer(Text("no", extra=MARKED), finish="content_filter", vendor="completed",
                           extra=MARKED)),
        "call at the limit": (incomplete(WIRE_LOOK, reason="content_filter"),
                              answer(LOOK, finish="content_filter", vendor="content_filter")),
        "incomplete": (response(status="incomplete"), answer(finish="other", vendor="incomplete")),
        "odd details": (response(status="incomplete", incomplete_details=[]),
                        answer(finish="other", vendor="incomplete")),
        "output alone": ({"output": [message("hi")]}, answer("hi")),
        "a call alone": ({"output": [WIRE_LOOK]}, answer(LOOK, finish="tool_calls")),
        "usage": (response(usage=USAGE), answer(usage=Usage(10, 5, 4, 2, 3), vendor="completed")),
        "no usage": (response(usage=None), answer(vendor="completed")),
        "odd usage": (response(message("hi"), usage=ODD_USAGE),
                      answer("hi", usage=Usage(3), vendor="completed")),
    }  # fmt: skip
    streams = {
        "all kinds": (
            [event("created", response=response(status="in_progress")),
             event("in_progress", response=response(status="in_progress")),
             added(0, {"type": "reasoning"}),
             event("reasoning_summary_part.added", summary_index=0),
             event("reasoning_summary_text.delta", summary_index=0, delta="h"),
             event("reasoning_summary_text.delta", summary_index=0, delta="m"),
             event("reasoning_summary_text.delta", summary_index=1, delta="so"), done(0, THOUGHT),
             added(1, message()), event("content_part.added", 1, part=output_text("")),
             event("output_text.delta", 1, delta="a", obfuscation="x"),
             event("output_text.delta", 1, delta="b"), event("output_text.done", 1, text="ab"),
             done(1, message("ab")), added(2, BEGUN_LOOK),
             event("function_call_arguments.delta", 2, delta='{"at"'),
             event("function_call_arguments.done", 2, arguments="{}"), done(2, WIRE_LOOK),
             {"type": "keepalive"}, completed(**WHOLE)],
            [Delta(reasoning="h"), Delta(reasoning="m"), Delta(reasoning="\n\nso"), Delta("a"),
             Delta("b"), Delta(tool_call=LOOK)],
            answer(Reasoning("hm\n\nso"), OPAQUE, "ab", LOOK, finish="tool_calls", usage=Usage(3),
                   vendor="completed")),
        **{f"no output at the end, {name}": (
            [A, B, added(1, BEGUN_LOOK), *arguments, completed(usage={"input_tokens": 3}), *last],
            [Delta("a"), Delta("b")],
            answer("ab", LOOK, finish="tool_calls", usage=Usage(3), vendor="completed"))
           for name, arguments, last in [
               ("as some servers send it", HALVES, []),
               ("and a mark of another format", HALVES, [b"[DONE]"]),
               ("and arguments that are done", [HALVES[0], DONE], [])]},
        **{f"items with one index, {begun=}, {output=}": (
            shared_index(begun, output),
            [Delta("a"), *(Delta(tool_call=call) for call in TWO)],
            answer("a", *TWO, finish="tool_calls", vendor="completed"))
           for begun in (True, False) for output in (True, False)},
        "a repeated item": ([done(0, WIRE_LOOK)] * 2 + [completed()], [Delta(tool_call=LOOK)],
                            answer(LOOK, finish="tool_calls", vendor="completed")),
        "refusal": ([added(0, message()), event("refusal.delta", delta="I "),
                     event("refusal.delta", delta="won't."), completed()],
                    [Delta("I ", extra=MARKED), Delta("won't.", extra=MARKED)],
                    answer(Text("I won't.", extra=MARKED), finish="content_filter",
                           vendor="completed", extra=MARKED)),
        "incomplete": ([A, event("incomplete", response={
            "incomplete_details": {"reason": "max_output_tokens"}, "output": []})],
            [Delta("a")], answer("a", finish="length", vendor="max_output_tokens")),
        "usage": ([A, completed(usage=USAGE)], [Delta("a")],
                  answer("a", usage=Usage(10, 5, 4, 2, 3), vendor="completed")),
    }  # fmt: skip
    late_failures = [
        ({"type": "error", "code": "rate_limit_exceeded", "message": "no"}, RateLimited,
         {"message": "no"}),
        ({"type": "error", "code": "ERR", "message": "no", "param": None}, ServiceUnavailable,
         {"message": "no"}),
        ({"type": "error", "error": {"code": "invalid_prompt", "message": "no"}}, BadRequest,
         {"message": "no"}),
        ({"error": {"code": 503, "message": "no"}}, ServiceUnavailable, {"message": "no"}),
    ]  # fmt: skip
    unanswered = [{}, {"output": None}, response(status="cancelled"), {"status": "completed"}]
    malformed = [
        b"", b"<html>", b"\xff", b"[]", b"null", b'{"output": ' + NESTED + b"}",
        response(status="in_progress"), response(status="queued"), {"output": {}},
        {"output": ["x"]}, {"output": [{}]}, {"output": [{"type": 3}]}, response(message(5)),
        response({"type": "reasoning", "summary": [5]}), {"status": 3},
    ]  # fmt: skip
    malformed_events = [
        b"", b"[]", b"{}", {"type": 3}, event("output_text.delta", delta=3), done(0, 3),
        event("function_call_arguments.delta", 9, delta="x"), event("completed", response=[]),
    ]  # fmt: skip
    reply = response(
        {**THOUGHT, "content": [{"type": "reasoning_text", "text": "x"}]},
        message("hi", REFUSAL, phase="final_answer"), WIRE_LOOK, {"type": "other"},
        usage=USAGE, incomplete_details={"reason": "max_output_tokens"},
    )  # fmt: skip
    events = [
        added(0, WIRE_LOOK), event("function_call_arguments.delta", delta="{"),
        event("function_call_arguments.done", arguments="{}"),
        event("output_text.delta", 1, delta="a"), event("refusal.delta", 2, delta="a"),
        event("reasoning_text.delta", 3, delta="a"), done(4, message("a")),
        completed(usage={}, output=[]),
    ]  # fmt: skip
    wholes = st.builds(
        lambda output, tokens: response(
            *({**item, "call_id": str(at)} if "call_id" in item else item
              for at, item in enumerate(output)), usage={"input_tokens": tokens}),
        items, st.integers(0, 9),
    )  # fmt: skip

    def saying(self, text: str, finish: Any) -> Any:
        if finish == "completed":
            return response(message(text))
        return incomplete(message(text), reason=finish)

    def calling(self, arguments: Any) -> Any:
        item = {"type": "function_call", "call_id": "1", "name": "f", "arguments": arguments}
        return response(item)

    def in_pieces(self, reply: Any, pieces: Pieces) -> list[Any]:
        events = [event("created", response={})]
        for index, item in enumerate(reply["output"]):
            if item["type"] == "message":
                name, text = "output_text", item["content"][0]["text"]
            elif item["type"] == "reasoning":
                name, text = "reasoning_summary_text", item["summary"][0]["text"]
            else:
                name, text = "function_call_arguments", item["arguments"]
            empty: Any = {"arguments": ""} if "arguments" in item else {"content": []}
            cut = pieces.cut(text) if isinstance(text, str) else []
            events += [
                added(index, {**item, **empty}),
                *(event(f"{name}.delta", index, delta=piece) for piece in cut),
                done(index, item),
            ]
        return [*events, event(reply["status"], response=reply)]

    def returned(self, reply: Any, body: Any) -> None:
        completion, (_, *items, _) = self.read(reply), body["input"]
        calls = [item for item in items if item.get("type") == "function_call"]
        assert self.read({"output": calls}).tool_calls == completion.tool_calls
        texts = [item["content"] for item in items if item.get("role") == "assistant"]
        assert "".join(texts) == completion.text
        assert not items or items[-1].get("type") != "reasoning"

    def test_the_pieces_alone_give_the_same(self) -> None:
        @given(self.wholes)
        def check(reply: Any) -> None:
            *events, _ = self.in_pieces(reply, Pieces())
            assert self.streamed([*events, completed(usage=reply["usage"])])[1] == self.read(reply)

        check()


@pytest.mark.parametrize(("error", "kind"), [
    ({"code": "server_error", "message": "no"}, ServiceUnavailable),
    ({"code": "rate_limit_exceeded", "message": "no"}, RateLimited),
    ({"code": "invalid_prompt", "message": "no"}, BadRequest),
    (None, ServiceUnavailable),
])  # fmt: skip
def test_a_response_that_failed_raises_what_it_tells_of(error: Any, kind: Any) -> None:
    failed = response(status="failed", error=error)
    del failed["output"]
    with pytest.raises(kind):
        TestReplies().read(failed)
    with pytest.raises(kind):
        TestReplies().streamed([event("failed", response=failed)])


def test_the_end_may_have_another_name() -> None:
    end = event("done", response=response(message("a")))
    assert TestReplies().streamed([end])[1].text == "a"


@pytest.mark.parametrize("items", [1, 2], ids=["of one item", "of two items"])
def test_annotations_of_several_texts_are_those_of_the_joined_text(items: int) -> None:
    """Their places are moved by the length of the texts before."""
    cited = {"type": "url_citation", "start_index": 0, "end_index": 2}
    texts = [{**output_text(text), "annotations": [cited]} for text in ("so.", "and")]
    output = [message(*texts)] if items == 1 else [message(text) for text in texts]
    answer = read_response(response(*output)).message
    shown, _ = joined(answer, (), lambda prefix: prefix, {})
    [part] = [part for item in shown for part in item["content"]]
    moved = {**cited, "start_index": 3, "end_index": 5}
    assert (part["text"], part["extra"]) == ("so.and", {"annotations": [cited, moved]})
