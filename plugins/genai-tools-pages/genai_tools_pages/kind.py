"""Of which kind a body is: its first bytes say so, then the `Content-Type`."""

from __future__ import annotations

import re

from genai_host.errors import ValidationError
from genai_tools_pages.charset import MARKS, name_in
from genai_tools_pages.download import Body
from genai_tools_pages.page import Kind

_HEAD = 1024  # bytes in which a PDF may begin: ISO 32000-2, Annex J of its predecessor
_HTML = ("text/html", "application/xhtml+xml")
_TEXT = ("application/json", "application/xml", "application/yaml", "application/x-yaml")
_ANY = ("", "application/octet-stream", "binary/octet-stream", "application/download")
_PDF = ("application/pdf", "application/x-pdf")
_LOOKS_LIKE_HTML = re.compile(
    rb"\s*(<!--.*?-->\s*)*<(!doctype\s+html|html|head|body)\b", re.I | re.S
)


def check_type(given: str) -> None:
    """Raises `ValidationError` for a `Content-Type` of what cannot be read as text."""
    kind = _bare(given)
    known = (*_HTML, *_TEXT, *_ANY, *_PDF)
    if not (kind in known or kind.startswith("text/") or kind.endswith(("+json", "+xml"))):
        raise ValidationError(f"it is {_said(kind)}: pages, PDFs and plain text can be read")


def kind_of(body: Body) -> Kind:
    """Raises `ValidationError` for what is neither a page, nor a PDF, nor text."""
    head, kind = body.data[:_HEAD], _bare(body.type)
    if b"%PDF-" in head:
        return "pdf"
    if kind in _PDF:
        raise ValidationError("it is said to be a PDF, and is none")
    if _is_binary(head, body.type):
        raise ValidationError("it is not text: pages, PDFs and plain text can be read")
    if kind in _HTML or (kind in _ANY and _LOOKS_LIKE_HTML.match(head)):
        return "html"
    return "text"


def _bare(given: str) -> str:
    return given.partition(";")[0].strip().lower()


def _said(kind: str) -> str:
    """A type from outside, to be shown."""
    return kind if re.fullmatch(r"[a-z0-9.+-]{1,40}/[a-z0-9.+-]{1,80}", kind) else "of an odd type"


def _is_binary(head: bytes, given: str) -> bool:
    """Text has no zero bytes, unless it is of wide characters."""
    wide = head.startswith(tuple(MARKS)) or name_in(given).startswith(("utf-16", "utf-32"))
    return b"\0" in head and not wide
