"""Our Gemini API: what is asked reaches the model, and its answer the client."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from gemini_form import Api, model, serving, user

from genai_host.api import (
    Completion,
    File,
    Image,
    Message,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    VendorPart,
)
from genai_host_testing import FakeModel
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part

PICTURE = b"\x89PNG\r\n\x1a\n picture"
DATA = base64.b64encode(PICTURE).decode()


@pytest.fixture
def api(make_host: MakeHost) -> Iterator[Api]:
    with serving(make_host, FakeModel()) as api:
        yield api


def heard(api: Api) -> list[Message]:
    return list(api.fake.prompts[-1].messages)


def parts_of(reply: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = reply["candidates"][0]["content"]["parts"]
    return found


class TestTheReply:
    def test_it_is_whole(self, api: Api) -> None:
        usage = Usage(input_tokens=7, output_tokens=5, reasoning_tokens=2, cached_tokens=3)
        api.fake.answer = lambda heard: Completion(Message("assistant", "hello"), usage=usage)
        reply = api.generate(user("hi"))
        assert reply["candidates"] == [
            {
                "content": {"role": "model", "parts": [{"text": "hello"}]},
                "finishReason": "STOP",
                "index": 0,
            }
        ]
        assert reply["usageMetadata"] == {
            "promptTokenCount": 7,
            "candidatesTokenCount": 3,
            "thoughtsTokenCount": 2,
            "cachedContentTokenCount": 3,
            "totalTokenCount": 12,
        }
        assert reply["modelVersion"] == "fake"
        assert reply["responseId"]

    @pytest.mark.parametrize(
        ("finish", "vendors", "reason"),
        [
            ("stop", "end_turn", "STOP"),
            ("length", "max_tokens", "MAX_TOKENS"),
            ("content_filter", "refusal", "SAFETY"),
            ("content_filter", "RECITATION", "RECITATION"),
            ("other", "pause", "OTHER"),
            ("other", "LANGUAGE", "LANGUAGE"),
            ("stop", "RECITATION", "STOP"),
        ],
    )
    def test_why_it_ended(self, api: Api, finish: Any, vendors: str, reason: str) -> None:
        completion = Completion(Message("assistant", "so"), finish, vendor_finish=vendors)
        api.fake.answer = lambda heard: completion
        assert api.generate(user("hi"))["candidates"][0]["finishReason"] == reason

    def test_calls_of_functions(self, api: Api) -> None:
        call = ToolCall("c1", "look", {"at": "the sky"})
        api.fake.answer = lambda heard: Completion(Message("assistant", [call]), "tool_calls")
        reply = api.generate(user("hi"))
        assert parts_of(reply) == [
            {"functionCall": {"id": "c1", "name": "look", "args": {"at": "the sky"}}}
        ]
        assert reply["candidates"][0]["finishReason"] == "STOP"

    def test_a_call_that_is_no_json_is_told_as_that(self, api: Api) -> None:
        call = ToolCall("c1", "look", malformed="{at")
        api.fake.answer = lambda heard: Completion(Message("assistant", [call]), "tool_calls")
        (candidate,) = api.generate(user("hi"))["candidates"]
        assert candidate["finishReason"] == "MALFORMED_FUNCTION_CALL"
        assert "{at" in candidate["finishMessage"]
        assert "parts" not in candidate["content"]

    def test_thoughts_are_shown_to_who_asks_for_them(self, api: Api) -> None:
        said = Message("assistant", [Reasoning("hm"), Text("so")])
        api.fake.answer = lambda heard: Completion(said)
        assert parts_of(api.generate(user("hi"))) == [{"text": "so"}]
        config = {"thinkingConfig": {"includeThoughts": True, "thinkingBudget": 8192}}
        reply = api.generate(user("hi"), generationConfig=config)
        assert parts_of(reply) == [{"text": "hm", "thought": True}, {"text": "so"}]

    def test_pictures(self, api: Api) -> None:
        said = Message("assistant", [Image(PICTURE), Image(url="https://a.test/b.png")])
        api.fake.answer = lambda heard: Completion(said)
        assert parts_of(api.generate(user("hi"))) == [
            {"inlineData": {"mimeType": "image/png", "data": DATA}},
            {"fileData": {"mimeType": "", "fileUri": "https://a.test/b.png"}},
        ]

    def test_json_out_of_its_fence(self, api: Api) -> None:
        api.fake.answer = lambda heard: '```json\n{"a": 1}\n```'
        config = {"responseMimeType": "application/json"}
        assert parts_of(api.generate(user("hi"), generationConfig=config)) == [{"text": '{"a":1}'}]


class TestSignatures:
    """Gemini's own come back to it where they stood."""

    def test_out_and_back(self, api: Api) -> None:
        said = Message(
            "assistant",
            [
                Reasoning("hm"),
                VendorPart("gemini", {"text": "hm", "thought": True, "thoughtSignature": "AA=="}),
                Text("so"),
                VendorPart("gemini", {"thoughtSignature": "AQ=="}),
                ToolCall("c1", "look", {}),
                VendorPart("gemini", {"thoughtSignature": "Ag=="}),
                VendorPart("other", {"secret": 1}),
                VendorPart("gemini", {"text": "", "thoughtSignature": "Aw=="}),
            ],
        )
        api.fake.answer = lambda heard: Completion(said, "tool_calls")
        config = {"thinkingConfig": {"includeThoughts": True}}
        reply = api.generate(user("hi"), generationConfig=config)
        assert parts_of(reply) == [
            {"text": "hm", "thought": True, "thoughtSignature": "AA=="},
            {"text": "so", "thoughtSignature": "AQ=="},
            {"functionCall": {"id": "c1", "name": "look", "args": {}}, "thoughtSignature": "Ag=="},
            {"text": "", "thoughtSignature": "Aw=="},
        ]
        content = reply["candidates"][0]["content"]
        response = {"functionResponse": {"id": "c1", "name": "look", "response": {}}}
        api.generate(user("hi"), content, user(response))
        kept = [part for part in said.content if part != VendorPart("other", {"secret": 1})]
        assert heard(api)[1] == Message("assistant", kept)

    def test_thoughts_that_are_not_shown_are_not_signed(self, api: Api) -> None:
        signed = VendorPart("gemini", {"text": "hm", "thought": True, "thoughtSignature": "AA=="})
        said = Message("assistant", [Reasoning("hm"), signed, Text("so")])
        api.fake.answer = lambda heard: Completion(said)
        assert parts_of(api.generate(user("hi"))) == [{"text": "so"}]


class TestContents:
    def test_who_says_what(self, api: Api) -> None:
        api.generate(
            {"parts": [{"text": "hi"}]},
            model("hello"),
            user("and", {"text": " now?"}),
            systemInstruction={"parts": [{"text": "Be "}, {"text": "kind."}]},
        )
        assert heard(api) == [
            Message("system", "Be kind."),
            Message("user", "hi"),
            Message("assistant", "hello"),
            Message("user", ["and", " now?"]),
        ]

    def test_data_and_addresses(self, api: Api) -> None:
        api.generate(
            user(
                {"inlineData": {"mimeType": "image/png", "data": DATA}},
                {"inline_data": {"mime_type": "application/pdf", "data": "JVBERi0_"}},
                {"fileData": {"mimeType": "image/png", "fileUri": "https://a.test/b"}},
                {"fileData": {"mimeType": "text/csv", "fileUri": "https://a.test/c"}},
            )
        )
        assert heard(api)[0].content == (
            Image(PICTURE, "image/png"),
            File(b"%PDF-?", "application/pdf"),
            Image(media_type="image/png", url="https://a.test/b"),
            File(media_type="text/csv", url="https://a.test/c"),
        )

    def test_calls_and_results_with_ids(self, api: Api) -> None:
        calls = [{"functionCall": {"id": id, "name": "look", "args": {}}} for id in "ab"]
        results: list[Any] = [
            {"functionResponse": {"id": id, "name": "look", "response": {"output": id}}}
            for id in ("b", "a")
        ]
        api.generate(user("hi"), model(*calls), user(*results, "go on"))
        assert heard(api)[1:] == [
            Message("assistant", [ToolCall("a", "look"), ToolCall("b", "look")]),
            Message("tool", [ToolResult("b", "look", "b"), ToolResult("a", "look", "a")]),
            Message("user", "go on"),
        ]

    def test_calls_and_results_without_ids(self, api: Api) -> None:
        names = ("look", "hear", "look")
        calls: list[Any] = [{"functionCall": {"name": name}} for name in names]
        results = [
            {"functionResponse": {"name": name, "response": {"output": each}}}
            for name, each in [("look", "1"), ("look", "2"), ("hear", "3")]
        ]
        for _ in range(2):
            api.generate(user("hi"), *[model(*calls), {"role": "function", **user(*results)}] * 2)
        _, first, answered, second, again = heard(api)
        a, b, c = first.tool_calls
        assert [part.id for part in answered.content if isinstance(part, ToolResult)] == [
            a.id,
            c.id,
            b.id,
        ]
        ids = [call.id for message in (first, second) for call in message.tool_calls]
        assert len(set(ids)) == 6
        assert {part.id for part in again.content if isinstance(part, ToolResult)} == set(ids[3:])

    @pytest.mark.parametrize(
        ("response", "text", "failed"),
        [
            ({"output": "cloudy"}, "cloudy", False),
            ({"result": "cloudy"}, "cloudy", False),
            ({"output": {"sky": 1}}, '{"sky":1}', False),
            ({"error": "no sky"}, "no sky", True),
            ({"sky": "cloudy", "error": None}, '{"sky":"cloudy","error":null}', False),
            ({}, "{}", False),
        ],
    )
    def test_what_functions_give(
        self, api: Api, response: dict[str, Any], text: str, failed: bool
    ) -> None:
        call = {"functionCall": {"id": "a", "name": "look"}}
        result = {"functionResponse": {"id": "a", "name": "look", "response": response}}
        api.generate(user("hi"), model(call), user(result))
        assert heard(api)[-1].content == (ToolResult("a", "look", text, failed),)

    def test_pictures_that_functions_give(self, api: Api) -> None:
        call = {"functionCall": {"id": "a", "name": "look"}}
        picture = {"inlineData": {"mimeType": "image/png", "data": DATA}}
        result = {"functionResponse": {"name": "look", "response": {}, "parts": [picture]}}
        api.generate(user("hi"), model(call), user(result))
        (part,) = heard(api)[-1].content
        assert part == ToolResult("a", "look", ["{}", Image(PICTURE, "image/png")])

    def test_documents_that_functions_give_come_after_all_results(self, api: Api) -> None:
        calls = [{"functionCall": {"id": id, "name": "look"}} for id in ("a", "b")]
        paper = {"inlineData": {"mimeType": "application/pdf", "data": DATA, "displayName": "x"}}
        address = {"fileData": {"mimeType": "application/pdf", "fileUri": "https://a.example/y"}}
        results = [
            {"functionResponse": {"name": "look", "response": {"output": "o"}, "parts": parts}}
            for parts in ([paper, address], [])
        ]
        api.generate(user("hi"), model(*calls), user(*results))
        assert [message.role for message in heard(api)[-2:]] == ["tool", "user"]
        first, second = heard(api)[-2].content
        follow = ["(the document x follows)", "(the document https://a.example/y follows)"]
        assert first == ToolResult("a", "look", ["o", *follow])
        assert second == ToolResult("b", "look", "o")
        assert heard(api)[-1].content == (
            File(PICTURE, "application/pdf", "x"),
            File(media_type="application/pdf", url="https://a.example/y"),
        )

    def test_an_empty_answer_in_between(self, api: Api) -> None:
        api.generate(user("hi"), {"role": "model"}, user("well?"))
        assert [message.role for message in heard(api)] == ["user", "user"]

    def test_a_stream_as_a_client_kept_it(self, api: Api) -> None:
        thoughts = [{"text": each, "thought": True} for each in ("h", "m")]
        pieces = [model(each) for each in (*thoughts, "hel", "lo", "")]
        api.generate(user("hi"), *pieces, user("and"), user("now?"))
        assert heard(api) == [
            Message("user", "hi"),
            Message("assistant", [Reasoning("hm"), Text("hello")]),
            Message("user", "and"),
            Message("user", "now?"),
        ]


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

    def test_with_slashes_and_colons(self, api: Api) -> None:
        reply = api.call("generateContent", {"contents": [user("hi")]}, "fake/some/one:free")
        assert reply.json()["modelVersion"] == "fake/some/one:free"
        assert parts_of(reply.json()) == [{"text": "hi"}]

    def test_of_features(self, api: Api) -> None:
        body = {"contents": [user("hi")]}
        reply = api.call("generateContent", body, "feature:chat").json()
        assert reply["modelVersion"] == "feature:chat"
        assert reply["candidates"][0]["finishReason"] == "STOP"
        assert "hi" in parts_of(reply)[0]["text"]
