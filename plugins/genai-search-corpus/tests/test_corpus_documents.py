"""Which documents there are in a folder, and what is in them."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest
from genai_search_corpus import documents
from genai_search_corpus.documents import (
    SIZE,
    CorpusFile,
    Passage,
    UnreadableDocument,
    files_in,
    load,
    of_markdown,
    of_text,
    passages_in,
)
from hypothesis import example, given, strategies as st
from pypdf import PdfReader, PdfWriter

from genai_host_testing.internal.samples import pdf


def put(folder: Path, name: str, data: bytes | str) -> CorpusFile:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data.encode() if isinstance(data, str) else data)
    return CorpusFile(name, file.stat().st_size, file.stat().st_mtime_ns)


def read(root: str, file: CorpusFile) -> list[Passage]:
    """The passages of a document, read in this process."""
    return passages_in(file.path, load(root, file))


def listed(folder: Path) -> list[str]:
    return sorted(file.path for file in files_in(str(folder)))


def test_documents_are_found_in_folders_in_folders(tmp_path: Path) -> None:
    found = ["a.md", "b/c.TXT", "b/d/e.html", "f.pdf", "g.rst"]
    for name in (*found, "a.png", "b.py", "c", ".hidden.md", ".git/c.md"):
        put(tmp_path, name, "x")
    assert listed(tmp_path) == found


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_links_are_not_followed(tmp_path: Path) -> None:
    put(tmp_path, "outside/secret.md", "x")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "a.md").symlink_to(tmp_path / "outside" / "secret.md")
    (inside / "b").symlink_to(tmp_path / "outside")
    assert listed(inside) == []
    with pytest.raises(UnreadableDocument):
        read(str(inside), CorpusFile("a.md", 1, 0))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in folders")
def test_named_pipe_is_skipped(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.md")
    assert listed(tmp_path) == []


def test_a_date_may_be_later_than_a_database_stores(tmp_path: Path) -> None:
    put(tmp_path, "a.md", "x")
    try:
        os.utime(tmp_path / "a.md", ns=(15 * 10**18, 15 * 10**18))  # the year 2445
    except OverflowError:
        pytest.skip("the system has no such dates")
    [file] = files_in(str(tmp_path))
    assert file.modified < 2**63


def test_there_may_be_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_FILES", 3)
    for number in range(5):
        put(tmp_path, f"{number}.md", "x")
    assert len(listed(tmp_path)) == 3


def test_folders_may_be_too_deep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_DEPTH", 1)
    put(tmp_path, "a/a.md", "x")
    put(tmp_path, "a/b/b.md", "x")
    assert listed(tmp_path) == ["a/a.md"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        list(files_in(str(tmp_path / "nowhere")))


@pytest.mark.parametrize(
    ("name", "data"),
    [("binary.md", b"\x00\x01\x02"), ("broken.pdf", b"%PDF-1.7 this is none"), ("empty.pdf", b"")],
)
def test_what_cannot_be_read_says_why(tmp_path: Path, name: str, data: bytes) -> None:
    file = put(tmp_path, name, data)
    with pytest.raises(UnreadableDocument) as caught:
        read(str(tmp_path), file)
    assert str(caught.value)


def test_a_document_may_be_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_BYTES", 10)
    with pytest.raises(UnreadableDocument, match="larger than"):
        read(str(tmp_path), put(tmp_path, "a.md", "x" * 11))


@pytest.mark.parametrize("name", ["a.txt", "a.md"])
@pytest.mark.parametrize(("data", "texts"), [
    ("café".encode("latin-1"), ["café"]), ("café".encode("utf-8-sig"), ["café"]),
    ("café".encode("utf-16"), ["café"]), (b"", []),
])  # fmt: skip
def test_encodings(tmp_path: Path, name: str, data: bytes, texts: list[str]) -> None:
    assert [each.text for each in read(str(tmp_path), put(tmp_path, name, data))] == texts


def test_sections_of_markdown_have_the_headings_above_them() -> None:
    text = "# Top\n\nOne.\n\n## Part #\n\nTwo.\n\n### Deep\n\nThree.\n\n## Other\n\nFour.\n"
    sections = [(each.title, each.text) for each in of_markdown(text, "a.md")]
    assert sections == [
        ("Top", "One."), ("Top / Part", "Two."), ("Top / Part / Deep", "Three."),
        ("Top / Other", "Four."),
    ]  # fmt: skip


@pytest.mark.parametrize(("text", "titles"), [
    ("# Top\n\n```sh\n# no heading\nls\n```\n", ["Top"]), ("Only text.", ["a.md"]),
    # the first heading of the first level that says something
    ("## on\nx\n# Rivers\ny", ["Rivers / on", "Rivers"]),
])  # fmt: skip
def test_titles_of_markdown(text: str, titles: list[str]) -> None:
    assert [each.title for each in of_markdown(text, "a.md")] == titles
    assert of_text("Only text.", "a.txt")[0].title == "a.txt"


def test_the_text_of_html_is_what_one_sees(tmp_path: Path) -> None:
    page = """<html><head><title>The  page</title><style>p {}</style></head><body>
    <script>alert(1)</script><h1>Rivers <b>big</b></h1><p>Run to <i>the</i> sea.</p>
    <!-- hidden --><ul><li>Rhine</li><li>Rhone</li></ul><h2>Lakes</h2><p>Do not.</p>"""
    sections = read(str(tmp_path), put(tmp_path, "a.html", page))
    assert [each.title for each in sections] == ["Rivers big", "Rivers big / Lakes"]
    assert sections[0].text.split() == ["Run", "to", "the", "sea.", "Rhine", "Rhone"]


def test_words_of_html_stay_whole(tmp_path: Path) -> None:
    page = """<p><b>W</b>ater is H<sub>2</sub>O, <a href="x">see</a> <i>more</i>.<br>One
    line</p>two<section>three</section><section>four</section>"""
    (found,) = read(str(tmp_path), put(tmp_path, "a.html", page))
    assert found.text == "Water is H2O, see more.\nOne line\ntwo\nthree\nfour"


@pytest.mark.parametrize(("declared", "encoding", "text"), [
    *((each, each, "Мост восстановят весной") for each in ("windows-1251", "koi8-r", "utf-8")),
    ("iso-8859-1", "utf-8", "für €"),  # an old one
])  # fmt: skip
def test_html_declares_its_encoding(
    tmp_path: Path, declared: str, encoding: str, text: str
) -> None:
    page = f"<meta charset={declared}><p>{text}".encode(encoding)
    (found,) = read(str(tmp_path), put(tmp_path, "a.html", page))
    assert found.text == text


def test_html_may_be_nested_but_not_without_end(tmp_path: Path) -> None:
    page = "<div>" * 1000 + "deep" + "</div>" * 1000 + "<p>flat<br><li>and long" * 10_000
    (first, *_) = read(str(tmp_path), put(tmp_path, "a.html", page))
    assert first.text.startswith("deep")
    with pytest.raises(UnreadableDocument, match="nested deeper"):
        read(str(tmp_path), put(tmp_path, "b.html", "<div>" * 1_000_000))


def test_pages_of_a_pdf(tmp_path: Path) -> None:
    pages = ("Rivers run", "Lakes stand")
    data = pdf([f"BT /F1 12 Tf 10 100 Td ({text}) Tj ET".encode() for text in pages])
    sections = read(str(tmp_path), put(tmp_path, "a.pdf", data))
    assert [(each.title, each.text) for each in sections] == [
        (f"a.pdf / page {number}", text) for number, text in enumerate(pages, 1)
    ]
    writer, stream = PdfWriter(clone_from=PdfReader(io.BytesIO(data))), io.BytesIO()
    writer.encrypt("secret")
    writer.write(stream)
    with pytest.raises(UnreadableDocument):
        read(str(tmp_path), put(tmp_path, "b.pdf", stream.getvalue()))


@given(st.text(max_size=4000))
def test_passages_are_short_and_lose_nothing(text: str) -> None:
    sections = of_text(text, "a.txt")
    assert all(each.text.strip() and len(each.text) <= SIZE for each in sections)
    assert "".join("".join(each.text for each in sections).split()) == "".join(text.split())


@example("#  \n`")
@given(st.text(alphabet="# \nab`~", max_size=400))
def test_no_markdown_is_too_much(text: str) -> None:
    for each in of_markdown(text, "a.md"):
        assert each.title
        assert len(each.text) <= SIZE


def test_headings_within_headings_do_not_repeat_all_that_is_in_them(tmp_path: Path) -> None:
    text = "<h1><div>" * 1000 + "word " * 20_000
    assert len(documents._html(text)[1]) < 1_000_000
    sections = read(str(tmp_path), put(tmp_path, "a.html", f"<h1>On <b>rivers</b></h1><p>{text}"))
    assert sections[0].title.startswith("On rivers")
