"""Our Anthropic API: answers in pieces, and what goes wrong with them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import genai_feature_agent
import pytest
from anthropic_api import CLOCK, OWN, Api, blocks_of, text, use
from genai_wire_anthropic.server.replies import MessageWriter, Stream

from genai_host.api import (
    Completion,
    Delta,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    Usage,
    VendorPart,
)
from genai_host.serving.completion import CompletionStream
from genai_host_testing import FakeModel
from genai_host_testing.fake_model import RecordedPrompt
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.services.openai import LOOKING

pytestmark = pytest.mark.part


def test_a_stream(api: Api) -> None:
    message = Message("assistant", "a long thing to say")
    api.fake.answer = lambda prompt: Completion(message, usage=Usage(7, 5, cached_tokens=2))
    events = api.events()
    kinds = [event["type"] for event in events]
    assert kinds[:3] == ["message_start", "ping", "content_block_start"]
    assert set(kinds[3:-3]) == {"content_block_delta"}
    assert len(kinds) > 8
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    start = events[0]["message"]
    assert (start["type"], start["role"], start["content"]) == ("message", "assistant", [])
    assert (start["model"], start["stop_reason"]) == ("fake", None)
    assert start["id"].startswith("msg_")
    assert blocks_of(events) == [text("a long thing to say")]
    end = {"stop_sequence": None, "stop_details": None, "container": None}
    assert events[-2]["delta"] == {"stop_reason": "end_turn", **end}
    usage = events[-2]["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (5, 2)
    assert usage["output_tokens"] == 5


def test_calls_of_tools(api: Api) -> None:
    calls = [ToolCall("a", "clock", {}), ToolCall("a", "clock", {"zone": "UTC"})]
    bad = ToolCall("c", "clock", malformed="{")
    api.fake.answer = lambda prompt: Completion(
        Message("assistant", [Text("so"), *calls, bad]), "tool_calls"
    )
    events = api.events(tools=[CLOCK])
    assert blocks_of(events) == [
        text("so"), use("a", {}), use("call_1", {"zone": "UTC"}), use("c", {"INVALID_JSON": "{"}),
    ]  # fmt: skip
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


def test_a_feature(api: Api) -> None:
    events = api.events(model="feature:chat")
    assert blocks_of(events) == [text("hi")]


def test_what_a_feature_calls_is_its_own(make_host: MakeHost) -> None:
    def answer(prompt: RecordedPrompt) -> Completion:
        if prompt.messages[-1].role == "tool":
            return Completion(Message("assistant", "done"))
        call = ToolCall("a", "look", {"at": "it"})
        return Completion(Message("assistant", [VendorPart(OWN, SIGNED[0]), call]), "tool_calls")

    fake = FakeModel(answer)
    with Api.serving(make_host, fake, agent=genai_feature_agent, look=LOOKING) as api:
        blocks = blocks_of(api.events(model="feature:agent"))
    assert blocks == [text("done")]
    assert len(fake.prompts) == 2


def thinking(text: str, signature: str = "") -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": signature}


def written(
    deltas: Sequence[Delta], content: Sequence[Part], *, shows_thoughts: bool = True
) -> list[dict[str, Any]]:
    """The blocks of an answer that comes in these pieces."""

    def answer() -> Any:
        yield from deltas
        return Completion(Message("assistant", content))

    writer = MessageWriter("m", shows_thoughts=shows_thoughts)
    data = b"".join(writer.events(CompletionStream(answer())))
    return blocks_of(
        [json.loads(block.split("\ndata: ")[1]) for block in data.decode().split("\n\n")[:-1]]
    )


SIGNED = [thinking("hm", "c2ln"), thinking("\n\nso", "c29z")]
OWNS = [VendorPart(OWN, block) for block in SIGNED]
HIDDEN = {"type": "redacted_thinking", "data": "eA=="}


class TestThoughts:
    """As the dialect gives them: a paragraph for each block, and the block once it is whole."""

    pieces = (
        Delta(reasoning="h"), Delta(reasoning="m"), Delta(opaque=OWNS[0]),
        Delta(opaque=VendorPart(OWN, HIDDEN)), Delta(reasoning="\n\n\n\ns"), Delta(reasoning="o"),
        Delta(opaque=OWNS[1]), Delta("well"), Delta(tool_call=ToolCall("a", "clock")),
    )  # fmt: skip
    content = (
        Reasoning("hm"), OWNS[0], VendorPart(OWN, HIDDEN), Reasoning("\n\nso"), OWNS[1],
        Text("well"), ToolCall("a", "clock"),
    )  # fmt: skip
    blocks = (
        SIGNED[0], HIDDEN, SIGNED[1], text("well"),
        use("a", {}),
    )  # fmt: skip

    @pytest.mark.parametrize("shows", [True, False], ids=["shown", "not asked for"])
    def test_that_are_signed_are_what_was_signed(self, shows: bool) -> None:
        assert written(self.pieces, self.content, shows_thoughts=shows) == [*self.blocks]

    def test_that_are_omitted_have_their_signature(self) -> None:
        own = VendorPart(OWN, thinking("", "c2ln"))
        assert written([Delta(opaque=own), Delta("a")], [own, Text("a")]) == [
            thinking("", "c2ln"),
            text("a"),
        ]

    @pytest.mark.parametrize("shows", [True, False])
    def test_that_nobody_signed(self, shows: bool) -> None:
        pieces = [Delta(reasoning="h"), Delta(reasoning="m"), Delta("so")]
        blocks = written(pieces, [Reasoning("hm"), Text("so")], shows_thoughts=shows)
        assert blocks == [*([thinking("hm")] if shows else []), text("so")]

    def test_that_are_hidden_leave_their_fields_out(self) -> None:
        """Each delta has its own fields, also if the one before was not sent."""
        hidden = Delta(reasoning="hm", extra={OWN: {"event": {"secret": 1}}})
        cited = Delta(extra={OWN: {"citation": {"type": "char_location"}}})
        stream = Stream(shows_thoughts=False)
        sent = b"".join([*stream.add(hidden), *stream.add(cited)])
        assert b"char_location" in sent
        assert b"secret" not in sent

    def test_that_come_in_no_pieces(self) -> None:
        blocks = written([], [Reasoning("hm"), Text("so"), ToolCall("a", "clock")])
        assert [block["type"] for block in blocks] == ["thinking", "text", "tool_use"]
        assert written([], self.content)[:3] == [*self.blocks[:3]]

    def test_of_others_are_theirs(self) -> None:
        other = VendorPart("gemini", {"thoughtSignature": "AQ=="})
        assert written([Delta(opaque=other), Delta("a")], [other, Text("a")]) == [text("a")]


class TestErrors:
    def test_on_the_way(self, api: Api) -> None:
        """The last event is the error; no `message_stop` is sent."""
        api.fake.answer = lambda prompt: "no JSON at all"
        form = {"type": "json_schema", "schema": {"type": "object"}}
        reply = api.sent(stream=True, output_config={"format": form})
        assert reply.status_code == 200
        *before, last, nothing = reply.text.split("\n\n")
        assert nothing == ""
        name, data = last.split("\ndata: ")
        assert name == "event: error"
        assert json.loads(data)["error"]["type"] == "api_error"
        assert "no JSON" in "".join(before)
        assert "message_delta" not in reply.text
        assert "message_stop" not in reply.text
