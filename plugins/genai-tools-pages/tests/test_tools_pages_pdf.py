"""The text of PDFs, of which some are made to break their reader."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator

import pytest
from genai_tools_pages.addresses import Addresses, is_usable
from genai_tools_pages.download import Downloader
from genai_tools_pages.page import MAX_TEXT
from genai_tools_pages.process import read, read_pdf
from pypdf import PdfReader, PdfWriter

from genai_host.errors import ValidationError
from genai_host_testing.internal.samples import pdf
from genai_host_testing.services.page_site import PageSite, reply

PAGES = ("The river rises in the hills.", "It is 120 km long.")


def show(text: str) -> bytes:
    """What a page has to say so, as its content."""
    return f"BT /F1 12 Tf 50 700 Td ({text}) Tj ET".encode()


def encrypted(algorithm: str, password: str) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf([show(PAGES[0])]))))
    writer.encrypt(password, "owner", algorithm=algorithm)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


@pytest.fixture
def site() -> Iterator[PageSite]:
    with PageSite() as site:
        yield site


@pytest.mark.part
def test_its_pages_are_read(site: PageSite) -> None:
    site.answers["/a.pdf"] = reply(pdf([show(each) for each in PAGES], "River"), "application/pdf")
    page = read(site.link("/a.pdf"), Downloader(Addresses(is_usable), 10**7, 20), 20)
    assert (page.kind, page.title, page.text) == ("pdf", "River", "\n\n".join(PAGES))


@pytest.mark.part
def test_without_a_title_it_has_the_name_of_its_file(site: PageSite) -> None:
    site.answers["/b/a.pdf?x=y"] = reply(pdf([show("one")]), "application/octet-stream")
    page = read(site.link("/b/a.pdf?x=y"), Downloader(Addresses(is_usable), 10**7, 20), 20)
    assert page.title == "a.pdf"


@pytest.mark.parametrize("algorithm", ["RC4-40", "RC4-128", "AES-128", "AES-256"])
def test_one_that_anybody_may_open_is_read(algorithm: str) -> None:
    assert read_pdf(encrypted(algorithm, ""), 20)[1] == PAGES[0]


ITS_OWN_PARENT = pdf([show("one")]).replace(b"/Kids [4 0 R]", b"/Kids [2 0 R]")
DEEP = b"1 0 obj\n" + b"<< /A " * 50_000 + b"\nendobj\nstartxref\n9\n%%EOF"
BROKEN = r"the PDF (is damaged|has no text)"


@pytest.mark.parametrize(("data", "message"), [
    (encrypted("RC4-128", "word"), "requires a password"),
    (encrypted("AES-256", "word"), "requires a password"),
    (pdf([b"0 0 100 100 re f"]), "may be a scan"),
    (ITS_OWN_PARENT, "the PDF is damaged"), (b"%PDF-1.7", BROKEN), (b"%PDF-1.7\n%%EOF", BROKEN),
    (b"%PDF-1.7\n" + b"\xff" * 10_000, BROKEN),
    (b"%PDF-1.7\ntrailer << /Root 1 0 R >>\nstartxref\n0\n%%EOF", BROKEN),
    (b"%PDF-1.7\n" + b"[" * 100_000, BROKEN),
    (b"%PDF-1.7\n" + DEEP, BROKEN),
], ids=range(10))  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_what_cannot_be_read_is_told(data: bytes, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        read_pdf(data, 20)


def test_one_whose_table_is_wrong_is_read_anyway() -> None:
    data = pdf([show(each) for each in PAGES])
    at = data.index(b"startxref")
    assert read_pdf(data[:at] + b"startxref\n5\n%%EOF\n", 20)[1] == "\n\n".join(PAGES)


def test_one_broken_page_does_not_keep_the_others() -> None:
    data = pdf([zlib.compress(show(PAGES[0])), b"no zlib at all"], filter="/FlateDecode")
    assert read_pdf(data, 20)[1].startswith(PAGES[0])


def test_a_long_one_is_read_as_far_as_is_kept() -> None:
    _, text = read_pdf(pdf([show("river " * 10_000)] * 10), 60)
    assert MAX_TEXT < len(text) < MAX_TEXT + 70_000
    assert text.endswith("(pages 5 to 10 were not read)")


def test_a_slow_one_is_read_as_long_as_there_is_time() -> None:
    _, text = read_pdf(pdf([show(each) for each in PAGES]), 0)
    assert text == f"{PAGES[0]}\n\n(pages 2 to 2 were not read)"
