"""Detection of the encoding: HTML, 13.2.3 "The input byte stream", without the user's language."""

from __future__ import annotations

import codecs
import re

from genai_host.api import charset_in_html, charset_of, is_single_byte

MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
"""Byte order marks. UTF-32 is first, because its mark starts with one of UTF-16."""

_IN_TYPE = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:+-]{1,40})", re.I | re.A)
_SAMPLE = 65536  # bytes for the detection


def decoded(data: bytes, given: str, *, is_page: bool) -> str:
    """Decode text; invalid bytes become U+FFFD.

    Args:
        data: The text.
        given: The `Content-Type`.
        is_page: Whether to look for the encoding in the page.
    """
    for mark, name in MARKS.items():
        if data.startswith(mark):
            return data[len(mark) :].decode(name, "replace")
    declared = name_in(given) or (charset_in_html(data) if is_page else "")
    if declared and not is_single_byte(declared):
        return data.decode(declared, "replace")
    try:
        return data.decode()  # servers and pages name a default also for UTF-8
    except UnicodeDecodeError as error:
        is_known = bool(declared) and data[: error.start].isascii()
        if error.end >= len(data) and not is_known:  # truncated within a character
            return data.decode(errors="replace")
        return data.decode(declared or _guessed(data), "replace")


def name_in(given: str) -> str:
    """Return Python's name of the charset in a `Content-Type`; empty if there is none."""
    found = _IN_TYPE.search(given)
    return charset_of(found[1]) if found else ""


def _guessed(data: bytes) -> str:
    from charset_normalizer import from_bytes

    best = from_bytes(data[:_SAMPLE]).best()
    return (charset_of(best.encoding) if best else "") or "utf-8"
