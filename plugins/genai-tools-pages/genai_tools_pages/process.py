"""The process that a page is read in."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from genai_host.errors import GenaiError, ValidationError
from genai_tools_pages.addresses import Addresses, is_public, is_usable
from genai_tools_pages.charset import decoded
from genai_tools_pages.download import Body, Downloader
from genai_tools_pages.kind import check_type, kind_of
from genai_tools_pages.link import link_of
from genai_tools_pages.page import MOST_TEXT, MOST_TITLE, Kind, Page
from genai_tools_pages.tidy import one_line, tidy

_PDF_SHARE = 0.6  # of the time: what is read of a long PDF by then is better than nothing
_TOO_MUCH = "the page takes too much memory to be read"


def main() -> None:
    """Reads what is asked, and writes the page, or why there is none."""
    asked = json.loads(sys.stdin.buffer.readline())
    _bound(asked["memory"], asked["alarm"])
    try:
        answer = _answer(asked)
    except MemoryError:
        answer = {"error": ValidationError.code, "message": _TOO_MUCH}
    sys.stdout.buffer.write(json.dumps(answer).encode())


def _answer(asked: Mapping[str, Any]) -> dict[str, Any]:
    addresses = Addresses(is_usable if asked["private"] else is_public)
    downloader = Downloader(addresses, asked["most"], asked["seconds"])
    try:
        page = read(asked["link"], downloader, asked["seconds"] * _PDF_SHARE)
    except GenaiError as error:
        return {"error": error.code, "message": error.message, **error.fields()}
    return {"title": page.title, "link": page.link, "text": page.text, "kind": page.kind}


def read(given: str, downloader: Downloader, seconds: float) -> Page:
    """The page of a link.

    Args:
        given: The link.
        downloader: Downloads it.
        seconds: Time limit for the pages of a PDF.

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
    title = one_line(title, MOST_TITLE) or body.link.last[:MOST_TITLE]
    return Page(title, body.link.address, text[:MOST_TEXT], kind)


def _extracted(body: Body, kind: Kind, seconds: float) -> tuple[str, str]:
    if kind == "pdf":
        from genai_tools_pages.pdf_file import read_pdf

        return read_pdf(body.data, seconds)
    text = decoded(body.data, body.type, is_page=kind == "html")
    if kind == "text":
        return "", tidy(text)
    from genai_tools_pages.web_page import read_html

    return read_html(text)


def _bound(memory: int, seconds: int) -> None:
    """More memory than is taken already, and time, where the system has such bounds."""
    try:
        import resource
        import signal
    except ImportError:  # Windows has none: there a process ends with its call alone
        return
    signal.alarm(seconds)  # which ends it, as nothing handles it
    for kind, most in (("RLIMIT_AS", _taken() + memory), ("RLIMIT_CPU", seconds)):
        with contextlib.suppress(ValueError, OSError):  # a lower one holds already
            resource.setrlimit(getattr(resource, kind), (most, most))
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # it writes no files


def _taken() -> int:
    """Bytes of addresses that this process has; a usual number where nobody says."""
    try:
        with open("/proc/self/statm") as stream:
            return int(stream.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 2**30
