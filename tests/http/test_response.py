"""Replies over HTTP, byte by byte: what is read of them, and when they end."""

from __future__ import annotations

import gzip
import socket
import zlib
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, strategies as st

from genai_host.errors import MalformedReply
from genai_host.http.response import Response
from genai_host.http.transport import unpacked

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
SIZED = HEAD + b"Content-Length: 5\r\n\r\nhello"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nA: b\r\n\r\n"
OPEN = b"HTTP/1.0 200 OK\r\n\r\nhello"


class Pieces:
    """In place of a socket: gives what it is made of, then the end."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = iter([piece for piece in pieces if piece])

    def recv(self, size: int) -> bytes:
        return next(self._pieces, b"")


def response(*pieces: bytes) -> Response:
    sock: Any = Pieces(pieces)
    assert not isinstance(sock, socket.socket)
    return Response(sock)


def read(*pieces: bytes) -> tuple[Response, bytes]:
    received = response(*pieces)
    received.read_head()
    return received, b"".join(received.read_body())


def cut_at(data: bytes, places: Sequence[int]) -> Iterator[bytes]:
    ends = sorted({min(place, len(data)) for place in places})
    for start, end in zip([0, *ends], [*ends, len(data)], strict=True):
        yield data[start:end]


@given(data=st.sampled_from([SIZED, CHUNKED, OPEN]), places=st.lists(st.integers(0, 140)))
def test_it_is_the_same_however_it_comes(data: bytes, places: list[int]) -> None:
    received, body = read(*cut_at(data, places))
    assert (received.status, body, received.ended) == (200, b"hello", True)


@pytest.mark.parametrize("data", [SIZED, CHUNKED])
def test_one_that_is_cut_anywhere_is_never_whole(data: bytes) -> None:
    for length in range(len(data)):
        with pytest.raises(ConnectionResetError):
            read(data[:length])


def test_names_of_headers_are_in_lower_case_and_their_values_joined() -> None:
    received, _ = read(b"HTTP/1.1 204 No\r\nX-A: 1\r\nx-a: 2\r\nX-B:  \xe9 \r\n\r\n")
    assert received.headers == {"x-a": "1, 2", "x-b": "é"}
    assert received.clean


@pytest.mark.parametrize(("data", "clean"), [
    (SIZED, True),
    (CHUNKED, True),
    (OPEN, False),
    (SIZED.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"), False),
    (SIZED.replace(b"1.1", b"1.0"), False),
    (SIZED + b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad", False),
    (SIZED + b"garbage", False),
], ids=["sized", "chunked", "until the end", "closes", "1.0", "two replies", "more"])  # fmt: skip
def test_a_connection_is_used_again_only_if_nothing_else_came(data: bytes, clean: bool) -> None:
    received, body = read(data)
    assert (body, received.clean) == (b"hello", clean)


def test_what_precedes_a_reply_is_not_the_reply() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    for received, body in (read(early + early + SIZED), read(early, early, SIZED)):
        assert (received.status, body, received.clean) == (200, b"hello", True)
        assert "link" not in received.headers


@pytest.mark.parametrize("garbage", [
    b"SSH-2.0-OpenSSH\r\n\r\n",
    b"HTTP/1.1 2000 OK\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello",
    b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nhello",
])  # fmt: skip
def test_what_is_no_http_is_malformed(garbage: bytes) -> None:
    with pytest.raises(MalformedReply):
        read(garbage)


def test_a_head_without_end_is_stopped() -> None:
    endless = [b"HTTP/1.1 200 OK\r\n", *(f"X-{n}: {'y' * 9000}\r\n".encode() for n in range(100))]
    with pytest.raises(MalformedReply, match="longer than"):
        read(*endless)


def test_a_reply_that_fills_a_read_is_read_in_larger_blocks() -> None:
    rest, sizes = HEAD + b"Content-Length: 99000\r\n\r\n" + b"x" * 99_000, list[int]()

    def recv(size: int) -> bytes:
        nonlocal rest
        sizes.append(size)
        data, rest = rest[:size], rest[size:]
        return data

    received = response()
    received._socket = mock.Mock(recv=recv)
    received.read_head()
    assert len(b"".join(received.read_body())) == 99_000
    assert sizes == [2 << 10, 64 << 10, 64 << 10]


def test_the_longest_head_is_read() -> None:
    lines = [b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", *[b"A: %s\r\n" % (b"x" * 995)] * 262]
    lines.append(b"B: %s\r\n" % (b"x" * ((256 << 10) - len(b"".join(lines)) - 5)))
    received = response(*lines, b"\r\n")
    assert received.status == 0
    received.read_head()
    assert received.status == 200


@given(data=st.binary(max_size=3000), places=st.lists(st.integers(0, 3000)))
def test_what_was_compressed_is_the_same_however_it_comes(data: bytes, places: list[int]) -> None:
    raw = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    for encoding, packed in {"gzip": gzip.compress(data), "deflate": zlib.compress(data)}.items():
        assert b"".join(unpacked(cut_at(packed, places), encoding)) == data
    packed = raw.compress(data) + raw.flush()
    assert b"".join(unpacked([packed], "deflate")) == data


def test_an_encoding_that_nobody_asked_for_is_malformed() -> None:
    with pytest.raises(MalformedReply, match="not requested"):
        list(unpacked([b"x"], "br"))
