"""HTTP for one provider instance, on the connection pools of requests and urllib3.

    Transport.send   → _begin → Exchange → urlopen → _read_whole → ProviderReply
    Transport.stream → _begin → Exchange → urlopen → EventStream → StreamEvent ...

One attempt each: no retry, no redirect, no netrc, no cookies; the environment says only
which proxy to use. An address is looked at once, then each request is one call of its
connection pool.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    DecodeError,
    HTTPError,
    NameResolutionError,
    NewConnectionError,
    ProxyError,
    SSLError,
)

from genai_host import __version__
from genai_host.api import Limits, ProviderReply, StreamEvent
from genai_host.api.http import Framing, HttpRequest
from genai_host.errors import (
    ConfigurationError,
    DeadlineExceeded,
    GenaiError,
    IncompleteReply,
    MalformedReply,
    RequestRefused,
    Unavailable,
)
from genai_host.http.connections import Adapter, Address, Exchange, current_exchange
from genai_host.http.framing import FRAMINGS

_BLOCK = 64 << 10  # bytes that are read at once
_LARGEST_REPLY = 64 << 20  # bytes, decoded: of a whole reply
_LARGEST_STREAM = 256 << 20  # bytes, decoded: of all events of one
_HEADERS = {"User-Agent": f"genai-host/{__version__}"}
_MOST_ADDRESSES = 256


class Transport:
    """Sends the requests of one provider instance; keeps its connections.

    connect   seconds that it may take to get a connection
    total     seconds after which even a reply that nobody watches is given up
    proxy     address of the proxy; None for what the environment says, empty for none
    ca_file   PEM file of the authorities to trust; None for those that requests brings
    """

    def __init__(
        self,
        *,
        connect: float = 5.0,
        total: float = 600.0,
        proxy: str | None = None,
        ca_file: str | None = None,
    ) -> None:
        self._timeout = urllib3.Timeout(connect=connect, read=total)
        self._connect = connect
        self._proxy = proxy
        self._adapter = Adapter(ca_file)
        self._addresses: dict[str, Address] = {}

    def send(self, request: HttpRequest, limits: Limits) -> ProviderReply:
        exchange = Exchange()
        with limits.on_cancel(exchange.cut):
            response = self._begin(request, exchange, limits, "gzip, deflate")
            return _read_whole(response, exchange, limits)

    def stream(
        self,
        request: HttpRequest,
        limits: Limits,
        framings: Mapping[str, Framing] | None = None,
    ) -> EventStream | ProviderReply:
        exchange = Exchange()
        with limits.on_cancel(exchange.cut):
            response = self._begin(request, exchange, limits, "identity")
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            framing = (framings or {}).get(kind) or FRAMINGS.get(kind)
            if framing is None or response.status >= 300:
                return _read_whole(response, exchange, limits)
        return EventStream(response, exchange, limits, framing)

    def close(self) -> None:
        """Close the connections that nobody uses."""
        self._addresses.clear()
        self._adapter.close()

    def _begin(
        self, request: HttpRequest, exchange: Exchange, limits: Limits, encoding: str
    ) -> urllib3.HTTPResponse:
        """Send the request and wait for the head of the reply."""
        address = self._address(request.url)
        token = current_exchange.set(exchange)
        try:
            response: urllib3.HTTPResponse = address.pool.urlopen(
                request.method,
                address.target,
                body=request.body or None,
                headers={
                    "User-Agent": "genai-host",
                    "Accept-Encoding": encoding,
                    **request.headers,
                },
                retries=False,
                redirect=False,
                assert_same_host=False,
                preload_content=False,
                decode_content=False,
                timeout=self._timeout,
            )
        except (HTTPError, OSError, ValueError) as error:
            exchange.end()
            limits.check()
            raise self._not_sent(error, address.origin) from error
        finally:
            current_exchange.reset(token)
        if 300 <= response.status < 400:
            _abandon(response, exchange)
            raise RequestRefused(
                f"{address.origin} redirects, which is not followed",
                hint="set base_url to the service's own address",
                status=response.status,
            )
        return response

    def _address(self, url: str) -> Address:
        address = self._addresses.get(url)
        if address is None:
            if len(self._addresses) >= _MOST_ADDRESSES:
                self._addresses.clear()
            address = self._addresses[url] = self._adapter.address(url, self._proxy)
        return address

    def _not_sent(self, error: Exception, origin: str) -> GenaiError:
        """What it means that a request failed before there was a reply. The messages of
        the libraries are not repeated: they quote addresses whole."""
        if isinstance(error, NameResolutionError):
            return Unavailable(f"{origin} cannot be reached: its name is not known")
        if isinstance(error, NewConnectionError):
            return Unavailable(f"{origin} cannot be reached: {_system_reason(error)}")
        if isinstance(error, ConnectTimeoutError):
            return DeadlineExceeded(
                f"{origin} cannot be reached within {self._connect:g} s",
                deadline="connect",
                retryable=True,
            )
        if isinstance(error, ProxyError):
            return Unavailable(f"the proxy to {origin} failed: {_system_reason(error)}")
        if isinstance(error, SSLError):
            return ConfigurationError(
                f"{origin} cannot be trusted: {_system_reason(error)}",
                hint="for a service of your own, set ca_file to its certificate authority",
            )
        return Unavailable(f"{origin} broke the connection: {_system_reason(error)}")


class EventStream:
    """A streamed reply: its events, as they come. Iterate once."""

    def __init__(
        self,
        response: urllib3.HTTPResponse,
        exchange: Exchange,
        limits: Limits,
        framing: Framing,
    ) -> None:
        self._response = response
        self._exchange = exchange
        self._limits = limits
        self._framing = framing

    def __iter__(self) -> Iterator[StreamEvent]:
        blocks = _blocks(self._response, self._exchange, self._limits, _LARGEST_STREAM)
        try:
            yield from self._framing(blocks)
        finally:
            _abandon(self._response, self._exchange)

    def close(self) -> None:
        """End it, from any thread; the iteration that it finds blocked raises."""
        self._exchange.cut()


def _read_whole(
    response: urllib3.HTTPResponse, exchange: Exchange, limits: Limits
) -> ProviderReply:
    try:
        body = b"".join(_blocks(response, exchange, limits, _LARGEST_REPLY))
    finally:
        _abandon(response, exchange)
    if not body and not _tells_its_length(response):
        raise IncompleteReply("the reply was cut before its body")
    return ProviderReply(body, response.status, dict(response.headers))


def _tells_its_length(response: urllib3.HTTPResponse) -> bool:
    """If it does not, a reply that is cut amid its headers looks like an empty one."""
    headers = response.headers
    return "content-length" in headers or "transfer-encoding" in headers or response.status == 204


def _blocks(
    response: urllib3.HTTPResponse, exchange: Exchange, limits: Limits, most: int
) -> Iterator[bytes]:
    """The body of a reply, as it comes.

    Raises `IncompleteReply` where the connection breaks, `MalformedReply` beyond so many
    bytes.
    """
    size = 0
    try:
        for block in _read(response):
            if exchange.is_cut:
                break
            size += len(block)
            if size > most:
                raise MalformedReply(f"the reply is longer than {most} bytes")
            yield block
    except DecodeError as error:
        raise MalformedReply("the reply is compressed wrongly") from error
    except (HTTPError, OSError, ValueError, AttributeError) as error:
        limits.check()
        raise IncompleteReply(f"the reply was cut: {_system_reason(error)}") from error
    if exchange.is_cut:  # which looks like the end to some replies
        limits.check()
        raise IncompleteReply("the reply was closed before its end")


def _read(response: urllib3.HTTPResponse) -> Iterator[bytes]:
    if response.chunked:
        yield from response.stream(_BLOCK, decode_content=True)
    else:
        while block := response.read1(_BLOCK, decode_content=True):
            yield block


def _abandon(response: urllib3.HTTPResponse, exchange: Exchange) -> None:
    """Done with a reply: its connection is in the pool if it was read to its end, and
    is closed if it was not."""
    exchange.end()
    response.close()


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
