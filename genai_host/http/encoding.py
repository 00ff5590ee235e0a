"""Replies that are compressed on their way (RFC 9110, 8.4)."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

from urllib3.response import DeflateDecoder, GzipDecoder

from genai_host.errors import MalformedReply

ACCEPTED = "gzip, deflate"
"""What a reply may be compressed with, as `Accept-Encoding`."""

_BLOCK = 1 << 20  # bytes that are unpacked at once: a few may stand for a great many
_DECODERS = {"gzip": GzipDecoder, "x-gzip": GzipDecoder, "deflate": DeflateDecoder}


def unpacked(blocks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """The blocks of a body as they were before they were compressed.

    encoding   as the header `Content-Encoding` has it

    Raises `MalformedReply` for another encoding than those that are accepted, and for
    what is not encoded so.
    """
    make = _DECODERS.get(encoding)
    if make is None:
        raise MalformedReply("the reply is compressed in a way that was not asked for")
    decoder = make()
    try:
        for block in blocks:
            data = decoder.decompress(block, max_length=_BLOCK)
            while data:
                yield data
                data = decoder.decompress(b"", max_length=_BLOCK)
    except zlib.error as error:
        raise MalformedReply("the reply is compressed wrongly") from error
