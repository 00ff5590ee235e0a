"""Our Gemini API: what is asked reaches the model, and its answer the client."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from api_suite import ApiSuite, completion_of as completion_of
from gemini_form import Api, model, user

from genai_host.api import File, Image, Message, Reasoning, ToolCall, ToolResult, Usage, VendorPart

pytestmark = pytest.mark.part

PICTURE = b"\x89PNG\r\n\x1a\n picture"
DATA = base64.b64encode(PICTURE).decode()
INLINE = {"inlineData": {"mimeType": "image/png", "data": DATA}}
PAPER = {"inlineData": {"mimeType": "application/pdf", "data": DATA, "displayName": "x"}}
AWAY = {"fileData": {"mimeType": "application/pdf", "fileUri": "https://a.example/y"}}
LOOK = {"functionCall": {"id": "a", "name": "look"}}
OTHER = VendorPart("other", {"secret": 1})
HI = Message("user", "hi")
THOUGHTS = {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}}
SIGNED: list[Any] = [
    Reasoning("hm"),
    VendorPart("gemini", {"text": "hm", "thought": True, "thoughtSignature": "AA=="}),
    "so", VendorPart("gemini", {"thoughtSignature": "AQ=="}),
    ToolCall("c1", "look", {}), VendorPart("gemini", {"thoughtSignature": "Ag=="}),
    OTHER, VendorPart("gemini", {"text": "", "thoughtSignature": "Aw=="}),
]  # fmt: skip
SIGNED_PARTS = [
    {"text": "hm", "thought": True, "thoughtSignature": "AA=="},
    {"text": "so", "thoughtSignature": "AQ=="},
    {"functionCall": {"id": "c1", "name": "look", "args": {}}, "thoughtSignature": "Ag=="},
    {"text": "", "thoughtSignature": "Aw=="},
]


def called(id: str) -> Any:
    return {"functionCall": {"id": id, "name": "look", "args": {}}}


def result(response: Any, name: str = "look", **more: Any) -> Any:
    return {"functionResponse": {"name": name, "response": response, **more}}


def parts_of(reply: dict[str, Any]) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = reply["candidates"][0]["content"]["parts"]
    return parts


class TestGenerate(ApiSuite):
    answers = {
        "a call": (completion_of(ToolCall("c1", "look", {"at": 1}), finish="tool_calls"), {},
                   [{"functionCall": {"id": "c1", "name": "look", "args": {"at": 1}}}]),
        "thoughts that are not asked for": (completion_of(*SIGNED[:3]), {}, [{"text": "so"}]),
        "thoughts": (completion_of(Reasoning("hm"), "so"), THOUGHTS,
                     [{"text": "hm", "thought": True}, {"text": "so"}]),
        "signatures": (completion_of(*SIGNED, finish="tool_calls"), THOUGHTS, SIGNED_PARTS),
        "pictures": (completion_of(Image(PICTURE), Image(url="https://a.test/b.png")), {},
                     [INLINE, {"fileData": {"mimeType": "", "fileUri": "https://a.test/b.png"}}]),
        "JSON in a fence": (completion_of('```json\n{"a": 1}\n```'),
                            {"generationConfig": {"responseMimeType": "application/json"}},
                            [{"text": '{"a":1}'}]),
    }  # fmt: skip
    prompts = {
        "turns": ([{"parts": [{"text": "hi"}]}, model("hello"), user("and", " now?")],
                  [HI, Message("assistant", "hello"), Message("user", ["and", " now?"])]),
        "data and addresses": (
            [user(INLINE, {"inline_data": {"mime_type": "application/pdf", "data": "JVBERi0_"}},
                  {"fileData": {"mimeType": "image/png", "fileUri": "https://a.test/b"}},
                  {"fileData": {"mimeType": "text/csv", "fileUri": "https://a.test/c"}})],
            [Message("user", [Image(PICTURE, "image/png"), File(b"%PDF-?", "application/pdf"),
                              Image(media_type="image/png", url="https://a.test/b"),
                              File(media_type="text/csv", url="https://a.test/c")])]),
        "results with ids": (
            [user("hi"), model(called("a"), called("b")),
             user(result({"output": "b"}, id="b"), result({"output": "a"}, id="a"), "go on")],
            [HI, Message("assistant", [ToolCall("a", "look"), ToolCall("b", "look")]),
             Message("tool", [ToolResult("b", "look", "b"), ToolResult("a", "look", "a")]),
             Message("user", "go on")]),
        **{f"a result {response}": (
            [user("hi"), model(LOOK), user(result(response, id="a"))],
            [HI, Message("assistant", ToolCall("a", "look")),
             Message("tool", ToolResult("a", "look", text, failed))])
           for response, text, failed in [
               ({"output": "cloudy"}, "cloudy", False), ({"result": "cloudy"}, "cloudy", False),
               ({"output": {"sky": 1}}, '{"sky":1}', False), ({"error": "no sky"}, "no sky", True),
               ({"sky": "cloudy", "error": None}, '{"sky":"cloudy","error":null}', False),
               ({}, "{}", False)]},
        "a picture of a function": (
            [user("hi"), model(LOOK), user(result({}, parts=[INLINE]))],
            [HI, Message("assistant", ToolCall("a", "look")),
             Message("tool", ToolResult("a", "look", ["{}", Image(PICTURE, "image/png")]))]),
        "documents of functions, after all results": (
            [user("hi"), model(called("a"), called("b")),
             user(*(result({"output": "o"}, parts=parts) for parts in ([PAPER, AWAY], [])))],
            [HI, Message("assistant", [ToolCall("a", "look"), ToolCall("b", "look")]),
             Message("tool", [
                 ToolResult("a", "look", ["o", "(the document x follows)",
                                          "(the document https://a.example/y follows)"]),
                 ToolResult("b", "look", "o")]),
             Message("user", [File(PICTURE, "application/pdf", "x"),
                              File(media_type="application/pdf", url="https://a.example/y")])]),
        "an empty answer in between": ([user("hi"), {"role": "model"}, user("well?")],
                                       [HI, Message("user", "well?")]),
        "a stream as a client kept it": (
            [user("hi"), *(model({"text": each, "thought": True}) for each in ("h", "m")),
             *map(model, ("hel", "lo", "")), user("and"), user("now?")],
            [HI, Message("assistant", [Reasoning("hm"), "hello"]), Message("user", "and"),
             Message("user", "now?")]),
        "signatures": (
            [user("hi"), {"role": "model", "parts": SIGNED_PARTS}, user(result({}, id="c1"))],
            [HI, Message("assistant", [part for part in SIGNED if part != OTHER]),
             Message("tool", ToolResult("c1", "look", "{}"))]),
    }  # fmt: skip

    def ask(self, api: Api, *messages: Any, **more: Any) -> Any:
        return api.generate(*(messages or [user("hi")]), **more)

    def content(self, reply: Any) -> Any:
        return parts_of(reply)

    def test_a_reply_is_whole(self, api: Api) -> None:
        usage = Usage(input_tokens=7, output_tokens=5, reasoning_tokens=2, cached_tokens=3)
        api.fake.answer = lambda prompt: completion_of("hello", usage=usage)
        reply = api.generate(user("hi"))
        content = {"role": "model", "parts": [{"text": "hello"}]}
        assert reply["candidates"] == [{"content": content, "finishReason": "STOP", "index": 0}]
        assert reply["usageMetadata"] == {
            "promptTokenCount": 7, "candidatesTokenCount": 3, "thoughtsTokenCount": 2,
            "cachedContentTokenCount": 3, "totalTokenCount": 12,
        }  # fmt: skip
        assert reply["modelVersion"] == "fake"
        assert reply["responseId"]

    @pytest.mark.parametrize(("finish", "vendors", "reason"), [
        ("stop", "end_turn", "STOP"), ("length", "max_tokens", "MAX_TOKENS"),
        ("content_filter", "refusal", "SAFETY"), ("content_filter", "RECITATION", "RECITATION"),
        ("other", "pause", "OTHER"), ("other", "LANGUAGE", "LANGUAGE"),
        ("stop", "RECITATION", "STOP"), ("tool_calls", "", "STOP"),
    ])  # fmt: skip
    def test_why_it_ended(self, api: Api, finish: Any, vendors: str, reason: str) -> None:
        parts = [ToolCall("c1", "look")] if finish == "tool_calls" else ["so"]
        answer = completion_of(*parts, finish=finish, vendor_finish=vendors)
        api.fake.answer = lambda prompt: answer
        assert api.generate(user("hi"))["candidates"][0]["finishReason"] == reason

    def test_a_call_that_is_no_json_is_told_as_that(self, api: Api) -> None:
        call = ToolCall("c1", "look", malformed="{at")
        api.fake.answer = lambda prompt: completion_of(call, finish="tool_calls")
        (candidate,) = api.generate(user("hi"))["candidates"]
        assert candidate["finishReason"] == "MALFORMED_FUNCTION_CALL"
        assert "{at" in candidate["finishMessage"]
        assert "parts" not in candidate["content"]

    def test_the_system_is_heard_first(self, api: Api) -> None:
        api.generate(user("hi"), systemInstruction={"parts": [{"text": "Be "}, {"text": "kind."}]})
        assert list(api.fake.prompts[-1].messages) == [Message("system", "Be kind."), HI]

    def test_calls_and_results_without_ids(self, api: Api) -> None:
        calls: list[Any] = [{"functionCall": {"name": each}} for each in ("look", "hear", "look")]
        results = [result({"output": each}, name)
                   for name, each in [("look", "1"), ("look", "2"), ("hear", "3")]]  # fmt: skip
        for _ in range(2):
            api.generate(user("hi"), *[model(*calls), {"role": "function", **user(*results)}] * 2)
        _, first, answers, second, again = api.fake.prompts[-1].messages
        a, b, c = first.tool_calls
        result_ids = [part.id for part in answers.content if isinstance(part, ToolResult)]
        assert result_ids == [a.id, c.id, b.id]
        ids = [call.id for message in (first, second) for call in message.tool_calls]
        assert len(set(ids)) == 6
        assert {part.id for part in again.content if isinstance(part, ToolResult)} == set(ids[3:])


class TestNames:
    @pytest.mark.parametrize(
        "name", ["fake", "fake@fake", "fake%40fake", "fake/fake", "fake%2Ffake", "models%2Ffake"]
    )
    @pytest.mark.parametrize("version", ["v1", "v1beta"])
    def test_of_models(self, api: Api, name: str, version: str) -> None:
        path = f"/{version}/models/{name}:generateContent"
        reply = api.post(path, {"contents": [user("hi")]})
        assert parts_of(reply.json()) == [{"text": "hi"}]

    @pytest.mark.parametrize("name", ["fake/fake", "fake/some/one:free"])
    def test_item_5_with_slashes_without_models_in_the_path(self, api: Api, name: str) -> None:
        """The AI SDK asks so."""
        reply = api.post(f"/v1beta/{name}:generateContent", {"contents": [user("hi")]})
        assert parts_of(reply.json()) == [{"text": "hi"}]

    @pytest.mark.parametrize("name", ["fake/some/one:free", "feature:chat"])
    def test_with_slashes_and_colons_and_of_features(self, api: Api, name: str) -> None:
        reply = api.call("generateContent", {"contents": [user("hi")]}, name).json()
        assert reply["modelVersion"] == name
        assert reply["candidates"][0]["finishReason"] == "STOP"
        assert "hi" in parts_of(reply)[0]["text"]
