"""The command that installs plugins into an environment.

pip installs if the environment has it, otherwise uv. Environments of pipx and uv tool are changed
by those programs, since they reinstall the distributions on their lists. The command is returned,
not run. Since it is used when plugins are broken, this module has no heavy imports.
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
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from genai_host.errors import ConfigurationError
from genai_host.plugins.distributions import find_distributions
from genai_host.util.names import APP, normal_name

Action = Literal["install", "upgrade", "uninstall"]

_PIPX = "pipx_metadata.json"
_UV_TOOL = "uv-receipt.toml"
_ANYWAY = "--break-system-packages"


def installed_sources() -> dict[str, str]:
    """Find the installed distributions: by normalized name, the URL that each was installed from,
    or an empty text for a package index (PyPA, Recording the Direct URL Origin)."""
    found = (each for each in find_distributions()[0] if each.has_metadata)
    return {normal_name(each.name): _source(each.read("direct_url.json")) for each in found}


def _source(direct_url: str) -> str:
    try:
        return str(json.loads(direct_url)["url"]) if direct_url else ""
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""


def required_name(requirement: str) -> str:
    """Parse the distribution from a requirement such as `genai-host[x] >= 1`: its normalized name;
    empty for a path or a URL (PyPA, Dependency specifiers)."""
    found = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*([\[(<>=!~;@,]|$)", requirement)
    return normal_name(found[1]) if found else ""


def without_passwords(command: Sequence[str]) -> list[str]:
    """Hide users and passwords of URLs in a command."""
    return [re.sub(r"//[^/\s]*@", "//***@", argument) for argument in command]


class PythonEnvironment(NamedTuple):
    """An environment.

    Attributes:
        is_own: Whether it is a virtual environment.
        is_system: Whether only the operating system may install there.
    """

    python: str
    prefix: str
    is_own: bool = True
    has_pip: bool = True
    is_system: bool = False

    @classmethod
    def here(cls) -> PythonEnvironment:
        """Describe the environment of this process."""
        return cls(
            sys.executable,
            sys.prefix,
            is_own=sys.prefix != sys.base_prefix,
            has_pip=importlib.util.find_spec("pip") is not None,
            is_system=os.path.exists(_marker()),
        )


def _marker() -> str:
    """Path of the marker file (PyPA, Externally Managed Environments, PEP 668)."""
    scheme = sysconfig.get_default_scheme()
    return os.path.join(sysconfig.get_path("stdlib", scheme), "EXTERNALLY-MANAGED")


def installer_command(
    place: PythonEnvironment,
    action: Action,
    wanted: Sequence[str],
    editable: Sequence[str] = (),
    further: Sequence[str] = (),
) -> list[str]:
    """Build the command that changes an environment. Raises `ConfigurationError` if another program
    manages the environment or no installer is available. Its hint is a command to run instead."""
    for file, (program, commands) in _MANAGERS.items():
        if os.path.isfile(os.path.join(place.prefix, file)):
            theirs = commands(place, action, wanted, editable, further)
            raise ConfigurationError(
                f"{program} manages {place.prefix!r}, where {APP} is installed",
                hint="run: " + " && ".join(shlex.join(without_passwords(each)) for each in theirs),
            )
    if place.is_system and not place.is_own and _ANYWAY not in further:
        raise ConfigurationError(
            f"the operating system manages {place.prefix!r}: plugins cannot be installed there",
            hint=f"install {APP} in a separate environment: pipx install {APP}, "
            f"or: uv tool install {APP}",
        )
    pip = [place.python, "-m", "pip"] if place.has_pip else [_uv(place), "pip"]
    arguments = ["uninstall" if action == "uninstall" else "install"]
    arguments += [] if place.has_pip else ["--python", place.python]
    arguments += ["--upgrade"] * (action == "upgrade")
    arguments += ["--yes"] * (action == "uninstall" and place.has_pip)
    return [*pip, *arguments, *further, *_each("--editable", editable), *wanted]


def _uv(place: PythonEnvironment) -> str:
    """uv, on PATH or next to the interpreter."""
    found = shutil.which("uv") or shutil.which("uv", path=os.path.dirname(place.python))
    if found is None:
        raise ConfigurationError(
            f"cannot install into {place.prefix!r}: it has no pip, and uv is not on PATH",
            hint=f"run: {shlex.join([place.python, '-m', 'ensurepip'])}",
        )
    return found


def _each(option: str, values: Sequence[str]) -> list[str]:
    return [argument for value in values for argument in (option, value)]


def _pipx(
    place: PythonEnvironment,
    action: Action,
    wanted: Sequence[str],
    editable: Sequence[str],
    further: Sequence[str],
) -> list[list[str]]:
    name = os.path.basename(place.prefix)
    if action == "upgrade":
        return [["pipx", "runpip", name, "install", "--upgrade", *further, *wanted]]
    if action == "uninstall":
        # without --leave-deps, pipx removes unused dependencies: also the host itself,
        # if this was the last plugin
        return [["pipx", "uninject", "--leave-deps", name, *wanted]]
    inject = ["pipx", "inject", name]
    inject += [f"--pip-args={shlex.join(further)}"] if further else []
    # pipx injects either all or none of a command's packages as editable
    commands = [[*inject, *wanted]] if wanted else []
    return [*commands, [*inject, "--editable", *editable]] if editable else commands


def _uv_tool(
    place: PythonEnvironment,
    action: Action,
    wanted: Sequence[str],
    editable: Sequence[str],
    further: Sequence[str],
) -> list[list[str]]:
    """Build commands with all requirements of the receipt: uv tool uninstalls packages that a
    command does not list."""
    name = os.path.basename(place.prefix)
    if action == "upgrade":
        return [["uv", "tool", "upgrade", name, *further]]
    replaced = {required_name(each) for each in wanted}
    main, kept = [APP], []
    for listed in _receipt(os.path.join(place.prefix, _UV_TOOL)):
        option = ["--with-editable" if "editable" in listed else "--with", _requirement(listed)]
        if normal_name(listed["name"]) == normal_name(name):
            main = ["--editable"] * ("editable" in listed) + option[1:]
        elif normal_name(listed["name"]) not in replaced:
            kept += option
    added = _each("--with", wanted if action == "install" else ())
    return [
        [
            "uv",
            "tool",
            "install",
            *further,
            *main,
            *kept,
            *added,
            *_each("--with-editable", editable),
        ]
    ]


def _receipt(file: str) -> list[Mapping[str, Any]]:
    import tomllib

    try:
        with open(file, "rb") as stream:
            listed = tomllib.load(stream)["tool"]["requirements"]
        return [each for each in listed if isinstance(each["name"], str)]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ConfigurationError(f"cannot read {file}", file=file) from error


def _requirement(listed: Mapping[str, Any]) -> str:
    """Format a requirement of a receipt for a command line."""
    if "editable" in listed:
        return str(listed["editable"])
    extras = f"[{','.join(listed['extras'])}]" if listed.get("extras") else ""
    source = next((listed[kind] for kind in ("path", "directory", "url") if kind in listed), "")
    if "git" in listed:
        address, query, options = listed["git"].partition("#")[0].partition("?")
        source = f"git+{address}"
        for option in sorted(options.split("&") if query else (), key=_is_directory):
            source += f"#{option}" if _is_directory(option) else f"@{option.partition('=')[2]}"
    version = f" @ {source}" if source else listed.get("specifier", "")
    marker = f" ; {listed['marker']}" if listed.get("marker") else ""
    return f"{listed['name']}{extras}{version}{marker}"


def _is_directory(option: str) -> bool:
    return option.startswith("subdirectory=")


_MANAGERS = {_PIPX: ("pipx", _pipx), _UV_TOOL: ("uv tool", _uv_tool)}
