"""Our Gemini API: answers in pieces, and what goes wrong with them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from gemini_form import Api, user
from genai_wire_gemini.server.replies import ContentWriter, problem_reply
from thinking_model import ThinkingModel

from genai_host.api import (
    Completion,
    Delta,
    HttpProblem,
    Image,
    Message,
    Reasoning,
    Text,
    ToolCall,
    Usage,
    VendorPart,
)
from genai_host.serving.completion import CompletionStream
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part

HI = user("hi")


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
        events = api.events(HI)
        assert [part["text"] for part in parts_in(events)] == ["a" * 8, "a" * 8, "a" * 4, ""]
        assert reasons_in(events) == ["STOP"]
        assert events[-1]["usageMetadata"]["totalTokenCount"] == 7
        assert len({each["responseId"] for each in events}) == 1
        assert {each["modelVersion"] for each in events} == {"fake"}

    def test_an_array(self, api: Api) -> None:
        reply = api.call("streamGenerateContent", {"contents": [HI]})
        assert reply.headers["content-type"] == "application/json"
        assert [part["text"] for part in parts_in(reply.json())] == ["hi", ""]

    def test_the_form_that_is_asked_for(self, api: Api) -> None:
        for query in ("?alt=sse", "?%24alt=sse", "?$alt=sse&prettyPrint=false"):
            reply = api.call(f"streamGenerateContent{query}", {"contents": [HI]})
            assert reply.headers["content-type"] == "text/event-stream"
        reply = api.call("streamGenerateContent?alt=proto", {"contents": [HI]})
        assert reply.status_code == 400

    def test_calls_come_with_their_signatures(self, api: Api) -> None:
        content = [
            Text("so"), VendorPart("gemini", {"thoughtSignature": "AQ=="}),
            ToolCall("c1", "look", {"at": 1}), VendorPart("gemini", {"thoughtSignature": "Ag=="}),
            ToolCall("c2", "look", {}), Image(url="https://a.test/b.png"),
        ]  # fmt: skip
        api.fake.answer = lambda prompt: Completion(Message("assistant", content), "tool_calls")
        assert parts_in(api.events(HI)) == [
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
        events = api.events(HI, generationConfig=config)
        assert parts_in(events) == [{"text": "so"}, {"text": "hm", "thought": True}]
        assert parts_in(api.events(HI)) == [{"text": "so"}, {"text": ""}]

    def test_of_a_feature(self, api: Api) -> None:
        reply = api.call("streamGenerateContent", {"contents": [HI]}, "feature:chat")
        assert "".join(part["text"] for part in parts_in(reply.json())) == "hi"
        assert reasons_in(reply.json()) == ["STOP"]


class TestThoughtsAndErrorsInPieces:
    @pytest.fixture
    def api(self, make_host: MakeHost) -> Iterator[Api]:
        completion = Completion(Message("assistant", [Reasoning("hm"), Text("so")]))
        with Api.serving(make_host, ThinkingModel(lambda prompt: completion)) as api:
            yield api

    def stream(self, api: Api, query: str = "", **config: Any) -> Any:
        body = {"contents": [HI], "generationConfig": config}
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
        empty = {"contents": [HI]} if path.endswith(":generateContent") else None
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
