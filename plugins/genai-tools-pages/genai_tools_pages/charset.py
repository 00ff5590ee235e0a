"""Detection of the encoding: HTML, 13.2.3 "The input byte stream", without the user's language."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
"""Byte order marks. UTF-32 is first, because its mark starts with one of UTF-16."""

_IN_TYPE = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:+-]{1,40})", re.I | re.A)
_IN_PAGE = re.compile(
    rb"<(?:meta|\?xml)\b[^>]{0,500}?(?:charset|encoding)\s*=\s*[\"']?\s*([\w.:+-]{1,40})", re.I
)
_MEANT = {  # https://encoding.spec.whatwg.org/#names-and-labels: encodings by label
    "ascii": "cp1252",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "shift_jis": "cp932",
    "tis-620": "cp874",
}
_CHARSETS = re.compile(
    r"utf-(8|16|32)(-[lb]e)?|cp\d+|iso8859-\d+|koi8-[rtu]|big5\w*|gb\w+|euc_\w+|"
    r"shift_\w+|iso2022_\w+|mac-\w+|hz|johab|ptcp154|tis-620|ascii"
)
_HEAD = 4096  # bytes of a page to search for the declaration
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
    for name in _declared(data, given, is_page):
        if _is_charset(name):
            return data.decode(name, "replace")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if error.end >= len(data):  # truncated within a character
            return data.decode(errors="replace")
        return data.decode(_guessed(data), "replace")


def name_in(given: str) -> str:
    """Return Python's name of the charset in a `Content-Type`; empty if there is none."""
    found = _IN_TYPE.search(given)
    return _known(found[1]) if found else ""


def _declared(data: bytes, given: str, is_page: bool) -> Iterator[str]:
    yield name_in(given)
    if is_page and (found := _IN_PAGE.search(data[:_HEAD])):
        name = _known(found[1].decode())
        # a declaration that is readable as ASCII is not UTF-16 or UTF-32
        yield "utf-8" if name.startswith(("utf-16", "utf-32")) else name


def _known(label: str) -> str:
    try:
        name = codecs.lookup(label).name
    except LookupError:
        return ""
    return _MEANT.get(name, name)


def _is_charset(name: str) -> bool:
    """Whether a codec is a text encoding; Python has other codecs too."""
    return bool(_CHARSETS.fullmatch(name))


def _guessed(data: bytes) -> str:
    from charset_normalizer import from_bytes

    best = from_bytes(data[:_SAMPLE]).best()
    name = _known(best.encoding) if best else ""
    return name if _is_charset(name) else "utf-8"
