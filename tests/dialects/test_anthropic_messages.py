"""Anthropic's messages: what is written."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
from anthropic_form import text, thinking, tool_use
from attrs import evolve
from genai_wire_anthropic.dialect.messages import AnthropicMessages

from genai_host.api import (
    ChatCall,
    File,
    Image,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    ToolSchema,
    VendorPart,
)
from genai_host_testing.internal.chat_requests import ChatRequests, assistant, system, tool, user

NAME = "anthropic-messages"
PNG = Image(b"\x89PNG", "image/png")
AT = {"type": "object", "properties": {"at": {"type": "string"}}}
LOOK = ToolSchema("look", "looks", {"properties": AT["properties"]})
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CACHED = {"type": "ephemeral", "ttl": "1h"}
ADAPTIVE, DISABLED = {"type": "adaptive"}, {"type": "disabled"}
ENABLED = {"type": "enabled", "budget_tokens": 2000}
REDACTED = {"type": "redacted_thinking", "data": "eA=="}
DROPPED = {"stale_thinking": "drop_block", "bound_thinking": True}
BOUND = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
HI = {"role": "user", "content": "hi"}
OTHERS = "functions.look:0"  # an ID that the service does not accept
FITTING = f"call_{hashlib.sha256(OTHERS.encode()).hexdigest()[:24]}"


def data(kind: str, data: bytes) -> Any:
    return {"type": "base64", "media_type": kind, "data": base64.b64encode(data).decode()}


def document(source: Any, **more: Any) -> Any:
    return {"type": "document", "source": source, **more}


def message(role: str, *content: Any) -> Any:
    return {"role": role, "content": [text(each) if isinstance(each, str) else each
                                      for each in content]}  # fmt: skip


def result(id: str, **more: Any) -> Any:
    return {"type": "tool_result", "tool_use_id": id, **more}


CALL, DONE = ToolCall("1", "look"), tool(ToolResult("1", content="fine"))
IMAGE = {"type": "image", "source": data("image/png", b"\x89PNG")}


class TestRequests(ChatRequests):
    dialect = AnthropicMessages()
    shown = [
        (Image(b"RIFF", "image/webp"), {"type": "image", "source": data("image/webp", b"RIFF")}),
        (Image(url="https://x/a"),
         {"type": "image", "source": {"type": "url", "url": "https://x/a"}}),
        (File(b"%PDF", "application/pdf", "a.pdf"),
         document(data("application/pdf", b"%PDF"), title="a.pdf")),
        (File(url="https://x/a.pdf"), document({"type": "url", "url": "https://x/a.pdf"})),
        (File("é,b".encode(), "text/csv", "a.csv"),
         document({"type": "text", "media_type": "text/plain", "data": "é,b"}, title="a.csv")),
        (VendorPart(NAME, {"type": "search_result", "title": "a"}),
         {"type": "search_result", "title": "a"}),
    ]  # fmt: skip
    conversations = {
        "turns": (
            [user("hi"), assistant("hello"), user("é")],
            [HI, {"role": "assistant", "content": "hello"}, {"role": "user", "content": "é"}]),
        "messages of one role": (
            [user("hi"), user("you"), assistant(ToolCall("a", "look"), ToolCall("b", "look")),
             tool(ToolResult("a", content="a")), tool(ToolResult("b", content="b")), user("so?")],
            [message("user", "hi", "you"),
             message("assistant", tool_use("a", "look", {}), tool_use("b", "look", {})),
             message("user", result("a", content="a"), result("b", content="b"), "so?")]),
        "a message before two of one role": (
            [user("hi"), assistant("hello"), user("a"), user("b")],
            [HI, {"role": "assistant", "content": "hello"}, message("user", "a", "b")]),
        **{f"a blank text {blank!r}": (
            [user("hi"), assistant(blank), user("so?", blank), system(blank)],
            [message("user", "hi", "so?")]) for blank in ("", " \n")},
        **{f"a blank result {blank!r}": ([tool(ToolResult("a", content=blank))],
                                         [message("user", result("a"))]) for blank in ("", " \n")},
        "a tool": (
            [user("hi"),
             assistant("so:", ToolCall("1", "look", {"at": "é"}), ToolCall("2", "look")),
             tool(ToolResult("1", "look", "fine"),
                  ToolResult("2", "look", ("no", PNG), error=True))],
            [HI, message("assistant", "so:", tool_use("1", "look", {"at": "é"}),
                         tool_use("2", "look", {})),
             message("user", result("1", content="fine"),
                     result("2", is_error=True, content=[text("no"), IMAGE]))]),
        "ids of others": (
            [assistant(ToolCall(OTHERS, "look")), tool(ToolResult(OTHERS, content="a"))],
            [message("assistant", tool_use(FITTING, "look", {})),
             message("user", result(FITTING, content="a"))]),
        "arguments that are no object": (
            [assistant(ToolCall("1", "look", malformed='{"a"'))],
            [message("assistant", tool_use("1", "look", {"INVALID_JSON": '{"a"'}))]),
        "nothing but a system message": (
            [system("Write a haiku.", " "), user("")], [{**HI, "content": "Write a haiku."}]),
        "thoughts": (
            [assistant(Reasoning("hm"), VendorPart(NAME, thinking("hm")),
                       VendorPart(NAME, REDACTED), VendorPart("another", {}), "so"), user("hi")],
            [message("assistant", thinking("hm"), REDACTED, "so"), HI]),
    }  # fmt: skip
    calls = {
        "nothing": (
            {"tool_choice": "required", "parameters": {"parallel_tool_calls": False}},
            {"model": "m", "max_tokens": 16000, "messages": [HI], "tools": None,
             "tool_choice": None, "system": None, "stream": None}),
        "parameters": (
            {"parameters": {"temperature": 0.5, "top_p": 0.9, "top_k": 4, "max_tokens": 7,
                            "stop": ["x"], "metadata": {"user_id": "u"}}, "stream": True},
            {"max_tokens": 7, "stop_sequences": ["x"], "temperature": 0.5, "top_p": 0.9, "top_k": 4,
             "metadata": {"user_id": "u"}, "stream": True}),
        "room beside thoughts": ({"parameters": {"thinking_budget": 5000}}, {"max_tokens": 21_000}),
        "the room of a model": ({"variant": {"max_tokens": 100}}, {"max_tokens": 100}),
        "a tool": ({"tools": [LOOK]}, {
            "tools": [{"name": "look", "description": "looks", "input_schema": AT}]}),
        "a tool without description or parameters": (
            {"tools": [ToolSchema("now", "")]},
            {"tools": [{"name": "now", "input_schema": {"type": "object"}}]}),
        "a schema": ({"schema": CITY, "parameters": {"reasoning_effort": "low"}}, {
            "output_config": {"effort": "low", "format": {
                "type": "json_schema", "schema": {**CITY, "additionalProperties": False}}},
            "system": None}),
        "the cache": ({"parameters": {"prompt_cache": "1h"}}, {
            "cache_control": CACHED, "messages": [HI]}),
        **{f"choice {choice}, {parallel}": (
            {"tools": [LOOK], "tool_choice": choice,
             "parameters": {} if parallel is None else {"parallel_tool_calls": parallel}},
            {"tool_choice": wire})
           for choice, parallel, wire in [
               (None, None, None), ("auto", None, {"type": "auto"}),
               ("none", None, {"type": "none"}), ("required", None, {"type": "any"}),
               ("look", None, {"type": "tool", "name": "look"}), ("none", False, {"type": "none"}),
               (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
               ("required", False, {"type": "any", "disable_parallel_tool_use": True}),
               ("look", True,
                {"type": "tool", "name": "look", "disable_parallel_tool_use": False})]},
        **{f"thoughts {parameters}, {variant}": (
            {"parameters": parameters, "variant": variant},
            {"thinking": wire, "output_config": effort and {"effort": effort}})
           for parameters, variant, wire, effort in [
               ({}, {}, None, None),
               ({"reasoning_effort": "high"}, {}, ADAPTIVE, "high"),
               ({"reasoning_effort": "none"}, {}, DISABLED, None),
               ({"reasoning_effort": "none"}, {"no_thinking": "between_tools"},
                {"type": "between_tools"}, None),
               ({"reasoning_effort": "low"}, {"thinking": "budget"}, None, "low"),
               ({"thinking_display": "summarized"}, {}, {**ADAPTIVE, "display": "summarized"},
                None),
               ({"thinking_budget": 2000}, {}, ENABLED, None),
               ({"thinking_budget": 2000, "thinking_display": "omitted"}, {"thinking": "budget"},
                {**ENABLED, "display": "omitted"}, None),
               ({"thinking_budget": 2000, "max_tokens": 1500}, {},
                {"type": "enabled", "budget_tokens": 1499}, None),
               ({"thinking_budget": 2000, "max_tokens": 2000, "betas": ["interleaved-thinking-x"]},
                {}, ENABLED, None),
               ({"thinking_budget": 2000, "thinking_display": "omitted", "max_tokens": 1024},
                {"thinking": "budget"}, None, None),
               ({}, {"stale_thinking": "drop_block"}, None, None),
               ({}, DROPPED, BOUND, None),
               ({"reasoning_effort": "none"}, DROPPED, DISABLED, None)]},
    }  # fmt: skip
    refused = [
        user(File(b"\xff", "text/plain")), user(File(b"PK", "application/zip")),
        user(File(url="https://x/a.txt", media_type="text/plain")), user(ToolCall("1", "look")),
        user(ToolResult("1")), user(VendorPart(NAME, 1)), assistant(PNG), assistant(File(b"%PDF")),
        tool("hi"), system(PNG),
    ]  # fmt: skip
    invalid = [
        ({"parameters": parameters, "variant": {"thinking": kind}}, wrong)
        for parameters, kind, wrong in [
            ({"reasoning_effort": "none", "thinking_budget": 2000}, "adaptive", "thinking_budget"),
            ({"reasoning_effort": "none", "thinking_display": "omitted"}, "adaptive",
             "thinking_display"),
            ({"thinking_display": "omitted"}, "budget", "thinking_display")]
    ]  # fmt: skip

    @pytest.mark.parametrize(("turn", "thinks"), [
        ([assistant(CALL), DONE], False),
        ([assistant(Reasoning("hm"), " ", CALL), DONE], False),
        (
            [assistant("so:", VendorPart(NAME, thinking("hm")), CALL), DONE, user("go on")],
            False,
        ),
        ([assistant(VendorPart(NAME, thinking("hm")), CALL), DONE], True),
        ([assistant(VendorPart(NAME, REDACTED), CALL), DONE, system("x"), user("go on")], True),
        # without interleaved thinking, only the first of its messages has thoughts
        (
            [assistant(VendorPart(NAME, thinking("hm")), CALL), DONE, assistant(CALL), DONE],
            True,
        ),
        ([assistant(CALL), DONE, assistant("done")], True),
        ([assistant(CALL), DONE, assistant("done"), user("more")], True),
    ])  # fmt: skip
    def test_a_turn_without_thoughts_cannot_continue_with_a_budget(
        self, turn: Any, thinks: bool
    ) -> None:
        """The service would refuse it; clients of other formats do not return signed thoughts."""
        body = self.body(system("a"), user("hi"), *turn, parameters={"thinking_budget": 2000})
        assert body.get("thinking") == (ENABLED if thinks else None)
        effort = {"reasoning_effort": "high"}
        assert self.body(user("hi"), *turn, parameters=effort)["thinking"] == ADAPTIVE

    def test_what_the_system_says_stands_apart_wherever_it_was_said(self) -> None:
        assert self.body(system("Be brief."), user("hi"))["system"] == "Be brief."
        body = self.body(system("a", "b"), user("hi"), system("c"), user("so?"))
        assert body["system"] == [text(each) for each in "abc"]
        assert body["messages"] == [message("user", "hi", "so?")]

    def test_the_cache_is_asked_for_block_by_block(self) -> None:
        body = self.body(
            system("a", "b"), user("hi"), assistant("hello"), user("so", PNG),
            tools=[evolve(LOOK, name="first"), LOOK], parameters={"prompt_cache": "1h"},
            variant={"cache": "blocks"},
        )  # fmt: skip
        assert body["system"] == [text("a"), text("b", cache_control=CACHED)]
        assert ["cache_control" in tool for tool in body["tools"]] == [False, True]
        assert str(body["messages"]).count("cache_control") == 1
        assert body["messages"][-1]["content"][-1]["cache_control"] == CACHED
        assert "cache_control" not in body

    def test_one_text_of_the_system_is_marked_as_well(self) -> None:
        cached = {"parameters": {"prompt_cache": "1h"}, "variant": {"cache": "blocks"}}
        body = self.body(system("a"), user("hi"), **cached)
        assert body["system"] == [text("a", cache_control=CACHED)]

    @pytest.mark.parametrize(("marks", "lifetime", "cache", "is_added"), [
        (0, "1h", "request", True),
        (3, "5m", "request", True),
        (3, "1h", "request", False),  # a shorter lifetime may be before it
        (4, "5m", "request", False),  # more than the service accepts
        (1, "5m", "blocks", False),
    ])  # fmt: skip
    def test_the_marks_of_a_client_have_priority(
        self, marks: int, lifetime: str, cache: str, is_added: bool
    ) -> None:
        marked = {NAME: {"cache_control": {"type": "ephemeral"}}}
        body = self.body(
            user(*(Text("a", extra=marked) for _ in range(marks - 1)), "b"),
            tools=[evolve(LOOK, extra=marked)] if marks else [],
            parameters={"prompt_cache": lifetime}, variant={"cache": cache},
        )  # fmt: skip
        assert str(body).count("cache_control") == marks + is_added

    def test_a_schema_that_none_is_held_to_is_asked_for_in_words(self) -> None:
        schema = {"type": "object", "additionalProperties": {"type": "integer"}}
        body = self.body(system("Be brief."), user("hi"), schema=schema)
        assert "output_config" not in body
        assert body["system"][0]["text"] == "Be brief."
        words = '{"type":"object","additionalProperties":{"type":"integer"}}'
        assert words in str(body["system"][1])

    def test_each_message_is_written_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        call = ChatCall(model_id="m", messages=[user("hi"), assistant("hello"), user("so?")])
        first = self.dialect.prepare_request(call).data()
        monkeypatch.setattr("genai_wire_anthropic.dialect.messages._blocks", None)
        again = evolve(call, parameters={"max_tokens": 16_000})
        assert AnthropicMessages().prepare_request(again).data() == first
