"""Where the host keeps its files: the platform's usual places.

`GENAI_HOST_HOME` moves all of them below one folder; `GENAI_HOST_CONFIG` names the
configuration file alone, which must exist then. None of the others need exist. All
paths are absolute. Without a home directory they are where nothing can be, so that nothing is
read or kept: `has_home` says so.
"""

from __future__ import annotations

import os
import sys

from genai_host.util.names import APP

_NOWHERE = os.path.abspath(os.devnull)  # no one can make a folder in it, root neither
ELSEWHERE = "set GENAI_HOST_HOME to a folder that may be written"
"""The next step where a file of the host cannot be written."""

# XDG Base Directory Specification 0.8
_XDG = {
    "config": ("XDG_CONFIG_HOME", ".config"),
    "cache": ("XDG_CACHE_HOME", ".cache"),
    "data": ("XDG_DATA_HOME", ".local/share"),
    "state": ("XDG_STATE_HOME", ".local/state"),
}


def config_dir() -> str:
    """Folder of what the user configures; no name for the configuration moves it."""
    return _folder("config")


def config_file() -> str:
    """The configuration file: the one that is named, else the usual one."""
    return named_config_file() or os.path.join(_folder("config"), "config.toml")


def named_config_file() -> str:
    """The configuration file that the environment names; empty if it names none."""
    named = os.environ.get("GENAI_HOST_CONFIG")
    return os.path.abspath(named) if named else ""


def templates_dir() -> str:
    """Folder of the user's templates."""
    return os.path.join(_folder("config"), "templates")


def keys_file() -> str:
    """The file of secrets; no name for the configuration moves it."""
    return os.path.join(_folder("config"), "keys.json")


def cache_dir() -> str:
    """Folder of what can be made again."""
    return _folder("cache")


def data_dir(owner: str) -> str:
    """Folder of large files, such as weights, of one owner (a provider type)."""
    return os.path.join(_folder("data"), owner)


def state_dir() -> str:
    """Folder of what is kept between runs, such as what was typed at a prompt."""
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
    """Whether there is a home directory, or folders in its place: else nothing is kept."""
    return not any(_folder(kind).startswith(_NOWHERE) for kind in _XDG)


def _home() -> str:
    """A user that is in no list of users may have none, as in a container: there `~` stands for
    itself, and would be a folder of the working directory."""
    home = os.path.expanduser("~")
    if os.path.isabs(home):
        return home
    try:
        import pwd

        listed = pwd.getpwuid(os.getuid()).pw_dir  # HOME is a relative path
    except (ImportError, KeyError):
        return _NOWHERE
    return listed if os.path.isabs(listed) else _NOWHERE


def _folder_of_platform(kind: str) -> str:
    """Kept off the usual path: importing platformdirs costs more than all else that
    listing the plugins takes, and what it does on Linux is three lines."""
    import platformdirs

    find = {
        "config": platformdirs.user_config_dir,
        "cache": platformdirs.user_cache_dir,
        "data": platformdirs.user_data_dir,
        "state": platformdirs.user_state_dir,
    }
    folder = find[kind](APP, appauthor=False)
    return folder if os.path.isabs(folder) else os.path.join(_NOWHERE, APP, kind)
