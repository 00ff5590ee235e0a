"""Our Gemini API: what is asked reaches the model, and its answer the client, whole
and in pieces; and what goes wrong with them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from api_suite import ApiSuite, completion_of as completion_of
from gemini_form import Api, model, user
from genai_wire_gemini.server.replies import ContentWriter, problem_reply
from thinking_model import ThinkingModel

from genai_host.api import (
    Completion,
    Delta,
    File,
    HttpProblem,
    Image,
    Message,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    VendorPart,
)
from genai_host.serving.completion import CompletionStream
from genai_host_testing.internal.fixtures import MakeHost

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


ASKED = user("hi")


def parts_in(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [part for each in events for part in each["candidates"][0]["content"].get("parts", [])]


def reasons_in(events: list[dict[str, Any]]) -> list[str]:
    return [
        each["candidates"][0]["finishReason"]
        for each in events
        if "finishReason" in each.get("candidates", [{}])[0]
    ]


class TestEvents:
    def test_pieces_and_an_end(self, api: Api) -> None:
        usage = Usage(3, 4)
        api.fake.answer = lambda prompt: Completion(Message("assistant", "a" * 20), usage=usage)
        events = api.events(ASKED)
        assert [part["text"] for part in parts_in(events)] == ["a" * 8, "a" * 8, "a" * 4, ""]
        assert reasons_in(events) == ["STOP"]
        assert events[-1]["usageMetadata"]["totalTokenCount"] == 7
        assert len({each["responseId"] for each in events}) == 1
        assert {each["modelVersion"] for each in events} == {"fake"}

    def test_an_array(self, api: Api) -> None:
        reply = api.call("streamGenerateContent", {"contents": [ASKED]})
        assert reply.headers["content-type"] == "application/json"
        assert [part["text"] for part in parts_in(reply.json())] == ["hi", ""]

    def test_the_form_that_is_asked_for(self, api: Api) -> None:
        for query in ("?alt=sse", "?%24alt=sse", "?$alt=sse&prettyPrint=false"):
            reply = api.call(f"streamGenerateContent{query}", {"contents": [ASKED]})
            assert reply.headers["content-type"] == "text/event-stream"
        reply = api.call("streamGenerateContent?alt=proto", {"contents": [ASKED]})
        assert reply.status_code == 400

    def test_calls_come_with_their_signatures(self, api: Api) -> None:
        content = [
            Text("so"), VendorPart("gemini", {"thoughtSignature": "AQ=="}),
            ToolCall("c1", "look", {"at": 1}), VendorPart("gemini", {"thoughtSignature": "Ag=="}),
            ToolCall("c2", "look", {}), Image(url="https://a.test/b.png"),
        ]  # fmt: skip
        api.fake.answer = lambda prompt: Completion(Message("assistant", content), "tool_calls")
        assert parts_in(api.events(ASKED)) == [
            {"text": "so"},
            {"text": "", "thoughtSignature": "AQ=="},
            {
                "functionCall": {"id": "c1", "name": "look", "args": {"at": 1}},
                "thoughtSignature": "Ag==",
            },
            {"functionCall": {"id": "c2", "name": "look", "args": {}}},
            {"fileData": {"mimeType": "", "fileUri": "https://a.test/b.png"}},
        ]

    def test_thoughts_that_did_not_come_in_pieces(self, api: Api) -> None:
        message = Message("assistant", [Reasoning("hm"), Text("so")])
        api.fake.answer = lambda prompt: Completion(message)
        config = {"thinkingConfig": {"includeThoughts": True}}
        events = api.events(ASKED, generationConfig=config)
        assert parts_in(events) == [{"text": "so"}, {"text": "hm", "thought": True}]
        assert parts_in(api.events(ASKED)) == [{"text": "so"}, {"text": ""}]

    def test_of_a_feature(self, api: Api) -> None:
        reply = api.call("streamGenerateContent", {"contents": [ASKED]}, "feature:chat")
        assert "".join(part["text"] for part in parts_in(reply.json())) == "hi"
        assert reasons_in(reply.json()) == ["STOP"]


class TestThoughtsAndErrorsInPieces:
    @pytest.fixture
    def api(self, make_host: MakeHost) -> Iterator[Api]:
        completion = Completion(Message("assistant", [Reasoning("hm"), Text("so")]))
        with Api.serving(make_host, ThinkingModel(lambda prompt: completion)) as api:
            yield api

    def stream(self, api: Api, query: str = "", **config: Any) -> Any:
        body = {"contents": [ASKED], "generationConfig": config}
        return api.call(f"streamGenerateContent{query}", body)

    def test_thoughts(self, api: Api) -> None:
        reply = self.stream(api, thinkingConfig={"includeThoughts": True})
        texts = [{"text": each} for each in ("s", "o", "")]
        assert parts_in(reply.json()) == [{"text": "hm", "thought": True}, *texts]
        assert parts_in(self.stream(api).json()) == texts

    def test_an_error_on_the_way_is_the_end(self, api: Api) -> None:
        reply = self.stream(api, "?alt=sse", responseMimeType="application/json")
        assert reply.status_code == 200
        last = json.loads(reply.text.split("\r\n\r\n")[-2])  # as Google's clients expect it
        assert (last["error"]["code"], last["error"]["status"]) == (502, "UNAVAILABLE")
        assert "finishReason" not in reply.text

    def test_also_in_an_array(self, api: Api) -> None:
        *chunks, error = self.stream(api, responseMimeType="application/json").json()
        assert parts_in(chunks) == [{"text": "s"}, {"text": "o"}]
        assert "not valid JSON" in error["error"]["message"]


class TestErrors:
    @pytest.mark.parametrize(("path", "status", "word"), [
        ("/v1beta/models/nobody:generateContent", 404, "NOT_FOUND"),
        ("/v1beta/models/fake:another", 404, "NOT_FOUND"),
        ("/v1beta/models/fake", 404, "NOT_FOUND"),
        ("/v1beta/models/:generateContent", 404, "NOT_FOUND"),
        ("/v1beta/else", 404, "NOT_FOUND"), ("/upload/v1beta/files", 404, "NOT_FOUND"),
        ("/upload/v1/files", 404, "NOT_FOUND"), ("/v1beta/models", 405, "UNIMPLEMENTED"),
    ])  # fmt: skip
    def test_of_addresses(self, api: Api, path: str, status: int, word: str) -> None:
        empty = {"contents": [ASKED]} if path.endswith(":generateContent") else None
        reply = api.client.post(f"{api.url}{path}", json=empty)
        assert reply.status_code == status
        assert reply.json()["error"]["status"] == word

    def test_what_is_wrong_and_what_to_do(self) -> None:
        reply = problem_reply(HttpProblem(422, "limit_exceeded", "too many steps", "ask for less"))
        assert reply.status == 422
        assert json.loads(reply.body)["error"] == {  # type: ignore[arg-type]  # it is whole
            "code": 422,
            "message": "too many steps; ask for less",
            "status": "FAILED_PRECONDITION",
            "details": [
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "LIMIT_EXCEEDED",
                    "domain": "genai-host",
                }
            ],
        }


def test_deltas_without_anything_are_left_out() -> None:
    def answer() -> Any:
        yield Delta()
        yield Delta(tool_call=ToolCall("a", "b"))
        return Completion(Message("assistant", [ToolCall("a", "b")]), "tool_calls")

    written = b"".join(ContentWriter("m", False).array(CompletionStream(answer())))
    (only,) = json.loads(written)
    assert parts_in([only]) == [{"functionCall": {"id": "a", "name": "b", "args": {}}}]


def test_parts_of_the_service_are_not_compared_with_each_other() -> None:
    class Data(dict[str, Any]):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Data.compared += 1
            return super().__eq__(other)

    parts = [VendorPart("gemini", Data(executableCode={"code": str(at)})) for at in range(50)]

    def answer() -> Any:
        yield from (Delta(opaque=part) for part in parts)
        return Completion(Message("assistant", [*parts, parts[0]]))

    written = b"".join(ContentWriter("m", False).array(CompletionStream(answer())))
    shown = [part["executableCode"]["code"] for part in parts_in(json.loads(written))]
    assert shown == [*map(str, range(50)), "0"]  # one of them was not streamed
    assert Data.compared <= len(parts)
