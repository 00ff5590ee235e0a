"""The rows of a batch: lines of JSON, one request each.

    {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {...}}

Source: OpenAI API reference, "Batch", "The request input object".
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from typing import Any

from attrs import frozen

from genai_batch.rows import with_version
from genai_host.api import Cancellation, JsonReader, RouteRequest, body_of, write_json
from genai_host.errors import ValidationError

MAX_BYTES = 32 * 2**20
"""Maximum length of a line, which is that of the request of a chat completion."""

_FIELDS = ("custom_id", "method", "url", "body")


@frozen
class Row:
    """A row.

    Attributes:
        number: Line number, from 1.
        custom_id: The id from the client; None if it is invalid.
        model: The model that the request names; empty if none.
        body: Body of the request, as JSON.
        code: Code of the error of an invalid row; empty if the row is valid.
        message: Message of that error.
    """

    number: int
    custom_id: str | None = None
    model: str = ""
    body: bytes = b""
    code: str = ""
    message: str = ""


class _RowError(Exception):
    """The reason why a row is invalid: its code and its message."""


def lines_in(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield lines that are not empty, with their numbers. A line that is too long is cut."""
    number, line = 1, bytearray()
    for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            line += piece[: MAX_BYTES + 1 - len(line)]
            if line.strip():
                yield number, bytes(line)
            number += 1
            line.clear()
        line += rest[: MAX_BYTES + 1 - len(line)]
    if line.strip():
        yield number, bytes(line)


def rows_in(chunks: Iterable[bytes], url: str) -> Iterator[Row]:
    """Yield the rows of a file, all of which must have this path. Invalid rows have an error."""
    ids: set[str] = set()
    for number, line in lines_in(chunks):
        custom_id = None
        try:
            given = _object_in(line)
            custom_id = _custom_id(given, ids)
            yield _row(number, custom_id, given, url)
        except _RowError as error:
            # the line identifies a row without an id of its own
            code, message = error.args
            message = message if custom_id else f"line {number}: {message}"
            yield Row(number, custom_id, code=code, message=message)


def _object_in(line: bytes) -> JsonReader:
    if len(line) > MAX_BYTES:
        raise _RowError("line_too_long", f"the line has more than {MAX_BYTES >> 20} MiB")
    line = line.removeprefix(codecs.BOM_UTF8)
    try:
        return body_of(RouteRequest("POST", "", body=line, limits=Cancellation()))
    except ValidationError as error:
        message = error.message.replace("the body", "the line")
        raise _RowError("invalid_json_line", message) from error


def _custom_id(given: JsonReader, ids: set[str]) -> str:
    value = given.raw("custom_id")
    if not isinstance(value, str) or not value:
        raise _RowError("missing_required_parameter", "custom_id must be a string")
    if value in ids:
        raise _RowError("duplicate_custom_id", "an earlier row has the same custom_id")
    ids.add(value)
    return value


def _row(number: int, custom_id: str, given: JsonReader, url: str) -> Row:
    method, path, body = (given.raw(name) for name in _FIELDS[1:])
    if method != "POST":
        raise _RowError("invalid_method", "method must be POST")
    if not isinstance(path, str) or with_version(path) != with_version(url):
        raise _RowError("mismatched_url", f"url must be {url}, the endpoint of the batch")
    if not isinstance(body, dict):
        raise _RowError("missing_required_parameter", "body must be an object")
    if body.get("stream") or body.get("background"):
        raise _RowError("invalid_request", "stream and background are not supported in batches")
    model: Any = body.get("model")
    return Row(number, custom_id, model if isinstance(model, str) else "", write_json(body))
