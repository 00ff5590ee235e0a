"""The rows of a batch: a file with one JSON value per line.

    "What is the capital of France?"
    {"id": "a", "prompt": "And of Spain?", "model": "smollm2", "parameters": {"temperature": 0}}
    {"custom_id": "b", "method": "POST", "url": "/v1/chat/completions", "body": {...}}

The last is a line of OpenAI's Batch API; its result has the format of that API. In other rows,
`custom_id` is another name for `id`.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import hashlib
import io
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from genai_host.api import JsonReader, ValueBudget, encoding_of, is_deep
from genai_host.errors import ConfigurationError, ValidationError

MAX_BYTES = 8 * 2**20
"""Maximum length of a line."""

_HEAD = 8192
URLS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/moderations",
    "/v1/responses",
)
"""Paths of the requests that rows in OpenAI's format can have."""


def with_version(url: str) -> str:
    """A path with `/v1`, which clients of Azure leave out."""
    return url if url.startswith("/v1/") else f"/v1{url}"


@frozen
class BatchRow:
    """A row, with its line number from 1. `asked` has the validated fields; those of OpenAI's
    format have `url`. `wrong` is why the row is invalid; empty if it is valid."""

    number: int
    id: str
    asked: Mapping[str, Any]
    wrong: str = ""

    @property
    def names(self) -> dict[str, str]:
        """The id of the row, as a field of its result."""
        return {"custom_id" if self.is_openai else "id": self.id}

    @property
    def is_openai(self) -> bool:
        return "url" in self.asked


@frozen
class Survey:
    """Number of rows of a file, and the digest of its content."""

    rows: int
    digest: str


def survey(path: Path) -> Survey:
    """Count the rows of a file. Raises `ValidationError` if it has no rows, and `OSError`."""
    digest, rows = hashlib.sha256(), 0
    with _opened(path) as readline:
        for _, line in _lines(readline):
            if not rows and line[:1] not in (b'"', b"{"):
                raise ValidationError(
                    f"{path} has no rows: line 1 is neither a JSON string nor a JSON object",
                    hint='each line must be "PROMPT" or {"prompt": "PROMPT"}',
                )
            rows += 1
            digest.update(line + b"\n")
    return Survey(rows, digest.hexdigest())


def rows_in(path: Path) -> Iterator[BatchRow]:
    """Yield all rows; invalid rows have a reason."""
    with _opened(path) as readline:
        for number, line in _lines(readline):
            yield _row(number, line)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Callable[[int], bytes]]:
    """Yield a function that reads the next line as UTF-8, up to a number of bytes. The file is read
    twice, so that it must be a regular one."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    with path.open("rb") as stream:
        head = stream.read(_HEAD)
        encoding = encoding_of(head)
        stream.seek(0)
        if encoding.startswith("utf-8") and (b"\n" in head or b"\r" not in head):
            yield stream.readline
        else:
            with io.TextIOWrapper(stream, encoding, errors="replace") as text:
                yield lambda most: text.readline(most).encode()


def _lines(readline: Callable[[int], bytes]) -> Iterator[tuple[int, bytes]]:
    """Nonempty lines with their numbers. A line that is too long is cut, and therefore invalid."""
    number = 0
    while line := readline(MAX_BYTES + 1):
        number += 1
        rest = line
        while rest and not rest.endswith(b"\n") and len(line) > MAX_BYTES:
            rest = readline(MAX_BYTES)
        line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        if line.strip():
            yield number, line.strip()


def _row(number: int, line: bytes) -> BatchRow:
    if len(line) > MAX_BYTES:
        return BatchRow(number, "", {}, f"the line is longer than {MAX_BYTES >> 20} MiB")
    try:
        value = ValueBudget().read(line)
    except ValueError as error:
        return BatchRow(number, "", {}, f"invalid JSON: {error}")
    except ValidationError as error:
        return BatchRow(number, "", {}, str(error))
    id = ""
    try:
        given = JsonReader({"prompt": value} if isinstance(value, str) else value, "$")
        if is_deep(value):
            raise ValidationError("nested too deeply", path="$")
        id = given.text("custom_id" if "custom_id" in given else "id")
        is_openai = "url" in given or "body" in given or "method" in given
        return BatchRow(number, id, _openai(given) if is_openai else _own(given))
    except (ValidationError, ConfigurationError) as error:
        return BatchRow(number, id, {}, str(error))


def _own(given: JsonReader) -> dict[str, Any]:
    prompt = given.required_text("prompt")
    asked = {name: given.text(name) for name in ("system", "model", "provider")}
    parameters = dict(given.mapping("parameters") or {})
    given.nothing_else()
    return {"prompt": prompt, **asked, "parameters": parameters}


def _openai(given: JsonReader) -> dict[str, Any]:
    url, body = given.text("url"), given.object("body")
    path = with_version(url)
    if given.text("method", "POST") != "POST" or path not in URLS:
        raise ValidationError(
            f"{url[:60]!r} is not supported in batches: use {', '.join(URLS)}", path="$.url"
        )
    if body is None or body.raw("stream"):
        raise ValidationError("body must be an object without stream", path="$.body")
    given.nothing_else()
    return {"url": path, "body": dict(body.value)}
