"""Our Gemini API: answers in pieces, and what goes wrong with them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from gemini_form import Api, user
from genai_wire_gemini.server.replies import problem_reply

from genai_host.api import (
    CancelToken,
    Completion,
    Delta,
    DialectEndpoint,
    HttpProblem,
    Image,
    Message,
    NoSettings,
    Provider,
    ProviderReply,
    ProviderRequest,
    ProviderType,
    Reasoning,
    StreamEvent,
    Text,
    ToolCall,
    Usage,
    VendorPart,
    hookimpl,
)
from genai_host.errors import (
    AuthenticationFailed,
    ContextOverflow,
    ProviderTimeout,
    RateLimited,
    ServiceUnavailable,
)
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
        api.fake.answer = lambda heard: Completion(Message("assistant", "a" * 20), usage=usage)
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
        said = [
            Text("so"),
            VendorPart("gemini", {"thoughtSignature": "AQ=="}),
            ToolCall("c1", "look", {"at": 1}),
            VendorPart("gemini", {"thoughtSignature": "Ag=="}),
            ToolCall("c2", "look", {}),
            Image(url="https://a.test/b.png"),
        ]
        api.fake.answer = lambda heard: Completion(Message("assistant", said), "tool_calls")
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
        said = Message("assistant", [Reasoning("hm"), Text("so")])
        api.fake.answer = lambda heard: Completion(said)
        config = {"thinkingConfig": {"includeThoughts": True}}
        events = api.events(HI, generationConfig=config)
        assert parts_in(events) == [{"text": "so"}, {"text": "hm", "thought": True}]
        assert parts_in(api.events(HI)) == [{"text": "so"}, {"text": ""}]

    def test_of_a_feature(self, api: Api) -> None:
        reply = api.call("streamGenerateContent", {"contents": [HI]}, "feature:chat")
        assert "".join(part["text"] for part in parts_in(reply.json())) == "hi"
        assert reasons_in(reply.json()) == ["STOP"]


class _Thinking(Provider):
    """Says what it thinks piece by piece; breaks off where it is told to."""

    serves = {"plain": DialectEndpoint()}

    def __init__(self, cut: bool) -> None:
        self._cut = cut

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        raise NotImplementedError

    def stream(self, request: ProviderRequest, limits: CancelToken) -> Any:
        return _Events(self._events())

    def _events(self) -> Iterator[StreamEvent]:
        for delta in ({"reasoning": "h"}, {"reasoning": "m"}, {"text": "so"}):
            yield StreamEvent(json.dumps({"delta": delta}).encode())
        if self._cut:
            raise ServiceUnavailable("it went away")
        end = {
            "message": {
                "role": "assistant",
                "content": [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "so"}],
            }
        }
        yield StreamEvent(json.dumps({"end": end}).encode())


class _Events:
    def __init__(self, events: Iterator[StreamEvent]) -> None:
        self._events = events

    def __iter__(self) -> Iterator[StreamEvent]:
        return self._events

    def close(self) -> None:
        """Nothing of it waits."""


class _Plugin:
    @hookimpl
    def genai_providers(self) -> Any:
        yield ProviderType("thinks", NoSettings, lambda *_: _Thinking(False), automatic=True)
        yield ProviderType("breaks", NoSettings, lambda *_: _Thinking(True), automatic=True)


class TestWhatComesFromElsewhere:
    @pytest.fixture
    def api(self, make_host: MakeHost) -> Iterator[Api]:
        with Api.serving(make_host, other=_Plugin()) as api:
            yield api

    def stream(self, api: Api, name: str, query: str = "?alt=sse", **config: Any) -> Any:
        body = {"contents": [HI], "generationConfig": config}
        return api.call(f"streamGenerateContent{query}", body, name)

    def test_thoughts_in_pieces(self, api: Api) -> None:
        thinking = {"includeThoughts": True}
        reply = self.stream(api, "thinks/any", "", thinkingConfig=thinking)
        assert parts_in(reply.json()) == [
            {"text": "h", "thought": True},
            {"text": "m", "thought": True},
            {"text": "so"},
            {"text": ""},
        ]
        assert parts_in(self.stream(api, "thinks/any", "").json()) == [{"text": "so"}, {"text": ""}]

    def test_an_error_on_the_way_is_the_end(self, api: Api) -> None:
        reply = self.stream(api, "breaks/any")
        assert reply.status_code == 200
        last = json.loads(reply.text.split("\r\n\r\n")[-2])  # as Google's clients expect it
        assert last["error"]["code"] == 503
        assert last["error"]["status"] == "UNAVAILABLE"
        assert "finishReason" not in reply.text

    def test_also_in_an_array(self, api: Api) -> None:
        said, error = self.stream(api, "breaks/any", "").json()
        assert parts_in([said]) == [{"text": "so"}]
        assert error["error"]["message"].startswith("it went away")


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "status", "word"),
        [
            (AuthenticationFailed("no key"), 502, "UNAVAILABLE"),
            (ContextOverflow("too long"), 400, "INVALID_ARGUMENT"),
            (RateLimited("slowly", retry_after=2.5), 429, "RESOURCE_EXHAUSTED"),
            (ProviderTimeout("too slow"), 504, "DEADLINE_EXCEEDED"),
            (ServiceUnavailable("gone"), 503, "UNAVAILABLE"),
        ],
    )
    @pytest.mark.parametrize("method", ["generateContent", "streamGenerateContent?alt=sse"])
    def test_of_services(self, api: Api, error: Any, status: int, word: str, method: str) -> None:
        api.fake.faults[0] = error
        reply = api.call(method, {"contents": [HI]})
        assert reply.status_code == status
        found = reply.json()["error"]
        assert (found["code"], found["status"]) == (status, word)
        assert found["details"][0]["domain"] == "genai-host"
        if status == 429:
            assert reply.headers["retry-after"] == "3"
            assert found["details"][-1]["retryDelay"] == "2.5s"

    @pytest.mark.parametrize(
        ("path", "status", "word"),
        [
            ("/v1beta/models/nobody:generateContent", 404, "NOT_FOUND"),
            ("/v1beta/models/fake:another", 404, "NOT_FOUND"),
            ("/v1beta/models/fake", 404, "NOT_FOUND"),
            ("/v1beta/models/:generateContent", 404, "NOT_FOUND"),
            ("/v1beta/else", 404, "NOT_FOUND"),
            ("/v1beta/models", 405, "UNIMPLEMENTED"),
        ],
    )
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
    from genai_wire_gemini.server.replies import ContentWriter

    from genai_host.serving.completion import CompletionStream

    def answer() -> Any:
        yield Delta()
        yield Delta(tool_call=ToolCall("a", "b"))
        return Completion(Message("assistant", [ToolCall("a", "b")]), "tool_calls")

    written = b"".join(ContentWriter("m", False).array(CompletionStream(answer())))
    (only,) = json.loads(written)
    assert parts_in([only]) == [{"functionCall": {"id": "a", "name": "b", "args": {}}}]


def test_parts_of_the_service_are_not_compared_with_each_other() -> None:
    from genai_wire_gemini.server.replies import ContentWriter

    from genai_host.serving.completion import CompletionStream

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


def test_a_feature_that_nobody_has(api: Api) -> None:
    reply = api.call("generateContent", {"contents": [HI]}, "feature:nobody")
    assert reply.status_code == 404
