"""Looking for facts: pages that the user names are read, and queries searched for, by tools
of other plugins. What was found before is not looked for again.

    Search.find → _stored, else _call_for → CallTools → _facts_in

A search tool takes `query`, `region` and `limit`, and gives a JSON list of `title`, `link` and
`text`; a reader takes `link`, and gives one such object, with all the text of a page.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal

from attrs import evolve, frozen

from genai_feature_research.memory import Fact, plain
from genai_feature_research.passages import passages
from genai_feature_research.settings import Settings
from genai_host.api import CallTools, ListTools, Progress, Step, ToolCall, ToolOutput
from genai_host.api.json_text import read_json
from genai_host.errors import ValidationError

MOST_TEXT = 4000
"""Characters of one result of a search."""

_MOST_TITLE = 300
_MOST_LINK = 2000
_SHOWN = 80  # characters of a query or a link in what is told of it


@frozen
class Wanted:
    """
    what      a link, or a query
    kept_as   under which it is found again; a query may have several, one a line
    """

    kind: Literal["page", "query"]
    what: str
    kept_as: str

    @property
    def key(self) -> str:
        """Equal for what is looked for only once."""
        return plain(self.what) if self.kind == "query" else self.what


def page(link: str) -> Wanted:
    return Wanted("page", link, link)


def query(text: str, *others: str) -> Wanted:
    """A query, kept under other texts as well."""
    lines = dict.fromkeys(line(each) for each in (*others, text))
    return Wanted("query", line(text), "\n".join(lines))


class Search:
    """Of one turn.

    known      what was found before
    new        what is found now
    warnings   what went wrong
    """

    def __init__(self, settings: Settings, known: Sequence[Fact]) -> None:
        self.new: list[Fact] = []
        self.warnings: list[str] = []
        self._settings = settings
        self._known = known
        self._offered: frozenset[str] | None = None
        self._calls = 0

    def find(self, wanted: Sequence[Wanted]) -> Generator[Step[Any], Any, list[Fact]]:
        """The facts of all that is wanted, in its order; what was not found before is looked
        for at once."""
        once = {(each.kind, each.key): each for each in reversed(wanted)}
        found = {each: self._stored(each) for each in reversed(once.values())}
        missing = [each for each, facts in found.items() if not facts]
        calls: dict[Wanted, ToolCall] = {}
        for each in missing:
            call = yield from self._call_for(each, f"search-{self._calls}")
            if call is not None:
                calls[each] = call
                self._calls += 1
        if calls:
            yield Progress("; ".join(map(_doing, calls)))
            # the user has named the pages that are read
            approved = {call.id for each, call in calls.items() if each.kind == "page"}
            outputs = yield from CallTools(tuple(calls.values()), approved=frozenset(approved))
            for each, output in zip(calls, outputs, strict=True):
                found[each] = self._facts_in(output, each)
                self.new += found[each]
        return [fact for facts in found.values() for fact in facts]

    def has(self, text: str) -> bool:
        """Whether something was found with this before."""
        return bool(self._stored(query(text)))

    def _stored(self, wanted: Wanted) -> list[Fact]:
        # no index is kept: a table may be long, and a turn looks for little
        if wanted.kind == "query":
            known = [fact for fact in self._known if fact.is_found_with(wanted.key)]
            return known or self._found_now(wanted)
        # what a search gave of a page is not the page
        return [
            fact
            for fact in chain(self._known, self.new)
            if fact.link == wanted.what and fact.query in (fact.link, fact.title)
        ]

    def _found_now(self, wanted: Wanted) -> list[Fact]:
        """What this turn has searched for already, which is kept under further texts then."""
        found: list[Fact] = []
        for place, fact in enumerate(self.new):
            if fact.is_found_with(wanted.key):
                lines = dict.fromkeys(f"{wanted.kept_as}\n{fact.query}".split("\n"))
                self.new[place] = evolve(fact, query="\n".join(lines))
                found.append(self.new[place])
        return found

    def _call_for(self, wanted: Wanted, id: str) -> Generator[Step[Any], Any, ToolCall | None]:
        if self._offered is None:
            tools = yield from ListTools()
            self._offered = frozenset(tool.name for tool in tools)
        settings = self._settings
        names = (settings.reader,) if wanted.kind == "page" else settings.search
        name = next((each for each in names if each in self._offered), None)
        if name is None:
            self._warn(f"there is no tool that {_DOES[wanted.kind]}: {', '.join(names) or 'none'}")
            return None
        arguments = (
            {"link": wanted.what}
            if wanted.kind == "page"
            else {"query": wanted.what, "region": settings.region, "limit": settings.results}
        )
        return ToolCall(id, name, arguments)

    def _facts_in(self, output: ToolOutput, wanted: Wanted) -> list[Fact]:
        if output.error:
            self._warn(f"{_doing(wanted)} failed: {line(output.text)[:300]}")
            return []
        try:
            read = _page if wanted.kind == "page" else _results
            return read(output.text, wanted)[: self._most(wanted)]
        except (ValueError, ValidationError) as error:
            self._warn(f"{_doing(wanted)} failed: it gave no such answer: {line(str(error))[:200]}")
            return []

    def _most(self, wanted: Wanted) -> int | None:
        return self._settings.results if wanted.kind == "query" else None

    def _warn(self, warning: str) -> None:
        if warning not in self.warnings:
            self.warnings.append(warning)


_DOES = {"page": "reads pages", "query": "searches"}


def line(text: str) -> str:
    return " ".join(text.split())


def _doing(wanted: Wanted) -> str:
    verb = "reading" if wanted.kind == "page" else "searching for"
    return f"{verb} {line(wanted.what)[:_SHOWN]}"


def _results(text: str, wanted: Wanted) -> list[Fact]:
    value = read_json(text)
    if not isinstance(value, list):
        raise ValidationError("it is no list")
    facts = [_fact(each, wanted, MOST_TEXT) for each in value]
    return [fact for fact in facts if fact.text]


def _page(text: str, wanted: Wanted) -> list[Fact]:
    whole = _fact(read_json(text), wanted, None)
    pieces = passages(whole.text)
    if not pieces:
        raise ValidationError("there is no text on it")
    # under the link that the user gave, whatever it led to
    return [Fact(whole.title, wanted.what, piece, wanted.kept_as) for piece in pieces]


def _fact(value: Any, wanted: Wanted, most: int | None) -> Fact:
    if not isinstance(value, Mapping):
        raise ValidationError("it is no object")
    fields = [value.get(name, "") for name in ("title", "link", "text")]
    if not all(isinstance(each, str) for each in fields):
        raise ValidationError("title, link and text are strings")
    title, link, text = fields
    return Fact(line(title)[:_MOST_TITLE], link[:_MOST_LINK], text.strip()[:most], wanted.kept_as)
