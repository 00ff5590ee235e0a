"""Search, passages and citations.

    TurnSearches.find → _stored, else _call_for → CallTools → _facts_in

Tools of other plugins read the pages named by the user and run the queries. Earlier results are
reused. A search tool takes `query`, `region` and `limit`, and returns a JSON list of `title`,
`link` and `text`. A reader takes `link`, and returns one such object with the whole text of a page;
`passages` splits that text into findings.

A model can invent citation numbers and addresses, and a page can make it write an address that
leaks other text. So `cited` removes addresses that were not in the prompt, and numbers without a
finding.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal

from attrs import define, evolve, field, frozen

from genai_feature_research import Settings
from genai_feature_research.memory import Fact, line, plain
from genai_host.api import CallTools, ListTools, Progress, Step, ToolCall, ToolOutput, read_json
from genai_host.errors import ValidationError

SIZE = 1000
"""Approximate number of characters of a passage."""

MAX = 100
"""Maximum number of passages of one text."""

_PARAGRAPHS = re.compile(r"\n\s*\n")
_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n+")


def passages(text: str) -> list[str]:
    """Split a text between paragraphs, else between sentences, else between words."""
    found: list[str] = []
    room = 0
    for piece in _pieces(text.strip()):
        if found and len(piece) + 2 <= room:
            found[-1] += f"\n\n{piece}"
        elif len(found) == MAX:
            break
        else:
            found.append(piece)
            room = SIZE
        room -= len(piece) + 2
    return found


def _pieces(text: str) -> list[str]:
    pieces: list[str] = []
    for paragraph in _PARAGRAPHS.split(text):
        if len(paragraph) <= SIZE:
            pieces.append(paragraph.strip())
            continue
        line = ""
        for sentence in _SENTENCES.split(paragraph):
            for part in _short(sentence):
                if line and len(line) + len(part) + 1 > SIZE:
                    pieces.append(line)
                    line = part
                else:
                    line = f"{line} {part}".strip()
        pieces.append(line)
    return [each for each in pieces if each]


def _short(sentence: str) -> list[str]:
    """Split a sentence into parts of at most `SIZE` characters."""
    parts: list[str] = []
    while len(sentence) > SIZE:
        cut = sentence.rfind(" ", 1, SIZE)
        cut = SIZE if cut == -1 else cut
        parts.append(sentence[:cut])
        sentence = sentence[cut:].lstrip()
    return [*parts, sentence]


_CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]+`)", re.DOTALL)
_MATHEMATICS = re.compile(r"\$\$?(?=[^\s$])[^$\n]*(?<=[^\s$])\$\$?(?!\d)")  # or between prices
_INDEXED = re.compile(r"(?:(?<![^\W\d_])[^\W\d_]|\\[a-z]+)(?=\[)", re.IGNORECASE)  # one letter
_NUMBERS = re.compile(  # `items[0]` is no citation
    r"(?!(?<=\w)\[0\])[ \t]?\[(\d{1,4}(?:\s?[,;]\s?\d{1,4})*)\](?!\(|\w)"
)
_LINKS = re.compile(  # match an address as a whole; otherwise each of its prefixes would be tried
    r"!?\[([^\[\]\n]*)\]\(\s*<?([^)<>\s]+)(?=[)<>\s])>?[^)\n]*\)"
)
_DEFINITIONS = re.compile(  # of links and images elsewhere
    r"^([ \t>*+-]*+)\[([^\]\n]++)\]:[ \t]*+(?:\r?\n)?[ \t>]*+"
    r"(?:<((?:[^<>\\\n]|\\.)++)>|([^\s<>]++))"
    r"(?:[ \t]++(?:"  # a title, which can continue on other lines
    r"\"(?:[^\"\\\r\n]|\\.?)*+\"?|'(?:[^'\\\r\n]|\\.?)*+'?|\((?:[^)\\\r\n]|\\.?)*+\)?))?"
    r"[ \t]*+(?=[\r\n]|\Z)",
    re.MULTILINE,
)
_IS_ADDRESS = re.compile(  # `&sol;` and `\/` are slashes
    r"[/\\]|www\.|[a-z][\w+.-]*:[^/\\]*[/\\]|.*?(?://|\\[^\w\s]|&#?\w{1,32};)",
    re.IGNORECASE,
)
_OF_HOST = re.compile(r"www\.|.*?(?://|\\[^\w\s]|&#?\w{1,32};)", re.IGNORECASE)
_LABELS = re.compile(r"\[([^\[\]]+)\]")
_END = r"[^\s<>\"'`\])}]+>?"
_PORT = r"\d{1,5}[.,;:!?*_]*+(?:[\s<>\"'`\])}]|\Z)"
_ADDRESSES = re.compile(  # browsers accept `https:host`, and backslashes
    rf"<?\b(?:(?:https?|ftp):(?=[\w/\\\[])(?!{_PORT})|file://|www\.){_END}", re.IGNORECASE
)
_RELATIVE = re.compile(
    rf"<?(?<![\w:/\\])[/\\]{{2}}[\w-]+\.{_END}"
)  # the scheme is that of the page
_MARKUP = re.compile(r"<[a-z!/?]|\][(:]", re.IGNORECASE)  # without it, `//host` is plain text
_ENDS = ".,;:!?*_"


@frozen
class Cited:
    """An answer with its citations.

    Attributes:
        text: The answer with valid citations only.
        numbers: Numbers of the cited findings, from 1, in order.
        left_out: The removed text.
    """

    text: str
    numbers: tuple[int, ...] = ()
    left_out: tuple[str, ...] = ()


def cited(answer: str, prompt: str, findings: int) -> Cited:
    """Return an answer with only the citations that are valid for its prompt."""
    return _Reader(prompt, findings).read(answer)


@define(eq=False, repr=False)
class _Reader:
    _prompt: str
    _findings: int
    _numbers: set[int] = field(factory=set)
    _indices: set[int] = field(factory=set)  # where they start, in mathematics
    _left_out: list[str] = field(factory=list)
    _labels: Counter[str] = field(factory=Counter)  # of links and images

    def read(self, answer: str) -> Cited:
        # in code a number in brackets is an index; addresses in code still count
        parts = _CODE.split(answer)
        is_plain = not _MARKUP.search(answer)
        texts = parts[::2]
        self._labels = Counter(plain(each) for text in texts for each in _LABELS.findall(text))
        for text in texts:
            self._labels.subtract(plain(each[2]) for each in _DEFINITIONS.finditer(text))
        for place, part in enumerate(parts):
            if place % 2 == 0:
                part = _LINKS.sub(self._link, _DEFINITIONS.sub(self._definition, part))
                self._indices = {
                    indexed.end()
                    for found in _MATHEMATICS.finditer(part)
                    for indexed in _INDEXED.finditer(part, *found.span())
                }
                part = _NUMBERS.sub(self._number, part)
                part = part if is_plain else _RELATIVE.sub(self._address, part)
            parts[place] = _ADDRESSES.sub(self._address, part)
        return Cited("".join(parts), tuple(sorted(self._numbers)), tuple(self._left_out))

    def _number(self, found: re.Match[str]) -> str:
        if found.start() in self._indices:
            self._indices.add(found.end())  # of a second one: `x[3][4]`
            return found[0]
        given = [int(each) for each in re.findall(r"\d+", found[1])]
        known = [each for each in given if 1 <= each <= self._findings]
        self._numbers.update(known)
        self._left_out += [f"[{each}]" for each in given if each not in known]
        if known == given:
            return found[0]
        return f"{found[0].split('[')[0]}[{', '.join(map(str, known))}]" if known else ""

    def _definition(self, found: re.Match[str]) -> str:
        before, label, *addresses = found.groups()
        address = addresses[0] or addresses[1]
        if address in self._prompt or not _IS_ADDRESS.match(address):
            return found[0]
        if not self._labels[plain(label)] and not _OF_HOST.match(address):
            return f"{before}\\{found[0][len(before) :]}"
        self._left_out.append(address)
        return ""

    def _link(self, found: re.Match[str]) -> str:
        text, address = found.groups()
        if address in self._prompt:
            return found[0]
        self._left_out.append(address)
        return text

    def _address(self, found: re.Match[str]) -> str:
        address = found[0].strip("<>").rstrip(_ENDS)
        if address in self._prompt:
            return found[0]
        self._left_out.append(address)
        return found[0].strip("<>")[len(address) :]


MAX_TEXT = 4000
"""Maximum number of characters of one search result."""

_MAX_TITLE = 300
_MAX_LINK = 2000
_SHOWN = 80  # characters of a query or link in progress texts


@frozen
class Lookup:
    """A page or a query to look up. `kept_as` are the texts under which it is stored, one per
    line."""

    kind: Literal["page", "query"]
    what: str
    kept_as: str

    @property
    def key(self) -> str:
        """Key for deduplication."""
        return plain(self.what) if self.kind == "query" else self.what


def page(link: str) -> Lookup:
    return Lookup("page", link, link)


def query(text: str, *others: str) -> Lookup:
    """Return a query that is also stored under other texts."""
    lines = dict.fromkeys(line(each) for each in (*others, text))
    return Lookup("query", line(text), "\n".join(lines))


class TurnSearches:
    """Searches of one turn: the facts that are `new`, and errors that did not end it."""

    def __init__(self, settings: Settings, known: Sequence[Fact]) -> None:
        self.new: list[Fact] = []
        self.warnings: list[str] = []
        self._settings = settings
        self._known = known
        self._offered: frozenset[str] | None = None
        self._calls = 0

    def find(self, wanted: Sequence[Lookup]) -> Generator[Step[Any], Any, list[Fact]]:
        """Return the facts for all wanted items, in order; new items are looked up in parallel."""
        once = {(each.kind, each.key): each for each in reversed(wanted)}
        found = {each: self._stored(each) for each in reversed(once.values())}
        missing = [each for each, facts in found.items() if not facts]
        calls: dict[Lookup, ToolCall] = {}
        for each in missing:
            call = yield from self._call_for(each, f"search-{self._calls}")
            if call is not None:
                calls[each] = call
                self._calls += 1
        if calls:
            yield Progress("; ".join(map(_doing, calls)))
            # the user named the pages
            approved = {call.id for each, call in calls.items() if each.kind == "page"}
            outputs = yield from CallTools(tuple(calls.values()), approved=frozenset(approved))
            for each, output in zip(calls, outputs, strict=True):
                found[each] = self._facts_in(output, each)
                self.new += found[each]
        return [fact for facts in found.values() for fact in facts]

    def has(self, text: str) -> bool:
        """Whether an earlier search for this text found something."""
        return bool(self._stored(query(text)))

    def _stored(self, wanted: Lookup) -> list[Fact]:
        # no index: a table can be long, and a turn has few lookups
        if wanted.kind == "query":
            known = [fact for fact in self._known if fact.is_found_with(wanted.key)]
            return known or self._found_now(wanted)
        # the excerpt from a search is not the whole page
        return [
            fact
            for fact in chain(self._known, self.new)
            if fact.link == wanted.what and fact.query in (fact.link, fact.title)
        ]

    def _found_now(self, wanted: Lookup) -> list[Fact]:
        """Return the results of a query of this turn, and store them under its other texts."""
        found: list[Fact] = []
        for place, fact in enumerate(self.new):
            if fact.is_found_with(wanted.key):
                lines = dict.fromkeys(f"{wanted.kept_as}\n{fact.query}".split("\n"))
                self.new[place] = evolve(fact, query="\n".join(lines))
                found.append(self.new[place])
        return found

    def _call_for(self, wanted: Lookup, id: str) -> Generator[Step[Any], Any, ToolCall | None]:
        if self._offered is None:
            tools = yield from ListTools()
            self._offered = frozenset(tool.name for tool in tools)
        settings = self._settings
        names = (settings.reader,) if wanted.kind == "page" else settings.search
        name = next((each for each in names if each in self._offered), None)
        if name is None:
            self._warn(f"no tool {_DOES[wanted.kind]}: {', '.join(names) or 'none'}")
            return None
        arguments = (
            {"link": wanted.what}
            if wanted.kind == "page"
            else {"query": wanted.what, "region": settings.region, "limit": settings.results}
        )
        return ToolCall(id, name, arguments)

    def _facts_in(self, output: ToolOutput, wanted: Lookup) -> list[Fact]:
        if output.error:
            self._warn(f"{_doing(wanted)} failed: {line(output.text)[:300]}")
            return []
        try:
            read = _page if wanted.kind == "page" else _results
            most = self._settings.results if wanted.kind == "query" else None
            return read(output.text, wanted)[:most]
        except (ValueError, ValidationError) as error:
            self._warn(f"{_doing(wanted)} failed: unexpected output: {line(str(error))[:200]}")
            return []

    def _warn(self, warning: str) -> None:
        if warning not in self.warnings:
            self.warnings.append(warning)


_DOES = {"page": "reads pages", "query": "searches"}


def _doing(wanted: Lookup) -> str:
    verb = "reading" if wanted.kind == "page" else "searching for"
    return f"{verb} {line(wanted.what)[:_SHOWN]}"


def _results(text: str, wanted: Lookup) -> list[Fact]:
    value = read_json(text)
    if not isinstance(value, list):
        raise ValidationError("not a list")
    facts = [_fact(each, wanted, MAX_TEXT) for each in value]
    return [fact for fact in facts if fact.text]


def _page(text: str, wanted: Lookup) -> list[Fact]:
    whole = _fact(read_json(text), wanted, None)
    pieces = passages(whole.text)
    if not pieces:
        raise ValidationError("the page contains no text")
    # under the link from the user, even after a redirect
    return [Fact(whole.title, wanted.what, piece, wanted.kept_as) for piece in pieces]


def _fact(value: Any, wanted: Lookup, most: int | None) -> Fact:
    if not isinstance(value, Mapping):
        raise ValidationError("not an object")
    fields = [value.get(name, "") for name in ("title", "link", "text")]
    if not all(isinstance(each, str) for each in fields):
        raise ValidationError("title, link and text must be strings")
    title, link, text = fields
    return Fact(line(title)[:_MAX_TITLE], link[:_MAX_LINK], text.strip()[:most], wanted.kept_as)
