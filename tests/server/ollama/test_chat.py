"""Our Ollama API: chat and generate, whole and in pieces."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from typing import Any

import pytest
from api_suite import ApiSuite, completion_of
from genai_wire_ollama.server.replies import ChatWriter, as_message
from ollama_form import HI, Api

from genai_host.api import Image, Message, Reasoning, ToolCall, ToolResult, Usage
from genai_host.errors import IncompleteReply
from genai_host.serving.completion import CompletionStream

pytestmark = pytest.mark.part

PICTURE = b"\x89PNG\r\n\x1a\n picture"
DATA = base64.b64encode(PICTURE).decode()
AT = {"at": "the sky"}
CALL = {"function": {"name": "look", "arguments": AT}}
USER = Message("user", "hi")


def result(content: str, **more: Any) -> Any:
    return {"role": "tool", "content": content, **more}


def calls(*wire: Any, **more: Any) -> Any:
    return {"role": "assistant", "tool_calls": [*wire], **more}


class TestChat(ApiSuite):
    answers = {
        "the end at a limit": (completion_of("so", finish="length"), {}, ("so", "length")),
        "the end at a call": (completion_of("so", finish="tool_calls"), {}, ("so", "stop")),
        "the end at a filter": (
            completion_of("so", finish="content_filter"), {}, ("so", "content_filter")),
        "JSON in a fence": (completion_of('```json\n{"a": 1}\n```'), {"format": "json"},
                            ('{"a":1}', "stop")),
    }  # fmt: skip
    prompts = {
        "turns": (
            [{"role": "system", "content": "be kind"}, HI,
             {"role": "assistant", "content": "hello", "thinking": "hm"}, {"role": "assistant"},
             {"role": "user", "content": "look", "images": [DATA]}],
            [Message("system", "be kind"), USER, Message("assistant", [Reasoning("hm"), "hello"]),
             Message("user", ["look", Image(PICTURE, "image/png")])]),
        "results by their ids": (
            [HI, calls(*({"id": id, **CALL} for id in "ab"), content="so"),
             *(result(id, tool_call_id=id) for id in "ba")],
            [USER, Message("assistant", ["so", *(ToolCall(id, "look", AT) for id in "ab")]),
             Message("tool", [ToolResult("b", "look", "b"), ToolResult("a", "look", "a")])]),
    }  # fmt: skip

    def ask(self, api: Api, *messages: Any, **more: Any) -> Any:
        return api.chat(*(messages or [HI]), **more)

    def content(self, reply: Any) -> Any:
        return reply["message"]["content"], reply["done_reason"]

    def test_a_reply_is_whole(self, api: Api) -> None:
        api.fake.answer = lambda prompt: completion_of("hello", usage=Usage(7, 5))
        reply = api.chat(HI)
        assert datetime.fromisoformat(reply.pop("created_at").replace("Z", "+00:00")).tzinfo
        assert reply.pop("total_duration") == reply.pop("eval_duration") > 0
        assert reply == {
            "model": "fake", "message": {"role": "assistant", "content": "hello"}, "done": True,
            "done_reason": "stop", "load_duration": 0, "prompt_eval_count": 7,
            "prompt_eval_duration": 0, "eval_count": 5,
        }  # fmt: skip

    def test_calls_thoughts_and_pictures(self, api: Api) -> None:
        content = [Reasoning("hm"), ToolCall("c1", "look", {"at": 1}), Image(PICTURE)]
        api.fake.answer = lambda prompt: completion_of(*content, finish="tool_calls")
        function = {"index": 0, "name": "look", "arguments": {"at": 1}}
        message = {
            "role": "assistant", "content": "", "thinking": "hm", "images": [DATA],
            "tool_calls": [{"id": "c1", "function": function}],
        }  # fmt: skip
        for more in ({}, {"think": False}):
            if more:
                del message["thinking"]
            assert api.chat(HI, **more)["message"] == message
            piece, last = api.lines("chat", messages=[HI], **more)
            assert piece["message"] == message
            assert (piece["done"], last["done"]) == (False, True)

    def test_in_pieces(self, api: Api) -> None:
        api.fake.answer = lambda prompt: completion_of("a" * 20)
        *pieces, last = api.lines("chat", messages=[HI])
        assert [each["message"]["content"] for each in pieces] == ["a" * 8, "a" * 8, "a" * 4]
        assert not any(each["done"] or "done_reason" in each for each in pieces)
        assert last["message"] == {"role": "assistant", "content": ""}
        assert (last["done"], last["done_reason"]) == (True, "stop")

    def test_of_a_feature(self, api: Api) -> None:
        assert api.chat(HI, model="feature:chat")["message"]["content"] == "hi"
        *pieces, last = api.lines("chat", messages=[HI], model="feature:chat:latest")
        assert "".join(each["message"]["content"] for each in pieces) == "hi"
        assert last["model"] == "feature:chat:latest"

    def test_results_belong_to_calls_by_name_and_order(self, api: Api) -> None:
        hear = {"function": {"name": "hear", "arguments": {}}}
        results = [result("1", tool_name="look"), result("2", name="hear"), result("3")]
        api.chat(HI, calls(CALL, hear, CALL), *results)
        _, called, answered = api.prompt_messages
        first, second, third = called.tool_calls
        assert (first.name, first.arguments) == ("look", AT)
        assert answered.content == (
            ToolResult(first.id, "look", "1"), ToolResult(second.id, "hear", "2"),
            ToolResult(third.id, "look", "3"),
        )  # fmt: skip

    def test_tools(self, api: Api) -> None:
        function = {"name": "look", "description": "Look", "parameters": {"type": "object"}}
        tools = [{"type": "function", "function": function}, {"function": {"name": "a"}}]
        api.chat(HI, tools=tools)
        assert api.fake.prompts[-1].tools == ("look", "a")


class TestGenerate:
    def test_whole(self, api: Api) -> None:
        body = {"system": "be kind", "prompt": "look", "images": [DATA], "stream": False}
        reply = api.post("generate", **body).json()
        assert (reply["response"], reply["done_reason"]) == ("look", "stop")
        assert api.prompt_messages == [
            Message("system", "be kind"),
            Message("user", ["look", Image(PICTURE, "image/png")]),
        ]

    def test_in_pieces(self, api: Api) -> None:
        api.fake.answer = lambda prompt: completion_of(Reasoning("hm"), "a" * 10)
        *pieces, last = api.lines("generate", prompt="hi")
        assert "".join(each["response"] for each in pieces) == "a" * 10
        assert [each["thinking"] for each in pieces if "thinking" in each] == ["hm"]
        assert (last["response"], last["done"]) == ("", True)

    @pytest.mark.parametrize(
        "more", [{"suffix": "x"}, {"template": "x"}, {"raw": True}, {"context": [1]}]
    )
    def test_what_is_not_done(self, api: Api, more: Any) -> None:
        reply = api.post("generate", prompt="hi", **more)
        assert reply.status_code == 400
        assert next(iter(more)) in reply.json()["error"]


class TestLoading:
    @pytest.mark.parametrize("path", ["chat", "generate"])
    @pytest.mark.parametrize(
        ("keep", "reason"),
        [({}, "load"), ({"keep_alive": "5m"}, "load"), ({"keep_alive": 0}, "unload")],
    )
    def test_nobody_is_asked(self, api: Api, path: str, keep: Any, reason: str) -> None:
        reply = api.post(path, **keep).json()
        assert (reply["done"], reply["done_reason"]) == (True, reason)
        assert api.fake.calls == 0

    @pytest.mark.parametrize("path", ["chat", "generate"])
    def test_what_is_not_there(self, api: Api, path: str) -> None:
        assert api.post(path, model="nobody").status_code == 404

    @pytest.mark.parametrize("path", ["chat", "generate"])
    @pytest.mark.parametrize("wrong", [{"format": 7}, {"stream": "yes"}])
    def test_what_is_wrong(self, api: Api, path: str, wrong: dict[str, Any]) -> None:
        assert api.post(path, **wrong).status_code == 400


class TestErrors:
    def test_on_the_way(self, api: Api) -> None:
        def answer() -> Any:
            from genai_host.api import Delta

            yield Delta("so")
            yield Delta(reasoning="hm")
            raise IncompleteReply("it was cut")

        writer = ChatWriter("m", True, as_message, api.host.clock)
        words, thought, error = map(json.loads, writer.lines(CompletionStream(answer())))
        assert words["message"]["content"] == "so"
        assert thought["message"] == {"role": "assistant", "content": "", "thinking": "hm"}
        assert error == {"error": "it was cut"}
