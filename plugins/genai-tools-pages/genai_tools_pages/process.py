"""Functions for the process that reads a page.

The kind of a body is known from its first bytes, then from its `Content-Type`. The encoding is
detected as in HTML, 13.2.3 "The input byte stream", without the user's language.

pypdf is slower than pdfium, but written in Python. A malicious file causes an exception, while it
could take over C++ code, and the process has the rights of the user.
"""

from __future__ import annotations

import codecs
import io
import re
import time
from typing import TYPE_CHECKING

from genai_host.api import charset_in_html, charset_of, is_single_byte
from genai_host.errors import ValidationError
from genai_tools_pages.addresses import Addresses, is_public, is_usable
from genai_tools_pages.download import Body, Downloader, link_of
from genai_tools_pages.page import MAX_TEXT, MAX_TITLE, Page, PageKind, one_line, tidy

if TYPE_CHECKING:
    from pypdf import PdfReader


def read_pdf(data: bytes, seconds: float) -> tuple[str, str]:
    """Return the title and the text of a PDF.

    Args:
        data: The PDF.
        seconds: Time limit; pages not read until then are mentioned.

    Raises:
        ValidationError: The file is damaged, needs a password or has no text.
    """
    from pypdf import PdfReader
    from pypdf.errors import DependencyError

    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise ValidationError("the PDF requires a password")
        return _title(reader), _text(reader, time.monotonic() + seconds)
    except (ValidationError, MemoryError):
        raise
    except DependencyError:
        raise ValidationError("the encryption of the PDF is not supported") from None
    except Exception as error:  # a broken file can raise any exception
        raise ValidationError("the PDF is damaged") from error


def _title(reader: PdfReader) -> str:
    """Return the title from the metadata; empty if they are damaged."""
    try:
        found = reader.metadata and reader.metadata.title
    except Exception:  # noqa: BLE001 - see above
        return ""
    return found if isinstance(found, str) else ""


def _text(reader: PdfReader, until: float) -> str:
    """Return the text of the pages, with a note on missing pages."""
    pages = len(reader.pages)
    texts: list[str] = []
    broken, length, number = 0, 0, 0
    for number in range(1, pages + 1):
        try:
            text = tidy(reader.pages[number - 1].extract_text())
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - one broken page does not keep the others
            text, broken = "", broken + 1
        texts.append(text)
        length += len(text)
        if length > MAX_TEXT or time.monotonic() > until:
            break
    if not length:
        raise ValidationError("the PDF has no text: it may be a scan")
    if broken:
        texts.append(f"({broken} pages are damaged and could not be read)")
    if number < pages:
        texts.append(f"(pages {number + 1} to {pages} were not read)")
    return "\n\n".join(filter(None, texts))


_HEAD = 1024  # bytes to search for the PDF header: ISO 32000-2, Annex J of its predecessor
_HTML = ("text/html", "application/xhtml+xml")
_TEXT = ("application/json", "application/xml", "application/yaml", "application/x-yaml")
_ANY = ("", "application/octet-stream", "binary/octet-stream", "application/download")
_PDF = ("application/pdf", "application/x-pdf")
_LOOKS_LIKE_HTML = re.compile(
    rb"\s*(<!--.*?-->\s*)*<(!doctype\s+html|html|head|body)\b", re.I | re.S
)


def check_type(given: str) -> None:
    """Raise `ValidationError` for a `Content-Type` that cannot be read as text."""
    kind = _bare(given)
    known = (*_HTML, *_TEXT, *_ANY, *_PDF)
    if not (kind in known or kind.startswith("text/") or kind.endswith(("+json", "+xml"))):
        raise ValidationError(
            f"unsupported content type {_displayable(kind)}: "
            "only web pages, PDFs and text are supported"
        )


def kind_of(body: Body) -> PageKind:
    """Return the kind; raises `ValidationError` if it is not a page, a PDF or text."""
    head, kind = body.data[:_HEAD], _bare(body.type)
    if b"%PDF-" in head:
        return "pdf"
    if kind in _PDF:
        raise ValidationError("the content is not a PDF, contrary to its content type")
    if _is_binary(head, body.type):
        raise ValidationError("binary content: only web pages, PDFs and text are supported")
    if kind in _HTML or (kind in _ANY and _LOOKS_LIKE_HTML.match(head)):
        return "html"
    return "text"


def _bare(given: str) -> str:
    return given.partition(";")[0].strip().lower()


def _displayable(kind: str) -> str:
    """Return an untrusted type for display."""
    return kind if re.fullmatch(r"[a-z0-9.+-]{1,40}/[a-z0-9.+-]{1,80}", kind) else "(invalid)"


def _is_binary(head: bytes, given: str) -> bool:
    """Whether data is binary. Text has no zero bytes, except in UTF-16 and UTF-32."""
    wide = head.startswith(tuple(_MARKS)) or _charset_in(given).startswith(("utf-16", "utf-32"))
    return b"\0" in head and not wide


_MARKS = {
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
    """Decode text; invalid bytes become U+FFFD. `given` is the `Content-Type`; `is_page` is whether
    to look for the encoding in the page."""
    for mark, name in _MARKS.items():
        if data.startswith(mark):
            return data[len(mark) :].decode(name, "replace")
    declared = _charset_in(given) or (charset_in_html(data) if is_page else "")
    if declared and not is_single_byte(declared):
        return data.decode(declared, "replace")
    try:
        return data.decode()  # servers and pages name a default also for UTF-8
    except UnicodeDecodeError as error:
        is_known = bool(declared) and data[: error.start].isascii()
        if error.end >= len(data) and not is_known:  # truncated within a character
            return data.decode(errors="replace")
        return data.decode(declared or _guessed(data), "replace")


def _charset_in(given: str) -> str:
    """Return Python's name of the charset in a `Content-Type`; empty if there is none."""
    found = _IN_TYPE.search(given)
    return charset_of(found[1]) if found else ""


def _guessed(data: bytes) -> str:
    from charset_normalizer import from_bytes

    best = from_bytes(data[:_SAMPLE]).best()
    return (charset_of(best.encoding) if best else "") or "utf-8"


_PDF_SHARE = 0.6  # of the time limit, so that a part of a long PDF is returned


def read_page(link: str, private: bool, most: int, seconds: float) -> Page:
    """Read the page at a link in this process. Raises `GenaiError`: the page cannot be read."""
    downloader = Downloader(Addresses(is_usable if private else is_public), most, seconds)
    return read(link, downloader, seconds * _PDF_SHARE)


def read(given: str, downloader: Downloader, seconds: float) -> Page:
    """Read a page with a downloader.

    Raises:
        ValidationError: The link is invalid, or the content is not a page.
        GenaiError: The download failed.
    """
    link = link_of(given)
    try:
        body = downloader.body(link, check_type)
        kind = kind_of(body)
        title, text = _extracted(body, kind, seconds)
    except ValidationError as error:
        named = "" if link.host in error.message else f"{link.named}: "
        raise ValidationError(f"{named}{error.message}", hint=error.hint) from error
    title = one_line(title, MAX_TITLE) or body.link.last[:MAX_TITLE]
    return Page(title, body.link.address, text[:MAX_TEXT], kind)


def _extracted(body: Body, kind: PageKind, seconds: float) -> tuple[str, str]:
    if kind == "pdf":
        return read_pdf(body.data, seconds)
    text = decoded(body.data, body.type, is_page=kind == "html")
    if kind == "text":
        return "", tidy(text)
    from genai_tools_pages.web_page import read_html

    return read_html(text)
