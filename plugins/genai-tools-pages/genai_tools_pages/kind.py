"""The kind of a body, from its first bytes, then from its `Content-Type`."""

from __future__ import annotations

import re

from genai_host.errors import ValidationError
from genai_tools_pages.charset import MARKS, name_in
from genai_tools_pages.download import Body
from genai_tools_pages.page import PageKind

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
            f"unsupported content type {_said(kind)}: only web pages, PDFs and text are supported"
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


def _said(kind: str) -> str:
    """Return an untrusted type for display."""
    return kind if re.fullmatch(r"[a-z0-9.+-]{1,40}/[a-z0-9.+-]{1,80}", kind) else "(invalid)"


def _is_binary(head: bytes, given: str) -> bool:
    """Whether data is binary. Text has no zero bytes, except in UTF-16 and UTF-32."""
    wide = head.startswith(tuple(MARKS)) or name_in(given).startswith(("utf-16", "utf-32"))
    return b"\0" in head and not wide
