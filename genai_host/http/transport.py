"""The HTTP client of providers: one attempt, no retries.

    Transport.send   → _begin → _exchanged → Response → _read_whole → ProviderReply
    Transport.stream → _begin → _exchanged → Response → EventStream → StreamEvent ...

Each provider instance has a transport, over connections of requests and urllib3. There are no
retries, redirects, netrc or cookies; of the environment, only the proxy settings are used.
Compressed replies are decoded (RFC 9110, 8.4). A request is one write, and a reply is read by a
parser in C: that is most of the cost of a call.
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
from genai_host.api.providers import HttpRequest, StreamParser
from genai_host.errors import (
    BadRequest,
    ConfigurationError,
    GenaiError,
    IncompleteReply,
    MalformedReply,
    ProviderTimeout,
    ServiceUnavailable,
)
from genai_host.http.connections import Adapter, Address, Exchange, proxy_hint
from genai_host.http.response import Response
from genai_host.http.stream_parsers import FRAMINGS, detect_parser
from genai_host.util.names import __version__

ACCEPTED = "gzip, deflate"
"""What a reply may be compressed with, as `Accept-Encoding`."""

_BLOCK = 1 << 20  # bytes that are unpacked at once: a few may stand for a great many
_DECODERS = {"gzip": GzipDecoder, "x-gzip": GzipDecoder, "deflate": DeflateDecoder}


def unpacked(blocks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """The blocks of a body as they were before they were compressed.

    Args:
        encoding: As the header `Content-Encoding` has it.

    Raises:
        MalformedReply: For another encoding than those that are accepted, and for what is not
            encoded so.
    """
    make = _DECODERS.get(encoding)
    if make is None:
        raise MalformedReply("the reply is compressed in a way that was not asked for")
    decoder = make()
    try:
        for block in blocks:
            data = decoder.decompress(block, max_length=_BLOCK)
            while data:
                yield data
                data = decoder.decompress(b"", max_length=_BLOCK)
    except zlib.error as error:
        raise MalformedReply("the reply is compressed wrongly") from error


_LARGEST_REPLY = 64 << 20  # bytes, decoded: of a whole reply
_LARGEST_STREAM = 256 << 20  # bytes, decoded: of all events of one
_ONE_WRITE = 1 << 20  # bytes: up to here a body is sent together with its head
_MOST_ADDRESSES = 256
_USER_AGENT = f"genai-host/{__version__}"
_PROXY_AUTHENTICATION = 407
_REFUSED_TUNNEL = re.compile(r"Tunnel connection failed: (\d{3})\b", re.ASCII)
"""What Python's `http.client` says of it."""


class Transport:
    """Sends the requests of one provider instance; keeps its connections.

    Args:
        connect: Seconds that it may take to get a connection.
        total: Seconds after which even a reply that nobody watches is given up.
        proxy: Address of the proxy; None for what the environment says, empty for none.
        ca_file: PEM file of the authorities to trust; None for those that requests brings.
    """

    def __init__(
        self,
        *,
        connect: float = 5.0,
        total: float = 600.0,
        proxy: str | None = None,
        ca_file: str | None = None,
    ) -> None:
        self._connect = connect
        self._total = total
        self._proxy = proxy
        self._adapter = Adapter(ca_file)
        self._addresses: dict[str, Address] = {}

    def send(self, request: HttpRequest, limits: CancelToken) -> ProviderReply:
        exchange = Exchange()
        with limits.on_cancel(exchange.cut):
            loan = self._begin(request, exchange, limits, ACCEPTED)
            return _read_whole(loan, limits)

    def stream(
        self,
        request: HttpRequest,
        limits: CancelToken,
        framings: Mapping[str, StreamParser] | None = None,
    ) -> EventStream | ProviderReply:
        exchange = Exchange()
        with limits.on_cancel(exchange.cut):
            loan = self._begin(request, exchange, limits, "identity")
            kind = loan.response.headers.get("content-type", "").partition(";")[0]
            kind = kind.strip().lower()
            parser = (framings or {}).get(kind)
            if loan.response.status >= 300:
                return _read_whole(loan, limits)
            blocks = _blocks(loan, limits, _LARGEST_STREAM)
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
        """Close the connections that nobody uses."""
        self._addresses.clear()
        self._adapter.close()

    def _begin(
        self, request: HttpRequest, exchange: Exchange, limits: CancelToken, encoding: str
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
            raise BadRequest(
                f"{address.origin} redirects, which is not followed",
                hint="set base_url to the service's own address",
                status=loan.response.status,
            )
        if loan.response.status == _PROXY_AUTHENTICATION:
            loan.end()
            raise self._refused_by_proxy(address.proxy, loan.response.status)
        return loan

    def _exchanged(self, head: bytes, body: bytes, address: Address, exchange: Exchange) -> _Loan:
        """A request that was sent, and of whose reply the head has come.

        A service may close a connection that it kept, just when it is used again: where it
        closes one without a word, a new one is taken at once.
        """
        while True:
            connection = address.pool.lend(exchange, self._connect)
            if connection.sock.gettimeout() != self._total:  # to set it lets other threads run
                connection.sock.settimeout(self._total)
            response = Response(connection.sock)
            loan = _Loan(address.pool, connection, exchange, response, self._total)
            try:
                _write(connection.sock, head, body)
                loan.response.read_head()
            except BaseException as error:
                is_stale = not connection.is_new and not loan.response.begun
                if is_stale and isinstance(error, ConnectionError) and not exchange.is_cut:
                    loan.drop()
                    continue
                loan.end()
                _check_time(error, self._total)
                raise
            return loan

    def _address(self, url: str) -> Address:
        address = self._addresses.get(url)
        if address is None:
            if len(self._addresses) >= _MOST_ADDRESSES:
                self._addresses.clear()
            address = self._addresses[url] = self._adapter.address(url, self._proxy)
        return address

    def _not_sent(self, error: Exception, origin: str, proxy: str) -> GenaiError:
        """What it means that a request failed before there was a reply. The messages of
        the libraries are not repeated: they quote addresses whole."""
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
                f"cannot connect to {origin} within {self._connect:g} s",
                deadline="connect",
                retryable=True,
            )
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
            return ConfigurationError(
                f"cannot verify the certificate of {origin}: {_system_reason(error)}",
                hint="for your own service, set ca_file to its certificate authority",
            )
        return ServiceUnavailable(f"{origin} broke the connection: {_system_reason(error)}")

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
            hint=f"write them in its URL, as http://USER:PASSWORD@HOST:PORT: {self._proxy_hint}",
            status=status,
            retryable=False,
        )


@frozen
class _Loan:
    """A connection for as long as one exchange needs it, and the reply that comes over it.

    Attributes:
        total: Seconds that may pass without a byte.
    """

    pool: Any
    connection: Any
    exchange: Exchange
    response: Response
    total: float

    def end(self) -> None:
        """Done with it: the connection goes back to its pool if all of the reply has come,
        and is closed if it has not."""
        if self.connection.exchange is self.exchange:
            self.pool.take_back(self.connection, clean=self.response.clean)
        self.response.close()

    def drop(self) -> None:
        """The connection was of no use: the exchange takes another one."""
        self.exchange.hold(None)
        self.connection.exchange = None
        self.connection.close()
        self.response.close()


class EventStream:
    """A streamed reply: its events, as they come. Iterate once.

    Attributes:
        headers: Of the reply, their names in lower case.
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
        """End it, from any thread; the iteration that it finds blocked raises."""
        self._loan.exchange.cut()
        if not self._is_read:
            self._loan.end()


def _head(request: HttpRequest, address: Address, encoding: str) -> bytes:
    """The first line and the headers of a request (RFC 9112, 2 and 3).

    Raises:
        ConfigurationError: For what would end a header.
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
        raise ConfigurationError("a header of the request holds the end of a line")
    try:
        return f"{text}\r\n\r\n".encode("latin-1")
    except UnicodeEncodeError as error:
        raise ConfigurationError("a header has characters that none may have") from error


def _write(sock: Any, head: bytes, body: bytes) -> None:
    """Send a request. A service that has heard enough may answer and close before it has
    heard all: then there is a reply to be read."""
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
        blocks: Of the body, if some have been read.
    """
    response = loan.response
    try:
        if blocks is None:
            blocks = _blocks(loan, limits, _LARGEST_REPLY)
        body = b"".join(_bounded(blocks, _LARGEST_REPLY))
    finally:
        loan.end()
    if not body and not response.tells_its_length and response.status != 204:
        raise IncompleteReply("the reply was cut before its body")
    return ProviderReply(body, response.status, response.headers)


def _blocks(loan: _Loan, limits: CancelToken, most: int) -> Iterator[bytes]:
    """The body of a reply, as it comes.

    Raises:
        IncompleteReply: The connection breaks, `MalformedReply` beyond so many bytes.
    """
    exchange = loan.exchange
    try:
        for block in _bounded(_body(loan.response), most):
            if exchange.is_cut:
                break
            if loan.response.ended:  # others may have the connection while this is looked at
                loan.end()
            yield block
    except OSError as error:
        limits.check()
        _check_time(error, loan.total)
        raise IncompleteReply(f"the reply was cut: {_system_reason(error)}") from error
    if exchange.is_cut:  # which looks like the end to some replies
        limits.check()
        raise IncompleteReply("the reply was closed before its end")


def _bounded(blocks: Iterable[bytes], most: int) -> Iterator[bytes]:
    """The blocks. Raises `MalformedReply` beyond so many bytes."""
    size = 0
    for block in blocks:
        size += len(block)
        if size > most:
            raise MalformedReply(f"the reply is longer than {most} bytes")
        yield block


def _check_time(error: BaseException, seconds: float) -> None:
    """Raises `ProviderTimeout` where it is the time of the socket that was over. Whoever watches
    the call looks at the same moment, and may come later. What the system gives up has a number."""
    if isinstance(error, TimeoutError) and error.errno is None:
        raise ProviderTimeout(
            f"the reply took longer than {seconds:g} s", deadline="total"
        ) from error


def _body(response: Response) -> Iterator[bytes]:
    encoding = response.headers.get("content-encoding", "").strip().lower()
    blocks = response.read_body()
    return blocks if encoding in ("", "identity") else unpacked(blocks, encoding)


def _system_reason(error: BaseException) -> str:
    """What the system said, as `Connection refused`, without what a library put around
    it."""
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
