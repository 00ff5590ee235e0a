"""Bodies whose first chunk takes long, and what becomes of their errors."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from genai_host.api import StreamedBody
from genai_host.errors import GenaiError, PluginError, RateLimited


def written(*chunks: bytes | Exception) -> StreamedBody:
    def generate() -> Generator[bytes, None, None]:
        for each in chunks:
            if isinstance(each, Exception):
                raise each
            yield each

    def write_error(error: GenaiError) -> bytes:
        return error.code.encode()

    return StreamedBody(generate(), write_error)


def test_its_chunks_come_in_order() -> None:
    body = written(b"one", b"two")
    body.begin()
    assert list(body) == [b"one", b"two"]


def test_it_may_be_empty() -> None:
    body = written()
    body.begin()
    assert b"".join(body) == b""


@pytest.mark.parametrize(
    ("error", "kind"),
    [(RateLimited("slowly"), RateLimited), (ZeroDivisionError("a bug"), PluginError)],
)
def test_an_error_is_the_reply_or_in_the_body(error: Exception, kind: type[GenaiError]) -> None:
    """The latter where the head was sent before, and after the first chunk."""
    code = kind.code.encode()
    body = written(error)
    with pytest.raises(kind):
        body.begin()
    assert list(body) == [code]
    body = written(b"one", error)
    body.begin()
    assert list(body) == [b"one", code]


def test_a_closed_one_has_no_more() -> None:
    body = written(b"one", b"two")
    body.begin()
    body.close()
    assert b"".join(body) == b""
