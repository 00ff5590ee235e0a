"""What comes back in the dialects `gemini` and `gemini-embed`, whole and in pieces."""

from __future__ import annotations

import json
from typing import Any

import pytest
from genai_wire_gemini.dialect.generate_content import EmbedContent, GenerateContent
from genai_wire_gemini.server.replies import ContentWriter
from hypothesis import strategies as st

from genai_host import api
from genai_host.errors import (
    AuthenticationFailed,
    BadRequest,
    ContextOverflow,
    IncompleteReply,
    RateLimited,
    ServiceUnavailable,
    UnexpectedFinish,
)
from genai_host_testing.internal.chat_replies import (
    CALL as ASKED,
    ChatReplies,
    Pieces,
    answer,
    event,
)
from genai_host_testing.internal.vector_replies import VectorReplies
from genai_host_testing.services.gemini import CALL, SIGNATURE, problem, reason, response, wait

LOOK = api.ToolCall("fc_1", "look", {"at": "é"})
SIGNED = api.VendorPart("gemini", {"thoughtSignature": SIGNATURE})
EMPTY = api.VendorPart("gemini", {"text": "", "thoughtSignature": SIGNATURE})
SIGN = {"thoughtSignature": SIGNATURE}
CODE = {"executableCode": {"code": "1"}}
PNG, WAV = (
    {"inlineData": {"mimeType": kind, "data": "YQ=="}} for kind in ("image/png", "audio/wav")
)
USAGE = {"promptTokenCount": 5, "toolUsePromptTokenCount": 1, "cachedContentTokenCount": 2,
         "candidatesTokenCount": 3, "thoughtsTokenCount": 4, "totalTokenCount": 13}  # fmt: skip
INVALID, EXHAUSTED = "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"
TOO_LONG = "The input token count (9) exceeds the maximum number of tokens allowed (8)."
STOP = response(finish="STOP")
A = response({"text": "a"})
PARTS: list[tuple[str, list[Any], list[Any]]] = [
    ("texts", [{"text": "a"}, {"text": "b"}], ["ab"]),
    ("thoughts", [{"text": "hm", "thought": True}, {"text": "a"}], [api.Reasoning("hm"), "a"]),
    ("a signed text", [{"text": "a", **SIGN}], ["a", SIGNED]),
    ("a signed text between others", [{"text": "a"}, {"text": "b", **SIGN}, {"text": "c"}],
     ["a", "b", SIGNED, "c"]),
    ("an empty text", [{"text": "", **SIGN}], [EMPTY]),
    ("a signature", [SIGN], [EMPTY]),
    ("others", [{"executableCode": {}}], [api.VendorPart("gemini", {"executableCode": {}})]),
    ("a picture", [PNG], [api.Image(b"a", "image/png")]),
    ("a recording", [WAV], [api.File(b"a", "audio/wav")]),
    ("nothing", [{"text": "", "thought": True}, {}], []),
]  # fmt: skip
SENT_BACK: list[Any] = [
    [{"functionCall": CALL, **SIGN}, {"functionCall": {**CALL, "id": "fc_2"}}],
    [{"text": "a", **SIGN}, {"text": "b"}], [{"text": "a"}, {"text": "", **SIGN}],
    [{"text": "hm", "thought": True, **SIGN}, {"text": "a"}], [{**CODE, **SIGN}],
    [{"functionCall": {"name": "look", "args": {}}}], [{**PNG, **SIGN}],
]  # fmt: skip


class TestReplies(ChatReplies):
    dialect = GenerateContent()
    between_thoughts = ""
    end = (STOP,)
    finishes = [
        ("STOP", "stop"), ("MAX_TOKENS", "length"), ("CONTINUATION", "length"),
        *((word, "content_filter") for word in (
            "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR")),
        *((word, "other") for word in (
            "LANGUAGE", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER",
            "NEVER_HEARD_OF")),
        ("stop", "stop"), ("max_tokens", "length"),
    ]  # fmt: skip
    replies = {
        name: (response(*wire, finish="STOP"), answer(*parts, vendor="STOP"))
        for name, wire, parts in PARTS
    } | {
        f"no text, {word}": (response(finish=word), answer(finish=finish, vendor=word))
        for word, finish in finishes
    } | {
        "a signed call": (response({"functionCall": CALL, **SIGN}, finish="STOP"),
                          answer(LOOK, SIGNED, finish="tool_calls", vendor="STOP")),
        "a call at the limit": (response({"functionCall": CALL}, finish="MAX_TOKENS"),
                                answer(LOOK, finish="length", vendor="MAX_TOKENS")),
        "a list of events": ([A, response({"text": "b"}), STOP], answer("ab", vendor="STOP")),
        "usage": ({**A, "usageMetadata": USAGE}, answer("a", usage=api.Usage(6, 7, 2, 4))),
        "odd usage": ({**A, "usageMetadata": []}, answer("a")),
    }  # fmt: skip
    streams = {
        **{name: ([*(response(each) for each in wire), STOP], None, answer(*parts, vendor="STOP"))
           for name, wire, parts in PARTS},
        "a reason in each event": ([response({"text": each}, finish="STOP") for each in "ab"],
                                   [api.Delta("a"), api.Delta("b")], answer("ab", vendor="STOP")),
        "the mark of another format": ([A, b"[DONE]"], [api.Delta("a")], answer("a")),
        "a repeated call": ([response({"functionCall": CALL})] * 2 + [STOP],
                            [api.Delta(tool_call=LOOK)],
                            answer(LOOK, finish="tool_calls", vendor="STOP")),
        "usage": ([response({"text": "a"}, usageMetadata={"promptTokenCount": 5}),
                   {**STOP, "usageMetadata": USAGE}], [api.Delta("a")],
                  answer("a", usage=api.Usage(6, 7, 2, 4), vendor="STOP")),
    }  # fmt: skip
    failures = [
        (body["error"]["code"], form, kind, {"retry_after": retry_after} if retry_after else {})
        for body, kind, retry_after in [
            (problem(400, INVALID, reason("API_KEY_INVALID")), AuthenticationFailed, None),
            (problem(400, INVALID, message=TOO_LONG), ContextOverflow, None),
            (problem(400, INVALID), BadRequest, None),
            (problem(400, "FAILED_PRECONDITION"), BadRequest, None),
            (problem(403, "PERMISSION_DENIED", reason("SERVICE_DISABLED")), AuthenticationFailed,
             None),
            (problem(404, "NOT_FOUND"), BadRequest, None),
            (problem(429, EXHAUSTED, reason("x"), wait("37.5s")), RateLimited, 37.5),
            (problem(504, "DEADLINE_EXCEEDED"), ServiceUnavailable, None)]
        for form in (body, [body])
    ] + [
        (429, problem(429, EXHAUSTED, wait("soon"), wait("1e999s"), wait("-1s")), RateLimited,
         {"retry_after": None}),
        (429, problem(429, EXHAUSTED, 1, None, {"reason": []}, {"retryDelay": 3}), RateLimited,
         {"retry_after": None}),
        (503, problem(503, "UNAVAILABLE", wait("0s")), ServiceUnavailable, {"retry_after": 0}),
    ]  # fmt: skip
    late_failures = [
        ({"error": {"code": 503}}, ServiceUnavailable, {}),
        ({"error": {"status": EXHAUSTED}}, RateLimited, {}),
        ({"error": {"status": "UNAUTHENTICATED", "code": 1}}, AuthenticationFailed, {}),
        ({"error": {"status": "NEW", "message": "a\nb"}}, ServiceUnavailable, {}),
        ({"error": "no"}, ServiceUnavailable, {}),
        (("error", b'{"message": "it failed"}'), ServiceUnavailable, {"message": "it failed"}),
    ]  # fmt: skip
    unanswered = [{}, {"candidates": []}, {"usageMetadata": {}}]
    malformed_events = [
        [], {"candidates": {}}, {"candidates": [1]}, {"candidates": [{"content": 1}]},
        {"candidates": [{"content": {"parts": 1}}]}, response({"text": 1}),
        response({"inlineData": {"data": "!"}}), response({"inlineData": {}}),
    ]  # fmt: skip
    malformed = malformed_events[1:]
    reply = response(
        {"text": "hm", "thought": True}, {"text": "a", **SIGN}, {"functionCall": CALL}, PNG, CODE,
        finish="STOP", usageMetadata=USAGE, promptFeedback={"blockReason": None},
    )  # fmt: skip
    events = [A, reply]
    wholes = st.builds(
        lambda parts: response(*parts, finish="STOP"),
        st.lists(
            st.builds(lambda text, more: {"text": text, **more}, st.text(min_size=1, max_size=5),
                      st.sampled_from([{}, {"thought": True}]))
            | st.sampled_from([{"functionCall": CALL, **SIGN}, {"text": "", **SIGN}, CODE]),
            max_size=6,
        ),
    )  # fmt: skip

    def saying(self, text: str, finish: Any) -> Any:
        return response({"text": text}, finish=finish)

    def calling(self, arguments: Any) -> Any:
        call = {"functionCall": {"id": "1", "name": "f", "args": arguments}}
        return response(call, finish="STOP")

    def in_pieces(self, reply: Any, pieces: Pieces) -> list[Any]:
        """However texts are cut; an event has one part or two."""
        (candidate,) = reply["candidates"]
        parts = [
            each
            for part in candidate.get("content", {}).get("parts", [])
            for each in (
                [{**part, "text": text} for text in pieces.cut(part["text"])]
                if part.get("text")
                else [part]
            )
        ]
        events = [response(*parts[at : at + 2]) for at in range(0, len(parts), 2)]
        return [*events, response(finish=candidate["finishReason"])]

    def test_what_came_is_sent_back_as_it_came(self) -> None:
        for wire in SENT_BACK:
            streamed = self.streamed([*map(response, wire), STOP])[1]
            for completion in (self.read(response(*wire, finish="STOP")), streamed):
                assert self.sent_again(completion)["contents"][1]["parts"] == wire

    def test_a_list_of_events_without_an_end_is_cut(self) -> None:
        with pytest.raises(IncompleteReply) as caught:
            self.read([A, response({"text": "b"})])
        assert caught.value.text == "ab"

    def test_calls_without_ids_get_some_that_the_conversation_does_not_have(self) -> None:
        wire = response(*[{"functionCall": {"name": "look"}}] * 2)
        first = self.read(wire)
        call = api.ChatCall(model_id="m", messages=[first.message])
        second = self.dialect.extract_result(call, api.ProviderReply(json.dumps(wire).encode()))
        assert len({each.id for each in (*first.tool_calls, *second.tool_calls)}) == 4
        assert self.read(wire).tool_calls == first.tool_calls

    def test_other_calls_with_one_id_get_others(self) -> None:
        calls = self.read(
            response({"functionCall": CALL}, {"functionCall": {**CALL, "args": {}}})
        ).tool_calls
        assert len({call.id for call in calls}) == 2

    @pytest.mark.parametrize("reply", [{}, {"candidates": []}])
    def test_that_there_is_no_answer_is_told(self, reply: Any) -> None:
        with pytest.raises(UnexpectedFinish) as caught:
            self.read(reply)
        assert caught.value.reason == "no candidates"

    @pytest.mark.parametrize("reason", ["PROHIBITED_CONTENT", "OTHER", "JAILBREAK", "ERROR"])
    def test_a_blocked_prompt_is_filtered_and_charged(self, reason: str) -> None:
        feedback = {"blockReason": reason, "safetyRatings": []}
        reply = {"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 3}}
        for completion in (self.read(reply), self.read([reply]), self.streamed([reply])[1]):
            assert completion.text == ""
            assert (completion.finish, completion.reason) == ("content_filter", reason)
            assert completion.usage == api.Usage(3)
            assert completion.extra == {"gemini": {"reply": {"promptFeedback": feedback}}}
            written = ContentWriter("m", thoughts=True).whole(completion)
            assert written["promptFeedback"] == feedback
            assert "candidates" not in written

    def test_what_says_nothing_does_not_end_a_stream(self) -> None:
        decoder = GenerateContent().decoder(ASKED)
        quiet = [{"usageMetadata": {"promptTokenCount": 1}}, response(),
                 response(finish="FINISH_REASON_UNSPECIFIED")]  # fmt: skip
        for each in quiet:
            assert list(decoder.feed(event(each))) == []
        assert not decoder.done

    def test_a_reason_does_not_end_a_stream(self) -> None:
        """The Gemini API sent one with each event for long, and proxies still do."""
        decoder = GenerateContent().decoder(ASKED)
        for each in "ab":
            decoder.feed(event(response({"text": each}, finish="STOP")))
            assert not decoder.done
        decoder.feed(event(b"[DONE]"))
        assert decoder.done


class TestVectors(VectorReplies):
    dialect = EmbedContent()

    def reply(self, vectors: Any) -> Any:
        return {"embeddings": [{"values": each} for each in vectors]}


def embed(**more: Any) -> Any:
    call = api.EmbedCall(model_id="m", texts=["a", "b"], **more)
    return json.loads(EmbedContent().prepare_request(call).data())["requests"]


def test_texts_are_embedded_for_a_purpose() -> None:
    first, second = embed(purpose="query", parameters={"dimensions": 128})
    assert first == {"model": "models/m", "content": {"parts": [{"text": "a"}]},
                     "taskType": "RETRIEVAL_QUERY", "outputDimensionality": 128}  # fmt: skip
    assert second["content"] == {"parts": [{"text": "b"}]}
    assert embed(purpose="document")[0]["taskType"] == "RETRIEVAL_DOCUMENT"
    assert "taskType" not in embed()[0]
    assert embed(parameters={"task_type": "CLUSTERING"})[0]["taskType"] == "CLUSTERING"
    assert "taskType" not in embed(purpose="query", variant={"purpose": False})[0]


def test_vertex_is_asked_in_another_form() -> None:
    content = {"parts": [{"text": "a"}]}
    assert embed(variant={"nested": True}, purpose="document")[0] == {
        "content": content, "embedContentConfig": {"taskType": "RETRIEVAL_DOCUMENT"},
    }  # fmt: skip
    assert embed(variant={"nested": True, "purpose": False})[0] == {"content": content}
