"""A server on the network: the transport of the SDK ("Streamable HTTP") with limits.

Replies are limited in size. Failed connections and HTTP errors become errors of the one request,
with their status; the SDK would end the session, or hide the status.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
from mcp.client import streamable_http

from genai_host.errors import ConfigurationError, GenaiError
from genai_mcp.client.servers import HTTP_STATUS, MAX_SIZE, SESSION_GONE, McpServer, filled
from genai_mcp.text import one_line

CONNECT_SECONDS = 30.0
"""Timeout of a connection; the limits of a call are for its reply."""

_MAX_REASON = 2000  # bytes of a body with the reason of an error
_HEADER_VALUE = re.compile(r"([!-~\x80-\xff]([ \t!-~\x80-\xff]*[!-~\x80-\xff])?)?")


@contextlib.asynccontextmanager
async def http_transport(
    server: McpServer, ended: Callable[[GenaiError], None]
) -> AsyncIterator[Any]:
    """Exchange messages with a server over HTTP. Raises `ConfigurationError`: the address or a
    header is invalid."""
    url = filled(server, server.url)
    if not url.startswith(("https://", "http://")):
        raise ConfigurationError(f"the url of {server.name} must be an http(s) URL")
    headers = {name: filled(server, value) for name, value in server.headers.items()}
    # h11 would quote an invalid value, which can contain a key, in its error
    if not all(_HEADER_VALUE.fullmatch(value) for value in headers.values()):
        raise ConfigurationError(
            f"the headers of {server.name} have an invalid value",
            hint="remove line ends, and blanks at the beginning and at the end",
        )
    timeout = httpx2.Timeout(None, connect=CONNECT_SECONDS)
    try:
        client = _Client(server.name, headers=headers, timeout=timeout)
    except (ValueError, UnicodeError):  # the message would contain the value
        raise ConfigurationError(f"the headers of {server.name} have an invalid value") from None
    async with (
        client,
        _unlogged(url),
        streamable_http.streamable_http_client(
            url, http_client=client, max_sse_event_size=MAX_SIZE
        ) as streams,
    ):
        yield streams


@contextlib.asynccontextmanager
async def _unlogged(url: str) -> AsyncIterator[None]:
    """Keep a URL out of the logs of the SDK and of httpx2: it may contain a key."""
    forms = (url, str(httpx2.URL(url)))

    def has_no_url(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else ""
        text = f"{record.getMessage()} {error}"
        return not any(form in text for form in forms)

    loggers = [logging.getLogger(name) for name in ("httpx2", streamable_http.__name__)]
    for each in loggers:
        each.addFilter(has_no_url)
    try:
        yield
    finally:
        for each in loggers:
            each.removeFilter(has_no_url)


class _Client(httpx2.AsyncClient):
    """Client that limits the size of replies and turns errors into JSON-RPC errors."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(**options)
        self.headers["accept-encoding"] = "identity"  # the size of decoded data is unknown
        self._name = name

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request."""
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as error:
            place = f"{request.url.scheme}://{request.url.netloc.decode()}"
            return _refusal(request, 503, f"cannot connect to {place}: {reason_of(error)}")
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()  # its size would be unknown
            return _refusal(
                request, 400, f"{self._name} sent a compressed reply, which is not supported"
            )
        response.stream = _Limited(response.stream)
        if response.status_code < 400 or request.method != "POST":
            return response
        if response.status_code == 404 and "mcp-session-id" in request.headers:
            await response.aclose()
            return _refusal(request, 404, "the session is gone", SESSION_GONE)
        try:
            body = await response.aread()
        except httpx2.StreamError:
            body = b""
        if _is_rpc(body):
            return response
        reason = one_line(body[:_MAX_REASON].decode(errors="replace")) or "no reason given"
        if "html" in response.headers.get("content-type", ""):
            reason = "it is a web page; is the URL that of an MCP server?"
        status = response.status_code
        return _refusal(request, status, f"{self._name} responded with status {status}: {reason}")


class _Limited(httpx2.AsyncByteStream):
    """A reply of limited size. Its errors are those that the transport of the SDK expects."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for block in self._stream:
                size += len(block)
                if size > MAX_SIZE:
                    raise httpx2.StreamError(f"the reply is larger than {MAX_SIZE} bytes")
                yield block
        except httpx2.TransportError as error:
            raise httpx2.StreamError(f"the connection failed: {error}") from error

    async def aclose(self) -> None:
        await self._stream.aclose()


def reason_of(error: httpx2.TransportError) -> str:
    """Return the text of an error, without the codes and the lines of C code in it."""
    if isinstance(error, httpx2.LocalProtocolError):  # its text can contain values of headers
        return "the request is invalid"
    text = re.sub(r"\[[^]]*\] | \(_ssl\.c:\d+\)$", "", one_line(str(error)))
    return text or type(error).__name__


def _refusal(request: httpx2.Request, status: int, message: str, code: int = 0) -> httpx2.Response:
    """Return a reply with an error for the request; `connection` reads it."""
    data = None if code else {HTTP_STATUS: status}
    error = {"code": code, "message": message, "data": data}
    body = {"jsonrpc": "2.0", "id": None, "error": error}
    return httpx2.Response(status, json=body, request=request)


def _is_rpc(body: bytes) -> bool:
    """Whether the body of an error is a JSON-RPC error, which the SDK reads."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and isinstance(value.get("error"), dict)
