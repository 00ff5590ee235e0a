"""Our Anthropic API: what is asked reaches the model, and what it says the client, whole
and in pieces; and what goes wrong with them."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import genai_feature_agent
import pytest
from anthropic_api import CLOCK, HI, OWN, Api, assistant, blocks_of, text, use, user
from api_suite import ApiSuite, completion_of
from genai_wire_anthropic.server.replies import MessageWriter, Stream

from genai_host.api import (
    Completion,
    Delta,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    VendorPart,
)
from genai_host.serving.completion import CompletionStream
from genai_host_testing import FakeModel
from genai_host_testing.fake_model import RecordedPrompt
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.services.openai import LOOKING

pytestmark = pytest.mark.part

PNG = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(b"PNG").decode()}
PICTURE = Image(b"PNG", "image/png")
EPHEMERAL: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}
USER = Message("user", "hi")
CALLED = Message("assistant", ToolCall("a", "clock"))
USE = {"type": "tool_use", "id": "a", "name": "clock", "input": {}}
MALFORMED = {**USE, "input": {"INVALID_JSON": "{oops"}}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
OBJECT = {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}}
OWNS = [
    {"type": "redacted_thinking", "data": "eA=="},
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
]
CITED = {"citations": [{"type": "web_search_result_location", "url": "https://x"}]}
OWN_PARTS: list[Any] = [*(VendorPart(OWN, block) for block in OWNS), VendorPart(OWN, CITED), "so"]
OTHERS = [VendorPart("gemini", {"type": "thinking"}), VendorPart(OWN, 3),
          VendorPart(OWN, {"type": 3})]  # fmt: skip
FOUND = {"type": "search_result", "title": "T", "source": "s",
         "content": [{"type": "text", "text": "x"}]}  # fmt: skip
LEFT_OUT = "(a block of type tool_reference was left out)"
DIRECT = {"caller": {"type": "direct"}}


def words(text: str, **more: Any) -> Any:
    return {"type": "text", "text": text, **more}


def image(source: Any) -> Any:
    return {"type": "image", "source": source}


def document(source: Any, title: str = "a", **more: Any) -> Any:
    return {"type": "document", "title": title, "source": source, **more}


def result(*content: Any, **more: Any) -> Any:
    return {"type": "tool_result", "tool_use_id": "a", "content": list(content), **more}


def answered(*parts: Any, **more: Any) -> Message:
    return Message("tool", ToolResult("a", "clock", parts, **more))


class TestMessages(ApiSuite):
    answers = {
        "signed thoughts": (completion_of(Reasoning("hm"), VendorPart(OWN, THOUGHT), "so"), {},
                            [THOUGHT, text("so")]),
        "thoughts that are not asked for": (completion_of(Reasoning("hm"), "so"), {}, [text("so")]),
        "thoughts": (completion_of(Reasoning("hm"), "so"), {"thinking": {"type": "adaptive"}},
                     [{"type": "thinking", "thinking": "hm", "signature": ""}, text("so")]),
        "JSON in a fence": (completion_of('```json\n{"a": 1}\n```', ToolCall("a", "clock")), OBJECT,
                            [{**USE, **DIRECT}, text('{"a":1}')]),
        "arguments that are no JSON": (
            completion_of(ToolCall("a", "clock", malformed="{oops"), finish="tool_calls"), {},
            [{**MALFORMED, **DIRECT}]),
        "what its service wrote": (
            completion_of(*OWN_PARTS, *OTHERS), {}, [*OWNS, words("so", **CITED)]),
        "nothing": (completion_of(), {}, []),
    }  # fmt: skip
    prompts = {
        "turns": (
            [user(words("look")), user(image(PNG)),
             user(image({"type": "url", "url": "https://x/y"}),
                  document({"type": "text", "media_type": "text/plain", "data": "words"},
                           **EPHEMERAL)),
             {"role": "assistant", "content": "I see"}, HI],
            [Message("user", "look"), Message("user", PICTURE),
             Message("user", [Image(url="https://x/y"), File(b"words", "text/plain", "a")]),
             Message("assistant", "I see"), USER]),
        "the system in between": ([HI, {"role": "system", "content": "be brief"}, HI],
                                  [USER, Message("system", "be brief"), USER]),
        "a failed result, and a text": (
            [HI, assistant(words("let me see"), USE),
             user(result(words("12"), is_error=True), words("and?"))],
            [USER, Message("assistant", ["let me see", ToolCall("a", "clock")]),
             answered("12", error=True), Message("user", "and?")]),
        "a result with a picture": (
            [HI, assistant(USE), user(words("now"), result(words("x"), image(PNG)))],
            [USER, CALLED, answered("x", PICTURE), Message("user", "now")]),
        "a result with a document": (
            [HI, assistant(USE),
             user(result(document({"type": "base64", "media_type": "application/pdf",
                                   "data": "JVBERg=="}, "x.pdf")), words("and?"))],
            [USER, CALLED, answered("(the document x.pdf follows)"),
             Message("user", [File(b"%PDF", "application/pdf", "x.pdf"), "and?"])]),
        "a result with other blocks, which the client has in its history": (
            [HI, assistant(USE),
             user(result(FOUND, {"type": "tool_reference", "tool_name": "f"}))],
            [USER, CALLED, answered("T\ns\nx", LEFT_OUT)]),
        "signed thoughts": (
            [HI, assistant(THOUGHT, text("so")), HI],
            [USER, Message("assistant", [Reasoning("hm"), VendorPart(OWN, THOUGHT), "so"]), USER]),
        "arguments that are no JSON": (
            [HI, assistant(MALFORMED), HI],
            [USER, Message("assistant", ToolCall("a", "clock", malformed="{oops")), USER]),
        "what its service wrote": ([HI, assistant(*OWNS, words("so", **CITED)), HI],
                                   [USER, Message("assistant", OWN_PARTS), USER]),
        "an empty answer": ([HI, assistant(), HI], [USER, Message("assistant", []), USER]),
        **{f"a document {source}": (
            [user(document(source, citations={"enabled": False}))], [Message("user", file)])
           for source, file in [
               ({**PNG, "media_type": "application/pdf"}, File(b"PNG", "application/pdf", "a")),
               ({"type": "url", "url": "https://x/a.pdf"},
                File(url="https://x/a.pdf", media_type="application/pdf", name="a")),
               ({"type": "content", "content": "words"}, File(b"words", "text/plain", "a")),
               ({"type": "content", "content": [words(each) for each in "ab"]},
                File(b"a\nb", "text/plain", "a")),
               ({"type": "text", "data": "\ud800"},
                File("\ufffd".encode(), "text/plain", "a"))]},
    }  # fmt: skip

    def ask(self, api: Api, *messages: Any, **more: Any) -> Any:
        return api.answered(*messages, **more)

    def content(self, reply: Any) -> Any:
        return reply["content"]


def test_a_message(api: Api) -> None:
    usage = Usage(9, 3, cached_tokens=2, cache_write_tokens=1)
    api.fake.answer = lambda prompt: completion_of("hello", usage=usage)
    body = api.answered()
    assert (body["type"], body["role"], body["model"]) == ("message", "assistant", "fake")
    assert body["content"] == [text("hello")]
    assert (body["stop_reason"], body["stop_sequence"]) == ("end_turn", None)
    # the specification requires these fields, which are null here
    assert body["container"] is body["stop_details"] is None
    assert body["usage"] == {
        "input_tokens": 6, "cache_creation_input_tokens": 1, "cache_read_input_tokens": 2,
        "cache_creation": {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 3, "output_tokens_details": {"thinking_tokens": 0},
        "server_tool_use": None, "service_tier": None, "inference_geo": None,
    }  # fmt: skip


@pytest.mark.parametrize(("finish", "vendors", "reason"), [
    ("stop", "", "end_turn"), ("length", "", "max_tokens"), ("tool_calls", "stop", "tool_use"),
    ("length", "model_context_window_exceeded", "model_context_window_exceeded"),
    ("content_filter", "SAFETY", "refusal"), ("other", "pause_turn", "pause_turn"),
])  # fmt: skip
def test_why_it_stopped(api: Api, finish: Any, vendors: str, reason: str) -> None:
    completion = completion_of("so", finish=finish, vendor_finish=vendors)
    api.fake.answer = lambda prompt: completion
    assert api.answered()["stop_reason"] == reason
    assert api.events()[-2]["delta"]["stop_reason"] == reason


def test_an_end_that_the_api_has_no_word_for_is_an_error(api: Api) -> None:
    """Any of its words would say that the answer is usable."""
    api.fake.answer = lambda prompt: completion_of("so", finish="other", vendor_finish="RECITATION")
    reply = api.sent()
    assert reply.status_code == 502
    assert "RECITATION" in reply.json()["error"]["message"]
    last = api.sent(stream=True).text.rstrip().splitlines()[-1]
    assert "RECITATION" in last
    assert json.loads(last.removeprefix("data: "))["type"] == "error"


@pytest.mark.parametrize(("sequences", "met"), [(["END"], "END"), (["END", "STOP"], None)])
def test_a_stop_sequence(api: Api, sequences: list[str], met: str | None) -> None:
    """Which of several it was, no service tells the host."""
    api.fake.answer = lambda prompt: completion_of("so", vendor_finish="stop_sequence")
    body = api.answered(stop_sequences=sequences)
    assert (body["stop_reason"], body["stop_sequence"]) == ("stop_sequence", met)


def test_the_system_is_heard_first(api: Api) -> None:
    api.answered(system=[words("be brief", **EPHEMERAL)])
    assert api.fake.prompts[0].messages == (Message("system", "be brief"), USER)


def test_tools_are_offered_and_called(api: Api) -> None:
    call = ToolCall("toolu_1", "clock", {"zone": "UTC"})
    api.fake.answer = lambda prompt: completion_of("let me see", call, finish="tool_calls")
    body = api.answered(tools=[CLOCK], tool_choice={"type": "any"})
    assert body["stop_reason"] == "tool_use"
    assert body["content"][1] == {
        "type": "tool_use", "id": "toolu_1", "name": "clock", "input": {"zone": "UTC"}, **DIRECT,
    }  # fmt: skip
    assert api.fake.prompts[0].tools == ("clock",)


def test_a_schema_holds_the_answer(api: Api) -> None:
    api.fake.answer = lambda prompt: '{"city": "Paris"}'
    form = {"type": "json_schema", "schema": SCHEMA}
    api.answered(output_config={"format": form})
    api.answered(output_format=form)
    assert [prompt.schema for prompt in api.fake.prompts] == [SCHEMA, SCHEMA]


def test_parameters_have_the_hosts_names(api: Api) -> None:
    api.answered(temperature=0.5, top_p=1, stop_sequences=["end"], metadata={"user_id": "me"})
    assert api.fake.prompts[0].parameters == {
        "max_tokens": 99, "temperature": 0.5, "top_p": 1, "stop": ["end"],
    }  # fmt: skip


def test_a_feature_is_a_model_as_well(api: Api) -> None:
    body = api.answered(model="feature:chat")
    assert (body["model"], body["content"]) == ("feature:chat", [text("hi")])


def test_what_is_a_wish_or_unknown_is_left_out_and_named(api: Api) -> None:
    more: dict[str, Any] = {
        "messages": [user(words("hi", x=1))],
        "tools": [{**CLOCK, "defer_loading": True, "strict": True}],
        "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
        "output_config": {"task_budget": {"type": "tokens"}},
        "thinking": {"type": "disabled", "x": 1},
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        "made_up\r\nname: a": 1,
    }
    for in_pieces in (False, True):
        reply = api.sent(**more, stream=in_pieces)
        assert reply.status_code == 200, reply.text
        assert sorted(reply.headers["x-genai-host-dropped"].split(", ")) == [
            "context_management", "made_up__name__a", "messages[0].content[0].x",
            "output_config.task_budget", "thinking.x",
            "tool_choice.disable_parallel_tool_use", "tools[0].defer_loading",
        ]  # fmt: skip
    assert "x-genai-host-dropped" not in api.sent(metadata={"user_id": "a"}).headers


def test_a_stream(api: Api) -> None:
    message = Message("assistant", "a long thing to say")
    api.fake.answer = lambda prompt: Completion(message, usage=Usage(7, 5, cached_tokens=2))
    events = api.events()
    kinds = [event["type"] for event in events]
    assert kinds[:3] == ["message_start", "ping", "content_block_start"]
    assert set(kinds[3:-3]) == {"content_block_delta"}
    assert len(kinds) > 8
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    start = events[0]["message"]
    assert (start["type"], start["role"], start["content"]) == ("message", "assistant", [])
    assert (start["model"], start["stop_reason"]) == ("fake", None)
    assert start["id"].startswith("msg_")
    assert blocks_of(events) == [text("a long thing to say")]
    end = {"stop_sequence": None, "stop_details": None, "container": None}
    assert events[-2]["delta"] == {"stop_reason": "end_turn", **end}
    usage = events[-2]["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (5, 2)
    assert usage["output_tokens"] == 5


def test_calls_of_tools(api: Api) -> None:
    calls = [ToolCall("a", "clock", {}), ToolCall("a", "clock", {"zone": "UTC"})]
    bad = ToolCall("c", "clock", malformed="{")
    api.fake.answer = lambda prompt: Completion(
        Message("assistant", [Text("so"), *calls, bad]), "tool_calls"
    )
    events = api.events(tools=[CLOCK])
    assert blocks_of(events) == [
        text("so"), use("a", {}), use("call_1", {"zone": "UTC"}), use("c", {"INVALID_JSON": "{"}),
    ]  # fmt: skip
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


def test_a_feature(api: Api) -> None:
    events = api.events(model="feature:chat")
    assert blocks_of(events) == [text("hi")]


def test_what_a_feature_calls_is_its_own(make_host: MakeHost) -> None:
    def answer(prompt: RecordedPrompt) -> Completion:
        if prompt.messages[-1].role == "tool":
            return Completion(Message("assistant", "done"))
        call = ToolCall("a", "look", {"at": "it"})
        return Completion(Message("assistant", [VendorPart(OWN, SIGNED[0]), call]), "tool_calls")

    fake = FakeModel(answer)
    with Api.serving(make_host, fake, agent=genai_feature_agent, look=LOOKING) as api:
        blocks = blocks_of(api.events(model="feature:agent"))
    assert blocks == [text("done")]
    assert len(fake.prompts) == 2


def thinking(text: str, signature: str = "") -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": signature}


def written(
    deltas: Sequence[Delta], content: Sequence[Part], *, shows_thoughts: bool = True
) -> list[dict[str, Any]]:
    """The blocks of an answer that comes in these pieces."""

    def answer() -> Any:
        yield from deltas
        return Completion(Message("assistant", content))

    writer = MessageWriter("m", shows_thoughts=shows_thoughts)
    data = b"".join(writer.events(CompletionStream(answer())))
    return blocks_of(
        [json.loads(block.split("\ndata: ")[1]) for block in data.decode().split("\n\n")[:-1]]
    )


SIGNED = [thinking("hm", "c2ln"), thinking("\n\nso", "c29z")]
SIGNS = [VendorPart(OWN, block) for block in SIGNED]
HIDDEN = {"type": "redacted_thinking", "data": "eA=="}


class TestThoughts:
    """As the dialect gives them: a paragraph for each block, and the block once it is whole."""

    pieces = (
        Delta(reasoning="h"), Delta(reasoning="m"), Delta(opaque=SIGNS[0]),
        Delta(opaque=VendorPart(OWN, HIDDEN)), Delta(reasoning="\n\n\n\ns"), Delta(reasoning="o"),
        Delta(opaque=SIGNS[1]), Delta("well"), Delta(tool_call=ToolCall("a", "clock")),
    )  # fmt: skip
    content = (
        Reasoning("hm"), SIGNS[0], VendorPart(OWN, HIDDEN), Reasoning("\n\nso"), SIGNS[1],
        Text("well"), ToolCall("a", "clock"),
    )  # fmt: skip
    blocks = (
        SIGNED[0], HIDDEN, SIGNED[1], text("well"),
        use("a", {}),
    )  # fmt: skip

    @pytest.mark.parametrize("shows", [True, False], ids=["shown", "not asked for"])
    def test_that_are_signed_are_what_was_signed(self, shows: bool) -> None:
        assert written(self.pieces, self.content, shows_thoughts=shows) == [*self.blocks]

    def test_that_are_omitted_have_their_signature(self) -> None:
        own = VendorPart(OWN, thinking("", "c2ln"))
        assert written([Delta(opaque=own), Delta("a")], [own, Text("a")]) == [
            thinking("", "c2ln"),
            text("a"),
        ]

    @pytest.mark.parametrize("shows", [True, False])
    def test_that_nobody_signed(self, shows: bool) -> None:
        pieces = [Delta(reasoning="h"), Delta(reasoning="m"), Delta("so")]
        blocks = written(pieces, [Reasoning("hm"), Text("so")], shows_thoughts=shows)
        assert blocks == [*([thinking("hm")] if shows else []), text("so")]

    def test_that_are_hidden_leave_their_fields_out(self) -> None:
        """Each delta has its own fields, also if the one before was not sent."""
        hidden = Delta(reasoning="hm", extra={OWN: {"event": {"secret": 1}}})
        cited = Delta(extra={OWN: {"citation": {"type": "char_location"}}})
        stream = Stream(shows_thoughts=False)
        sent = b"".join([*stream.add(hidden), *stream.add(cited)])
        assert b"char_location" in sent
        assert b"secret" not in sent

    def test_that_come_in_no_pieces(self) -> None:
        blocks = written([], [Reasoning("hm"), Text("so"), ToolCall("a", "clock")])
        assert [block["type"] for block in blocks] == ["thinking", "text", "tool_use"]
        assert written([], self.content)[:3] == [*self.blocks[:3]]

    def test_of_others_are_theirs(self) -> None:
        other = VendorPart("gemini", {"thoughtSignature": "AQ=="})
        assert written([Delta(opaque=other), Delta("a")], [other, Text("a")]) == [text("a")]


class TestErrors:
    def test_on_the_way(self, api: Api) -> None:
        """The last event is the error; no `message_stop` is sent."""
        api.fake.answer = lambda prompt: "no JSON at all"
        form = {"type": "json_schema", "schema": {"type": "object"}}
        reply = api.sent(stream=True, output_config={"format": form})
        assert reply.status_code == 200
        *before, last, nothing = reply.text.split("\n\n")
        assert nothing == ""
        name, data = last.split("\ndata: ")
        assert name == "event: error"
        assert json.loads(data)["error"]["type"] == "api_error"
        assert "no JSON" in "".join(before)
        assert "message_delta" not in reply.text
        assert "message_stop" not in reply.text
