"""From bytes to events, however they are cut into blocks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from genai_host.api import StreamEvent, StreamParser, stream_parsers
from genai_host.api.stream_parsers import detect_parser, read_ndjson, read_sse
from genai_host.errors import IncompleteReply, MalformedReply


def sse(*blocks: bytes) -> list[tuple[bytes, str | None]]:
    return [(event.data, event.name) for event in read_sse(blocks)]


@pytest.mark.parametrize("end", [b"", b"data: cut", b"data: cut\n", b"event: x\r\ndata: c"])
def test_a_last_event_that_may_be_cut_is_left_out(end: bytes) -> None:
    events = read_sse([b"data: a\n\ndata: b\n\n" + end], whole=True)
    assert [event.data for event in events] == [b"a", b"b"]


def in_pieces(data: bytes, places: list[int]) -> Iterator[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    for start, end in pairwise(edges):
        yield data[start:end]


@pytest.mark.parametrize(("text", "events"), [
    (b"data: a\n\ndata: b\n\n", [(b"a", None), (b"b", None)]),
    (b"data:a\n\n", [(b"a", None)]),
    (b"data:  a\n\n", [(b" a", None)]),
    (b"data: a\ndata: b\n\n", [(b"a\nb", None)]),
    (b"data\n\n", [(b"", None)]),
    (b'data: {"a":1}\ndata: {"b":2}\ndata: [DONE]\n\n',
     [(b'{"a":1}', None), (b'{"b":2}', None), (b"[DONE]", None)]),
    (b'data: {"a":1}\ndata: b\n\n', [(b'{"a":1}', None), (b"b", None)]),
    (b'data: a\ndata: {"b":1}\n\n', [(b'a\n{"b":1}', None)]),
    (b'data: {\ndata: "a":1}\n\n', [(b'{\n"a":1}', None)]),
    (b'error: {"a":1}\n\n', [(b'{"a":1}', "error")]),
    (b'data: a\n\n{"error":1}\n', [(b"a", None), (b'{"error":1}', None)]),
    (b"data: a\n\n[DONE]\n\n", [(b"a", None), (b"[DONE]", None)]),
    (b"data: a\n\nInternal Server Error\n", [(b"a", None)]),
    (b"event: x\ndata: a\nid: 7\nretry: 5\n\n", [(b"a", "x")]),
    (b": a comment\n\ndata: a\n: another\n\n", [(b"a", None)]),
    (b"event: x\n\n", []),
    (b"\n\n\ndata: a\n\n\n", [(b"a", None)]),
    (b"data: a\r\n\r\ndata: b\r\n\r\n", [(b"a", None), (b"b", None)]),
    (b"data: a\r\rdata: b\r\r", [(b"a", None), (b"b", None)]),
    (b"\xef\xbb\xbfdata: a\n\n", [(b"a", None)]),
    ("data: a\u2028b\u0085c\n\n".encode(), [("a\u2028b\u0085c".encode(), None)]),
    (b"data: a\n\ndata: b", [(b"a", None), (b"b", None)]),
    (b"data: a\n\ndata: b\n", [(b"a", None), (b"b", None)]),
    (b"event: \xff\ndata: a\n\n", [(b"a", "\ufffd")]),
    (b"", []),
])  # fmt: skip
def test_server_sent_events(text: bytes, events: list[tuple[bytes, str | None]]) -> None:
    assert sse(text) == events
    assert sse(*(text[at : at + 1] for at in range(len(text)))) == events


_LINES = st.sampled_from(
    [b"data: x", b"data:", b'data: {"a": 1}', b"event: e", b": c", b"id: 1", b"", b"odd"]
)


@given(
    lines=st.lists(st.tuples(_LINES, st.sampled_from([b"\n", b"\r\n", b"\r"]))),
    places=st.lists(st.integers(0, 1000)),
)
def test_blocks_may_be_cut_anywhere(lines: list[tuple[bytes, bytes]], places: list[int]) -> None:
    text = b"".join(line + end for line, end in lines)
    assert sse(*in_pieces(text, places)) == sse(text)


@given(data=st.binary(), places=st.lists(st.integers(0, 1000)))
def test_any_bytes_are_read_the_same_in_any_pieces(data: bytes, places: list[int]) -> None:
    assert sse(*in_pieces(data, places)) == sse(data)
    expected = list(read_ndjson([data]))
    assert list(read_ndjson(in_pieces(data, places))) == expected


def test_lines_of_json() -> None:
    blocks = [b'{"a":', b'1}\n\n  \r\n{"b":2}\r\n', b'{"c":\r3}']
    assert list(read_ndjson(blocks)) == [
        StreamEvent(b'{"a":1}'), StreamEvent(b'{"b":2}'), StreamEvent(b'{"c":\r3}')
    ]  # fmt: skip


@pytest.mark.parametrize(("read", "text"), [
    (read_sse, b'event: x\ndata: {"a": 1}\n\ndata: [2]\ndata: 3\n\ndata: 4\n\n'),
    (read_sse, b"event: x\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n"),
    (read_ndjson, b'{"a": 1}\n\n  \n{"b": 2}\n{"c": 3}\n'),
])  # fmt: skip
def test_what_is_cut_at_any_byte_gives_whole_events_alone(read: StreamParser, text: bytes) -> None:
    expected = list(read([text]))
    counts = []
    for place in range(len(text) + 1):
        events = []
        with pytest.raises(IncompleteReply):
            for each in read(_cut(text[:place])):
                events.append(each)
        assert events == expected[: len(events)]
        counts.append(len(events))
    assert counts == sorted(counts)
    assert counts[-1] == len(expected)
    assert counts[text.rstrip().rfind(b"\n")] < len(expected)


def _cut(text: bytes) -> Iterator[bytes]:
    yield text
    raise IncompleteReply("the reply was cut")


def test_events_come_as_soon_as_they_are_whole() -> None:
    def blocks() -> Iterator[bytes]:
        yield b"data: a\n\nda"
        raise AssertionError("nobody needs more for the first event")

    assert next(read_sse(blocks())).data == b"a"


@pytest.mark.parametrize("read", [read_sse, read_ndjson])
def test_endless_event(read: type[Iterator[StreamEvent]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_parsers, "_MAX_EVENT", 1000)
    endless = (b"data: " + b"x" * 50 for _ in range(10**9))
    with pytest.raises(MalformedReply, match="longer than"):
        list(read(endless))  # type: ignore[call-arg]


_WHOLE: list[tuple[bytes, object]] = [
    (b"data: a\n\n", read_sse),
    (b"\xef\xbb\xbf\n event: a\n", read_sse),
    (b": ping\n\n", read_sse),
    (b"data", None),
    (b'{"a": 1}', None),
    (b'{"a": 1}\n', None),
    (b'{\n  "a": 1\n}', None),
    (b'{"a": 1}\nodd', read_ndjson),
    (b'{"a": 1}\r\n\r\n{"a": 2}', read_ndjson),
    (b'[{"a": 1},\n{"a": 2}]', None),
    (b"<html>", None),
    (b"", None),
]


@pytest.mark.parametrize(("body", "parser"), _WHOLE)
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_a_stream_is_known_by_how_it_begins(body: bytes, parser: object, size: int) -> None:
    chosen, rest = detect_parser(body[at : at + size] for at in range(0, len(body), size))
    assert chosen is parser
    assert b"".join(rest).lstrip(b"\xef\xbb\xbf") == body.lstrip(b"\xef\xbb\xbf")


@pytest.mark.parametrize("body", [b'{"a": 1}', b"[1]"])
def test_a_whole_reply_is_known_whatever_its_label(body: bytes) -> None:
    assert detect_parser(iter([body]), read_sse)[0] is None
    assert detect_parser(iter([body]), read_ndjson)[0] is read_ndjson


def test_a_first_line_that_is_too_long_is_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_parsers, "_MAX_EVENT", 20)
    body = b'{"a": "%s"}\n{}\n' % (b"x" * 20)
    chosen, rest = detect_parser(iter([body]))
    assert (chosen, b"".join(rest)) == (None, body)


def test_what_begins_as_neither_is_read_by_its_label() -> None:
    assert detect_parser(iter([b"odd: a\n\ndata: a\n\n"]), read_sse)[0] is read_sse
    assert detect_parser(iter([]), read_sse)[0] is read_sse


def test_a_stream_is_known_before_it_has_ended() -> None:
    def blocks() -> Iterator[bytes]:
        yield b"data: a\n\n"
        raise AssertionError("more is read than is needed")

    assert detect_parser(blocks())[0] is read_sse
