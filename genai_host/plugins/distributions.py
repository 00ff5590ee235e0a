"""Installed distributions along a path, even with damaged metadata.

Interrupted installers leave empty or incomplete directories, and directories may be unreadable.
None of them hides a complete distribution or raises an exception.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from genai_host.util.names import normal_name

if TYPE_CHECKING:
    from email.message import Message

_SUFFIXES = (".dist-info", ".egg-info")
_NAME = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"  # PyPA, Names and normalization


class Leftover(NamedTuple):
    """A skipped metadata directory, and the reason."""

    folder: str
    reason: str


class Distribution:
    """A metadata directory.

    Args:
        found: Distribution returned by importlib_metadata or another finder.

    Attributes:
        folder: Its directory; empty if it has none, for example with another finder.
        name: Name from the metadata, or else from the directory.
    """

    def __init__(self, found: Any) -> None:
        self.found = found
        self._path = getattr(found, "_path", None)
        self.folder = "" if self._path is None else str(self._path)
        stem, dot, suffix = os.path.basename(self.folder).rpartition(".")
        self._stem = stem if (dot + suffix).lower() in _SUFFIXES else ""
        self._headers: Message | None = None

    @property
    def is_renamed(self) -> bool:
        """Whether an installer has renamed it, as pip does before it removes a distribution."""
        return bool(self._stem) and not re.fullmatch(_NAME, self._stem.partition("-")[0])

    @property
    def key(self) -> str:
        """Normalized name, from the name of the directory where possible: reading the metadata of
        all distributions would take most of the time."""
        return normal_name(self._stem.partition("-")[0] or self.name)

    @property
    def name(self) -> str:
        named = str(self.headers.get("Name") or "").strip()
        return named or self._stem.partition("-")[0] or self.folder

    @property
    def version(self) -> str:
        stated = str(self.headers.get("Version") or "").strip()
        return stated or self._stem.partition("-")[2]

    @property
    def headers(self) -> Message:
        """Headers of the metadata; empty if the metadata cannot be read."""
        if self._headers is None:
            import email

            text = next(filter(None, map(self.read, ("METADATA", "PKG-INFO", ""))), "")
            head = re.split(r"\r?\n\r?\n", text, maxsplit=1)[0]  # without the description
            self._headers = email.message_from_string(head)
        return self._headers

    @property
    def has_metadata(self) -> bool:
        if not os.path.exists(self.folder):  # in an archive, or from another finder
            return bool(self.headers.keys())
        files = (os.path.join(self.folder, name) for name in ("METADATA", "PKG-INFO"))
        return any(map(_has_content, (*files, self.folder)))

    @property
    def is_editable(self) -> bool:
        """Whether its modules are in a source tree (PyPA, Direct URL data structure)."""
        try:
            return bool(json.loads(self.read("direct_url.json"))["dir_info"]["editable"])
        except (ValueError, TypeError, LookupError, RecursionError):
            return False

    def read(self, file: str) -> str:
        """Read a metadata file; empty if there is none. An empty name reads the metadata path
        itself, which is a file for old distributions. Invalid UTF-8, for example in an author's
        name, is replaced."""
        try:
            if self._path is None:
                return str(self.found.read_text(file or "PKG-INFO") or "")
            path = self._path.joinpath(file) if file else self._path
            data: bytes = path.read_bytes()
        except Exception:  # noqa: BLE001 - archives raise various exceptions
            return ""
        return data.decode("utf-8-sig", "replace")

    def rank(self, file: str, text: str) -> tuple[bool, bool, list[int]]:
        """Sort key for builds of one distribution in the same directory: those with `text` in
        `file` first, then complete ones, then the newest."""
        numbers = [int(each) for each in re.findall(r"\d{1,9}", self.version)]
        return text in self.read(file), bool(self.read("RECORD")), numbers


def find_distributions(
    path: Sequence[str] | None = None, file: str = "RECORD", text: str = ""
) -> tuple[list[Distribution], list[Leftover]]:
    """Find the distributions along a path, by default `sys.path`, and the skipped directories.

    Of several builds of a distribution, the first one with metadata counts, which is the one that
    Python would import. Of several in the same directory, left by interrupted upgrades, the best by
    `Distribution.rank` counts, which looks for the text in the metadata file."""
    builds: dict[str, list[Distribution]] = {}
    leftovers = []
    for each in _all_along(sys.path if path is None else path):
        if each.is_renamed:
            leftovers.append(Leftover(each.folder, "left by an interrupted installer"))
        else:
            builds.setdefault(each.key, []).append(each)
    chosen = []
    for those in builds.values():
        whole = [each for each in those if each.has_metadata]
        bare = [] if len(whole) == len(those) else [each for each in those if each not in whole]
        leftovers += [Leftover(each.folder, "no readable metadata") for each in bare]
        best = _best(whole or bare, file, text)
        chosen.append(best)
        leftovers += [
            Leftover(
                each.folder, f"{os.path.basename(best.folder)} belongs to the same distribution"
            )
            for each in whole
            if each is not best and os.path.dirname(each.folder) == os.path.dirname(best.folder)
        ]
    return chosen, leftovers


def _best(builds: list[Distribution], file: str, text: str) -> Distribution:
    first, *others = builds
    folder = os.path.dirname(first.folder)
    beside = [each for each in others if os.path.dirname(each.folder) == folder]
    if not beside:
        return first
    return max([first, *beside], key=lambda each: each.rank(file, text))


def _all_along(path: Sequence[str]) -> Iterator[Distribution]:
    """Each metadata directory once; several finders may find it."""
    import importlib_metadata

    # both cache directories by modification times, which are coarse
    importlib.invalidate_caches()
    importlib_metadata.MetadataPathFinder.invalidate_caches()
    context: Any = importlib_metadata.DistributionFinder.Context
    find = importlib_metadata.MetadataPathFinder.find_distributions
    searches: list[Callable[[], Iterable[Any]]] = [
        *(partial(find, context(path=[entry])) for entry in path),
        partial(importlib_metadata.distributions, path=list(path)),  # other finders
    ]
    seen = set()
    for found in chain.from_iterable(map(_until_it_fails, searches)):
        each = Distribution(found)
        if each.folder not in seen:
            yield each
        if each.folder:
            seen.add(each.folder)


def _until_it_fails(search: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    """Items of a search until it raises, so that other searches can continue."""
    try:
        yield from search()
    except Exception:  # noqa: BLE001 - third parties may add finders
        return


def _has_content(file: str) -> bool:
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return False
    return os.path.isfile(file) and status.st_size > 0
