"""The commands that install plugins; which distributions are installed and need which.

The program that made the environment installs into it:

    an environment of pipx      pipx, which has a list of the packages in it
    an environment of uv tool   uv tool, which reinstalls all of its list each time
    any other                   its own pip; uv, if it has none

The commands are returned, not run. Dependencies are read from metadata, without importing a
distribution. Since it is used when plugins are broken, this module imports nothing heavy itself.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from genai_host.errors import ConfigurationError
from genai_host.plugins.distributions import find_distributions
from genai_host.util.names import APP, normal_name


class Installed(NamedTuple):
    """A distribution that is installed.

    name     as it calls itself
    needs    normal names of what it requires, on any system; extras left out
    source   where it was installed from, if that was no index (PyPA, Recording the
             Direct URL Origin)
    """

    name: str
    version: str
    needs: frozenset[str]
    source: str = ""


def installed_distributions() -> dict[str, Installed]:
    """All of them, by normal name; of two builds, the one that Python would import."""
    installed = {}
    for each in find_distributions()[0]:
        if not each.has_metadata:
            continue
        required = each.headers.get_all("Requires-Dist") or _required_by_egg(each.found)
        installed[normal_name(each.name)] = Installed(
            each.name,
            each.version,
            frozenset(_needs(map(str, required))),
            _source(each.read("direct_url.json")),
        )
    return installed


def _required_by_egg(found: Any) -> Sequence[str]:
    try:
        return found.requires or ()
    except Exception:  # noqa: BLE001 - requires.txt is what its author wrote
        return ()


def who_needs(name: str, installed: Mapping[str, Installed], others: Iterable[str]) -> str:
    """The first of the others that needs a distribution, itself or by what it needs;
    empty if none does. All names are normal ones."""
    for other in others:
        if name in _all_needs(other, installed):
            return other
    return ""


def _all_needs(name: str, installed: Mapping[str, Installed]) -> set[str]:
    needs: set[str] = set()
    waiting = [name]
    while waiting:
        found = installed.get(waiting.pop())
        new = found.needs - needs if found else frozenset()
        needs |= new
        waiting += new
    return needs


def _needs(requirements: Iterable[str]) -> Iterable[str]:
    for requirement in requirements:
        marker = requirement.partition(";")[2]
        if "extra" not in marker:
            yield required_name(requirement)


def _source(direct_url: str) -> str:
    try:
        return str(json.loads(direct_url)["url"]) if direct_url else ""
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""


def required_name(requirement: str) -> str:
    """The normal name of what a requirement names, as `genai-host[x] >= 1`; empty for a
    path and an address, which do not tell (PyPA, Dependency specifiers)."""
    found = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*([\[(<>=!~;@,]|$)", requirement)
    return normal_name(found[1]) if found else ""


_PIPX = "pipx_metadata.json"
_UV_TOOL = "uv-receipt.toml"
_ANYWAY = "--break-system-packages"

Commands = list[list[str]]


class Place(NamedTuple):
    """An environment, as Python tells of it.

    python     its interpreter
    prefix     its folder
    is_own     whether it is a virtual one, apart from the system's
    has_pip    whether it has a pip of its own
    is_system  whether the operating system installs there, and nobody else is to
    """

    python: str
    prefix: str
    is_own: bool = True
    has_pip: bool = True
    is_system: bool = False

    @classmethod
    def here(cls) -> Place:
        """The one that this runs in."""
        return cls(
            sys.executable,
            sys.prefix,
            is_own=sys.prefix != sys.base_prefix,
            has_pip=importlib.util.find_spec("pip") is not None,
            is_system=os.path.exists(_marker()),
        )

    def has(self, name: str) -> bool:
        return os.path.isfile(os.path.join(self.prefix, name))


def _marker() -> str:
    """PyPA, Externally Managed Environments (PEP 668)."""
    scheme = sysconfig.get_default_scheme()
    return os.path.join(sysconfig.get_path("stdlib", scheme), "EXTERNALLY-MANAGED")


class Installer(Protocol):
    """The commands of one installer, in the order to run them in.

    wanted     names with or without versions, folders, wheels, addresses
    editable   folders that are to be used as they stand
    names      of distributions that are installed
    further    arguments for the installer, passed on as they are
    """

    def install(
        self, wanted: Sequence[str], editable: Sequence[str], further: Sequence[str]
    ) -> Commands: ...

    def upgrade(self, names: Sequence[str], further: Sequence[str]) -> Commands: ...

    def uninstall(self, names: Sequence[str], further: Sequence[str]) -> Commands: ...


def find_installer(place: Place, further: Sequence[str] = ()) -> Installer:
    """What installs there.

    Raises `ConfigurationError` where nobody is to install, and where what would do it
    is missing.
    """
    name = os.path.basename(place.prefix)
    if place.has(_UV_TOOL):
        return _UvTool(_program("uv", place, "it made this environment"), name, place)
    if place.has(_PIPX):
        return _Pipx(_program("pipx", place, "it made this environment"), name, place)
    if place.is_system and not place.is_own and _ANYWAY not in further:
        raise ConfigurationError(
            f"the operating system manages {place.prefix}: plugins cannot be installed there",
            hint=f"put {APP} into an environment of its own: pipx install {APP}, "
            f"or: uv tool install {APP}",
        )
    if place.has_pip:
        return _Pip([place.python, "-m", "pip"], ())
    uv = _program("uv", place, f"there is no pip in {place.prefix}", "-m ensurepip")
    return _Pip([uv, "pip"], ("--python", place.python))


def _program(name: str, place: Place, why: str, instead: str = "") -> str:
    """A program of that name: on PATH, or beside the interpreter."""
    beside = os.path.dirname(place.python)
    found = shutil.which(name) or shutil.which(name, path=beside)
    if found is None:
        hint = f"put {name} on your PATH"
        if instead:
            hint += f", or: {shlex.join([place.python])} {instead}"
        raise ConfigurationError(f"{name} is needed, and not found: {why}", hint=hint)
    return found


class _Pip:
    """pip, and what has its commands."""

    def __init__(self, program: Sequence[str], place: Sequence[str]) -> None:
        self._program = list(program)
        self._place = list(place)
        self._yes = [] if place else ["--yes"]

    def install(
        self, wanted: Sequence[str], editable: Sequence[str], further: Sequence[str]
    ) -> Commands:
        folders = [word for path in editable for word in ("--editable", path)]
        return [[*self._program, "install", *self._place, *further, *folders, *wanted]]

    def upgrade(self, names: Sequence[str], further: Sequence[str]) -> Commands:
        return [[*self._program, "install", *self._place, "--upgrade", *further, *names]]

    def uninstall(self, names: Sequence[str], further: Sequence[str]) -> Commands:
        return [[*self._program, "uninstall", *self._place, *self._yes, *further, *names]]


class _Pipx:
    def __init__(self, program: str, name: str, place: Place) -> None:
        self._program = program
        self._name = name
        self._file = os.path.join(place.prefix, _PIPX)

    def install(
        self, wanted: Sequence[str], editable: Sequence[str], further: Sequence[str]
    ) -> Commands:
        inject = [self._program, "inject", self._name]
        if self._injected() & {required_name(each) for each in wanted}:
            inject.append("--force")  # without it, what is there stays, whatever is asked
        passed = [f"--pip-args={shlex.join(further)}"] if further else []
        commands = []
        if wanted:
            commands.append([*inject, *passed, *wanted])
        if editable:  # all that one command injects, or nothing of it, is editable
            commands.append([*inject, "--editable", *passed, *editable])
        return commands

    def upgrade(self, names: Sequence[str], further: Sequence[str]) -> Commands:
        return [[*self._pip("install"), "--upgrade", *further, *names]]

    def uninstall(self, names: Sequence[str], further: Sequence[str]) -> Commands:
        injected = self._injected()
        commands = []
        theirs = [name for name in names if normal_name(name) in injected]
        others = [name for name in names if normal_name(name) not in injected]
        if theirs:
            # without --leave-deps, pipx removes what nothing needs any more: the host
            # itself, where it was the last plugin
            command = [self._program, "uninject", "--leave-deps", self._name]
            commands.append([*command, *theirs])
        if others:
            commands.append([*self._pip("uninstall"), "-y", *further, *others])
        return commands

    def _pip(self, command: str) -> list[str]:
        return [self._program, "runpip", self._name, command]

    def _injected(self) -> set[str]:
        data = _read(self._file, json.loads)
        return {normal_name(name) for name in _table(data.get("injected_packages"))}


class _UvTool:
    """uv tool has no command that adds: it is told again of all that is in its receipt."""

    def __init__(self, program: str, name: str, place: Place) -> None:
        self._program = program
        self._name = name
        self._file = os.path.join(place.prefix, _UV_TOOL)

    def install(
        self, wanted: Sequence[str], editable: Sequence[str], further: Sequence[str]
    ) -> Commands:
        replaced = {required_name(each) for each in wanted}
        added = [word for each in wanted for word in ("--with", each)]
        added += [word for path in editable for word in ("--with-editable", path)]
        return [[*self._kept_but(replaced, further), *added]]

    def upgrade(self, names: Sequence[str], further: Sequence[str]) -> Commands:
        newer = [word for name in names for word in ("--upgrade-package", name)]
        return [[*self._kept_but((), further), *newer]]

    def uninstall(self, names: Sequence[str], further: Sequence[str]) -> Commands:
        return [self._kept_but({normal_name(name) for name in names}, further)]

    def _kept_but(self, names: Sequence[str] | set[str], further: Sequence[str]) -> list[str]:
        tool = _table(_read(self._file, _toml).get("tool"))
        listed = [_table(each) for each in tool.get("requirements") or ()]
        command = [self._program, "tool", "install", *further]
        if tool.get("python"):
            command += ["--python", str(tool["python"])]
        kept: list[str] = []
        main = [APP]
        for each in listed:
            name = normal_name(str(each.get("name", "")))
            if name == normal_name(self._name):
                main = ["--editable"] * ("editable" in each) + [_requirement(each)]
            elif name not in names:
                option = "--with-editable" if "editable" in each else "--with"
                kept += [option, _requirement(each)]
        return [*command, *main, *kept]


def _requirement(listed: Mapping[str, Any]) -> str:
    """A requirement of a receipt, as it is written on a command line."""
    name = str(listed.get("name", ""))
    if listed.get("extras"):
        name += f"[{','.join(map(str, listed['extras']))}]"
    if "editable" in listed:
        return str(listed["editable"])
    marker = f" ; {listed['marker']}" if listed.get("marker") else ""
    for kind in ("path", "directory", "url"):
        if kind in listed:
            return f"{name} @ {listed[kind]}{marker}"
    if "git" in listed:
        return f"{name} @ git+{_git_address(str(listed['git']))}{marker}"
    return f"{name}{listed.get('specifier', '')}{marker}"


def _git_address(kept: str) -> str:
    """`https://host/repo?rev=main&subdirectory=a#commit` as pip writes it."""
    import urllib.parse

    parts = urllib.parse.urlsplit(kept)
    query = dict(urllib.parse.parse_qsl(parts.query))
    revision = next((f"@{query[kind]}" for kind in ("rev", "tag", "branch") if kind in query), "")
    folder = f"#subdirectory={query['subdirectory']}" if "subdirectory" in query else ""
    return f"{parts.scheme}://{parts.netloc}{parts.path}{revision}{folder}"


def _read(file: str, parse: Any) -> dict[str, Any]:
    """What an installer keeps. Raises `ConfigurationError` if it cannot be read: it is
    not to be done without, as what is not listed in it is uninstalled."""
    try:
        with open(file, encoding="utf-8") as stream:
            return _table(parse(stream.read()))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"cannot read {file}: {error}", file=file) from error


def _toml(text: str) -> object:
    import tomllib

    return tomllib.loads(text)


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
