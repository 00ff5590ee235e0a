"""The tools of one server as a tool source: definitions and contents.

    McpSource.tools → ClientSession.tools → tools_of; Tool.run → ClientSession.call → output_of

All data from a server is untrusted: a description can try to manipulate a model, and an annotation
can be false. So a human approves each call, unless the user configures otherwise (`approvals`), and
no tool is idempotent, regardless of its annotations.

Models receive texts and images. Audio and resources are described as text. The toolbox limits the
size of outputs.
"""

from __future__ import annotations

import copy
import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from itertools import islice
from typing import Any

from genai_host.api import (
    CancelToken,
    Image,
    Text,
    Tool,
    ToolContext,
    ToolOutput,
    ToolSource,
    decode_base64,
    write_json,
)
from genai_host.errors import MalformedReply, ServiceUnavailable, ValidationError
from genai_mcp import mirrored
from genai_mcp.client.servers import McpConnection, McpServer
from genai_mcp.client.session import PROBE, ClientSession
from genai_mcp.rpc import MODERN, clean, one_line

_MOST_PARTS = 1001  # one more than the toolbox keeps, so that it reports the truncation


def output_of(result: Mapping[str, Any]) -> ToolOutput:
    """Convert the result of a tool; raises `MalformedReply` if it is invalid."""
    content = result.get("content", [])
    if not isinstance(content, list):
        raise MalformedReply("content must be a list")
    parts = [_part(each) for each in islice(content, _MOST_PARTS)]
    if not parts and "structuredContent" in result:
        parts = [Text(write_json(result["structuredContent"]).decode())]
    return ToolOutput(parts, error=result.get("isError") is True)


def _part(item: Any) -> Text | Image:
    if not isinstance(item, Mapping):
        return Text("(content that is not an object)")
    kind = item.get("type")
    if kind == "text" and isinstance(item.get("text"), str):
        return Text(item["text"])
    if kind == "image":
        data = _bytes(item.get("data"))
        return Image(data, _word(item, "mimeType")) if data else Text("(an image without data)")
    if kind == "audio":
        size = len(_bytes(item.get("data")))
        return Text(f"(audio, {_word(item, 'mimeType') or 'of unknown type'}, {size} bytes)")
    if kind == "resource_link":
        return Text(f"(a resource: {_described(item)})")
    if kind == "resource" and isinstance(item.get("resource"), Mapping):
        return _resource(item["resource"])
    return Text(f"(content of unknown type: {one_line(str(kind))})")


def _resource(resource: Mapping[str, Any]) -> Text:
    text = resource.get("text")
    if isinstance(text, str):
        return Text(f"(a resource: {_described(resource)})\n{text}")
    size = len(_bytes(resource.get("blob")))
    return Text(f"(a resource: {_described(resource)}, {size} bytes)")


def _described(resource: Mapping[str, Any]) -> str:
    names = ("uri", "name", "mimeType", "description")
    return ", ".join(filter(None, (_word(resource, name) for name in names))) or "without a name"


def _word(item: Mapping[str, Any], name: str) -> str:
    value = item.get(name)
    return one_line(value) if isinstance(value, str) else ""


def _bytes(value: Any) -> bytes:
    """Decode base64; return empty bytes if it is invalid."""
    try:
        return decode_base64(value) if isinstance(value, str) else b""
    except ValueError:
        return b""


MOST_DESCRIPTION = 1024
"""Maximum number of characters of a description; longer ones are truncated."""

MOST_SCHEMA = 100_000
"""Maximum number of bytes of a schema as JSON. Tools with a larger schema are ignored."""

MOST_TOOLS = 1000

_LONGEST = 64  # maximum number of characters of a tool's full name
_BETWEEN = "__"

RpcCall = Callable[[str, Mapping[str, Any], Mapping[str, str], ToolContext], ToolOutput]
"""Calls a tool, with its name at the server, its arguments and the headers for them."""

_log = logging.getLogger(__name__)


def tools_of(
    server: str, definitions: Iterable[Any], call: RpcCall, *, has_headers: bool
) -> list[Tool]:
    """Return the usable tools, and log why the others are ignored. `has_headers` is whether the
    transport repeats arguments in headers.
    """
    found: dict[str, Tool] = {}
    for number, definition in enumerate(definitions):
        if number == MOST_TOOLS:
            _log.warning("%s has more than %d tools; further tools are ignored", server, MOST_TOOLS)
            break
        try:
            tool = _tool(server, definition, call, has_headers)
            if tool.name in found:
                raise ValidationError(f"its name {tool.name} is already used")
            found[tool.name] = tool
        except (ValidationError, RecursionError) as error:
            name = definition.get("name") if isinstance(definition, Mapping) else definition
            _log.warning(
                "%s: the tool %s is ignored: %s", server, one_line(str(name)), one_line(str(error))
            )
    return list(found.values())


def _tool(server: str, definition: Any, call: RpcCall, has_headers: bool) -> Tool:
    """Convert one definition; raises `ValidationError` if it is unusable."""
    if not isinstance(definition, Mapping):
        raise ValidationError("it is not an object")
    name, schema = definition.get("name"), definition.get("inputSchema")
    if not isinstance(name, str) or not name:
        raise ValidationError("it has no name")
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise ValidationError("its inputSchema must have the type object")
    if len(write_json(schema)) > MOST_SCHEMA:
        raise ValidationError(f"its inputSchema is larger than {MOST_SCHEMA} bytes")
    places = mirrored.places(schema) if has_headers else {}

    def run(arguments: Mapping[str, Any], run: ToolContext) -> ToolOutput:
        return call(name, arguments, mirrored.values(places, arguments), run)

    return Tool(
        usable_name(name, _LONGEST - len(server) - len(_BETWEEN)),
        _description(definition) or name,
        run,
        schema,
        approval="ask",
    )


def usable_name(name: str, most: int) -> str:
    """Return a valid tool name: invalid characters become `_`, and a long name ends with a
    digest.
    """
    plain = re.sub(r"[^a-zA-Z0-9_-]", "_", name)
    if not re.match(r"[a-zA-Z_]", plain):
        plain = f"_{plain}"
    if len(plain) <= most:
        return plain
    digest = sha256(name.encode(errors="replace")).hexdigest()[:8]
    return f"{plain[: most - 9]}_{digest}"


def _description(definition: Mapping[str, Any]) -> str:
    for given in (definition.get("description"), definition.get("title")):
        if isinstance(given, str) and (text := clean(given, MOST_DESCRIPTION).strip()):
            return text
    return ""


FRESH = 60.0
"""Seconds for which a list is valid if the server specifies no time and reports no changes."""

_LONGEST_LIFE = 3600.0  # maximum number of seconds for which a list is valid


class McpSource(ToolSource):
    """Tools of one server. The server is started or connected to when its tools are first listed,
    and again after it has ended.

    Args:
        probe: Seconds to wait for the server's protocol version.
    """

    def __init__(self, server: McpServer, probe: float = PROBE) -> None:
        self.name = server.name
        self._server = server
        self._probe = probe
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._connection: McpConnection | None = None
        self._session: ClientSession | None = None
        self._tools: list[Tool] | None = None
        self._until = 0.0

    def tools(self, limits: CancelToken) -> list[Tool]:
        """List the tools.

        Raises:
            ConfigurationError: The configuration is invalid.
            ProviderError: The server or the connection failed.
            GenaiError: The error of `limits`.
        """
        with self._lock:
            limits.check()
            is_new = not self._is_alive()
            try:
                return self._listed(limits)
            except ServiceUnavailable:
                if is_new or self._is_alive():
                    raise
            # the server had ended unnoticed
            return self._listed(limits)

    def about(self) -> tuple[str, str]:
        """Name and version of the server, and the MCP version."""
        session = self._session
        return ("", "") if session is None else (session.server, session.version)

    def expire(self) -> None:
        """Discard the stored list, so that the next `tools` asks the server."""
        self._until = 0.0

    def close(self) -> None:
        self._closed.set()  # without the lock, which a waiting call may hold
        connection = self._connection
        if connection is not None:
            connection.close()

    def _listed(self, limits: CancelToken) -> list[Tool]:
        session, connection = self._live()
        changed, connection.changed = connection.changed, False
        if self._tools is not None and not changed and time.monotonic() < self._until:
            return self._tools
        try:
            definitions, seconds = session.tools(limits)
        except BaseException:
            connection.changed = connection.changed or changed
            raise
        self._tools = tools_of(
            self.name,
            definitions,
            self._call,
            has_headers=self._server.transport == "http" and session.version == MODERN,
        )
        usual = _LONGEST_LIFE if session.announces else FRESH
        self._until = time.monotonic() + min(max(seconds, usual), _LONGEST_LIFE)
        return self._tools

    def _live(self) -> tuple[ClientSession, McpConnection]:
        if self._server.fault is not None:
            raise copy.copy(self._server.fault)
        if not self._closed.is_set() and not self._is_alive():
            before, self._connection = self._connection, None
            if before is not None:
                _log.warning("restarting %s", self.name)
                before.close()
            self._tools = None
            self._connection = _connected(self._server)
            self._session = ClientSession(self.name, self._connection, self._probe)
            if self._closed.is_set():  # closed while connecting
                self._connection.close()
        if self._closed.is_set():
            raise ServiceUnavailable(f"{self.name} is closed")
        assert self._session is not None
        assert self._connection is not None
        return self._session, self._connection

    def _is_alive(self) -> bool:
        return self._connection is not None and self._connection.alive

    def _call(
        self, name: str, arguments: Mapping[str, Any], headers: Mapping[str, str], run: ToolContext
    ) -> ToolOutput:
        with self._lock:
            session, _ = self._live()
        return output_of(session.call(name, arguments, run.limits, headers))


def _connected(server: McpServer) -> McpConnection:
    """Create a connection. HTTP takes long to import and is often not needed."""
    if server.transport == "http":
        from genai_mcp.client.http import HttpConnection

        return HttpConnection(server)
    from genai_mcp.client.stdio import StdioConnection

    return StdioConnection(server)
