"""Markdown of a model, as a tree of elements that a page can build.

    render(POST {"texts": ["**hi**"]})
    → {"trees": [[["p", {}, [["strong", {}, ["hi"]]]]]]}

A node is a text, or a list of a tag, attributes and nodes. HTML is not used: tags in the text stay
text, and only the elements listed here are created. An image becomes a link, so that viewing an
answer loads nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from genai_host.api import RouteRequest, RouteResponse, json_response
from genai_host.errors import ValidationError
from genai_host.host import Host

MAX_TEXTS = 200
"""Maximum number of texts in one request."""

MAX_LETTERS = 100_000
"""Maximum total number of characters rendered per request. Further texts are not rendered."""

Node = Any
"""A text, or `[tag, attributes, nodes]`."""

_BLOCKS = frozenset(("p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote"))
_IN_LINES = frozenset(("em", "strong", "s", "a"))
_OF_TABLES = frozenset(("table", "thead", "tbody", "tr", "th", "td"))
_TAGS = _BLOCKS | _IN_LINES | _OF_TABLES
_MAX_NESTED = 60  # nesting of blocks, and of inline elements in each
_ABOVE = 2  # levels of headings used by the page itself
_DEEPEST = 6
_SCHEMES = frozenset({"http", "https", "mailto"})
_ALIGNED = MappingProxyType({"text-align:center": "center", "text-align:right": "right"})
_MAX_FORMULA = 3_000  # characters
_MAX_LINES = 50  # maximum number of lines of a formula
_CLOSING = MappingProxyType({"\\(": "\\)", "\\[": "\\]", "$$": "$$"})
_OPENING_BLOCKS = frozenset(("\\[", "$$"))
_LANGUAGE = re.compile(r"[A-Za-z0-9+#._-]{1,30}")


def render(request: RouteRequest, host: Host) -> RouteResponse:
    """Render texts. Raises `ValidationError`."""
    given = request.json()
    texts = given.get("texts") if isinstance(given, dict) else None
    if not isinstance(texts, list) or len(texts) > MAX_TEXTS:
        raise ValidationError(
            f"`texts` must be a list of at most {MAX_TEXTS} texts", path="$.texts"
        )
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValidationError("must be a string", path=f"$.texts[{number}]")
    return json_response({"trees": trees(texts)})


def trees(texts: Sequence[str]) -> list[list[Node]]:
    """Render each text as nodes."""
    made: list[list[Node]] = []
    left = MAX_LETTERS
    for text in texts:
        if len(text) > left:
            made.append([["pre", {}, [text]]])
        else:
            made.append(tree(text))
            left -= len(text)
    return made


def tree(text: str) -> list[Node]:
    return _Builder().built(_parser().parse(text))


def _parser() -> MarkdownIt:
    """A parser for CommonMark with tables and strikethrough. URLs are not made links automatically;
    HTML is text, and TeX formulas are unchanged."""
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 40})
    parser.inline.ruler.before("escape", "formula", _formula)
    parser.block.ruler.before(
        "code", "formula", _formula_block, {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )
    return parser.enable(["table", "strikethrough"])


def _formula(state: StateInline, silent: bool) -> bool:
    """A formula in `\\(...\\)`, `\\[...\\]` or `$$...$$` is not Markdown."""
    closing = _CLOSING.get(state.src[state.pos : state.pos + 2])
    if closing is None:
        return False
    end = state.src.find(closing, state.pos + 3, min(state.posMax, state.pos + _MAX_FORMULA))
    if end < 0:
        return False
    if not silent:
        state.push("text", "", 0).content = state.src[state.pos : end + 2]
    state.pos = end + 2
    return True


def _formula_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Lines from `\\[` or `$$` to the end of the formula are one paragraph."""
    begin = state.bMarks[start] + state.tShift[start]
    opening = state.src[begin : begin + 2]
    if opening not in _OPENING_BLOCKS or state.is_code_block(start):
        return False
    close = state.src.find(_CLOSING[opening], begin + 2, begin + _MAX_FORMULA)
    last = start
    while close > state.eMarks[last]:
        last += 1
        if last >= min(end, start + _MAX_LINES) or state.isEmpty(last):
            return False
    if close < 0 or state.src[close + 2 : state.eMarks[last]].strip():
        return False
    if silent:
        return True
    state.line = last + 1
    state.push("paragraph_open", "p", 1)
    token = state.push("inline", "", 0)
    token.content = state.getLines(start, state.line, state.blkIndent, False).strip()
    token.children = []
    state.push("paragraph_close", "p", -1)
    return True


class _Builder:
    """Builder for one text."""

    def __init__(self) -> None:
        self._level = _ABOVE

    def built(self, tokens: Sequence[Token]) -> list[Node]:
        top: list[Node] = []
        within = [top]
        for token in tokens:
            if token.nesting == 1:
                node = self._element(token) if len(within) < _MAX_NESTED else None
                if node is not None:
                    within[-1].append(node)
                # without an element, its content is added to the parent
                within.append(within[-1] if node is None else node[2])
            elif token.nesting == -1:
                within.pop()
            else:
                within[-1] += self._leaf(token)
        return top

    def _element(self, token: Token) -> list[Node] | None:
        if token.hidden or token.tag not in _TAGS:
            return None
        if token.type == "heading_open":
            return [self._heading(token.tag), {}, []]
        if token.type == "link_open":
            address = web_address(token.attrs.get("href"))
            return None if address is None else ["a", {"href": address}, []]
        return [token.tag, _attributes(token), []]

    def _heading(self, tag: str) -> str:
        """The heading below those of the page, without skipping a level."""
        self._level = min(int(tag[1]) + _ABOVE, self._level + 1, _DEEPEST)
        return f"h{self._level}"

    def _leaf(self, token: Token) -> list[Node]:
        if token.type == "inline":
            return self.built(token.children or [])
        if token.type in ("fence", "code_block"):
            return [["pre", _language(token), [token.content]]]
        if token.type == "code_inline":
            return [["code", {}, [token.content]]]
        if token.type == "softbreak":
            return ["\n"]
        if token.type in ("hr", "hardbreak"):
            return [[token.tag, {}, []]]
        if token.type == "image":
            return _picture(token)
        return [token.content] if token.content else []


def web_address(given: object) -> str | None:
    """Return a URL that a link may have; None for any other, such as `javascript:`."""
    if not isinstance(given, str):
        return None
    try:
        scheme = urlsplit(given).scheme
    except ValueError:  # for example an incomplete IPv6 address
        return None
    return given if scheme.lower() in _SCHEMES else None


def _picture(token: Token) -> list[Node]:
    alt_text = token.content or "picture"
    address = web_address(token.attrs.get("src"))
    return [alt_text] if address is None else [["a", {"href": address}, [alt_text]]]


def _attributes(token: Token) -> Mapping[str, Any]:
    if token.tag == "ol" and isinstance(token.attrs.get("start"), int):
        return {"start": token.attrs["start"]}
    if token.tag in ("th", "td"):
        align = _ALIGNED.get(str(token.attrs.get("style", "")))
        return {"align": align} if align else {}
    return {}


def _language(token: Token) -> Mapping[str, Any]:
    named = _LANGUAGE.match(token.info.strip())
    return {"language": named[0]} if named else {}
