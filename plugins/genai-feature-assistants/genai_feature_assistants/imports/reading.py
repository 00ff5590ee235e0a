"""The objects in exported files: JSON of one object, of a list of them or of a page of them,
or a JSON value on each line. What cannot be read is told, and the rest is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import frozen

from genai_host.api import encoding_of
from genai_host.api.http_routes import MOST_LEVELS, is_deep
from genai_host.api.json_text import read_json

MOST_BYTES = 512 * 2**20
"""Of a file: all that is in it stays in memory until it is imported."""

_LISTS = 3
"""Lists in pages in lists."""

_LINES = (".jsonl", ".ndjson")


@frozen
class Source:
    """An object, and where it stood.

    value      what was read; None if nothing could be
    at         as `threads.jsonl:3` or `list.json[7]`
    folder     of the file: bytes of files are beside it
    wrong      why it could not be read; empty if it could
    in_a_page  whether it stood in a page, as the API lists: the newest first, unless asked
               otherwise
    """

    value: Any
    at: str
    folder: Path
    wrong: str = ""
    in_a_page: bool = False


def sources_in(path: Path) -> Iterator[Source]:
    """Raises nothing but what ends a program: a file that cannot be read is a source that
    says so."""
    try:
        text = _text_of(path)
    except (OSError, ValueError) as error:
        told = error.strerror if isinstance(error, OSError) else str(error)
        yield Source(None, path.name, path.parent, told or "it cannot be read")
        return
    for value, at, wrong in _values_in(text, path):
        if wrong:
            yield Source(None, at, path.parent, wrong)
        else:
            yield from objects_in(value, at, path.parent)


def _text_of(path: Path) -> str:
    with path.open("rb") as stream:
        data = stream.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES >> 20} MiB: cut it into several files")
    encoding = encoding_of(data)
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not text in {encoding}") from error


def _values_in(text: str, path: Path) -> Iterator[tuple[Any, str, str]]:
    """Each value with its place, or why it is none."""
    if path.suffix.lower() not in _LINES:
        try:
            yield read_json(text), path.name, ""
            return
        except ValueError as error:
            if not _is_of_lines(text):
                yield None, path.name, f"it is not JSON: {error}"
                return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            at = f"{path.name}:{number}"
            try:
                yield read_json(line), at, ""
            except ValueError as error:
                yield None, at, f"it is not JSON: {error}"


def _is_of_lines(text: str) -> bool:
    """Whether the first line that says something is a value of its own."""
    first, _, rest = text.lstrip().partition("\n")
    try:
        return bool(rest.strip()) and isinstance(read_json(first), (dict, list))
    except ValueError:
        return False


def objects_in(
    value: Any, at: str, folder: Path, level: int = 0, *, in_a_page: bool = False
) -> Iterator[Source]:
    """The objects in a value that was read.

    level   how many lists and pages it stands in
    """
    is_page = isinstance(value, dict) and value.get("object") == "list"
    values = value.get("data") if is_page else value
    if isinstance(values, list) and level < _LISTS:
        for number, each in enumerate(values):
            place = f"{at}[{number}]"
            yield from objects_in(each, place, folder, level + 1, in_a_page=is_page or in_a_page)
    elif not isinstance(value, dict) or is_page:
        yield Source(None, at, folder, "it is not an object")
    elif is_deep(value):
        yield Source(None, at, folder, f"it is nested more than {MOST_LEVELS} levels deep")
    else:
        yield Source(value, at, folder, in_a_page=in_a_page)
