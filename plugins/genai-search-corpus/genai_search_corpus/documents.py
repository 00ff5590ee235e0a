"""The documents of a directory, split into passages that are short enough to be found and displayed
individually.

Links are not followed, and names that start with a dot are ignored, because programs use such
names. Unreadable documents are skipped, with a reason.
"""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from attrs import evolve, frozen

from genai_host.api import (
    CancelToken,
    ChildLimits,
    can_run_in_child,
    charset_in_html,
    decode_text,
    is_text,
    run_in_child,
)
from genai_host.errors import ValidationError

SIZE = 1000
"""Approximate number of characters of a passage."""

MAX = 2000
"""Maximum number of passages of a document."""

_MAX_TITLE = 200
_HEADING = re.compile(r"(#{1,6})\s+(.+?)\s*#*\s*$")
_FENCE = re.compile(r"\s*(```|~~~)")


@frozen
class Passage:
    """A passage. The title has those of the document and the section, separated by a slash."""

    title: str
    text: str


def of_text(text: str, name: str) -> list[Passage]:
    """Split a text without headings."""
    return [Passage(_title(name), each) for each in _pieces(text.splitlines())]


def of_markdown(text: str, name: str) -> list[Passage]:
    """Split by section. The title of the document is its first heading of level 1."""
    sections = list(_sections(text))
    title = next((heads[0] for heads, _ in sections if heads and heads[0].strip()), name)
    found: list[Passage] = []
    for heads, lines in sections:
        path = [title, *(heads[1:] if heads[:1] == [title] else heads)]
        named = _title(" / ".join(filter(None, path)))
        found += [Passage(named, each) for each in _pieces(lines)]
        if len(found) >= MAX:
            break
    return found[:MAX]


def of_pages(pages: Iterable[str], name: str) -> list[Passage]:
    found: list[Passage] = []
    for number, page in enumerate(pages, 1):
        title = _title(f"{name} / page {number}")
        found += [Passage(title, each) for each in _pieces(page.splitlines())]
    return found[:MAX]


def _sections(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the enclosing headings and the lines of each section."""
    heads: list[str] = []
    lines: list[str] = []
    is_code = False
    for line in text.splitlines():
        is_code ^= bool(_FENCE.match(line))
        found = None if is_code else _HEADING.match(line)
        if found is None:
            lines.append(line)
            continue
        yield list(heads), lines
        level = len(found[1])
        heads = [*heads[: level - 1], *[""] * (level - 1 - len(heads)), found[2]]
        lines = []
    yield list(heads), lines


def _pieces(lines: Iterable[str]) -> list[str]:
    """Split between paragraphs, else between lines, else anywhere."""
    found: list[str] = []
    paragraph: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            paragraph += _short(line.rstrip())
            continue
        for part in _parts(paragraph):
            if found and len(found[-1]) + len(part) + 2 <= SIZE:
                found[-1] += f"\n\n{part}"
            else:
                found.append(part)
        if len(found) > MAX:
            break
        paragraph = []
    return found


def _parts(paragraph: list[str]) -> Iterator[str]:
    part = ""
    for line in paragraph:
        if part and len(part) + len(line) + 1 > SIZE:
            yield part
            part = line
        else:
            part = f"{part}\n{line}" if part else line
    if part:
        yield part


def _short(line: str) -> list[str]:
    parts: list[str] = []
    while len(line) > SIZE:
        cut = line.rfind(" ", 1, SIZE)
        cut = SIZE if cut == -1 else cut
        parts.append(line[:cut])
        line = line[cut:].lstrip()
    return [*parts, line]


def _title(text: str) -> str:
    return " ".join(text.split())[:_MAX_TITLE]


MAX_BYTES = 8 * 2**20
"""Maximum number of bytes of a document; four times as many for a PDF, which contains images."""

MAX_FILES = 50_000
MAX_DEPTH = 30
MAX_PDF_PAGES = 1000
MAX_HTML_DEPTH = 5000
_LATEST = 2**63 - 1  # SQLite stores no larger integer

_HEADING_NODES = 50
_HEADING_TEXT = 300
_HEADINGS = {"h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5, "h6": 6}
_BLOCKS = frozenset(
    {*_HEADINGS, "p", "li", "pre", "td", "th", "dt", "dd", "blockquote", "figcaption", "div"}
)
_INLINE = ["a", "abbr", "b", "cite", "code", "em", "font", "i", "mark", "q", "s", "small"]
_INLINE += ["span", "strong", "sub", "sup", "time", "u", "wbr"]
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
_UNCLOSED = frozenset(  # tags with an optional end tag, or none
    {"area", "base", "br", "col", "dd", "dt", "embed", "hr", "img", "input", "li", "link"}
    | {"meta", "option", "p", "source", "td", "th", "tr", "wbr"}
)
_LEFT_OUT = "script, style, noscript, template, svg, iframe, head link, head meta"


@frozen
class CorpusFile:
    """A file of the directory: relative path, bytes, and modification time in nanoseconds since
    1970, limited to the year 2262."""

    path: str
    size: int
    modified: int


class UnreadableDocument(ValidationError):
    """A document is skipped; the message is the reason."""

    is_lasting = True  # until the document changes


def files_in(root: str) -> Iterator[CorpusFile]:
    """Yield possible documents by directory, up to the limit. Raises `OSError` if the directory
    does not exist; unreadable subdirectories are skipped.
    """
    left = MAX_FILES
    folders = [("", 0)]
    while folders:
        inner, depth = folders.pop()
        try:
            entries = sorted(os.scandir(os.path.join(root, inner)), key=lambda each: each.name)
        except OSError:
            if not inner:
                raise
            continue
        for entry in entries:
            if entry.name.startswith("."):
                continue
            path = os.path.join(inner, entry.name) if inner else entry.name
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError:  # removed meanwhile
                continue
            if stat.S_ISDIR(found.st_mode) and depth < MAX_DEPTH:
                folders.append((path, depth + 1))
            elif stat.S_ISREG(found.st_mode) and _kind_of(entry.name):
                if not left:
                    return
                left -= 1
                yield CorpusFile(path, found.st_size, min(found.st_mtime_ns, _LATEST))


LIMITS = ChildLimits(memory=2**30, cpu_seconds=30, seconds=60.0, output=64 * 2**20)
"""Limits of a process that reads one PDF or HTML file."""

BATCH_LIMITS = evolve(LIMITS, cpu_seconds=10, seconds=20.0)
"""Limits of a process that reads several. A batch and then one file must take less than the time
limit of the tool, or else a search would end before it learns which file is unreadable."""

_BATCH_FILES = 32
_BATCH_BYTES = 4 * 2**20


@frozen
class ReadDocument:
    """The passages of a document, or the reason why there are none."""

    passages: Sequence[Passage] = ()
    why: str = ""
    is_lasting: bool = True


def read_all(
    root: str, files: Iterable[CorpusFile], cancel: CancelToken
) -> Iterator[tuple[CorpusFile, ReadDocument]]:
    """Read documents. PDF and HTML are read in another process with limits: there are small files
    for which their parsers take hours or all memory. A process reads several files, since its start
    takes longer than most of them. If it exceeds a limit, each is read alone, the smallest first.
    """
    batch: list[tuple[CorpusFile, bytes]] = []
    for file in files:
        is_read_apart = _kind_of(file.path) in ("html", "pdf")
        if is_read_apart and not can_run_in_child():
            why = "HTML and PDF files cannot be read: this program is frozen"
            yield file, ReadDocument(why=why, is_lasting=False)  # others can use the index
            continue
        try:
            data = load(root, file)
        except UnreadableDocument as error:
            yield file, ReadDocument(why=str(error), is_lasting=error.is_lasting)
            continue
        if not is_read_apart:
            yield file, read_one(os.path.basename(file.path), data)
            continue
        batch.append((file, data))
        if len(batch) == _BATCH_FILES or sum(len(data) for _, data in batch) > _BATCH_BYTES:
            yield from _read_apart(batch, cancel)
            batch = []
    yield from _read_apart(batch, cancel)


def _read_apart(
    batch: Sequence[tuple[CorpusFile, bytes]], cancel: CancelToken
) -> Iterator[tuple[CorpusFile, ReadDocument]]:
    if not batch:
        return
    exceeded = UnreadableDocument("reading it exceeds the memory or time limit")
    try:
        found: list[ReadDocument] = run_in_child(
            f"{__name__}:read_several",
            [os.path.basename(file.path) for file, _ in batch],
            [len(data) for _, data in batch],
            returns=list[ReadDocument],
            cancel=cancel,
            limits=BATCH_LIMITS if len(batch) > 1 else LIMITS,
            exceeded=exceeded,
            data=b"".join(data for _, data in batch),
        )
    except UnreadableDocument as error:
        if len(batch) > 1:
            for each in sorted(batch, key=lambda each: each[0].size):
                yield from _read_apart([each], cancel)
            return
        found = [ReadDocument(why=str(error))]
    yield from zip([file for file, _ in batch], found, strict=True)


def read_several(names: Sequence[str], sizes: Sequence[int], data: bytes) -> list[ReadDocument]:
    """Read documents with these names, whose contents follow each other."""
    stream = io.BytesIO(data)
    return [read_one(name, stream.read(size)) for name, size in zip(names, sizes, strict=True)]


def read_one(name: str, data: bytes) -> ReadDocument:
    """Read a document with this name."""
    try:
        return ReadDocument(passages_in(name, data))
    except UnreadableDocument as error:
        return ReadDocument(why=str(error))


def load(root: str, file: CorpusFile) -> bytes:
    """Return the content of a document. Raises `UnreadableDocument`."""
    most = MAX_BYTES * 4 if _kind_of(file.path) == "pdf" else MAX_BYTES
    if file.size > most:
        raise UnreadableDocument(f"larger than {most >> 20} MiB")
    flags = os.O_RDONLY  # and it can be a link or a pipe by now
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"):
        flags |= getattr(os, name, 0)
    try:
        with open(os.open(os.path.join(root, file.path), flags), "rb") as stream:
            return stream.read(most)
    except OSError as error:
        unreadable = UnreadableDocument(error.strerror or "cannot be opened")
        unreadable.is_lasting = False  # permissions change, and too many files can be open
        raise unreadable from error


def passages_in(name: str, data: bytes) -> list[Passage]:
    """Return the passages of a document with this name. Raises `UnreadableDocument`."""
    kind = _kind_of(name)
    if kind == "pdf":
        return of_pages(_pdf_pages(data), name)
    text = _text(data, charset_in_html(data) if kind == "html" else "")
    if kind == "html":
        title, text = _html(text)
        return of_markdown(text, title or name)
    return of_markdown(text, name) if kind == "markdown" else of_text(text, name)


_KINDS = {
    **dict.fromkeys((".md", ".markdown"), "markdown"),
    **dict.fromkeys((".txt", ".rst", ".adoc", ".org"), "text"),
    **dict.fromkeys((".html", ".htm"), "html"),
    ".pdf": "pdf",
}


def _kind_of(name: str) -> str:
    return _KINDS.get(os.path.splitext(name)[1].lower(), "")


def _text(data: bytes, declared: str) -> str:
    if not is_text(data):
        raise UnreadableDocument("not text")
    return decode_text(data, declared or "utf-8")


def _html(text: str) -> tuple[str, str]:
    """Return the title, and the text as Markdown with headings only."""
    from selectolax.lexbor import LexborHTMLParser

    _must_be_flat(text)
    tree = LexborHTMLParser(text)
    title = tree.css_first("title")
    for node in tree.css(_LEFT_OUT):
        node.decompose()
    tree.unwrap_tags(_INLINE)
    body = tree.body
    lines: list[str] = []
    if body is not None:
        body.merge_text_nodes()
        for node in body.traverse(include_text=True):
            _put(node, lines)
    return " ".join(title.text().split()) if title is not None else "", "\n".join(lines)


def _must_be_flat(text: str) -> None:
    """Reject deeply nested HTML, for which parsers take quadratic time."""
    depth = 0
    for closes, name in _TAG.findall(text):
        if name.lower() not in _UNCLOSED:
            depth = max(0, depth - 1) if closes else depth + 1
        if depth > MAX_HTML_DEPTH:
            raise UnreadableDocument(f"nested deeper than {MAX_HTML_DEPTH} levels")


def _put(node: Any, lines: list[str]) -> None:
    if node.tag in _HEADINGS:
        lines += ["", "#" * _HEADINGS[node.tag] + " " + _heading(node), ""]
    elif node.tag in _BLOCKS:
        lines.append("")
    elif node.tag == "-text" and not _is_in_heading(node):
        text = " ".join(node.text().split())
        if text:
            lines.append(text)


def _heading(node: Any) -> str:
    """Return the start of a heading; headings can be nested, and contain the inner text."""
    inner = islice(node.traverse(include_text=True), _HEADING_NODES)
    texts = (each.text()[:_HEADING_TEXT] for each in inner if each.tag == "-text")
    return " ".join(" ".join(texts).split())[:_HEADING_TEXT]


def _is_in_heading(node: Any) -> bool:
    for _ in range(8):
        node = node.parent
        if node is None or node.tag in _BLOCKS - {*_HEADINGS}:
            return False
        if node.tag in _HEADINGS:
            return True
    return False


def _pdf_pages(data: bytes) -> list[str]:
    """Return the text of each page. Any exception of the library becomes a reason."""
    import logging

    import pypdf

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it logs each defect of a file
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableDocument("encrypted")
        pages = reader.pages[:MAX_PDF_PAGES]
        return [page.extract_text() for page in pages]
    except (UnreadableDocument, MemoryError):
        raise
    except Exception as error:
        raise UnreadableDocument(f"not a readable PDF: {type(error).__name__}") from error
