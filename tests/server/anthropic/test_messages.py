"""Our Anthropic API: what is asked reaches the model, and what it says the client."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from anthropic_api import CLOCK, HI, OWN, Api, assistant, text, user
from api_suite import ApiSuite, completion_of

from genai_host.api import File, Image, Message, Reasoning, ToolCall, ToolResult, Usage, VendorPart

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
