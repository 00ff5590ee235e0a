"""Suite of chat dialects.

It tests that a dialect is a codec: it writes or rejects all content, reads valid and invalid
replies of services, and has no state.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from attrs import evolve, frozen

from genai_host.api import (
    ChatCall,
    Completion,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    StreamEvent,
    ToolCall,
    ToolResult,
    ToolSchema,
    VendorPart,
)
from genai_host.errors import IncompleteReply, UnsupportedPart
from genai_host_testing.suites.codec import StreamSuite, fed

_CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_TOOLS = (ToolSchema("weather", "the weather in a city", _CITY),)
_PICTURE = Image(data=b"\x89PNG sample", media_type="image/png")
_DOCUMENT = File(data=b"%PDF-1.7 sample", media_type="application/pdf", name="sample.pdf")


@frozen
class _Unheard(Part):
    type = "unheard-of"
    content: str


class DialectSuite(StreamSuite):
    """Suite for a chat dialect.

        class TestMyDialect(DialectSuite):
            dialect = MyDialect()
            reply = b'{"said": "hello there", "tokens": [3, 2]}'
            stream = [b'{"piece": "hello"}', b'{"piece": " there"}', b'{"tokens": [3, 2]}']
            usage = Usage(3, 2)

    Further attributes are those of `StreamSuite` and `CodecSuite`.

    Attributes:
        text: Text of the reply.
        calls: Reply and stream with a tool call, `(reply, stream)`, if the format supports them.
    """

    text = "hello there"
    calls: tuple[bytes, Sequence[bytes]] | None = None

    def call(self) -> ChatCall:
        can = self.dialect.capabilities
        content: list[str | Part] = ["Is it warm there?"]
        content += [_PICTURE] if "images" in can else []
        content += [_DOCUMENT] if "files" in can else []
        messages = [Message("system", "Be brief."), Message("user", "hi")]
        messages += [Message("assistant", "hello")]
        if "tools" in can:
            weather = ToolCall("call_1", "weather", {"city": "Oslo"})
            messages += [Message("user", "weather?"), Message("assistant", ["so:", weather])]
            messages += [Message("tool", ToolResult("call_1", "weather", ("3 degrees",)))]
            messages += [Message("assistant", "3 degrees")]
        return ChatCall(
            model_id="m-1",
            messages=[*messages, Message("user", content)],
            tools=_TOOLS if "tools" in can else (),
        )

    def test_each_message_is_written(self) -> None:
        whole = self.call()
        for at in range(len(whole.messages)):
            others = [*whole.messages[:at], *whole.messages[at + 1 :]]
            left = evolve(whole, messages=others)
            assert self.data(left) != self.data(whole), f"{whole.messages[at]} is left out"

    def test_texts_are_separate(self) -> None:
        """`1` and `2` of a tool are not `12`. The texts of a model are one text."""
        able = "tools" in self.dialect.capabilities
        asked = [Message("user", "hi"), Message("assistant", ToolCall("call_1", "weather", {}))]
        for role in ("system", "user", *(("tool",) if able else ())):
            sent = []
            for texts in (["1", "2"], ["12"]):
                result = ToolResult("call_1", "weather", texts)
                said = (
                    [*asked, Message("tool", result)] if role == "tool" else [Message(role, texts)]
                )
                call = ChatCall(model_id="m-1", messages=[*said, Message("user", "so?")])
                sent.append(self.data(call))
            assert sent[0] != sent[1], f"texts of the role {role} are joined"

    def test_declared_capabilities_are_written(self) -> None:
        call = self.call()
        plain = self.data(evolve(call, tools=()))
        if "tools" in self.dialect.capabilities:
            assert self.data(call) != plain
            written = [
                self.dialect.prepare_request(evolve(call, tool_choice=choice)).data()
                for choice in ("none", "required", "weather")
            ]
            assert len(set(written)) == 3
        if "schema" in self.dialect.capabilities:
            assert self.data(evolve(call, tools=(), schema=_CITY)) != plain

    def test_parts_are_written_or_refused(self) -> None:
        """Each part is written or rejected, never dropped silently."""
        for part, capability in ((_PICTURE, "images"), (_DOCUMENT, "files")):
            call = ChatCall(model_id="m-1", messages=[Message("user", ["look", part])])
            if capability in self.dialect.capabilities:
                assert self.data(call) != self.data(_saying("look"))
            else:
                with pytest.raises(UnsupportedPart):
                    self.dialect.prepare_request(call)

    def test_images_in_answers_are_written_if_declared(self) -> None:
        answers = [Message("assistant", ["look", *part]) for part in ((), (_PICTURE,))]
        calls = [ChatCall(model_id="m-1", messages=[each]) for each in answers]
        if self.dialect.images_in_answers:
            assert self.data(calls[0]) != self.data(calls[1])
        else:
            with pytest.raises(UnsupportedPart):
                self.dialect.prepare_request(calls[1])

    def test_unknown_part_is_written_or_refused(self) -> None:
        call = ChatCall(model_id="m-1", messages=[Message("user", ["look", _Unheard("ad1f2")])])
        try:
            assert b"ad1f2" in self.dialect.prepare_request(call).data(), "it is left out"
        except UnsupportedPart as error:
            assert (error.part, error.dialect) == ("unheard-of", self.dialect.name)

    def test_vendor_parts_of_other_dialects_are_accepted(self) -> None:
        """Reasoning and vendor-specific parts may be omitted."""
        content: list[str | Part] = [Reasoning("hm"), VendorPart("another", {"id": 1}), "hello"]
        call = ChatCall(
            model_id="m-1",
            messages=[Message("user", "hi"), Message("assistant", content), Message("user", "so?")],
        )
        self.dialect.prepare_request(call).data()

    def test_a_reply_is_read(self) -> None:
        found = self.extracted(self.reply)
        assert isinstance(found, Completion)
        assert (found.text, found.finish, found.usage) == (self.text, "stop", self.usage)

    def test_a_call_of_a_tool_is_read(self) -> None:
        if "tools" not in self.dialect.capabilities:
            pytest.skip("the format knows no tools")
        assert self.calls, "give a reply and a stream with a call of a tool, as `calls`"
        reply, stream = self.calls
        found = self.extracted(reply)
        assert (len(found.tool_calls), found.finish) == (1, "tool_calls")
        assert found.tool_calls[0].name
        if self.stream is not None:
            pieces, streamed = self.decoded(stream)
            assert streamed.message == found.message
            assert [each.tool_call for each in pieces if each.tool_call] == [*found.tool_calls]

    def test_answer_can_be_sent_back(self) -> None:
        answers = [self.reply, self.calls[0]] if self.calls else [self.reply]
        for reply in answers:
            answer = self.extracted(reply).message
            messages = [Message("user", "hi"), answer, Message("user", "so?")]
            call = ChatCall(model_id="m-1", messages=messages)
            assert self.data(call) != self.data(evolve(call, messages=messages[::2]))

    def test_a_stream_gives_the_same_as_a_reply(self) -> None:
        pieces, found = self.decoded(self.events())
        assert "".join(piece.text for piece in pieces) == self.text
        assert found == self.extracted(self.reply)
        assert len(pieces) > 1, "give a stream with several pieces"
        assert self.dialect.prepare_request(evolve(self.call(), stream=True)).stream

    def test_a_stream_that_is_cut_is_no_answer(self) -> None:
        """A stream truncated after any event is an error with the received text."""
        events = self.events()
        for count in range(len(events) - self.closing_events + 1):
            decoder = self.decoder()
            text = "".join(piece.text for piece in fed(decoder, events[:count]))
            assert not decoder.done, f"it is whole after {count} of {len(events)} events"
            with pytest.raises(IncompleteReply) as caught:
                decoder.finish()
            assert caught.value.text == text

    def test_interleaved_streams_are_independent(self) -> None:
        events = self.events()
        one, other = self.decoder(), self.decoder()
        for event in events:
            one.feed(StreamEvent(event))
            other.feed(StreamEvent(event))
        assert one.finish() == other.finish() == self.extracted(self.reply)

    def test_sse_event_name_is_ignored(self) -> None:
        decoder = self.decoder()
        for event in self.events():
            decoder.feed(StreamEvent(event, "another"))
        assert decoder.finish() == self.extracted(self.reply)

    def streams(self) -> Sequence[Sequence[bytes]]:
        return [self.events(), *([self.calls[1]] if self.calls else [])]


def _saying(text: str) -> ChatCall:
    return ChatCall(model_id="m-1", messages=[Message("user", text)])
