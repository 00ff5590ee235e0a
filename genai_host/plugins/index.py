"""Index of the installed plugins, cached on disk.

Reading the metadata of a thousand distributions takes 100 ms, reading this index less than 1 ms. It
is valid while all directories of `sys.path` and the `entry_points.txt` files of plugins are
unchanged. It has the names that each plugin declared when it was loaded, so that a plugin is not
loaded before something of it is needed. This module imports no plugins, and only modules needed for
listing them.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from genai_host.util import paths
from genai_host.util.names import APP, GROUP

if TYPE_CHECKING:  # this module imports nothing that takes time
    from genai_host.config import Config
    from genai_host.plugins.distributions import Distribution, Leftover
    from genai_host.plugins.marks import Marks

_FORMAT = 5
_COARSE_NS = 2_000_000_000
_MAX_FILES = 32
_ENTRY_POINTS = "entry_points.txt"
_VALUE = r"[\w.]+(\s*:\s*[\w.]+)?(\s*\[.*\])?"
_MAX_SHOWN = 60  # characters of a row in an error


class InstalledPlugin(NamedTuple):
    """An installed plugin: an entry point in our group, not loaded.

    Attributes:
        name: Name of the entry point.
        value: Object reference, `package.module:object`.
        distribution: Distribution with the entry point.
        record: SHA-256 of the distribution's RECORD, in hex; empty if it has none, or is editable
            and may change without it.
        unreadable: Why its metadata cannot be read; empty if it can.
    """

    name: str
    value: str
    distribution: str
    version: str = ""
    record: str = ""
    unreadable: str = ""

    @property
    def key(self) -> str:
        """Identifier of the plugin in this exact build."""
        return f"{self.distribution}:{self.name}:{self.version}:{self.record}"


class LoadResult(NamedTuple):
    """Result of the last time a plugin was loaded.

    Attributes:
        status: `loaded` or `broken`.
        provides: Kind (`providers`, `models` ...) to names.
        commands: Name, help and object reference of each command that it adds.
        is_skipped: Whether the plugin is skipped, because loading it ended the process or hung.
        claims: Kind and name of all that only one plugin may declare; empty if distributions were
            installed or removed since, because what a plugin declares may depend on them.
        is_eager: Whether it must be loaded at each start, because it observes or declares by its
            configuration.
    """

    status: str
    reason: str = ""
    fix: str = ""
    provides: Mapping[str, Sequence[str]] = {}
    commands: Sequence[tuple[str, str, str]] = ()
    is_skipped: bool = False
    claims: Sequence[tuple[str, str]] = ()
    is_eager: bool = False


def skipped_result(found: InstalledPlugin, reason: str) -> LoadResult:
    """The result for a plugin that is no longer loaded."""
    fix = (
        f"{APP} upgrade {found.distribution}, or: {APP} plugins disable {found.name}; "
        f"to load it again: {APP} plugins check {found.distribution}:{found.name}"
    )
    return LoadResult("broken", reason, fix, is_skipped=True)


def plugin_row(
    found: InstalledPlugin, outcome: LoadResult | None, config: Config
) -> dict[str, Any]:
    """Return the JSON form of a plugin. `outcome` is None if it was not loaded."""
    status, reason, fix = "unchecked", "", ""
    blocked = config.blocks(found.name, found.distribution)
    if blocked:
        status, reason = "blocked", blocked
    elif outcome is not None:
        status, reason, fix = outcome.status, outcome.reason, outcome.fix
    return {
        "name": found.name,
        "distribution": found.distribution,
        "version": found.version,
        "status": status,
        "reason": reason,
        "fix": fix,
        "provides": dict(outcome.provides) if outcome and not blocked else {},
        "entry_point": found.value,
        "record": found.record,
    }


class PluginIndex:
    """Plugin index for one `sys.path`, in a separate file.

    Args:
        path: Directories with distributions; None for `sys.path`.
        folder: Directory of the index; None for the user's cache directory.
    """

    def __init__(self, path: Sequence[str] | None = None, folder: str | None = None) -> None:
        given: Sequence[object] = sys.path if path is None else path
        # Python ignores entries that are not strings as well
        entries = [os.path.abspath(entry) for entry in given if isinstance(entry, str)]
        self._path = list(dict.fromkeys(entries))
        self._folder = os.path.join(paths.cache_dir(), "plugins") if folder is None else folder
        self._data: dict[str, Any] | None = None

    def plugins(self) -> list[InstalledPlugin]:
        """The installed plugins, by distribution and name; of two builds of a distribution, the one
        that Python would import."""
        return [InstalledPlugin(*found) for found in self._current()["plugins"]]

    def leftovers(self) -> list[Leftover]:
        """Skipped metadata directories, for example of interrupted installers."""
        from genai_host.plugins.distributions import Leftover

        return [Leftover(*found) for found in self._current()["leftovers"]]

    def outcomes(self) -> dict[str, LoadResult]:
        """Last load results, by `InstalledPlugin.key`."""
        return {key: _read_outcome(saved) for key, saved in self._current()["outcomes"].items()}

    def remember(self, outcomes: Mapping[str, LoadResult]) -> None:
        """Save load results of installed plugins."""
        if self._merged(outcomes) == self._current()["outcomes"]:
            return
        saved = self._read()
        if saved is not None and _is_current(saved):  # another process may have saved results
            self._data = saved
        self._current()["outcomes"] = self._merged(outcomes)
        self._write(self._current())

    def _merged(self, outcomes: Mapping[str, LoadResult]) -> dict[str, Any]:
        """The saved load results of installed plugins, with these."""
        installed = {found.key for found in self.plugins()}
        known = self._current()["outcomes"]
        saved = {key: value for key, value in known.items() if key in installed}
        new = {key: outcomes[key] for key in installed & outcomes.keys()}
        return {**saved, **{key: json.loads(json.dumps(new[key])) for key in new}}

    @property
    def marks(self) -> Marks:
        """Marks of plugins that are being loaded."""
        from genai_host.plugins.marks import Marks

        return Marks(os.path.join(self._folder, "loading"), self._number())

    def forget(self, plugins: Iterable[InstalledPlugin]) -> None:
        """Forget the load results of these plugins, so that they count as new."""
        data = self._current()
        known = [found.key for found in plugins if found.key in data["outcomes"]]
        for key in known:
            del data["outcomes"][key]
        if known:
            self._write(data)

    @property
    def is_writable(self) -> bool:
        """Whether the index can be saved."""
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
        except OSError:
            return False
        return os.access(self._folder, os.W_OK)

    def _current(self) -> dict[str, Any]:
        if self._data is None:
            saved = self._read()
            if saved is None or not self._is_valid(saved):
                saved = self._scan(saved)
                self._write(saved)
            self._data = saved
        return self._data

    def _read(self) -> dict[str, Any] | None:
        """The saved index; None if it is missing or invalid."""
        try:
            with open(self._file(), encoding="utf-8") as stream:
                data: dict[str, Any] = json.load(stream)
            return data if _is_index(data, self._path) else None
        except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
            return None

    def _is_valid(self, data: dict[str, Any]) -> bool:
        """Whether nothing has changed since the scan. A directory that had just changed may change
        again within one tick of its clock, so for two seconds it is scanned again."""
        settled = data["scanned"] - _COARSE_NS
        is_settled = all(each is None or each[0] < settled for each in data["stamps"].values())
        return is_settled and _is_current(data)

    def _scan(self, before: dict[str, Any] | None) -> dict[str, Any]:
        from genai_host.plugins.distributions import find_distributions

        scanned = time.time_ns()
        stamps = {name: _stamp(name) for name in self._path}
        for folder in self._path:
            for name in _files_in_development(folder):
                stamps[name] = _stamp(name)
        plugins: list[InstalledPlugin] = []
        distributions, leftovers = find_distributions(self._path, _ENTRY_POINTS, GROUP)
        for distribution in distributions:
            found = list(_plugins_of(distribution))
            plugins += found
            if found and distribution.folder:
                file = os.path.join(distribution.folder, _ENTRY_POINTS)
                stamps[file] = _stamp(file)
        stamps.update((each.folder, _stamp(each.folder)) for each in leftovers)
        installed = _digest("\n".join(sorted(each.folder for each in distributions)))
        outcomes = before["outcomes"] if before else {}
        if before and before["installed"] != installed:
            outcomes = {key: _without_claims(saved) for key, saved in outcomes.items()}
        return {
            "form": _FORMAT,
            "path": self._path,
            "scanned": scanned,
            "stamps": stamps,
            "installed": installed,
            "plugins": sorted(plugins, key=lambda found: (found.distribution, found.name)),
            "leftovers": leftovers,
            "outcomes": outcomes,
        }

    def _write(self, data: dict[str, Any]) -> None:
        """Save the index, best effort: without the file, the next lookup is slower."""
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
            files_found = [entry for entry in entries if entry.is_file()]
        files = sorted(files_found, key=lambda entry: entry.stat().st_mtime_ns, reverse=True)
        for entry in files[_MAX_FILES:]:
            os.unlink(entry.path)

    def _file(self) -> str:
        return os.path.join(self._folder, f"{self._number()}.json")

    def _number(self) -> str:
        import zlib  # the hash need not be unique, because the file contains the path

        number = zlib.crc32("\0".join(self._path).encode("utf-8", "surrogatepass"))
        return f"{number:08x}"


def _is_index(data: Any, path: list[str]) -> bool:
    """Whether this is an index for this path, as written by `_scan` and `remember`. May raise any
    error that invalid values cause."""
    return (
        data["form"] == _FORMAT
        and data["path"] == path
        and _is_list_of([data["scanned"]], int)
        and _is_list_of([data["installed"]], str)
        and data["stamps"].keys() >= set(path)
        and all(stamp is None or _is_list_of(stamp, int, 3) for stamp in data["stamps"].values())
        and all(_is_list_of(found, str, len(InstalledPlugin._fields)) for found in data["plugins"])
        and all(_is_list_of(leftover, str, 2) for leftover in data["leftovers"])
        and all(_is_outcome(saved) for saved in data["outcomes"].values())
    )


def _read_outcome(saved: Sequence[Any]) -> LoadResult:
    found = LoadResult(*saved)
    return found._replace(
        commands=tuple((name, help, load) for name, help, load in found.commands),
        claims=tuple((kind, name) for kind, name in found.claims),
    )


def _is_current(data: dict[str, Any]) -> bool:
    """Whether no directory looks different from when it was scanned."""
    return all(_stamp(name) == stamp for name, stamp in data["stamps"].items())


def _without_claims(saved: Sequence[Any]) -> list[Any]:
    return [*LoadResult(*saved)._replace(claims=())]


def _is_outcome(saved: Sequence[Any]) -> bool:
    outcome = LoadResult(*saved)
    return (
        len(saved) == len(LoadResult._fields)
        and _is_list_of([outcome.is_skipped, outcome.is_eager], bool)
        and outcome.status in ("loaded", "broken")
        and _is_list_of([outcome.reason, outcome.fix], str)
        and all(_is_list_of(names, str) for names in outcome.provides.values())
        and all(_is_list_of(command, str, 3) for command in outcome.commands)
        and {list}.issuperset(map(type, outcome.claims))
        and {2}.issuperset(map(len, outcome.claims))
        and {str}.issuperset(map(type, chain.from_iterable(outcome.claims)))
    )


def _is_list_of(values: Any, kind: type, count: int | None = None) -> bool:
    """Whether a value is a list of this type and length."""
    fits = isinstance(values, list) and count in (None, len(values))
    return fits and {kind}.issuperset(map(type, values))


def _stamp(name: str) -> list[int] | None:
    try:
        status = os.stat(name)
    except (OSError, ValueError):  # also for a name with a null character
        return None
    return [status.st_mtime_ns, status.st_size, status.st_ino]


def _files_in_development(folder: str) -> Iterator[str]:
    """The `.egg-info` directories of source trees, and `EGG-INFO` of eggs, which are rewritten in
    place."""
    try:
        with os.scandir(folder) as entries:
            names = [e.path for e in entries if e.name.lower().endswith("egg-info")]
    except (OSError, ValueError):
        return
    for name in names:
        yield name
        yield os.path.join(name, _ENTRY_POINTS)


def _plugins_of(distribution: Distribution) -> Iterator[InstalledPlugin]:
    """Entry points of a distribution in our group. A malformed row does not hide others."""
    text = distribution.read(_ENTRY_POINTS)
    if GROUP not in text:
        return
    name, version = distribution.name, distribution.version
    record = "" if distribution.is_editable else _digest(distribution.read("RECORD"))
    missing = "" if distribution.has_metadata else "METADATA is missing"
    for point, value, fault in _points_in(text):
        yield InstalledPlugin(point or name, value, name, version, record, fault or missing)


def _points_in(text: str) -> Iterator[tuple[str, str, str]]:
    """Name, value and error of each entry point of our group (PyPA, Entry points specification)."""
    head, in_group = f"[{GROUP}]", False
    rows = [line.strip() for line in text.splitlines()]
    if head in text and head not in rows:
        yield "", "", f"{_ENTRY_POINTS}: {head} must be on a separate line"
    for number, row in enumerate(rows, 1):
        if row.startswith("["):
            in_group = row == head
        elif in_group and row and not row.startswith(("#", ";")):
            name, _, value = (part.strip() for part in row.partition("="))
            if name and name.isprintable() and re.fullmatch(_VALUE, value):
                yield name, value, ""
            else:
                fault = f"{_ENTRY_POINTS}, line {number}: invalid entry point {_shown(row)}"
                yield (name if value and name.isprintable() else ""), "", fault


def _shown(row: str) -> str:
    return ascii(row if len(row) <= _MAX_SHOWN else row[:_MAX_SHOWN] + "...")


def _digest(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() if text else ""
