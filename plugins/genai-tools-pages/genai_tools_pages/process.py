"""Functions for the process that reads a page."""

from __future__ import annotations

from genai_host.errors import ValidationError
from genai_tools_pages.addresses import Addresses, is_public, is_usable
from genai_tools_pages.charset import decoded
from genai_tools_pages.download import Body, Downloader
from genai_tools_pages.kind import check_type, kind_of
from genai_tools_pages.link import link_of
from genai_tools_pages.page import MOST_TEXT, MOST_TITLE, Page, PageKind
from genai_tools_pages.tidy import one_line, tidy

_PDF_SHARE = 0.6  # of the time limit, so that a part of a long PDF is returned


def read_page(link: str, private: bool, most: int, seconds: float) -> Page:
    """Read the page at a link in this process.

    Args:
        link: Its address.
        private: Whether private addresses may be read.
        most: Maximum size of its body in bytes.
        seconds: Time limit of the download.

    Raises:
        GenaiError: The page cannot be read.
    """
    downloader = Downloader(Addresses(is_usable if private else is_public), most, seconds)
    return read(link, downloader, seconds * _PDF_SHARE)


def read(given: str, downloader: Downloader, seconds: float) -> Page:
    """Read a page with a downloader.

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


def _extracted(body: Body, kind: PageKind, seconds: float) -> tuple[str, str]:
    if kind == "pdf":
        from genai_tools_pages.pdf_file import read_pdf

        return read_pdf(body.data, seconds)
    text = decoded(body.data, body.type, is_page=kind == "html")
    if kind == "text":
        return "", tidy(text)
    from genai_tools_pages.web_page import read_html

    return read_html(text)
