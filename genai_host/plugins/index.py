"""Which plugins are installed, remembered on disk so that looking again is quick.

Reading the metadata of a thousand distributions takes 100 ms, reading this index
a fraction of one. It is valid while every folder of `sys.path`, and every
`entry_points.txt` it came from, is unchanged. It imports no plugin, and nothing
that listing the plugins does not need.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from genai_host.util import paths
from genai_host.util.names import GROUP

_FORM = 1
_COARSE_NS = 2_000_000_000
_KEPT = 32


class InstalledPlugin(NamedTuple):
    """An entry point in our group: a plugin that is installed, not loaded.

    name           of the entry point
    value          what it names, as `package.module:object`
    distribution   that brought it
    version        of the distribution
    record         SHA-256 of the distribution's RECORD, in hex; empty if it has none
    unreadable     why its metadata cannot be read; empty if it can
    """

    name: str
    value: str
    distribution: str
    version: str = ""
    record: str = ""
    unreadable: str = ""

    @property
    def key(self) -> str:
        """What tells this plugin, in this very build, from all others."""
        return f"{self.distribution}:{self.name}:{self.version}:{self.record}"


class LoadResult(NamedTuple):
    """How loading a plugin ended the last time.

    status     `loaded` or `broken`
    reason     why it is broken
    fix        what to do about it
    provides   kind (`providers`, `models` ...) to names
    commands   name and help of each command that it adds
    """

    status: str
    reason: str = ""
    fix: str = ""
    provides: Mapping[str, Sequence[str]] = {}
    commands: Sequence[tuple[str, str]] = ()


class PluginIndex:
    """The index for one `sys.path`, in a file of its own.

    path     where distributions are looked for; None for `sys.path`
    folder   where the index is kept; None for the user's cache
    """

    def __init__(self, path: Sequence[str] | None = None, folder: str | None = None) -> None:
        given = sys.path if path is None else path
        self._path = list(dict.fromkeys(os.path.abspath(entry) for entry in given))
        self._folder = os.path.join(paths.cache_dir(), "plugins") if folder is None else folder
        self._data: dict[str, Any] | None = None

    def plugins(self) -> list[InstalledPlugin]:
        """The installed plugins, by distribution and name; of two builds of one
        distribution, the one that Python would import."""
        return [InstalledPlugin(*found) for found in self._current()["plugins"]]

    def outcomes(self) -> dict[str, LoadResult]:
        """By `Found.key`, how loading it ended the last time."""
        return {key: LoadResult(*kept) for key, kept in self._current()["outcomes"].items()}

    def remember(self, outcomes: Mapping[str, LoadResult]) -> None:
        """Keep how loading ended, for the plugins that are installed."""
        data = self._current()
        installed = {found.key for found in self.plugins()}
        kept = {key: value for key, value in data["outcomes"].items() if key in installed}
        kept.update((key, list(outcomes[key])) for key in installed & outcomes.keys())
        if json.dumps(kept, sort_keys=True) != json.dumps(data["outcomes"], sort_keys=True):
            data["outcomes"] = kept
            self._write(data)

    def _current(self) -> dict[str, Any]:
        if self._data is None:
            kept = self._read()
            if kept is None or not self._is_valid(kept):
                kept = self._scan(kept["outcomes"] if kept else {})
                self._write(kept)
            self._data = kept
        return self._data

    def _read(self) -> dict[str, Any] | None:
        """What is kept; None if it is not, or is not what we write."""
        try:
            with open(self._file(), encoding="utf-8") as stream:
                data: dict[str, Any] = json.load(stream)
            return data if _is_index(data, self._path) else None
        except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
            return None

    def _is_valid(self, data: dict[str, Any]) -> bool:
        """Whether nothing changed since. A folder that had changed just before the
        scan proves nothing: it may have changed once more within one tick of its
        clock, so for two seconds it is scanned again."""
        stamps: dict[str, Any] = data["stamps"]
        if any(_stamp(name) != stamp for name, stamp in stamps.items()):
            return False
        settled = data["scanned"] - _COARSE_NS
        return all(stamp is None or stamp[0] < settled for stamp in stamps.values())

    def _scan(self, outcomes: dict[str, Any]) -> dict[str, Any]:
        scanned = time.time_ns()
        stamps = {name: _stamp(name) for name in self._path}
        for folder in self._path:
            for name in _files_in_development(folder):
                stamps[name] = _stamp(name)
        plugins = []
        for found, file in _installed_plugins(self._path):
            plugins.append(found)
            if file:
                stamps[file] = _stamp(file)
        return {
            "form": _FORM,
            "path": self._path,
            "scanned": scanned,
            "stamps": stamps,
            "plugins": sorted(plugins, key=lambda found: (found.distribution, found.name)),
            "outcomes": outcomes,
        }

    def _write(self, data: dict[str, Any]) -> None:
        """Best effort: without the file, the next look is a slow one, not a wrong one."""
        unfinished = f"{self._file()}.{os.getpid()}.new"
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            with open(unfinished, "w", encoding="utf-8") as stream:
                json.dump(data, stream)
            os.replace(unfinished, self._file())
            self._drop_oldest()
        except OSError:
            pass

    def _drop_oldest(self) -> None:
        with os.scandir(self._folder) as entries:
            files = sorted(entries, key=lambda entry: entry.stat().st_mtime_ns, reverse=True)
        for entry in files[_KEPT:]:
            os.unlink(entry.path)

    def _file(self) -> str:
        import zlib  # a name, not a proof: the path itself stands in the file

        number = zlib.crc32("\0".join(self._path).encode("utf-8", "surrogatepass"))
        return os.path.join(self._folder, f"{number:08x}.json")


def _is_index(data: Any, path: list[str]) -> bool:
    """Whether this is an index as `_scan` and `remember` make it, for this path. Raises
    any of the errors of values that are used as what they are not."""
    return (
        data["form"] == _FORM
        and data["path"] == path
        and _are([data["scanned"]], int)
        and data["stamps"].keys() >= set(path)
        and all(stamp is None or _are(stamp, int, 3) for stamp in data["stamps"].values())
        and all(_are(found, str, len(InstalledPlugin._fields)) for found in data["plugins"])
        and all(_is_outcome(*kept) for kept in data["outcomes"].values())
    )


def _is_outcome(status: Any, reason: Any, fix: Any, provides: Any, commands: Any) -> bool:
    return (
        status in ("loaded", "broken")
        and _are([reason, fix], str)
        and all(_are(names, str) for names in provides.values())
        and all(_are(command, str, 2) for command in commands)
    )


def _are(values: Any, kind: type, count: int | None = None) -> bool:
    """Whether it is a list of that kind only, and of that length."""
    fits = isinstance(values, list) and count in (None, len(values))
    return fits and {kind}.issuperset(map(type, values))


def _stamp(name: str) -> list[int] | None:
    try:
        status = os.stat(name)
    except (OSError, ValueError):  # a name with a null in it, too
        return None
    return [status.st_mtime_ns, status.st_size, status.st_ino]


def _files_in_development(folder: str) -> Iterator[str]:
    """The `.egg-info` folders of source trees, which are rewritten in place."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.path for entry in entries if entry.name.endswith(".egg-info")]
    except OSError:
        return
    for name in names:
        yield name
        yield os.path.join(name, "entry_points.txt")


def _installed_plugins(path: list[str]) -> Iterator[tuple[InstalledPlugin, str]]:
    """Each plugin with the file that names it."""
    import importlib_metadata

    # it remembers folders by their time of change, which is as coarse for it as for us
    importlib_metadata.MetadataPathFinder.invalidate_caches()
    seen = set()
    for distribution in importlib_metadata.distributions(path=path):
        folder = os.fspath(getattr(distribution, "_path", ""))
        try:
            name = _normal(_name_in(folder) or distribution.metadata["Name"])
        except Exception:  # noqa: BLE001 - whatever a strange folder holds
            name = folder
        if name not in seen:  # more than one finder may find it
            seen.add(name)
            yield from _plugins_of(distribution, folder)


def _name_in(folder: str) -> str:
    """The distribution's name from that of its folder, `name-version.dist-info`:
    reading the metadata of all distributions would take most of the time."""
    stem, dot, suffix = os.path.basename(folder).rpartition(".")
    return stem.split("-")[0] if suffix in ("dist-info", "egg-info") and dot else ""


def _normal(name: str) -> str:
    """As the specification of names says (PyPA, Name normalization)."""
    return name.lower().replace("_", "-").replace(".", "-")


def _plugins_of(distribution: Any, folder: str) -> Iterator[tuple[InstalledPlugin, str]]:
    file = os.path.join(folder, "entry_points.txt") if folder else ""
    try:
        if GROUP not in (distribution.read_text("entry_points.txt") or ""):
            return
        metadata = distribution.metadata  # each look at it reads the file again
        name, version = str(metadata["Name"]), str(metadata["Version"])
        points = list(distribution.entry_points.select(group=GROUP))
        record = _digest(distribution.read_text("RECORD"))
    except Exception as error:  # noqa: BLE001 - entry_points.txt is what its author wrote
        yield from _unreadable(folder, error)
        return
    for point in points:
        yield InstalledPlugin(point.name, point.value, name, version, record), file


def _unreadable(folder: str, error: Exception) -> Iterator[tuple[InstalledPlugin, str]]:
    """A distribution that cannot be read, if it speaks of our group."""
    file = os.path.join(folder, "entry_points.txt")
    try:
        with open(file, encoding="utf-8", errors="replace") as stream:
            ours = GROUP in stream.read()
    except OSError:
        return
    if ours:
        name = _normal(_name_in(folder))
        yield InstalledPlugin(name, "", name, unreadable=f"{type(error).__name__}: {error}"), file


def _digest(record: str | None) -> str:
    import hashlib

    return hashlib.sha256(record.encode()).hexdigest() if record else ""
