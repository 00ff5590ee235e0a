"""Full-text search: the tokenizer, and the tables it fills.

Messages are searched with FTS5 in SQLite and tsvector in PostgreSQL. A message is found if it has
all the words, in any order; `wor*` matches words that begin with `wor`.

`tokenize` splits a text into words, the same for both databases, which get words separated by
spaces. Case and accents are ignored. Scripts without spaces between words, such as those of
Chinese, Japanese and Thai, are found by any part: each character is a word, and so is each pair of
adjacent characters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    cast,
    false,
    func,
    literal_column,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import TSQUERY

from genai_host.store.tables import messages

_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\u30fc\uff66-\uff9f"
_SPACED = rf"[\w--[{_UNSPACED}]]"
_ACCENTS = dict.fromkeys(range(0x0300, 0x0370))  # for `str.translate`
_LENGTH = 200  # indexed characters of a word
_MAX = 500_000  # indexed bytes of a message: PostgreSQL supports one megabyte


class SearchWord(NamedTuple):
    """A word of a search query.

    Attributes:
        words: Words from `tokenize` that a matching text contains; several for a script without
            spaces.
        part: Literal text to find; empty if the words suffice.
        is_prefix: Whether the word is a prefix.
    """

    words: tuple[str, ...]
    part: str = ""
    is_prefix: bool = False


def tokenize(text: str) -> str:
    """Distinct words of a text, separated by spaces."""
    found: dict[str, None] = {}
    length = 0
    for run in _runs().findall(_folded(text)):
        for word in _pieces(run):
            if word not in found:
                length += len(word.encode())
                if length > _MAX:
                    return " ".join(found)
                found[word] = None
    return " ".join(found)


def parse_query(words: str) -> list[SearchWord]:
    """Parse a search query: words separated by spaces; `wor*` is a prefix."""
    query = []
    for run, star in _query_runs().findall(words):
        folded = _folded(run)
        pieces = [word for each in _runs().findall(folded) for word in _pieces(each)]
        if _is_unspaced(run):
            pairs = [word for word in pieces if len(word) > 1]
            query.append(SearchWord(tuple(pairs or pieces), run if len(run) > 2 else ""))
        elif pieces:
            query.append(SearchWord(tuple(pieces), is_prefix=bool(star)))
    return query


def pattern_for(words: str) -> Any:
    """Compiled pattern that finds the words of a query in the original text, where the spelling is
    the same."""
    import regex

    each = []
    for run, star in _query_runs().findall(words):
        word = regex.escape(run)
        if not _is_unspaced(run):
            word = f"(?<!{_SPACED}){word}{_SPACED + '*' if star else ''}(?!{_SPACED})"
        each.append(word)
    return regex.compile("|".join(each) or "(?!)", regex.VERSION1 | regex.IGNORECASE)


def _pieces(run: str) -> Iterator[str]:
    if not _is_unspaced(run):
        yield run[:_LENGTH]
        return
    yield from run
    for number in range(len(run) - 1):
        yield run[number : number + 2]


def _folded(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text.casefold()).translate(_ACCENTS)
    return unicodedata.normalize("NFC", plain)


def _is_unspaced(run: str) -> bool:
    return bool(_unspaced().match(run))


@cache
def _unspaced() -> Any:
    return _compiled(f"[{_UNSPACED}]")


@cache
def _runs() -> Any:
    """Pattern for runs of scripts without spaces, and words of other scripts."""
    return _compiled(f"[{_UNSPACED}]+|{_SPACED}+")


@cache
def _query_runs() -> Any:
    return _compiled(rf"([{_UNSPACED}]+|{_SPACED}+)(\*?)")


def _compiled(pattern: str) -> Any:
    """Compile with `regex`: the module `re` does not support scripts. Imported on first use."""
    import regex

    return regex.compile(pattern, regex.VERSION1)


_SQLITE = (
    (
        "CREATE VIRTUAL TABLE messages_words USING fts5(words, content='messages', "
        "content_rowid='id', detail='none', tokenize=\"ascii tokenchars '_'\")"
    ),
    (
        "CREATE TRIGGER messages_added AFTER INSERT ON messages BEGIN "
        "INSERT INTO messages_words(rowid, words) VALUES (new.id, new.words); END"
    ),
    (
        "CREATE TRIGGER messages_removed AFTER DELETE ON messages BEGIN "
        "INSERT INTO messages_words(messages_words, rowid, words) "
        "VALUES ('delete', old.id, old.words); END"
    ),
)
_POSTGRESQL = (
    (
        "ALTER TABLE messages ADD COLUMN terms tsvector "
        "GENERATED ALWAYS AS (array_to_tsvector(string_to_array(words, ' '))) STORED"
    ),
    "CREATE INDEX messages_words ON messages USING gin (terms)",
)


def create(connection: Connection) -> None:
    """Create the search index, which `tables` does not define because it differs by database."""
    for statement in _SQLITE if connection.dialect.name == "sqlite" else _POSTGRESQL:
        connection.execute(text(statement))


def matching(words: str, dialect: str) -> ColumnElement[bool]:
    """Condition for messages with these words."""
    query = parse_query(words)
    if not query:
        return false()
    terms = [(word, each.is_prefix) for each in query for word in each.words]
    is_sqlite = dialect == "sqlite"
    has, position = (_sqlite_has, func.instr) if is_sqlite else (_postgresql_has, func.strpos)
    parts = [position(messages.c.text, each.part) > 0 for each in query if each.part]
    return and_(has(terms), *parts)


def _sqlite_has(terms: list[tuple[str, bool]]) -> ColumnElement[bool]:
    query = " AND ".join(f'"{word}"{"*" * is_prefix}' for word, is_prefix in terms)
    hits: Select[tuple[int]] = select(literal_column("rowid")).select_from(text("messages_words"))
    return messages.c.id.in_(hits.where(literal_column("messages_words").op("MATCH")(query)))


def _postgresql_has(terms: list[tuple[str, bool]]) -> ColumnElement[bool]:
    query = " & ".join(f"'{word}'{':*' * is_prefix}" for word, is_prefix in terms)
    return literal_column("terms").op("@@")(cast(query, TSQUERY))
