"""Our Ollama API: chat and generate, whole and in pieces."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from genai_wire_ollama.server.replies import ChatWriter, as_message
from ollama_form import HI, Api, serving

from genai_host.api import Completion, Image, Message, Reasoning, Text, ToolCall, ToolResult, Usage
from genai_host.errors import ContextOverflow, IncompleteReply, RateLimited
from genai_host.serving.completion import CompletionStream
from genai_host_testing import FakeModel
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part

PICTURE = b"\x89PNG\r\n\x1a\n picture"
DATA = base64.b64encode(PICTURE).decode()
CALL = {"function": {"name": "look", "arguments": {"at": "the sky"}}}


@pytest.fixture
def api(make_host: MakeHost) -> Iterator[Api]:
    with serving(make_host, FakeModel()) as api:
        yield api


class TestTheReply:
    def test_it_is_whole(self, api: Api) -> None:
        completion = Completion(Message("assistant", "hello"), usage=Usage(7, 5))
        api.fake.answer = lambda heard: completion
        reply = api.chat(HI)
        assert datetime.fromisoformat(reply.pop("created_at").replace("Z", "+00:00")).tzinfo
        assert reply.pop("total_duration") == reply.pop("eval_duration") > 0
        assert reply == {
            "model": "fake",
            "message": {"role": "assistant", "content": "hello"},
            "done": True,
            "done_reason": "stop",
            "load_duration": 0,
            "prompt_eval_count": 7,
            "prompt_eval_duration": 0,
            "eval_count": 5,
        }

    @pytest.mark.parametrize(
        ("finish", "reason"),
        [("length", "length"), ("tool_calls", "stop"), ("content_filter", "content_filter")],
    )
    def test_why_it_ended(self, api: Api, finish: Any, reason: str) -> None:
        api.fake.answer = lambda heard: Completion(Message("assistant", "so"), finish)
        assert api.chat(HI)["done_reason"] == reason

    def test_calls_thoughts_and_pictures(self, api: Api) -> None:
        content = [Reasoning("hm"), ToolCall("c1", "look", {"at": 1}), Image(PICTURE)]
        api.fake.answer = lambda heard: Completion(Message("assistant", content), "tool_calls")
        message = {
            "role": "assistant",
            "content": "",
            "thinking": "hm",
            "tool_calls": [
                {"id": "c1", "function": {"index": 0, "name": "look", "arguments": {"at": 1}}}
            ],
            "images": [DATA],
        }
        assert api.chat(HI)["message"] == message
        piece, last = api.lines("chat", messages=[HI])
        assert piece["message"] == message
        assert (piece["done"], last["done"]) == (False, True)
        assert "thinking" not in api.chat(HI, think=False)["message"]
        piece, last = api.lines("chat", messages=[HI], think=False)
        assert "thinking" not in piece["message"]

    def test_in_pieces(self, api: Api) -> None:
        api.fake.answer = lambda heard: Completion(Message("assistant", "a" * 20))
        *pieces, last = api.lines("chat", messages=[HI])
        assert [each["message"]["content"] for each in pieces] == ["a" * 8, "a" * 8, "a" * 4]
        assert not any(each["done"] or "done_reason" in each for each in pieces)
        assert last["message"] == {"role": "assistant", "content": ""}
        assert (last["done"], last["done_reason"]) == (True, "stop")

    def test_json_out_of_its_fence(self, api: Api) -> None:
        api.fake.answer = lambda heard: '```json\n{"a": 1}\n```'
        assert api.chat(HI, format="json")["message"]["content"] == '{"a":1}'

    def test_of_a_feature(self, api: Api) -> None:
        assert api.chat(HI, model="feature:chat")["message"]["content"] == "hi"
        *pieces, last = api.lines("chat", messages=[HI], model="feature:chat:latest")
        assert "".join(each["message"]["content"] for each in pieces) == "hi"
        assert last["model"] == "feature:chat:latest"


class TestMessages:
    def test_who_says_what(self, api: Api) -> None:
        api.chat(
            {"role": "system", "content": "be kind"},
            HI,
            {"role": "assistant", "content": "hello", "thinking": "hm"},
            {"role": "assistant"},
            {"role": "user", "content": "look", "images": [DATA]},
        )
        assert api.heard == [
            Message("system", "be kind"),
            Message("user", "hi"),
            Message("assistant", [Reasoning("hm"), Text("hello")]),
            Message("user", ["look", Image(PICTURE, "image/png")]),
        ]

    def test_results_belong_to_calls_by_name_and_order(self, api: Api) -> None:
        hear = {"function": {"name": "hear", "arguments": {}}}
        results = [
            {"role": "tool", "tool_name": "look", "content": "1"},
            {"role": "tool", "name": "hear", "content": "2"},
            {"role": "tool", "content": "3"},
        ]
        api.chat(HI, {"role": "assistant", "tool_calls": [CALL, hear, CALL]}, *results)
        _, calls, answered = api.heard
        first, second, third = calls.tool_calls
        assert (first.name, first.arguments) == ("look", {"at": "the sky"})
        assert answered == Message(
            "tool",
            [
                ToolResult(first.id, "look", "1"),
                ToolResult(second.id, "hear", "2"),
                ToolResult(third.id, "look", "3"),
            ],
        )

    def test_or_by_their_ids(self, api: Api) -> None:
        calls = [{"id": id, **CALL} for id in ("a", "b")]
        results = [{"role": "tool", "tool_call_id": id, "content": id} for id in ("b", "a")]
        api.chat(HI, {"role": "assistant", "content": "so", "tool_calls": calls}, *results)
        assert api.heard[-1].content == (ToolResult("b", "look", "b"), ToolResult("a", "look", "a"))

    def test_tools(self, api: Api) -> None:
        function = {"name": "look", "description": "Look", "parameters": {"type": "object"}}
        api.chat(
            HI, tools=[{"type": "function", "function": function}, {"function": {"name": "a"}}]
        )
        assert api.fake.prompts[-1].tools == ("look", "a")


class TestGenerate:
    def test_whole(self, api: Api) -> None:
        body = {"system": "be kind", "prompt": "look", "images": [DATA], "stream": False}
        reply = api.post("generate", **body).json()
        assert (reply["response"], reply["done_reason"]) == ("look", "stop")
        assert api.heard == [
            Message("system", "be kind"),
            Message("user", ["look", Image(PICTURE, "image/png")]),
        ]

    def test_in_pieces(self, api: Api) -> None:
        said = Message("assistant", [Reasoning("hm"), Text("a" * 10)])
        api.fake.answer = lambda heard: Completion(said)
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
    @pytest.mark.parametrize("stream", [True, False])
    def test_before_the_first_piece(self, api: Api, stream: bool) -> None:
        api.fake.faults = {0: RateLimited("slowly", retry_after=2.5), 1: ContextOverflow("long")}
        reply = api.post("chat", messages=[HI], stream=stream)
        assert (reply.status_code, reply.headers["retry-after"]) == (429, "3")
        assert reply.json()["error"].startswith("slowly")
        assert api.post("chat", messages=[HI], stream=stream).status_code == 400

    def test_on_the_way(self, api: Api) -> None:
        def answer() -> Any:
            from genai_host.api import Delta

            yield Delta("so")
            yield Delta(reasoning="hm")
            raise IncompleteReply("it was cut")

        writer = ChatWriter("m", True, as_message, api.host.clock)
        said, thought, error = map(json.loads, writer.lines(CompletionStream(answer())))
        assert said["message"]["content"] == "so"
        assert thought["message"] == {"role": "assistant", "content": "", "thinking": "hm"}
        assert error == {"error": "it was cut"}
