"""Amazon's event streams: split anywhere, cut anywhere, damaged anywhere, and as the library
of Amazon reads them."""

from __future__ import annotations

import contextlib
import itertools
import json
import struct
from collections.abc import Iterable, Sequence
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer
from genai_vendor_bedrock.event_stream import read_events
from hypothesis import given, strategies as st

from genai_host import errors
from genai_host.api import StreamEvent
from genai_host_testing.services.bedrock import chunk, event, exception, message

EVENTS = [
    event("messageStart", {"role": "assistant"}),
    event("contentBlockDelta", {"delta": {"text": "h\u2028é\n"}, "contentBlockIndex": 0}),
    chunk(b'{"type":"ping"}'),
    event("messageStop", {"stopReason": "end_turn"}),
]
TEXT = b"".join(EVENTS)
READ = [
    StreamEvent(b'{"messageStart":{"role": "assistant"}}', "messageStart"),
    StreamEvent(
        b'{"contentBlockDelta":{"delta": {"text": "h\\u2028\\u00e9\\n"}, "contentBlockIndex": 0}}',
        "contentBlockDelta",
    ),
    StreamEvent(b'{"type":"ping"}', "chunk"),
    StreamEvent(b'{"messageStop":{"stopReason": "end_turn"}}', "messageStop"),
]

payloads = st.binary(max_size=300)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)


def read(*blocks: bytes) -> list[StreamEvent]:
    return list(read_events(blocks))


def pieces(data: bytes, places: Iterable[int]) -> Sequence[bytes]:
    cuts = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(cuts)]


def test_events_are_named_in_their_data() -> None:
    assert read(TEXT) == READ


@given(st.lists(st.integers(0, len(TEXT)), max_size=9))
def test_a_stream_may_come_in_any_pieces(places: list[int]) -> None:
    assert read(*pieces(TEXT, places)) == READ


def test_a_stream_may_come_byte_by_byte() -> None:
    assert read(*(TEXT[at : at + 1] for at in range(len(TEXT)))) == READ


@pytest.mark.parametrize("place", range(0, len(TEXT), 3))
def test_what_is_cut_is_left_out(place: int) -> None:
    ends = [len(b"".join(EVENTS[: count + 1])) for count in range(len(EVENTS))]
    assert read(TEXT[:place]) == READ[: sum(end <= place for end in ends)]


@given(st.integers(0, len(EVENTS[0]) - 1), st.integers(1, 255))
def test_any_byte_that_is_changed_is_found(place: int, by: int) -> None:
    changed = bytearray(EVENTS[0])
    changed[place] ^= by
    with pytest.raises(errors.MalformedReply, match="checksum"):
        read(bytes(changed) + EVENTS[1])


@given(st.lists(st.tuples(names, payloads), max_size=4), st.lists(st.integers(0, 9999)))
def test_as_amazons_library_reads_it(messages: list[tuple[str, bytes]], places: list[int]) -> None:
    data = b"".join(event(name, payload) for name, payload in messages)
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    theirs = [(each.headers[":event-type"], each.payload) for each in buffer]
    assert theirs == messages
    ours = [each for each in messages if each[0] not in ("chunk", "initial-response")]
    assert [
        (each.name, each.data.removeprefix(b"{" + json.dumps(each.name, ensure_ascii=False)
                                           .encode() + b":")[:-1])
        for each in read_events(pieces(data, places))
        if each.name != "chunk"
    ] == ours  # fmt: skip


@given(st.binary(max_size=400))
def test_whatever_comes_is_read_or_is_a_typed_error(data: bytes) -> None:
    with contextlib.suppress(errors.MalformedReply):
        read(data)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_so_it_is_with_headers_of_any_kind(head: bytes, payload: bytes) -> None:
    """The checksums are right."""
    with contextlib.suppress(errors.GenaiError):
        read(_with_head(head, payload))


def _with_head(head: bytes, payload: bytes) -> bytes:
    prelude = struct.pack(">II", 16 + len(head) + len(payload), len(head))
    begun = prelude + struct.pack(">I", crc32(prelude)) + head + payload
    return begun + struct.pack(">I", crc32(begun))


def test_headers_of_all_types_are_passed_over() -> None:
    values = [
        b"\x00", b"\x01", b"\x02\x01", b"\x03\x00\x01", b"\x04\x00\x00\x00\x01", b"\x05" + bytes(8),
        b"\x06\x00\x03abc", b"\x08" + bytes(8), b"\x09" + bytes(16),
    ]  # fmt: skip
    others = b"".join(b"\x01x" + value for value in values)
    kinds = b"".join(
        bytes([len(name)]) + name + b"\x07" + len(value).to_bytes(2, "big") + value
        for name, value in ((b":message-type", b"event"), (b":event-type", b"metadata"))
    )
    assert read(_with_head(others + kinds, b"{}")) == [StreamEvent(b'{"metadata":{}}', "metadata")]


@pytest.mark.parametrize("size", [0, 11, 15, (24 << 20) + 1, 0xFFFFFFFF])
def test_a_length_that_none_may_have_is_not_waited_for(size: int) -> None:
    prelude = struct.pack(">II", size, 0)
    with pytest.raises(errors.MalformedReply, match="length"):
        read(prelude + struct.pack(">I", crc32(prelude)))


@pytest.mark.parametrize("data", [
    event("chunk", b"{}x"), event("chunk", {"bytes": "*"}), event("chunk", {"bytes": 1}),
    event("", {}), message({":message-type": "other"}, b"{}"), message({}, b"{}"),
])  # fmt: skip
def test_what_is_no_event_is_malformed(data: bytes) -> None:
    with pytest.raises(errors.MalformedReply):
        read(data)


def test_the_first_message_of_other_services_is_passed_over() -> None:
    assert read(event("initial-response", {}), *EVENTS) == READ


@pytest.mark.parametrize(("kind", "error"), [
    ("throttlingException", errors.RateLimited),
    ("serviceUnavailableException", errors.ServiceUnavailable),
    ("internalServerException", errors.ServiceUnavailable),
    ("modelStreamErrorException", errors.ServiceUnavailable),
    ("modelTimeoutException", errors.ServiceUnavailable),
    ("validationException", errors.BadRequest),
    ("accessDeniedException", errors.AuthenticationFailed),
    ("newException", errors.ServiceUnavailable),
])  # fmt: skip
def test_exception_comes_after_the_events(kind: str, error: type[errors.GenaiError]) -> None:
    stream = read_events([EVENTS[0], exception(kind, "it failed")])
    assert next(stream) == READ[0]
    with pytest.raises(error, match="it failed") as caught:
        next(stream)
    assert type(caught.value) is error


def test_an_exception_may_tell_of_a_prompt_that_is_too_long() -> None:
    with pytest.raises(errors.ContextOverflow):
        read(exception("validationException", "prompt is too long: 9 tokens > 8 maximum"))


def test_an_error_is_told_in_headers() -> None:
    headers = {
        ":message-type": "error", ":error-code": "InternalServer", ":error-message": "it broke",
    }  # fmt: skip
    with pytest.raises(errors.ServiceUnavailable, match="it broke"):
        read(message(headers, b""))


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b'{"message": 1}', b'"no"'])
def test_an_exception_that_says_nothing_is_told_by_its_kind(payload: bytes) -> None:
    headers = {":message-type": "exception", ":exception-type": "throttlingException"}
    with pytest.raises(errors.RateLimited, match="throttlingException"):
        read(message(headers, payload))
