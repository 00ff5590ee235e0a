"""The MCP handshake and the fields of each request, in each version of the protocol.

ClientSession.open → server/discover → it speaks 2026-07-28, which has no sessions
             → initialize, notifications/initialized → an older version
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

from genai_host import __version__
from genai_host.api import CancelToken
from genai_host.errors import (
    BadRequest,
    GenaiError,
    MalformedReply,
    ProviderTimeout,
    ServiceUnavailable,
)
from genai_mcp.client.servers import McpConnection, SessionGone
from genai_mcp.rpc import HANDSHAKES, LISTEN, MODERN, OWN, RpcError, one_line
from genai_mcp.within import Within

MOST_PAGES = 100
"""Maximum number of pages of a list; further pages are ignored."""

PROBE = 10.0
"""Seconds without an answer to `server/discover` after which a server counts as older."""

_UNSUPPORTED = -32022
_MODERN_ERRORS = (-32020, -32021, _UNSUPPORTED)
_CLIENT = {"name": "genai-host", "version": __version__}

_log = logging.getLogger(__name__)


class ClientSession:
    """Session with a server. Thread-safe.

    Attributes:
        server: Name and version of the server, as `name version`; empty before `open`.
    """

    def __init__(self, name: str, connection: McpConnection, probe: float = PROBE) -> None:
        self.server = ""
        self._name = name
        self._connection = connection
        self._probe = probe
        self._lock = threading.Lock()
        self._capabilities: Mapping[str, Any] = {}
        self._open = 0  # number of times it was opened

    @property
    def version(self) -> str:
        """Version of the protocol; empty before `open`."""
        return self._connection.version if self._open else ""

    @property
    def announces(self) -> bool:
        """Whether the server reports changes of its tools, and the connection receives them."""
        return self._tells_of_changes() and self._connection.listens

    def open(self, limits: CancelToken) -> None:
        """Negotiate the protocol version. Does nothing if it is already open.

        Raises:
            ProviderError: The server or the connection failed.
            GenaiError: The error of `limits`.
        """
        with self._lock:
            limits.check()
            if not self._open:
                self._opened(limits)
                self._open = 1

    def tools(self, limits: CancelToken) -> tuple[list[Any], float]:
        """Return the raw tool definitions, and the seconds for which the list is valid. The list is
        empty if the server has no tools. Raises the same errors as `open`.
        """
        self.open(limits)
        if not isinstance(self._capabilities.get("tools"), Mapping):
            return [], 0.0
        found: list[Any] = []
        seconds = float("inf")
        cursor: dict[str, Any] = {}
        for _ in range(MOST_PAGES):
            page = self._ask("tools/list", cursor, limits)
            if not isinstance(page.get("tools"), list):
                raise MalformedReply(f"{self._name} sent an invalid list of tools")
            found += page["tools"]
            seconds = min(seconds, _milliseconds(page.get("ttlMs")) / 1000)
            following = page.get("nextCursor")
            if not isinstance(following, str) or cursor.get("cursor") == following:
                return found, seconds
            cursor = {"cursor": following}
        _log.warning(
            "%s has more than %d pages of tools; further pages are ignored", self._name, MOST_PAGES
        )
        return found, seconds

    def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        limits: CancelToken,
        headers: Mapping[str, str],
    ) -> Mapping[str, Any]:
        """Call a tool and return the raw result. Raises the same errors as `open`."""
        self.open(limits)
        return self._ask("tools/call", {"name": tool, "arguments": arguments}, limits, headers)

    def _ask(
        self,
        method: str,
        params: Mapping[str, Any],
        limits: CancelToken,
        headers: Mapping[str, str] | None = None,
    ) -> Mapping[str, Any]:
        opened = self._open
        try:
            try:
                result = self._request(method, params, limits, headers)
            except SessionGone:  # the call did not run, so a retry is safe
                self._open_anew(opened, limits)
                result = self._request(method, params, limits, headers)
        except SessionGone:
            raise ServiceUnavailable(f"{self._name} repeatedly forgets its session") from None
        except RpcError as error:
            raise self._refused(error) from error
        kind = result.get("resultType", "complete")
        if kind == "input_required":
            raise BadRequest(
                f"{self._name} requires input, which is not supported: {_wanted(result)}"
            )
        if kind != "complete":
            raise MalformedReply(f"{self._name} sent a result of unknown type")
        return result

    def _request(
        self,
        method: str,
        params: Mapping[str, Any],
        limits: CancelToken,
        headers: Mapping[str, str] | None = None,
    ) -> Mapping[str, Any]:
        sent = {**params, **self._meta()}
        result = self._connection.request(method, sent, limits, headers or {})
        if not isinstance(result, Mapping):
            raise MalformedReply(f"{self._name} sent a result that is not an object")
        return result

    def _meta(self) -> dict[str, Any]:
        """Return the `_meta` fields that 2026-07-28 requires in each request."""
        version = self._connection.version
        if version != MODERN:
            return {}
        about = {"protocolVersion": version, "clientInfo": _CLIENT, "clientCapabilities": {}}
        return {"_meta": {f"{OWN}{name}": value for name, value in about.items()}}

    def _open_anew(self, opened: int, limits: CancelToken) -> None:
        with self._lock:
            if self._open == opened:  # no other thread has reopened it
                self._connection.restart()
                self._opened(limits)
                self._open += 1

    def _opened(self, limits: CancelToken) -> None:
        try:
            if not self._is_modern(limits):
                self._shake_hands(limits)
        except RpcError as error:
            raise self._refused(error) from error
        except SessionGone:
            raise ServiceUnavailable(f"{self._name} repeatedly forgets its session") from None
        if not self._tells_of_changes():
            return
        wanted = {"notifications": {"toolsListChanged": True}, **self._meta()}
        self._connection.listen(LISTEN if self._connection.version == MODERN else "", wanted)

    def _tells_of_changes(self) -> bool:
        return _mapping(self._capabilities.get("tools")).get("listChanged") is True

    def _is_modern(self, limits: CancelToken) -> bool:
        """Whether the server supports 2026-07-28. Older servers reply with various errors,
        or not at all. Raises `RpcError` or an error of the connection.
        """
        self._connection.version = MODERN
        with Within(self._probe, f"negotiating with {self._name}", limits) as probe:
            try:
                result = self._discover(probe)
            except RpcError as error:
                if error.code == _UNSUPPORTED and not _supported(error.data, (MODERN,)):
                    return False
                if error.code in _MODERN_ERRORS:
                    raise
                return False
            except (BadRequest, ProviderTimeout):
                limits.check()
                return False
        if MODERN not in _listed(result.get("supportedVersions")):
            return False
        self._capabilities = _mapping(result.get("capabilities"))
        self.server = _server(_mapping(result.get("_meta")).get(f"{OWN}serverInfo"))
        return True

    def _discover(self, limits: CancelToken) -> Mapping[str, Any]:
        """Send `server/discover`, with one retry for a server that rejects the version but lists it
        as supported. Raises the same errors as `_is_modern`.
        """
        try:
            return self._request("server/discover", {}, limits)
        except RpcError as error:
            if error.code != _UNSUPPORTED or not _supported(error.data, (MODERN,)):
                raise
        return self._request("server/discover", {}, limits)

    def _shake_hands(self, limits: CancelToken) -> None:
        """Open a session. Raises the same errors as `_is_modern`."""
        self._connection.version = ""
        asked = {
            "protocolVersion": HANDSHAKES[0],
            "capabilities": {},
            "clientInfo": _CLIENT,
        }
        try:
            result = self._request("initialize", asked, limits)
        except RpcError as error:
            # a server that was slow to start may have answered `server/discover` by now
            is_modern = error.code == _UNSUPPORTED and _supported(error.data, (MODERN,))
            if not is_modern or not self._is_modern(limits):
                raise
            return
        version = result.get("protocolVersion")
        if version not in HANDSHAKES:
            raise BadRequest(
                f"{self._name} uses MCP version {one_line(str(version))}; "
                f"supported versions: {', '.join((MODERN, *HANDSHAKES))}"
            )
        self._connection.version = version
        self._capabilities = _mapping(result.get("capabilities"))
        self.server = _server(result.get("serverInfo"))
        self._connection.notify("notifications/initialized", {}, limits)

    def _refused(self, error: RpcError) -> GenaiError:
        return BadRequest(f"{self._name} returned an error: {error.message} (error {error.code})")


def _milliseconds(value: Any) -> float:
    return value if type(value) in (int, float) and value > 0 else 0.0


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _supported(data: Any, versions: tuple[str, ...]) -> bool:
    """Whether an error lists one of these versions as supported."""
    return any(version in _listed(_mapping(data).get("supported")) for version in versions)


def _server(info: Any) -> str:
    names = (_mapping(info).get(name) for name in ("name", "version"))
    return one_line(" ".join(each for each in names if isinstance(each, str)))


def _wanted(result: Mapping[str, Any]) -> str:
    requests = _mapping(result.get("inputRequests")).values()
    methods = {str(_mapping(each).get("method")) for each in requests}
    return one_line(", ".join(sorted(methods))) or "unspecified"
