"""Our Ollama API: chat and generate, whole and in pieces; options, what is refused, embeddings,
lists."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from typing import Any

import genai_vendor_ollama
import pytest
from api_suite import ApiSuite, completion_of
from genai_wire_ollama.server.replies import ChatWriter, as_message
from genai_wire_ollama.server.requests import thinking_in
from ollama_form import HI, Api

from genai_host.api import Image, JsonReader, Message, Reasoning, ToolCall, ToolResult, Usage
from genai_host.errors import IncompleteReply
from genai_host.serving import Capabilities
from genai_host.serving.completion import CompletionStream
from genai_host_testing.fake_service import FakeService, json_reply
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part

PICTURE = b"\x89PNG\r\n\x1a\n picture"
DATA = base64.b64encode(PICTURE).decode()
AT = {"at": "the sky"}
CALL = {"function": {"name": "look", "arguments": AT}}
USER = Message("user", "hi")
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


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


class TestOptions:
    def test_all_that_the_model_takes(self, api: Api) -> None:
        options = {
            "temperature": 0, "top_p": 1, "top_k": 40, "num_predict": 100, "stop": ["X"], "seed": 7,
            "presence_penalty": 0.5, "frequency_penalty": 0,
        }  # fmt: skip
        api.chat(HI, options=options)
        options["max_tokens"] = options.pop("num_predict")
        assert api.fake.prompts[-1].parameters == options

    def test_those_that_say_nothing_or_are_about_the_machine(self, api: Api) -> None:
        options = {
            "num_predict": -1, "top_k": 0, "min_p": 0.0, "typical_p": 1, "repeat_penalty": 1,
            "mirostat": 0, "num_ctx": 4096, "num_gpu": 1, "low_vram": True, "unheard_of": {},
            "stop": None,
        }  # fmt: skip
        api.chat(HI, options=options, keep_alive="5m", truncate=True, unheard_of=1)
        assert api.fake.prompts[-1].parameters == {}

    def test_those_that_are_left_out_are_named(self, api: Api) -> None:
        options = {"num_ctx": 4096, "unheard_of": {}, "min_p": 0.0, "temperature": 0}
        more = {"options": options, "keep_alive": "5m", "another": 1}
        for path, fields in (("chat", {"messages": [HI]}), ("generate", {"prompt": "hi"})):
            for in_pieces in (False, True):
                reply = api.post(path, model="fake", stream=in_pieces, **fields, **more)
                assert reply.status_code == 200, reply.text
                assert reply.headers["x-genai-host-dropped"] == (
                    "options.num_ctx, options.unheard_of, another"
                )

    @pytest.mark.parametrize(("options", "expected"), [
        ({"min_p": 0.5}, "min_p"), ({"mirostat": 2}, "mirostat"),
        ({"temperature": 5}, "temperature"),
        ({"temperature": "x"}, "$.options.temperature"),
        ({"top_k": 1.5}, "$.options.top_k"), ({"stop": "x"}, "$.options.stop"),
        ({"num_predict": 0}, "max_tokens"), ([], "$.options"),
    ])  # fmt: skip
    def test_that_are_wrong(self, api: Api, options: Any, expected: str) -> None:
        assert expected in api.refused(HI, options=options)

    def test_ollamas_own_reach_it(
        self, make_host: MakeHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        reply_body = {"message": {"role": "assistant", "content": "so"}, "done": True}
        options = {"num_ctx": 4096, "min_p": 0.5, "num_predict": 9, "repeat_penalty": 1}
        with FakeService([json_reply(reply_body)]) as service:
            monkeypatch.setenv("OLLAMA_HOST", service.url)
            with Api.serving(make_host, ollama=genai_vendor_ollama) as api:
                api.chat(HI, model="ollama/some", options=options, think="low")
            (received,) = service.requests
        assert received.json()["options"] == options
        assert received.json()["think"] == "low"


class TestThinking:
    @pytest.mark.parametrize("think", [True, False, None])
    def test_of_a_model_that_does(self, api: Api, think: Any) -> None:
        api.chat(HI, think=think)
        assert api.fake.prompts[-1].parameters == {}

    @pytest.mark.parametrize("think", [1, "some", [], {}])
    def test_that_is_wrong(self, api: Api, think: Any) -> None:
        assert "$.think" in api.refused(HI, think=think)

    @pytest.mark.parametrize(("efforts", "think", "expected"), [
        (["none", "medium"], True, {"reasoning_effort": "medium"}),
        (["none", "medium"], False, {"reasoning_effort": "none"}),
        (["none", "medium"], "high", {"reasoning_effort": "high"}),
        (["low", "high"], True, {}),
        (["low", "high"], False, {}),
    ])  # fmt: skip
    def test_of_a_model_with_efforts(self, efforts: list[str], think: Any, expected: Any) -> None:
        can = Capabilities({"reasoning_effort": {"enum": efforts}}, frozenset({"reasoning"}))
        assert thinking_in(JsonReader({"think": think}, "$"), can)[1] == expected

    def test_how_much(self, api: Api) -> None:
        assert "reasoning_effort" in api.refused(HI, think="high")  # which it does not take


class TestFormats:
    @pytest.mark.parametrize(("form", "schema"), [("json", {"type": "object"}), (SCHEMA, SCHEMA)])
    def test_json(self, api: Api, form: Any, schema: Any) -> None:
        api.fake.answer = lambda prompt: completion_of("{}")
        assert api.chat(HI, format=form)["message"]["content"] == "{}"
        assert api.fake.prompts[-1].schema == schema

    @pytest.mark.parametrize("none", ["", None])
    def test_none(self, api: Api, none: Any) -> None:
        api.chat(HI, format=none)
        assert api.fake.prompts[-1].schema is None

    @pytest.mark.parametrize("wrong", ["xml", 1, [], {"type": 1}, {"properties": {"a": 1}}])
    def test_wrong(self, api: Api, wrong: Any) -> None:
        assert "$.format" in api.refused(HI, format=wrong)


class TestWhatIsRefused:
    @pytest.mark.parametrize(("message", "place"), [
        ("hi", "$.messages[0]"), ({"content": "hi"}, "$.messages[0].role"),
        ({"role": "developer"}, "$.messages[0].role"),
        ({"role": "user", "content": [{"type": "text"}]}, "$.messages[0].content"),
        ({"role": "user", "images": ["!"]}, "$.messages[0].images[0]"),
        ({"role": "user", "images": ["AAAA"]}, "$.messages[0].images[0]"),
        ({"role": "user", "images": [1]}, "$.messages[0].images[0]"),
        ({"role": "user", "tool_calls": [{"function": {"name": "a"}}]}, "$.messages[0].tool_calls"),
        ({"role": "assistant", "tool_calls": [{}]}, "$.messages[0].tool_calls[0]"),
        ({"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": "{}"}}]},
         "$.messages[0].tool_calls[0].function.arguments"),
        ({"role": "tool", "tool_name": "a", "content": "1"}, "$.messages[0]"),
    ])  # fmt: skip
    def test_messages(self, api: Api, message: Any, place: str) -> None:
        assert f"(at {place})" in api.refused(message)

    @pytest.mark.parametrize(("more", "place"), [
        ({"model": ""}, "$.model"), ({"model": ":latest"}, "$.model"), ({"model": 1}, "$.model"),
        ({"stream": "yes"}, "$.stream"), ({"logprobs": True}, "$.logprobs"),
        ({"tools": [{"type": "other"}]}, "$.tools[0].type"),
        ({"tools": [{}]}, "$.tools[0]"),
        ({"tools": [{"function": {"name": ""}}]}, "$.tools[0].function.parameters"),
        ({"tools": [{"function": {"name": "a", "parameters": {"type": "array"}}}]},
         "$.tools[0].function.parameters"),
    ])  # fmt: skip
    def test_beside_them(self, api: Api, more: Any, place: str) -> None:
        assert f"(at {place})" in api.refused(HI, **more)

    def test_managing_models(self, api: Api) -> None:
        for path in ("pull", "push", "create", "copy", "blobs/sha256:aa"):
            reply = api.post(path, model="nobody")
            assert reply.status_code == 405
            assert "managed by their providers" in reply.json()["error"]
        reply = api.client.delete(f"{api.url}/api/delete", json={"model": "fake"})
        assert reply.status_code == 405

    def test_a_download_of_a_model_that_is_available(self, api: Api) -> None:
        assert api.post("pull", model="fake").json() == {"status": "success"}


class TestEmbeddings:
    def test_several(self, api: Api) -> None:
        reply = api.post("embed", model="fake-embed", input=["a", "b"], truncate=True).json()
        expected = api.host.embed(["a", "b"], model="fake-embed").vectors
        assert reply["embeddings"] == [list(each) for each in expected]
        assert reply["model"] == "fake-embed"
        assert reply["total_duration"] > 0

    def test_one(self, api: Api) -> None:
        reply = api.post("embed", model="fake-embed:latest", input="a").json()
        assert [reply["embeddings"][0]] == reply["embeddings"]
        before = api.post("embeddings", model="fake-embed", prompt="a", options={"num_ctx": 1})
        assert before.json() == {"embedding": reply["embeddings"][0]}

    def test_none(self, api: Api) -> None:
        assert api.post("embed", model="fake-embed", input=[]).json()["embeddings"] == []
        assert api.post("embeddings", model="fake-embed").json() == {"embedding": []}

    @pytest.mark.parametrize(("more", "status"), [
        ({"input": [1]}, 400), ({"input": {}}, 400), ({"input": ["a"] * 2049}, 400),
        ({"input": "a", "dimensions": 4}, 400), ({"input": "a", "model": "fake"}, 404),
        ({"input": "a", "model": "feature:chat"}, 404),
    ])  # fmt: skip
    def test_that_are_refused(self, api: Api, more: Any, status: int) -> None:
        assert api.post("embed", **{"model": "fake-embed", **more}).status_code == status


class TestLists:
    def test_all(self, api: Api) -> None:
        models = {each["name"]: each for each in api.get("tags")["models"]}
        assert models["fake@fake"]["capabilities"] == ["completion", "tools", "vision", "thinking"]
        assert models["fake-embed@fake"]["capabilities"] == ["embedding"]
        assert "feature:chat" in models
        assert "fake-moderate@fake" not in models
        for each in models.values():
            assert len(each["digest"]) == 64
            assert each["name"] == each["model"]

    @pytest.mark.parametrize("name", ["fake", "fake:latest", "fake@fake", "fake/some:7b"])
    def test_one(self, api: Api, name: str) -> None:
        reply = api.post("show", model=name).json()
        assert reply["model_info"]["general.basename"] == name.removesuffix(":latest")
        assert "completion" in reply["capabilities"]
        assert api.client.post(f"{api.url}/api/show", json={"name": name}).json() == reply

    def test_none(self, api: Api) -> None:
        for name in ("nobody", "fake-moderate"):
            reply = api.post("show", model=name)
            assert reply.status_code == 404
            assert reply.json()["error"]

    def test_what_runs_and_which_version(self, api: Api) -> None:
        assert api.get("ps") == {"models": []}
        assert api.get("version")["version"].count(".") == 2
