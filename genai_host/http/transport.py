"""The HTTP client of providers: one attempt, no retries.

    Transport.send   → _begin → _exchanged → Response → _read_whole → ProviderReply
    Transport.stream → _begin → _exchanged → Response → EventStream → StreamEvent ...

Each provider has a transport, which uses connections of requests and urllib3. There are no
retries, redirects, netrc or cookies; of the environment, only the proxy settings are used.
Compressed replies are decoded (RFC 9110, 8.4). For speed, a request is one write, and a parser in C
reads the reply.
"""

from __future__ import annotations

import contextlib
import re
import ssl
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attrs import frozen
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NameResolutionError,
    NewConnectionError,
    ProxyError,
)
from urllib3.response import DeflateDecoder, GzipDecoder

from genai_host.api import CancelToken, ProviderReply, StreamEvent
from genai_host.api.provider_requests import HttpRequest
from genai_host.api.providers import StreamParser
from genai_host.api.stream_parsers import FRAMINGS, detect_parser
from genai_host.errors import (
    ConfigurationError,
    GenaiError,
    IncompleteReply,
    MalformedReply,
    ProviderTimeout,
    ServiceUnavailable,
)
from genai_host.http.connections import Adapter, Address, HttpExchange, proxy_hint
from genai_host.http.response import Response
from genai_host.util import waiting
from genai_host.util.names import __version__

ACCEPTED = "gzip, deflate"
"""Supported encodings, as `Accept-Encoding`."""

_BLOCK = 1 << 20  # bytes decompressed per step, since a few bytes can expand to very many
_DECODERS = {"gzip": GzipDecoder, "x-gzip": GzipDecoder, "deflate": DeflateDecoder}


def unpacked(blocks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Decompress the blocks of a body.

    Args:
        blocks: The body.
        encoding: Value of `Content-Encoding`.

    Raises:
        MalformedReply: The encoding is not supported, or the body is invalid.
    """
    make = _DECODERS.get(encoding)
    if make is None:
        raise MalformedReply("the reply has an encoding that was not requested")
    decoder = make()
    try:
        for block in blocks:
            data = decoder.decompress(block, max_length=_BLOCK)
            while data:
                yield data
                data = decoder.decompress(b"", max_length=_BLOCK)
    except zlib.error as error:
        raise MalformedReply("the compressed reply is invalid") from error


_MAX_REPLY = 64 << 20  # decoded bytes of a complete reply
_MAX_STREAM = 256 << 20  # decoded bytes of all events of a reply
_ONE_WRITE = 1 << 20  # bytes; smaller bodies are sent together with the head
_MAX_ADDRESSES = 256
_USER_AGENT = f"genai-host/{__version__}"
_PROXY_AUTHENTICATION = 407
_REFUSED_TUNNEL = re.compile(r"Tunnel connection failed: (\d{3})\b", re.ASCII)
"""Message of Python's `http.client`."""


class Transport:
    """Sends the requests of one provider, and pools its connections.

    Args:
        connect_timeout: Timeout of connecting, in seconds.
        timeout: Timeout of a whole reply, in seconds.
        proxy: Proxy URL; None for that of the environment, empty for none.
        ca_file: PEM file of trusted certificate authorities; None for those of requests.
    """

    def __init__(
        self,
        *,
        connect_timeout: float = 5.0,
        timeout: float = 600.0,
        proxy: str | None = None,
        ca_file: str | None = None,
    ) -> None:
        self._connect_timeout = connect_timeout
        self._timeout = timeout
        self._proxy = proxy
        self._adapter = Adapter(ca_file)
        self._addresses: dict[str, Address] = {}

    def send(self, request: HttpRequest, limits: CancelToken) -> ProviderReply:
        exchange = HttpExchange()
        with limits.on_cancel(exchange.cut):
            loan = self._begin(request, exchange, limits, ACCEPTED)
            return _read_whole(loan, limits)

    def stream(
        self,
        request: HttpRequest,
        limits: CancelToken,
        framings: Mapping[str, StreamParser] | None = None,
    ) -> EventStream | ProviderReply:
        exchange = HttpExchange()
        with limits.on_cancel(exchange.cut):
            loan = self._begin(request, exchange, limits, "identity")
            kind = loan.response.headers.get("content-type", "").partition(";")[0]
            kind = kind.strip().lower()
            parser = (framings or {}).get(kind)
            if loan.response.status >= 400:
                return _read_whole(loan, limits)
            blocks = _blocks(loan, limits, _MAX_STREAM)
            if parser is None:
                try:
                    parser, blocks = detect_parser(blocks, FRAMINGS.get(kind))
                    if parser is None:
                        return _read_whole(loan, limits, blocks)
                except BaseException:
                    loan.end()
                    raise
        return EventStream(loan, parser, blocks)

    def close(self) -> None:
        """Close idle connections."""
        self._addresses.clear()
        self._adapter.close()

    def _begin(
        self, request: HttpRequest, exchange: HttpExchange, limits: CancelToken, encoding: str
    ) -> _Loan:
        """Send the request and wait for the head of the reply."""
        address = self._address(request.url)
        head = _head(request, address, encoding)
        try:
            loan = self._exchanged(head, request.body, address, exchange)
        except (HTTPError, OSError, ValueError, MalformedReply) as error:
            limits.check()
            if isinstance(error, MalformedReply):
                raise
            raise self._not_sent(error, address.origin, address.proxy) from error
        if 300 <= loan.response.status < 400:
            loan.end()
            raise ServiceUnavailable(
                f"{address.origin} redirects, which is not followed",
                hint="set base_url to the service's own address",
                status=loan.response.status,
                retryable=False,
            )
        if loan.response.status == _PROXY_AUTHENTICATION:
            loan.end()
            raise self._refused_by_proxy(address.proxy, loan.response.status)
        return loan

    def _exchanged(
        self, head: bytes, body: bytes, address: Address, exchange: HttpExchange
    ) -> _Loan:
        """Send a request and read the head of the reply.

        A service may close an idle connection just when it is reused. If it closes without a reply,
        a new connection is used immediately.
        """
        while True:
            connection = address.pool.lend(exchange, self._connect_timeout)
            if connection.sock.gettimeout() != self._timeout:  # the call switches threads
                connection.sock.settimeout(self._timeout)
            response = Response(connection.sock)
            loan = _Loan(address.pool, connection, exchange, response, self._timeout)
            try:
                _write(connection.sock, head, body)
                loan.response.read_head()
            except BaseException as error:
                is_stale = not connection.is_new and not loan.response.begun
                if is_stale and isinstance(error, ConnectionError) and not exchange.is_cut:
                    loan.drop()
                    continue
                loan.end()
                _check_time(error, self._timeout)
                raise
            return loan

    def _address(self, url: str) -> Address:
        address = self._addresses.get(url)
        if address is None:
            if len(self._addresses) >= _MAX_ADDRESSES:
                self._addresses.clear()
            address = self._addresses[url] = self._adapter.address(url, self._proxy)
        return address

    def _not_sent(self, error: Exception, origin: str, proxy: str) -> GenaiError:
        """The error of a request that failed before a reply. Messages of the libraries are not
        included, since they contain complete URLs."""
        if isinstance(error, ProxyError):
            cause = error.original_error
            refused = _REFUSED_TUNNEL.match(str(cause))
            if refused:
                return self._refused_by_proxy(proxy, int(refused[1]))
            found = self._not_sent(cause, f"the proxy {proxy}", proxy)
            found.hint = found.hint or self._proxy_hint
            return found
        if isinstance(error, NameResolutionError):
            return ServiceUnavailable(f"cannot connect to {origin}: unknown host name")
        if isinstance(error, NewConnectionError):
            return ServiceUnavailable(f"cannot connect to {origin}: {_system_reason(error)}")
        if isinstance(error, ConnectTimeoutError):
            return ProviderTimeout(
                f"cannot connect to {origin} within {self._connect_timeout:g} s",
                deadline="connect_timeout",
                retryable=True,
            )
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
            return ConfigurationError(
                f"cannot verify the certificate of {origin}: {_system_reason(error)}",
                hint="for your own service, set ca_file to its certificate authority",
            )
        return ServiceUnavailable(f"{origin} closed the connection: {_system_reason(error)}")

    @property
    def _proxy_hint(self) -> str:
        return proxy_hint(named=self._proxy is not None)

    def _refused_by_proxy(self, proxy: str, status: int) -> ServiceUnavailable:
        proxy = f"the proxy {proxy}" if proxy else "a proxy"
        if status != _PROXY_AUTHENTICATION:
            return ServiceUnavailable(
                f"{proxy} refused to connect with status {status}", hint=self._proxy_hint
            )
        return ServiceUnavailable(
            f"{proxy} requires another user and password (status {status})",
            hint=f"add them to its URL, http://USER:PASSWORD@HOST:PORT: {self._proxy_hint}",
            status=status,
            retryable=False,
        )


@frozen
class _Loan:
    """A connection lent to one exchange, and its reply.

    Attributes:
        timeout: Seconds that may pass without data.
    """

    pool: Any
    connection: Any
    exchange: HttpExchange
    response: Response
    timeout: float

    def end(self) -> None:
        """Return the connection to its pool if the reply is complete, or else close it."""
        if self.connection.exchange is self.exchange:
            waiting.release(self.connection.sock)
            self.pool.take_back(self.connection, clean=self.response.clean)
        self.response.close()

    def drop(self) -> None:
        """Discard an unusable connection; the exchange gets another one."""
        self.exchange.hold(None)
        self.connection.exchange = None
        self.connection.close()
        self.response.close()


class EventStream:
    """The events of a streamed reply; can be iterated once.

    Attributes:
        headers: Headers of the reply, with names in lower case.
    """

    def __init__(self, loan: _Loan, parser: StreamParser, blocks: Iterable[bytes]) -> None:
        self.headers = loan.response.headers
        self._loan = loan
        self._parser = parser
        self._blocks = blocks
        self._is_read = False

    def __iter__(self) -> Iterator[StreamEvent]:
        self._is_read = True
        try:
            yield from self._parser(self._blocks)
        finally:
            self._loan.end()

    def close(self) -> None:
        """End the stream, from any thread; a blocked iteration raises an error."""
        self._loan.exchange.cut()
        if not self._is_read:
            self._loan.end()


def _head(request: HttpRequest, address: Address, encoding: str) -> bytes:
    """The request line and the headers (RFC 9112, 2 and 3).

    Raises:
        ConfigurationError: A header contains invalid characters.
    """
    headers = {
        "Host": address.host,
        "User-Agent": _USER_AGENT,
        "Accept-Encoding": encoding,
        **address.headers,
        **request.headers,
    }
    if request.body or request.method not in ("GET", "HEAD"):
        headers["Content-Length"] = str(len(request.body))
    lines = [f"{request.method} {address.target} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    text = "\r\n".join(lines)
    ends = len(lines) - 1
    if text.count("\n") != ends or text.count("\r") != ends or "\0" in text:
        raise ConfigurationError("a header of the request contains a line break")
    try:
        return f"{text}\r\n\r\n".encode("latin-1")
    except UnicodeEncodeError as error:
        raise ConfigurationError("a header contains invalid characters") from error


def _write(sock: Any, head: bytes, body: bytes) -> None:
    """Send a request. A service may reply and close before it has received everything; then the
    reply is read."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        if len(body) <= _ONE_WRITE:
            sock.sendall(head + body)
        else:
            sock.sendall(head)
            sock.sendall(body)


def _read_whole(
    loan: _Loan, limits: CancelToken, blocks: Iterable[bytes] | None = None
) -> ProviderReply:
    """Read the body of a reply.

    Args:
        loan: The connection and the reply.
        limits: Cancels the read.
        blocks: Remaining blocks of the body, if some were read.
    """
    response = loan.response
    try:
        if blocks is None:
            blocks = _blocks(loan, limits, _MAX_REPLY)
        body = b"".join(_bounded(blocks, _MAX_REPLY))
    finally:
        loan.end()
    if not body and not response.has_length and response.status != 204:
        raise IncompleteReply("the reply was interrupted before its body")
    return ProviderReply(body, response.status, response.headers)


def _blocks(loan: _Loan, limits: CancelToken, most: int) -> Iterator[bytes]:
    """Yield the body of a reply.

    Raises:
        IncompleteReply: The connection failed.
        MalformedReply: The body is too long.
    """
    exchange = loan.exchange
    try:
        for block in _bounded(_body(loan.response), most):
            if exchange.is_cut:
                break
            if loan.response.ended:  # another call may already use the connection
                loan.end()
            yield block
    except OSError as error:
        limits.check()
        _check_time(error, loan.timeout)
        raise IncompleteReply(f"the reply was interrupted: {_system_reason(error)}") from error
    if exchange.is_cut:  # for some replies this is the end
        limits.check()
        raise IncompleteReply("the reply was closed before its end")


def _bounded(blocks: Iterable[bytes], most: int) -> Iterator[bytes]:
    """Limit the length of a body. Raises `MalformedReply`."""
    size = 0
    for block in blocks:
        size += len(block)
        if size > most:
            raise MalformedReply(f"the reply is longer than {most} bytes")
        yield block


def _check_time(error: BaseException, seconds: float) -> None:
    """Raise `ProviderTimeout` if the socket timed out. The deadline of the call may fire at the
    same moment. A timeout of the operating system has an errno."""
    if isinstance(error, TimeoutError) and error.errno is None:
        raise ProviderTimeout(
            f"the reply took longer than {seconds:g} s", deadline="timeout"
        ) from error


def _body(response: Response) -> Iterator[bytes]:
    encoding = response.headers.get("content-encoding", "").strip().lower()
    blocks = response.read_body()
    return blocks if encoding in ("", "identity") else unpacked(blocks, encoding)


def _system_reason(error: BaseException) -> str:
    """The reason of the operating system, for example `Connection refused`, without text of
    libraries."""
    deepest: BaseException | None = error
    reason = type(error).__name__
    seen = 0
    while deepest is not None and seen < 8:
        if isinstance(deepest, ssl.SSLCertVerificationError):
            return str(deepest.verify_message)
        if isinstance(deepest, OSError) and deepest.strerror:
            reason = deepest.strerror
        nested = next((each for each in deepest.args if isinstance(each, BaseException)), None)
        deepest = nested or deepest.__cause__ or deepest.__context__
        seen += 1
    return reason
