"""Parser of Amazon's event streams.

Source: AWS SDKs' specification "Amazon Event Stream" (`application/vnd.amazon.eventstream`),
and the Amazon Bedrock API reference, "ConverseStream" and "InvokeModelWithResponseStream".

A message is a prelude (total length, length of the headers, CRC of both), the headers, a payload,
and the CRC of everything before it. Numbers are big-endian. The event type in the header becomes
the key of the data, for example `{"messageStop":{...}}`. Events of InvokeModel are unwrapped to the
format of the model's vendor.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterable, Iterator, Mapping
from zlib import crc32

from genai_host.api import StreamEvent, StreamParser, malformed, read_object, string_in, write_json
from genai_host.errors import MalformedReply
from genai_vendor_bedrock.failures import error_of_kind

CONTENT_TYPE = "application/vnd.amazon.eventstream"

_PRELUDE = struct.Struct(">III")
_CRC = struct.Struct(">I")
_SHORT = struct.Struct(">H")
_MIN = _PRELUDE.size + _CRC.size  # bytes of a message without headers and payload
_MAX_HEADERS = 128 << 10  # bytes, from the specification
_MAX = 24 << 20  # bytes of a whole message
_TEXT = 7  # type code of a text header
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}  # bytes of values of other types
_COUNTED = (6, _TEXT)  # type codes of bytes and text, which have a length prefix


def read_events(blocks: Iterable[bytes]) -> Iterator[StreamEvent]:
    """Yield the events of a stream. A message truncated by the end of the reply is ignored.

    Raises:
        GenaiError: The error for an exception in the stream.
        MalformedReply: The stream is invalid.
    """
    for headers, payload in _messages(blocks):
        event = _event(headers, payload)
        if event is not None:
            yield event


FRAMINGS: Mapping[str, StreamParser] = {CONTENT_TYPE: read_events}


def _messages(blocks: Iterable[bytes]) -> Iterator[tuple[Mapping[str, str], bytes]]:
    pending = bytearray()
    for block in blocks:
        pending += block
        at = 0
        while len(pending) - at >= _PRELUDE.size:
            size, headers_size = _sizes(pending, at)
            if len(pending) - at < size:
                break
            message = bytes(pending[at : at + size])
            at += size
            if crc32(message[: -_CRC.size]) != _CRC.unpack_from(message, size - _CRC.size)[0]:
                raise malformed("a message of the stream has a wrong checksum")
            head = message[_PRELUDE.size : _PRELUDE.size + headers_size]
            yield _headers(head), message[_PRELUDE.size + headers_size : -_CRC.size]
        del pending[:at]


def _sizes(data: bytearray, at: int) -> tuple[int, int]:
    """Return the validated lengths of a message and of its headers."""
    size, headers_size, checksum = _PRELUDE.unpack_from(data, at)
    if crc32(data[at : at + _PRELUDE.size - _CRC.size]) != checksum:
        raise malformed("the prelude of a message has a wrong checksum")
    if size > _MAX or headers_size > _MAX_HEADERS or size < _MIN + headers_size:
        raise malformed(f"a message of the stream has an invalid length: {size} bytes")
    return size, headers_size


def _headers(data: bytes) -> Mapping[str, str]:
    """Return the text headers; other types are not needed."""
    found: dict[str, str] = {}
    at = 0
    try:
        while at < len(data):
            name_end = at + 1 + data[at]
            name = data[at + 1 : name_end].decode()
            kind = data[name_end]
            at = name_end + 1
            if kind in _COUNTED:
                (size,) = _SHORT.unpack_from(data, at)
                at += _SHORT.size
            else:
                size = _SIZES[kind]
            if at + size > len(data):
                raise malformed("a header of the stream exceeds the headers")
            if kind == _TEXT:
                found[name] = data[at : at + size].decode()
            at += size
    except (struct.error, LookupError, UnicodeDecodeError) as error:
        raise malformed("the headers of a message are malformed") from error
    return found


def _event(headers: Mapping[str, str], payload: bytes) -> StreamEvent | None:
    message_type = headers.get(":message-type")
    if message_type == "event":
        kind = headers.get(":event-type", "")
        if kind == "initial-response":
            return None
        return StreamEvent(_unwrapped(payload) if kind == "chunk" else _named(kind, payload), kind)
    if message_type == "exception":
        raise error_of_kind(headers.get(":exception-type", ""), _message(payload))
    if message_type == "error":
        raise error_of_kind(headers.get(":error-code", ""), headers.get(":error-message", ""))
    raise malformed("a message of the stream has an unknown type")


def _unwrapped(payload: bytes) -> bytes:
    """Return the payload of an InvokeModel chunk: `{"bytes": "<base64>"}`."""
    try:
        return base64.b64decode(string_in(read_object(payload), "bytes"), validate=True)
    except (binascii.Error, ValueError) as error:
        raise malformed("a chunk of the stream is not base64") from error


def _named(kind: str, payload: bytes) -> bytes:
    """Return an object with the event type as its only key."""
    if not kind:
        raise malformed("an event of the stream has no type")
    return b"{%b:%b}" % (write_json(kind), payload)


def _message(payload: bytes) -> str:
    """Return the message of an exception; empty if it is unreadable."""
    try:
        data = read_object(payload)
        return string_in({name.lower(): each for name, each in data.items()}, "message")
    except MalformedReply:
        return ""
