"""Configured servers.

The user's servers are in the file `mcp.json`, in the format that other MCP clients also use:

    {"mcpServers": {"git": {"command": "uvx", "args": ["mcp-server-git"]},
                    "shop": {"url": "https://example.com/mcp",
                             "headers": {"Authorization": "Bearer ${SHOP_TOKEN}"}}}}

The file is read when the plugin loads. References to environment variables are resolved when a
server is started.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from genai_host.api import encoding_of
from genai_host.errors import ConfigurationError
from genai_mcp import VARIABLE, file
from genai_mcp.text import one_line


class SessionGone(Exception):
    """The server has lost the session and has not processed the request."""


HTTP_STATUS = "io.genai-host/status"
"""Key of the HTTP status in the data of an error from `client.http`."""

SESSION_GONE = -1
"""Code of an error from `client.http` for a session that the server has lost."""

MAX_SIZE = 32 << 20
"""Maximum number of bytes of a message: enough for 20 MiB of images as base64."""

_MAX = 1 << 20  # bytes in the file
_NAME = re.compile(r"[a-z][a-z0-9-]*")
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_HTTP = ("http", "streamable-http", "streamableHttp")


@frozen
class McpServer:
    """A configured server. Only its repr may be displayed: the other fields can contain secrets.

    Attributes:
        name: `[a-z][a-z0-9-]*`.
        command: Program that starts the server, with `args`, `env` and the directory `cwd`; empty
            if the server has a `url`, with `headers`.
        fault: Configuration error; None if the entry is valid.
    """

    name: str
    command: str = field(default="", repr=False)
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(factory=dict, repr=False)
    cwd: str = field(default="", repr=False)
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    fault: ConfigurationError | None = None

    @property
    def transport(self) -> str:
        return "http" if self.url else "stdio"


def read_servers() -> list[McpServer]:
    """Return the configured servers, with unresolved references. Without a file there are none,
    unless the environment variable names one. An invalid entry becomes a server with a fault.
    Raises `ConfigurationError`: the file cannot be read."""
    path = file()
    try:
        if stat.S_ISFIFO(os.stat(path).st_mode):  # opening it would wait for a writer
            raise OSError(errno.EINVAL, "it is a named pipe")
        with open(path, "rb") as opened:
            data = opened.read(_MAX + 1)
    except FileNotFoundError as error:
        if not os.environ.get(VARIABLE):
            return []
        raise _wrong("no such file", path) from error
    except OSError as error:
        raise _wrong(f"cannot be read: {error.strerror}", path) from error
    if len(data) > _MAX:
        raise _wrong(f"larger than {_MAX} bytes", path)
    return _servers(data, path)


def _servers(data: bytes, path: str) -> list[McpServer]:
    try:
        text = data.decode(encoding_of(data))
        value = json.loads(text)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _wrong(f"not {error.encoding.upper()}", path, line) from error
    except json.JSONDecodeError as error:
        raise _wrong(f"invalid JSON: {error.msg}", path, error.lineno) from error
    except ValueError as error:  # Python reads no integer of more than 4300 digits
        raise _wrong("invalid JSON: a number is too long", path) from error
    except RecursionError as error:
        raise _wrong("nested too deeply", path) from error
    servers = value.get("mcpServers") if isinstance(value, dict) else None
    if not isinstance(servers, dict):
        raise _wrong('no object "mcpServers"', path, 1)
    found: dict[str, McpServer] = {}
    for name, entry in servers.items():
        if isinstance(entry, dict) and entry.get("disabled") is True:
            continue
        server = _server(name, entry, path, _line(text, name), found)
        found[server.name] = server
    return list(found.values())


def _server(
    name: str, entry: Any, path: str, line: int | None, others: Mapping[str, McpServer]
) -> McpServer:
    usable = _usable(name, others)
    try:
        if name != usable:
            raise ValueError(
                f"{one_line(name)!r} is not a valid server name: it must match "
                f"{_NAME.pattern}, for example {usable!r}"
            )
        return _checked(name, entry)
    except ValueError as error:
        return McpServer(usable, fault=_wrong(str(error), path, line))


def _wrong(what: str, path: str, line: int | None = None) -> ConfigurationError:
    place = f"{path}:{line}" if line else path
    return ConfigurationError(f"{place}: {what}", file=path, line=line)


def _usable(name: str, others: Mapping[str, McpServer]) -> str:
    """Return a valid and unique name based on the given one."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:32]
    if _NAME.fullmatch(name):
        plain = name
    elif not _NAME.fullmatch(plain):
        plain = f"server-{plain}".strip("-")
    number, found = 2, plain
    while found in others:
        found = f"{plain}-{number}"
        number += 1
    return found


def _checked(name: str, entry: Any) -> McpServer:
    """Validate an entry; raises `ValueError` with the reason."""
    if not isinstance(entry, dict):
        raise ValueError(f"{name} must be an object")
    command, url = entry.get("command", ""), entry.get("url", "")
    kind = entry.get("type")
    if kind == "sse":
        raise ValueError(f"{name} has the type sse, which MCP no longer supports: use http")
    if not _is_text(command) or not _is_text(url) or bool(command) == bool(url):
        raise ValueError(f"{name} must have either a command or a url")
    if kind not in (None, "stdio", *_HTTP) or (kind is not None and (kind == "stdio") != (not url)):
        raise ValueError(f"{name} has an invalid type: {one_line(str(kind))}")
    args, cwd = entry.get("args", []), entry.get("cwd", "")
    if not isinstance(args, list) or not all(map(_is_text, args)):
        raise ValueError(f"the args of {name} must be a list of strings")
    if not _is_text(cwd):
        raise ValueError(f"the cwd of {name} must be a string")
    return McpServer(
        name,
        command=command,
        args=tuple(args),
        env=_texts(name, entry, "env"),
        cwd=cwd,
        url=url,
        headers=_texts(name, entry, "headers"),
    )


def _texts(name: str, entry: Mapping[str, Any], key: str) -> Mapping[str, str]:
    value = entry.get(key) or {}
    if not isinstance(value, dict) or not all(map(_is_text, value.values())):
        raise ValueError(f"the {key} of {name} must be an object with strings")
    return value


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value


def _line(text: str, name: str) -> int | None:
    """Return the line where the entry probably begins; the JSON parser does not report lines."""
    servers = text.find('"mcpServers"')
    found = re.compile(re.escape(json.dumps(name, ensure_ascii=False)) + r"\s*:").search(
        text, max(servers, 0)
    )
    return text.count("\n", 0, found.start()) + 1 if found else None


def filled(server: McpServer, text: str) -> str:
    """Replace `${NAME}` and `${NAME:-default}` in a text by environment variables. Raises
    `ConfigurationError` for an unset variable.
    """

    def value(found: re.Match[str]) -> str:
        name, otherwise = found.groups()
        given = os.environ.get(name) or otherwise
        if given is None:
            raise ConfigurationError(
                f"{server.name}: the environment variable {name} is not set",
                hint=f"set {name}",
                file=file(),
            )
        return given

    return _REFERENCE.sub(value, text)
