"""The text of a web page: what it is about, without menus and the like."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

from lxml import etree, html

from genai_host.errors import ValidationError
from genai_tools_pages.tidy import tidy

_LARGE = 20_000
"""Elements beyond which trafilatura is asked for no second opinion, which takes long."""

_MOST = 60_000
"""Elements beyond which it is not asked: it would take all the time that there is."""

_UNREAD = re.compile(
    "head|script|style|noscript|template|iframe|object|embed|applet|canvas|svg|math|audio|video"
    "|map|datalist|select|option|textarea|frameset|noframes"
)
_HIDING = re.compile(
    r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|"
    r"(?:opacity|font-size)\s*:\s*0(?:\.0*)?(?:%|[a-z]+)?\s*(?:;|!|$))",
    re.I,
)
_WHOLE = ("html", "body")
_BLOCK = re.compile(
    "address|article|aside|blockquote|br|dd|details|div|dl|dt|fieldset|figcaption|figure|footer"
    "|form|h[1-6]|header|hr|li|main|nav|ol|p|pre|section|summary|table|td|th|tr|ul"
)


def read_html(text: str) -> tuple[str, str]:
    """The title and the text. Raises `ValidationError` where there is no text.

    Nothing is fetched, and nothing is run: a page that scripts make is empty.
    """
    tree = _tree(tidy(text))
    title = _title(tree)
    _drop_unseen(tree)
    said = _main_text(tree) or tidy(_all_text(tree))
    if not said:
        raise ValidationError("there is no text on the page; scripts may make it, and none are run")
    return title, said


def _tree(text: str) -> Any:
    # huge: elements may be 2048 deep, and not 256
    parser = html.HTMLParser(encoding="utf-8", huge_tree=True, no_network=True)
    try:
        return html.document_fromstring(text.encode(errors="replace"), parser=parser)
    except etree.ParserError:  # there is nothing in it
        raise ValidationError("there is no text on the page") from None


def _title(tree: Any) -> str:
    for path in ("//head//title//text()", "//meta[@property='og:title']/@content", "//h1//text()"):
        found = "".join(tree.xpath(path)[:100]).strip()
        if found:
            return found
    return ""


def _drop_unseen(tree: Any) -> None:
    """Take out what a reader does not see: scripts, comments, what is hidden where it stands.
    What a style sheet hides is not known."""
    unseen = [each for each in tree.iter() if _is_unseen(each)]
    for each in unseen:
        if each.getparent() is not None:
            each.drop_tree()


def _is_unseen(element: Any) -> bool:
    if not isinstance(element.tag, str):  # a comment, or a processing instruction
        return True
    if element.tag in _WHOLE:  # which scripts show when they are ready
        return False
    if _UNREAD.fullmatch(element.tag) or "hidden" in element.attrib:
        return True
    if element.tag == "dialog" and "open" not in element.attrib:
        return True
    return bool(_HIDING.search(element.get("style", "")))


def _main_text(tree: Any) -> str:
    """What the page is about; empty where that is not found, or takes too long to find."""
    import trafilatura

    size = sum(1 for _ in islice(tree.iter(), _MOST + 1))
    if size > _MOST:
        return ""
    try:
        said = trafilatura.extract(tree, output_format="txt", fast=size > _LARGE)
    except (RecursionError, ValueError, etree.LxmlError):
        return ""
    return tidy(said or "")


def _all_text(tree: Any) -> str:
    """All that can be seen, in its order: one line for each block."""
    parts: list[str] = []
    for event, element in etree.iterwalk(tree, events=("start", "end")):
        if _BLOCK.fullmatch(element.tag):
            parts.append("\n")
        within = element.text if event == "start" else element.tail
        parts.append(" ".join((within or "").split("\n")))
    return re.sub(r"\s*\n\s*", "\n", re.sub(r"[ \t]+", " ", "".join(parts)))
