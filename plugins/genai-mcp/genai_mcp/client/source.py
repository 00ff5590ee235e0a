"""The tools of one server as a tool source: definitions and contents.

    McpSource.tools → Connection.tools → tools_of; Tool.run → Connection.call → output_of

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
from typing import TYPE_CHECKING, Any

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
from genai_mcp.client.servers import McpServer, SessionGone
from genai_mcp.text import clean, one_line

if TYPE_CHECKING:  # takes long to import
    from mcp_types import (
        BlobResourceContents,
        CallToolResult,
        ContentBlock,
        ResourceLink,
        TextResourceContents,
        Tool as McpTool,
    )

    from genai_mcp.client.connection import Connection

_MAX_PARTS = 1001  # one more than the toolbox keeps, so that it reports the truncation


def output_of(result: CallToolResult) -> ToolOutput:
    """Convert the result of a tool. Raises `MalformedReply`: it contains infinity or NaN."""
    parts = [_part(each) for each in result.content[:_MAX_PARTS]]
    if not parts and "structured_content" in result.model_fields_set:
        try:
            parts = [Text(write_json(result.structured_content).decode())]
        except ValueError as error:
            raise MalformedReply(f"the structuredContent is not JSON: {error}") from error
    return ToolOutput(parts, error=result.is_error)


def _part(item: ContentBlock) -> Text | Image:
    if item.type == "text":
        return Text(item.text)
    if item.type == "image":
        data = _bytes(item.data)
        return Image(data, one_line(item.mime_type)) if data else Text("(an image without data)")
    if item.type == "audio":
        size = len(_bytes(item.data))
        return Text(f"(audio, {one_line(item.mime_type) or 'of unknown type'}, {size} bytes)")
    if item.type == "resource_link":
        return Text(f"(a resource: {_described(item)})")
    where = _described(item.resource)
    if hasattr(item.resource, "text"):
        return Text(f"(a resource: {where})\n{item.resource.text}")
    return Text(f"(a resource: {where}, {len(_bytes(item.resource.blob))} bytes)")


def _described(item: ResourceLink | TextResourceContents | BlobResourceContents) -> str:
    values = (getattr(item, key, None) for key in ("uri", "name", "mime_type", "description"))
    return ", ".join(one_line(str(value)) for value in values if value) or "without a name"


def _bytes(value: str) -> bytes:
    """Decode base64; return empty bytes if it is invalid."""
    try:
        return decode_base64(value)
    except ValueError:
        return b""


MAX_DESCRIPTION = 1024
"""Maximum number of characters of a description; longer ones are truncated."""

MAX_SCHEMA = 100_000
"""Maximum number of bytes of a schema as JSON. Tools with a larger schema are ignored."""

MAX_TOOLS = 1000

_MAX_LENGTH = 64  # maximum number of characters of a tool's full name
_BETWEEN = "__"

ToolCall = Callable[[str, Mapping[str, Any], ToolContext], ToolOutput]
"""Calls a tool, with its name at the server and its arguments."""

_log = logging.getLogger(__name__)


def tools_of(server: str, definitions: Iterable[McpTool], call: ToolCall) -> list[Tool]:
    """Return the usable tools, and log why the others are ignored."""
    found: dict[str, Tool] = {}
    for number, definition in enumerate(definitions):
        if number == MAX_TOOLS:
            _log.warning("%s has more than %d tools; further tools are ignored", server, MAX_TOOLS)
            break
        try:
            tool = _tool(server, definition, call)
            if tool.name in found:
                raise ValidationError(f"its name {tool.name} is already used")
            found[tool.name] = tool
        except (ValidationError, ValueError, RecursionError) as error:
            why = one_line(str(error))
            _log.warning("%s: the tool %s is ignored: %s", server, one_line(definition.name), why)
    return list(found.values())


def _tool(server: str, definition: McpTool, call: ToolCall) -> Tool:
    """Convert one definition; raises `ValidationError` if it is unusable."""
    name, schema = definition.name, definition.input_schema
    if not name.strip():
        raise ValidationError("it has no name")
    if len(write_json(schema)) > MAX_SCHEMA:
        raise ValidationError(f"its inputSchema is larger than {MAX_SCHEMA} bytes")

    def run(arguments: Mapping[str, Any], run: ToolContext) -> ToolOutput:
        return call(name, arguments, run)

    return Tool(
        usable_name(name, _MAX_LENGTH - len(server) - len(_BETWEEN)),
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


def _description(definition: McpTool) -> str:
    for given in (definition.description, definition.title):
        if text := clean(given or "", MAX_DESCRIPTION).strip():
            return text
    return ""


FRESH = 60.0
"""Seconds for which a list is valid if the server specifies no time and reports no changes."""

_MAX_LIFE = 3600.0  # maximum number of seconds for which a list is valid


class McpSource(ToolSource):
    """Tools of one server. The server is started or connected to when its tools are first listed,
    and again after it has ended.
    """

    def __init__(self, server: McpServer) -> None:
        self.name = server.name
        self._server = server
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._connection: Connection | None = None
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
            was_alive = self._is_alive()
            try:
                return self._listed(limits)
            except SessionGone:
                self._drop()
            except ServiceUnavailable:
                if not was_alive or self._is_alive():
                    raise
            try:  # the server had ended unnoticed, or has lost the session
                return self._listed(limits)
            except SessionGone:
                raise self._session_lost() from None

    def about(self) -> tuple[str, str]:
        """Name and version of the server, and the MCP version."""
        connection = self._connection
        return ("", "") if connection is None else connection.about

    def expire(self) -> None:
        """Discard the stored list, so that the next `tools` asks the server."""
        self._until = 0.0

    def close(self) -> None:
        self._closed.set()
        connection = self._connection  # without the lock, which a waiting call may hold
        if connection is not None:
            connection.close()

    def _listed(self, limits: CancelToken) -> list[Tool]:
        connection = self._live(limits)
        changed, connection.changed = connection.changed, False
        if self._tools is not None and not changed and time.monotonic() < self._until:
            return self._tools
        try:
            definitions, seconds = connection.tools(limits)
        except BaseException:
            connection.changed = connection.changed or changed
            raise
        self._tools = tools_of(self.name, definitions, self._call)
        usual = _MAX_LIFE if connection.announces else FRESH
        self._until = time.monotonic() + min(max(seconds, usual), _MAX_LIFE)
        return self._tools

    def _live(self, limits: CancelToken) -> Connection:
        if self._server.fault is not None:
            raise copy.copy(self._server.fault)
        if self._closed.is_set():
            raise ServiceUnavailable(f"{self.name} is closed")
        if self._connection is None or not self._connection.alive:
            if self._connection is not None:
                _log.warning("restarting %s", self.name)
                self._drop()
            # the SDK takes long to import, and is not needed to load the plugin
            from genai_mcp.client.connection import Connection

            self._connection = Connection(self._server)
            if self._closed.is_set():  # closed meanwhile
                self._connection.close()
        self._connection.open(limits)
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = self._tools = None

    def _is_alive(self) -> bool:
        return self._connection is not None and self._connection.alive

    def _call(self, name: str, arguments: Mapping[str, Any], run: ToolContext) -> ToolOutput:
        for _ in range(2):
            with self._lock:
                connection = self._live(run.limits)
            try:
                return output_of(connection.call(name, arguments, run.limits))
            except SessionGone:  # the call did not run, so a retry is safe
                connection.ended(self._session_lost())
        raise self._session_lost()

    def _session_lost(self) -> ServiceUnavailable:
        return ServiceUnavailable(f"{self.name} repeatedly forgets its session")
