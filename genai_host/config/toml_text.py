"""TOML as text (TOML 1.0): what it says, and the line on which it says so."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from genai_host.errors import ConfigurationError

_LINE = re.compile(r"\bline (\d+)\b")


def parse(text: str, path: str) -> dict[str, Any]:
    """What a file says. Raises `ConfigurationError` with the line."""
    loads, refusal = _toml()
    try:
        return loads(text)
    except refusal as error:
        found = _LINE.search(str(error))
        raise ConfigurationError(
            f"{path} is not TOML: {error}",
            file=path,
            line=int(found.group(1)) if found else None,
            hint="correct it; it was not changed",
        ) from error
    except RecursionError as error:
        raise ConfigurationError(f"{path} is nested too deeply", file=path) from error


def _toml() -> tuple[Callable[[str], dict[str, Any]], type[ValueError]]:
    """TOML's reader, imported where there is something to read, and what it raises."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads, tomllib.TOMLDecodeError


def line_of(text: str, key: Sequence[str]) -> int | None:
    """The line, from 1, on which a key of a valid text is set, or else the nearest above
    it in the tree; None if there is none."""
    best: tuple[int, int] | None = None
    for line, path in _statements(text):
        same = _in_common(path, key)
        if same and (best is None or same > best[0]):
            best = same, line
    return best[1] if best else None


def _statements(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Each table and each key with its line. A statement ends with the first line that
    makes it whole, which TOML's own reader knows best."""
    loads, refusal = _toml()
    table: tuple[str, ...] = ()
    statement, began = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        if not statement:
            began = number
        statement += line + "\n"
        try:
            said = loads(statement)
        except (refusal, RecursionError):
            continue
        is_table = statement.lstrip().startswith("[")
        statement = ""
        if is_table:
            table = next(_paths(said), ())
            yield began, table
        else:
            for path in _paths(said):
                yield began, (*table, *path)


def _paths(said: Any) -> Iterator[tuple[str, ...]]:
    """The way to each value, and to each table that holds nothing."""
    left: list[tuple[tuple[str, ...], Any]] = [((), said)]
    while left:  # it may be nested more deeply than calls can be
        path, value = left.pop()
        if isinstance(value, dict) and value:
            left += [((*path, name), each) for name, each in value.items()]
        else:
            yield path


def _in_common(path: Sequence[str], key: Sequence[str]) -> int:
    same = 0
    for mine, other in zip(path, key, strict=False):
        if mine != other:
            break
        same += 1
    return same
