"""The distributions that are installed along a path, whatever state their metadata is in.

Installers that were interrupted leave empty or half folders behind, and folders may be there
that cannot be read. None of them hides a distribution that is whole, and none raises.
"""

from __future__ import annotations

import importlib
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
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")  # PyPA, Names and normalization


class Leftover(NamedTuple):
    """A folder of metadata that is passed over: where it is, and why."""

    folder: str
    reason: str


class Distribution:
    """One folder of metadata.

    found    as importlib_metadata, or a finder of another kind, gives it
    folder   where it is; empty if it is in no folder, as of a finder of another kind
    name     as its metadata says, else as its folder does
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
        """Whether an installer has renamed it, as pip does with what it is about to remove."""
        return bool(self._stem) and not _NAME.fullmatch(self._stem.partition("-")[0])

    @property
    def key(self) -> str:
        """The normal name. From that of its folder where it can be: to read the metadata of all
        distributions would take most of the time."""
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
        """Of its metadata; none where it has none that can be read."""
        if self._headers is None:
            import email

            text = next(filter(None, map(self.read, ("METADATA", "PKG-INFO", ""))), "")
            self._headers = email.message_from_string(text)
        return self._headers

    @property
    def has_metadata(self) -> bool:
        if not os.path.exists(self.folder):  # in an archive, or of another kind of finder
            return bool(self.headers.keys())
        files = (os.path.join(self.folder, name) for name in ("METADATA", "PKG-INFO"))
        return any(map(_has_content, (*files, self.folder)))

    def read(self, file: str) -> str:
        """A file of its metadata; empty where there is none. Bytes that are not UTF-8 are
        replaced: one of them in the name of an author changes nothing else.

        file   its name; empty for the folder itself, which is a file for old distributions
        """
        try:
            if self._path is None:
                return str(self.found.read_text(file or "PKG-INFO") or "")
            path = self._path.joinpath(file) if file else self._path
            data: bytes = path.read_bytes()
        except Exception:  # noqa: BLE001 - archives raise what is wrong with them
            return ""
        return data.decode("utf-8-sig", "replace")

    def rank(self, file: str, words: str) -> tuple[bool, bool, list[int]]:
        """What to compare builds of one distribution by that are in one folder: the best one has
        what is looked for and is whole, then it is the newest one.

        words   that are looked for in a file
        """
        numbers = [int(each) for each in re.findall(r"\d{1,9}", self.version)]
        return words in self.read(file), bool(self.read("RECORD")), numbers


def find_distributions(
    path: Sequence[str] | None = None, file: str = "RECORD", words: str = ""
) -> tuple[list[Distribution], list[Leftover]]:
    """The distributions along a path, and what is passed over.

    Of several builds of one distribution, the one counts that is found first and has metadata, as
    Python would import it. Of several in the same folder, which interrupted upgrades leave, the
    one counts that is best by `Distribution.rank`.

    path   None for `sys.path`
    """
    builds: dict[str, list[Distribution]] = {}
    leftovers = []
    for each in _all_along(sys.path if path is None else path):
        if each.is_renamed:
            leftovers.append(Leftover(each.folder, "an interrupted installer left it"))
        else:
            builds.setdefault(each.key, []).append(each)
    chosen = []
    for those in builds.values():
        whole = [each for each in those if each.has_metadata]
        bare = [] if len(whole) == len(those) else [each for each in those if each not in whole]
        leftovers += [Leftover(each.folder, "it has no metadata that can be read") for each in bare]
        best = _best(whole or bare, file, words)
        chosen.append(best)
        leftovers += [
            Leftover(each.folder, f"{os.path.basename(best.folder)} is of the same distribution")
            for each in whole
            if each is not best and os.path.dirname(each.folder) == os.path.dirname(best.folder)
        ]
    return chosen, leftovers


def _best(builds: list[Distribution], file: str, words: str) -> Distribution:
    first, *others = builds
    folder = os.path.dirname(first.folder)
    beside = [each for each in others if os.path.dirname(each.folder) == folder]
    if not beside:
        return first
    return max([first, *beside], key=lambda each: each.rank(file, words))


def _all_along(path: Sequence[str]) -> Iterator[Distribution]:
    """Each folder once: more than one finder may find it."""
    import importlib_metadata

    # both remember folders by their times of change, which are coarse
    importlib.invalidate_caches()
    importlib_metadata.MetadataPathFinder.invalidate_caches()
    context: Any = importlib_metadata.DistributionFinder.Context
    find = importlib_metadata.MetadataPathFinder.find_distributions
    searches: list[Callable[[], Iterable[Any]]] = [
        *(partial(find, context(path=[entry])) for entry in path),
        partial(importlib_metadata.distributions, path=list(path)),  # finders of other kinds
    ]
    seen = set()
    for found in chain.from_iterable(map(_until_it_fails, searches)):
        each = Distribution(found)
        if each.folder not in seen:
            yield each
        if each.folder:
            seen.add(each.folder)


def _until_it_fails(search: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    """A search that fails hides nothing that another one finds."""
    try:
        yield from search()
    except Exception:  # noqa: BLE001 - finders are of third parties too
        return


def _has_content(file: str) -> bool:
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return False
    return os.path.isfile(file) and status.st_size > 0
