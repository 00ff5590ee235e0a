"""Suite of what a chat dialect reads: replies, streams and errors, from tables of its format.

`DialectSuite` shows what all dialects have in common; here a format says how it does so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from genai_host.api import (
    ChatCall,
    Completion,
    Delta,
    Dialect,
    Message,
    ProviderReply,
    StreamEvent,
    ToolCall,
    Usage,
)
from genai_host.api.codec import default_codec
from genai_host.api.messages import Reasoning
from genai_host.errors import GenaiError, GenerationError, IncompleteReply, MalformedReply
from genai_host_testing.internal.garbage import NESTED, WEIRD, cut, cuts, json_values, leak
from genai_host_testing.internal.tables import TableSuite
from genai_host_testing.purity import ValuePath, places_in, with_other

Json = Any
Attributes = Mapping[str, Any]
HI = Message("user", "hi")
NO_USAGE = Usage()
CALL = ChatCall(model_id="m", messages=[HI])
ARGUMENTS: Sequence[tuple[Any, ToolCall]] = (
    ({"a": [1]}, ToolCall("1", "f", {"a": [1]})),
    ('{"a": [1]}', ToolCall("1", "f", {"a": [1]})),
    ({}, ToolCall("1", "f")),
    ("{}", ToolCall("1", "f")),
    ("", ToolCall("1", "f")),
    (None, ToolCall("1", "f")),
    ([1], ToolCall("1", "f", malformed="[1]")),
    ("[1]", ToolCall("1", "f", malformed="[1]")),
    ('{"a', ToolCall("1", "f", malformed='{"a')),
    ('{"a": NaN}', ToolCall("1", "f", malformed='{"a": NaN}')),
    ("[" * 100_000, ToolCall("1", "f", malformed="[" * 100_000)),
)
"""Arguments as services send them, and the call that is read."""


def answer(
    *parts: Any, finish: Any = "stop", usage: Usage = NO_USAGE, vendor: str = "", **more: Any
) -> Completion:
    """Return an answer of these parts."""
    return Completion(Message("assistant", parts), finish, usage, vendor_finish=vendor, **more)


def event(value: Any) -> StreamEvent:
    """Return an event: of JSON, of bytes, or of a name and either of them."""
    if isinstance(value, StreamEvent):
        return value
    name, data = value if isinstance(value, tuple) else (None, value)
    return StreamEvent(data if isinstance(data, bytes) else json.dumps(data).encode(), name)


class Pieces:
    """How a reply is streamed: each text as one piece, in order."""

    def cut(self, text: str) -> list[str]:
        return [text]

    def mixed(self, strands: Sequence[Sequence[Any]]) -> list[Any]:
        """The pieces of texts that a service may send in turns."""
        return [each for strand in strands for each in strand]


class _Drawn(Pieces):
    """The same in arbitrary pieces."""

    def __init__(self, data: st.DataObject) -> None:
        self._draw = data.draw

    def cut(self, text: str) -> list[str]:
        return cut(text, self._draw(cuts))

    def mixed(self, strands: Sequence[Sequence[Any]]) -> list[Any]:
        turns = [at for at, strand in enumerate(strands) for _ in strand]
        iterators = [iter(strand) for strand in strands]
        return [next(iterators[at]) for at in self._draw(st.permutations(turns))]


class ChatReplies(TableSuite):
    """Suite of what a chat dialect reads.

    Attributes:
        reply: A reply with all kinds of content.
        events: Events of a stream with all kinds of content.
        end: Events that complete any stream.
        replies: Replies and what is read of them, by name.
        streams: Events, the chunks (None if any) and the answer that are read of them, by name.
        finishes: Words of the service for the end of an answer, and those of the host.
        broken: Words for an answer that the service broke off.
        arguments: Arguments of a call, and the call `f` with the ID `1` that is read.
        failures: Error replies: status, body, class of the error, and some of its attributes.
        late_failures: Events with an error, its class, and some of its attributes.
        silent: Bodies that tell of no error.
        unanswered: Replies without an answer.
        unanswered_reason: Reason of their error; empty if each has its own.
        malformed: Replies that are malformed.
        malformed_events: Events that are malformed.
        wholes: Arbitrary replies, which `in_pieces` can divide; None if it cannot.
        complaint: Beginning of the error for what is malformed.
        between_thoughts: What is streamed between parts of reasoning; None if it depends on them.
    """

    tables = {
        "test_a_reply_is_read": "replies",
        "test_a_stream_is_read": "streams",
        "test_finish_reason_is_read": "finishes",
        "test_an_answer_that_the_service_broke_off_is_none": "broken",
        "test_arguments_that_are_no_object_are_kept_as_they_came": "arguments",
        "test_an_answer_is_the_same_in_one_piece_and_in_many": "wholes",
        "test_what_a_model_says_can_be_sent_again": "wholes",
        "test_an_error_is_told_by_its_kind": "failures",
        "test_an_error_amid_a_stream_is_raised": "late_failures",
        "test_body_without_error_is_mapped_by_status": "silent",
        "test_a_reply_without_an_answer_is_the_models_failure": "unanswered",
        "test_what_is_no_reply_is_malformed": "malformed",
        "test_what_is_no_event_is_malformed": "malformed_events",
        "test_nothing_in_a_reply_raises_anything_else": "places",
        "test_nothing_in_a_stream_raises_anything_else": "places_in_events",
    }
    dialect: Dialect[ChatCall, Completion]
    reply: Json
    events: Sequence[Any]
    end: Sequence[Any] = ()
    replies: Mapping[str, tuple[Json, Completion]] = {}
    streams: Mapping[str, tuple[Iterable[Any], Sequence[Delta] | None, Completion]] = {}
    finishes: Sequence[tuple[Any, str]] = ()
    broken: Sequence[str] = ()
    arguments: Sequence[tuple[Any, ToolCall]] = ARGUMENTS
    failures: Sequence[tuple[int, Any, type[GenaiError], Attributes]] = ()
    late_failures: Sequence[tuple[Any, type[GenaiError], Attributes]] = ()
    silent: Sequence[bytes] = (b"", b"\xff", b"<html>", b"[]", b"{}", b'{"error": null}', NESTED)
    unanswered: Sequence[Any] = ()
    unanswered_reason: str = ""
    malformed: Sequence[Any] = ()
    malformed_events: Sequence[Any] = ()
    wholes: Any = None
    complaint = "the reply is malformed: "
    between_thoughts: str | None = "\n\n"

    def saying(self, text: str, finish: Any) -> Json:
        """A reply with a text and a word for its end."""
        raise NotImplementedError

    def calling(self, arguments: Any) -> Json:
        """A reply that calls `f`, with the ID `1`."""
        raise NotImplementedError

    def in_pieces(self, reply: Json, pieces: Pieces) -> Sequence[Any]:
        """The events of a reply, if it has the form of `saying`, `calling` or `wholes`."""
        raise NotImplementedError

    def returned(self, reply: Json, body: Json) -> None:
        """Assert that a request has what a reply said, between two messages of the user."""

    def read(self, reply: Any) -> Completion:
        data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
        return self.dialect.extract_result(CALL, ProviderReply(data))

    def streamed(self, events: Iterable[Any]) -> tuple[list[Delta], Completion]:
        """The chunks of a stream, and the answer."""
        decoder = self.dialect.decoder(CALL)
        assert decoder is not None
        pieces = [piece for each in events for piece in decoder.feed(event(each))]
        return pieces, decoder.finish()

    def sent_again(self, completion: Completion) -> Any:
        """The body of a request that continues after an answer."""
        messages = [HI, completion.message, Message("user", "so?")]
        call = ChatCall(model_id="m", messages=messages)
        return json.loads(self.dialect.prepare_request(call).data())

    def again(self, completion: Completion) -> Any:
        """The same; the answer is read from a record."""
        record = json.dumps(default_codec().to_json(completion), allow_nan=False)
        assert default_codec().from_json(json.loads(record), Completion) == completion
        return self.sent_again(completion)

    def both(self, reply: Json) -> Completion:
        """What is read of a reply, which is the same of a stream."""
        completion = self.read(reply)
        assert self.streamed(self.in_pieces(reply, Pieces()))[1] == completion
        return completion

    @property
    def places(self) -> list[ValuePath]:
        return list(places_in(self.reply))

    @property
    def places_in_events(self) -> list[tuple[int, ValuePath]]:
        """The places of the values of `events`, with the number of the event."""
        return [(at, place) for at, each in enumerate(self.events) for place in places_in(each)]

    # answers

    def test_a_reply_is_read(self, row: tuple[Json, Completion]) -> None:
        assert self.read(row[0]) == row[1]

    def test_a_stream_is_read(
        self, row: tuple[Iterable[Any], Sequence[Delta] | None, Completion]
    ) -> None:
        events, pieces, completion = row
        chunks, streamed = self.streamed(events)
        assert streamed == completion
        assert pieces is None or chunks == list(pieces)

    def test_finish_reason_is_read(self, row: tuple[Any, str]) -> None:
        word, finish = row
        completion = self.both(self.saying("a", word))
        assert (completion.text, completion.finish, completion.vendor_finish) == (
            "a",
            finish,
            word or "",
        )

    def test_an_answer_that_the_service_broke_off_is_none(self, row: str) -> None:
        reply = self.saying("half", row)
        with pytest.raises(IncompleteReply, match=row) as caught:
            self.read(reply)
        assert caught.value.text == "half"
        with pytest.raises(IncompleteReply, match=row):
            self.streamed(self.in_pieces(reply, Pieces()))

    def test_arguments_that_are_no_object_are_kept_as_they_came(
        self, row: tuple[Any, ToolCall]
    ) -> None:
        arguments, call = row
        assert self.both(self.calling(arguments)).tool_calls == (call,)

    def test_half_a_surrogate_pair_can_be_sent_again(self) -> None:
        """As a service may send it that cuts between the two halves."""
        self.again(self.both(self.saying("\ud83d", self.finishes[0][0])))

    def test_an_answer_is_the_same_in_one_piece_and_in_many(self) -> None:
        @given(self.wholes, st.data())
        def check(reply: Json, data: st.DataObject) -> None:
            pieces, completion = self.streamed(self.in_pieces(reply, _Drawn(data)))
            assert completion == self.read(reply)
            assert "".join(piece.text for piece in pieces) == completion.text
            thoughts = [
                each.text for each in completion.message.content if isinstance(each, Reasoning)
            ]
            if self.between_thoughts is not None:
                shown = "".join(each.reasoning for each in pieces)
                assert shown == self.between_thoughts.join(thoughts)
            if completion.vendor_finish:  # else its calls are known only at the end
                calls = tuple(piece.tool_call for piece in pieces if piece.tool_call)
                assert calls == completion.tool_calls

        check()

    def test_what_a_model_says_can_be_sent_again(self) -> None:
        @given(self.wholes)
        def check(reply: Json) -> None:
            self.returned(reply, self.again(self.read(reply)))

        check()

    # errors

    def test_an_error_is_told_by_its_kind(
        self, row: tuple[int, Any, type[GenaiError], Attributes]
    ) -> None:
        status, body, kind, attributes = row
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        error = self.dialect.map_error(ProviderReply(data, status))
        assert type(error) is kind
        expected = {"status": status, **attributes}
        assert {name: getattr(error, name, None) for name in expected} == expected

    def test_an_error_amid_a_stream_is_raised(
        self, row: tuple[Any, type[GenaiError], Attributes]
    ) -> None:
        wrong, kind, attributes = row
        begun = self.in_pieces(self.saying("a", self.finishes[0][0]), Pieces())[:1]
        with pytest.raises(kind) as caught:
            self.streamed([*begun, wrong])
        assert type(caught.value) is kind
        actual = {name: getattr(caught.value, name) for name in attributes}
        assert actual == attributes
        assert "\n" not in caught.value.message

    def test_body_without_error_is_mapped_by_status(self, row: bytes) -> None:
        assert self.dialect.map_error(ProviderReply(row, 500)) is None

    def test_a_reply_without_an_answer_is_the_models_failure(self, row: Any) -> None:
        with pytest.raises(GenerationError) as caught:
            self.read(row)
        if self.unanswered_reason:
            assert caught.value.reason == self.unanswered_reason

    def test_what_is_no_reply_is_malformed(self, row: Any) -> None:
        with pytest.raises(MalformedReply, match=self.complaint):
            self.read(row)

    def test_what_is_no_event_is_malformed(self, row: Any) -> None:
        begun = self.in_pieces(self.saying("", self.finishes[0][0]), Pieces())[:1]
        with pytest.raises(MalformedReply, match=self.complaint):
            self.streamed([*begun, row])

    # whatever else comes

    def test_nothing_in_a_reply_raises_anything_else(self, row: ValuePath) -> None:
        for weird in WEIRD:
            reply = with_other(self.reply, row, weird)
            self._is_safe(lambda reply=reply: self.again(self.read(reply)))  # type: ignore[misc]

    def test_nothing_in_a_stream_raises_anything_else(self, row: tuple[int, ValuePath]) -> None:
        at, place = row
        for weird in WEIRD:
            other = with_other(self.events[at], place, weird)
            changed = [*self.events[:at], other, *self.events[at + 1 :], *self.end]
            self._is_safe(lambda changed=changed: self.again(self.streamed(changed)[1]))  # type: ignore[misc]

    def test_no_bytes_raise_anything_else(self) -> None:
        keys = re.findall(r'"(\w+)":', json.dumps([self.reply, *self.events]))

        @given(json_values(keys).map(lambda value: json.dumps(value).encode()) | st.binary())
        @example(NESTED)
        @example(b'{"%b": ' % keys[0].encode() + NESTED + b"}")
        @example(b'{"error": {"type": ["x"], "code": ["x"]}}')
        def check(data: bytes) -> None:
            self._is_safe(lambda: self.read(data))
            self._is_safe(lambda: self.streamed([data, *self.end]))
            self._is_safe(lambda: self.dialect.map_error(ProviderReply(data, 400)))

        check()

    def _is_safe(self, act: Callable[[], object]) -> None:
        assert not leak(act)
