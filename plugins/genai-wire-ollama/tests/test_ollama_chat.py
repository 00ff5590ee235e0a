"""Ollama's dialects: what chats and embeddings are asked for."""

from __future__ import annotations

import json
from typing import Any

from genai_wire_ollama.dialect.operations import OllamaChat, OllamaEmbed

from genai_host.api import (
    ChatCall,
    EmbedCall,
    File,
    Image,
    ProviderReply,
    Reasoning,
    ToolCall,
    ToolResult,
    ToolSchema,
    Usage,
    VendorPart,
)
from genai_host.errors import ContextOverflow
from genai_host_testing.internal.chat_requests import ChatRequests, assistant, system, tool, user
from genai_host_testing.internal.vector_replies import VectorReplies

CITY = {"properties": {"at": {"type": "string"}}, "required": ["at"]}
LOOK = ToolSchema("look", "looks", CITY)
PNG = Image(b"\x89PNG", "image/png")
AWAY = Image(url="https://x.invalid/a.png")
IMAGES = ["iVBORw=="]
LEFT_OUT = "(image omitted (https://x.invalid/a.png): not supported here)"
CALLS = [ToolCall("a", "look", {"at": "é"}), ToolCall("b", "look", {"at": "b"})]
RESULTS = [ToolResult("b", "look", ("fine", PNG)), ToolResult("a", "look", "no", error=True)]
NUMBERS = {"type": "array", "items": {"type": "integer"}}
SET = {"options": {"num_ctx": 1, "num_gpu": 4}, "keep_alive": -1.0, "truncate": True}


def called(*calls: tuple[str, str, Any], **more: Any) -> Any:
    return {"role": "assistant", "content": "", **more, "tool_calls": [
        {"id": id, "function": {"name": name, "arguments": arguments}}
        for id, name, arguments in calls]}  # fmt: skip


def result(id: str, name: str, content: str, **more: Any) -> Any:
    return {"role": "tool", "content": content, "tool_name": name, "tool_call_id": id, **more}


def function(name: str, description: str, parameters: Any) -> Any:
    fields = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": fields}


class TestRequests(ChatRequests):
    dialect = OllamaChat()
    conversations = {
        "texts with a picture": (
            [user("what", PNG, "is it?")],
            [{"role": "user", "content": "what\nis it?", "images": IMAGES}]),
        "a picture of a tool by its address": (
            [tool(ToolResult("1", "look", ["taken", AWAY, PNG]))],
            [result("1", "look", f"taken\n{LEFT_OUT}", images=IMAGES)]),
        "calls and results": (
            [assistant("so:", *CALLS), tool(*RESULTS)],
            [called(("a", "look", {"at": "é"}), ("b", "look", {"at": "b"}), content="so:"),
             result("b", "look", "fine", images=IMAGES), result("a", "look", "error: no")]),
        "results without names": (
            [assistant(ToolCall("a", "look"), ToolCall("b", "go")),
             tool(ToolResult("b", content="fine"), ToolResult("c", content="whose?"))],
            [called(("a", "look", {}), ("b", "go", {})), result("b", "go", "fine"),
             result("c", "", "whose?")]),
        "arguments that are no object": (
            [assistant(ToolCall("a", "look", malformed='{"at":'))],
            [called(("a", "look", {"malformed": '{"at":'}))]),
        "thoughts": (
            [assistant(Reasoning("hm, "), Reasoning("so"), VendorPart("another", {}), "hello")],
            [{"role": "assistant", "content": "hello", "thinking": "hm, so"}]),
    }  # fmt: skip
    calls = {
        "tools": (
            {"tools": [LOOK, ToolSchema("go", "goes")]},
            {"tools": [function("look", "looks", {"type": "object", **CITY}),
                       function("go", "goes", {"type": "object", "properties": {}})],
             "tool_choice": None}),
        "choice auto": ({"tools": [LOOK], "tool_choice": "auto"}, {
            "tools": [function("look", "looks", {"type": "object", **CITY})],
            "tool_choice": None}),
        "choice none": ({"tools": [LOOK], "tool_choice": "none"}, {"tools": None}),
        "no tools": ({"tool_choice": "auto"}, {"tools": None}),
        "a schema": ({"schema": NUMBERS}, {"format": NUMBERS}),
        "parameters": (
            {"parameters": {
                "max_tokens": 7, "temperature": 0.5, "top_k": 3, "stop": ["x"], "num_ctx": 4096,
                "repeat_penalty": 1.2, "think": "high", "keep_alive": "1h", "truncate": True}},
            {"options": {"num_predict": 7, "temperature": 0.5, "top_k": 3, "stop": ["x"],
                         "num_ctx": 4096, "repeat_penalty": 1.2},
             "think": "high", "keep_alive": "1h", "truncate": True}),
        "no thinking": ({"parameters": {"think": False}}, {"think": False}),
        "no effort": ({"parameters": {"reasoning_effort": "none"}}, {"think": False}),
        "an effort": ({"parameters": {"reasoning_effort": "minimal"}}, {"think": "low"}),
        "both": ({"parameters": {"think": True, "reasoning_effort": "low"}}, {"think": True}),
        "both, in the other order": (
            {"parameters": {"reasoning_effort": "low", "think": True}}, {"think": True}),
        "what an instance sets": ({"variant": SET}, SET),
        "parameters before that": (
            {"variant": SET, "parameters": {"num_ctx": 2, "keep_alive": 0, "truncate": False}},
            {"options": {"num_ctx": 2, "num_gpu": 4}, "keep_alive": 0, "truncate": False}),
        "what an instance sets, again": ({"variant": SET}, {
            "options": {"num_ctx": 1, "num_gpu": 4}}),
        "a stream": ({"stream": True}, {"stream": True}),
    }  # fmt: skip
    refused = [
        user(AWAY), user(File(b"%PDF", "application/pdf")), system(PNG),
        user(ToolCall("1", "look")), user(ToolResult("1", "look")), tool("text"),
    ]  # fmt: skip
    invalid = [({"tools": [LOOK], "tool_choice": choice}, "tool_choice")
               for choice in ("required", "look")]  # fmt: skip

    def test_a_plain_call(self) -> None:
        assert self.body(system("Be brief."), user('é "\u2028')) == {
            "model": "m", "truncate": False, "stream": False, "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": 'é "\u2028'}],
        }  # fmt: skip
        assert self.dialect.prepare_request(
            ChatCall(model_id="m", messages=[user("hi")], stream=True)
        ).stream

    def test_a_result_is_not_remembered_under_the_name_of_another_conversation(self) -> None:
        answered = tool(ToolResult("a", content="fine"))
        for name in ("look", "go"):
            *_, wire = self.content(assistant(ToolCall("a", name)), answered)
            assert wire["tool_name"] == name


EMBED = OllamaEmbed()


def body_of(*texts: str, **call: Any) -> Any:
    return json.loads(EMBED.prepare_request(EmbedCall(model_id="m", texts=texts, **call)).data())


class TestReplies(VectorReplies):
    dialect = EMBED

    def reply(self, vectors: Any) -> Any:
        return {"model": "m-1", "embeddings": vectors, "prompt_eval_count": 5}

    def test_the_model_and_its_tokens_are_told(self) -> None:
        result = self.read(self.reply([[1], [2]]))
        assert (result.model, result.usage) == ("m-1", Usage(input_tokens=5))


def test_texts_are_sent_at_once_and_whole() -> None:
    assert body_of("é", "") == {"model": "m", "input": ["é", ""], "truncate": False}


def test_parameters_have_their_places() -> None:
    parameters = {"dimensions": 8, "truncate": True, "keep_alive": 0, "num_ctx": 64}
    body = body_of(
        "a", parameters=parameters, variant={"options": {"num_gpu": 1}, "keep_alive": "1h"}
    )
    assert body == {
        "model": "m", "input": ["a"], "dimensions": 8, "truncate": True, "keep_alive": 0,
        "options": {"num_gpu": 1, "num_ctx": 64},
    }  # fmt: skip


def test_a_word_stands_before_queries_and_documents_where_a_model_wants_one() -> None:
    variant = {"query": "query: ", "document": "doc: "}
    assert body_of("a", variant=variant, purpose="query")["input"] == ["query: a"]
    assert body_of("a", variant=variant, purpose="document")["input"] == ["doc: a"]
    assert body_of("a", variant=variant)["input"] == ["a"]


def test_a_text_that_is_too_long_is_told() -> None:
    body = b'{"error": "the input length exceeds the context length"}'
    assert type(EMBED.map_error(ProviderReply(body, 400))) is ContextOverflow
