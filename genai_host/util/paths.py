"""Paths of the host's files: the usual directories of the platform.

`GENAI_HOST_HOME` moves all of them to one directory; `GENAI_HOST_CONFIG` names the
configuration file alone, which must exist then. The others need not exist. All paths are
absolute. Without a home directory (see `has_home`) they are in a place that cannot exist, so
that nothing is read or stored.
"""

from __future__ import annotations

import os
import sys

from genai_host.util.names import APP

_NOWHERE = os.path.abspath(os.devnull)  # not even root can create a directory there
ELSEWHERE = "set GENAI_HOST_HOME to a writable directory"
"""Hint if a file of the host cannot be written."""

# XDG Base Directory Specification 0.8
_XDG = {
    "config": ("XDG_CONFIG_HOME", ".config"),
    "cache": ("XDG_CACHE_HOME", ".cache"),
    "data": ("XDG_DATA_HOME", ".local/share"),
    "state": ("XDG_STATE_HOME", ".local/state"),
}


def config_dir() -> str:
    """Directory of the user's configuration; `GENAI_HOST_CONFIG` does not move it."""
    return _folder("config")


def config_file() -> str:
    """The configuration file: that of `GENAI_HOST_CONFIG`, or else the usual one."""
    return named_config_file() or os.path.join(_folder("config"), "config.toml")


def named_config_file() -> str:
    """The configuration file of `GENAI_HOST_CONFIG`; empty if it is not set."""
    named = os.environ.get("GENAI_HOST_CONFIG")
    return os.path.abspath(named) if named else ""


def misplaced_config_file() -> str:
    """A configuration file directly in `GENAI_HOST_HOME`, which is not read; empty if there is
    none."""
    home = os.environ.get("GENAI_HOST_HOME")
    if not home or named_config_file():
        return ""
    path = os.path.abspath(os.path.join(home, "config.toml"))
    return path if os.path.exists(path) else ""


def templates_dir() -> str:
    """Directory of the user's templates."""
    return os.path.join(_folder("config"), "templates")


def keys_file() -> str:
    """The file of secrets; `GENAI_HOST_CONFIG` does not move it."""
    return os.path.join(_folder("config"), "keys.json")


def cache_dir() -> str:
    """Directory of files that can be recreated."""
    return _folder("cache")


def data_dir(owner: str) -> str:
    """Directory of large files, such as weights, of a provider type."""
    return os.path.join(_folder("data"), owner)


def state_dir() -> str:
    """Directory of state between runs, such as the history of the prompt."""
    return _folder("state")


def _folder(kind: str, platform: str = sys.platform) -> str:
    home = os.environ.get("GENAI_HOST_HOME")
    if home:
        return os.path.abspath(os.path.join(home, kind))
    if platform.startswith("linux"):
        variable, usual = _XDG[kind]
        base = os.environ.get(variable, "")
        if not os.path.isabs(base):
            base = os.path.join(_home(), usual)
        return os.path.abspath(os.path.join(base, APP))
    return _folder_of_platform(kind)


def has_home() -> bool:
    """Whether there is a home directory, or directories in its place; otherwise nothing is
    stored."""
    return not any(_folder(kind).startswith(_NOWHERE) for kind in _XDG)


def _home() -> str:
    """The home directory. A user without one, for example in a container, would otherwise get a
    directory named `~` in the working directory."""
    home = os.path.expanduser("~")
    if os.path.isabs(home):
        return home
    try:
        import pwd

        listed = pwd.getpwuid(os.getuid()).pw_dir  # HOME is relative
    except (ImportError, KeyError):
        return _NOWHERE
    return listed if os.path.isabs(listed) else _NOWHERE


def _folder_of_platform(kind: str) -> str:
    """The directory of the platform. platformdirs is slow to import and only used for other systems
    than Linux."""
    import platformdirs

    find = {
        "config": platformdirs.user_config_dir,
        "cache": platformdirs.user_cache_dir,
        "data": platformdirs.user_data_dir,
        "state": platformdirs.user_state_dir,
    }
    folder = find[kind](APP, appauthor=False)
    return folder if os.path.isabs(folder) else os.path.join(_NOWHERE, APP, kind)
