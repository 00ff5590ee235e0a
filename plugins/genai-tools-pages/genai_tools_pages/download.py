"""Validated links to pages, and downloads over connections to checked addresses.

A name is resolved once per request, and the connection uses the checked address instead of the
name: a second lookup could return another address. The name is used for the `Host` header and for
the certificate.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urljoin

import certifi
import urllib3
from attrs import frozen
from urllib3.exceptions import (
    ConnectTimeoutError,
    DecodeError,
    HTTPError,
    LocationParseError,
    NewConnectionError,
    ProtocolError,
    SSLError,
    TimeoutError,
)
from urllib3.util import parse_url

from genai_host.errors import (
    BadRequest,
    GenaiError,
    ProviderTimeout,
    ServiceUnavailable,
    ValidationError,
)
from genai_tools_pages.addresses import Addresses

MAX_LINK = 4000
"""Maximum number of characters of a link."""

_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[a-z0-9._-]{1,253}|\[[0-9a-f:.]+(%[a-z0-9._-]+)?\]")
_ODD = re.compile("[\x00-\x1f\x7f\\\\]")


@frozen
class Link:
    """A link to a page. The host is in lower case ASCII, IPv6 without brackets; `target` is the
    path and query as sent."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def named(self) -> str:
        """Host and port, as sent and displayed."""
        host = f"[{self.host.partition('%')[0]}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def address(self) -> str:
        """The whole link."""
        return f"{self.scheme}://{self.named}{self.target}"

    @property
    def last(self) -> str:
        """The last part of the path, else the host."""
        return self.target.partition("?")[0].rstrip("/").rpartition("/")[2] or self.named

    def joined(self, location: str) -> Link:
        """Resolve a redirect. Raises `ValidationError`."""
        try:
            return link_of(urljoin(self.address, location.strip()))
        except ValueError as error:
            raise ValidationError("invalid redirect") from error


def link_of(given: str) -> Link:
    """Parse an untrusted link. Raises `ValidationError`: it is not a link to a page, for example
    because of its scheme, credentials in it, or a missing host."""
    given = given.strip()
    if len(given) > MAX_LINK:
        raise ValidationError(f"the link has {len(given)} characters; the limit is {MAX_LINK}")
    if _ODD.search(given):
        raise ValidationError("the link contains backslashes or control characters")
    try:
        url = parse_url(given)
    except LocationParseError:
        raise ValidationError("invalid link") from None
    if url.scheme not in _PORTS:
        raise ValidationError("the link must begin with http:// or https://")
    if url.auth is not None:
        raise ValidationError("the link must not contain a user or password")
    host = (url.host or "").lower()
    if not _HOST.fullmatch(host):
        raise ValidationError("the link has no valid host")
    port = _PORTS[url.scheme] if url.port is None else url.port
    if not 0 < port < 65536:
        raise ValidationError("the link has an invalid port")
    return Link(url.scheme, host.strip("[]"), port, url.request_uri)


MAX_REDIRECTS = 5

_REDIRECTS = (301, 302, 303, 307, 308)
_PIECE = 2**16
_HEADERS = {
    "Accept": "text/html,application/xhtml+xml,application/pdf,text/*;q=0.9,*/*;q=0.1",
    "Accept-Encoding": "gzip, deflate",
    "User-Agent": "genai-tools-pages/0.1 (reads a page for a user)",
}
_ENCODINGS = ("", "identity", "gzip", "x-gzip", "deflate")
_AUTHORITIES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")


@frozen
class Body:
    """Downloaded content. `link` is the final one; `type` is the `Content-Type`, empty if it is
    missing."""

    link: Link
    type: str
    data: bytes


@frozen
class Downloader:
    """Downloads the content of links.

    Attributes:
        most: Maximum number of bytes of a body after decompression.
        seconds: Timeout for a connection, and for its next bytes; the caller limits the total time.
    """

    addresses: Addresses
    most: int
    seconds: float

    def body(self, link: Link, takes: Callable[[str], object]) -> Body:
        """Download the content of a link, following redirects.

        Args:
            link: The link.
            takes: Checks the `Content-Type` before the download; raises an error to refuse it.

        Raises:
            ValidationError: The content is refused.
            PermissionDenied: The address is not allowed.
            ServiceUnavailable: The server cannot be reached.
            BadRequest: The server refused the request.
            ProviderTimeout: A timeout was exceeded.
        """
        for _ in range(MAX_REDIRECTS + 1):
            found = self._requested(link, takes)
            if isinstance(found, Body):
                return found
            link = found
        raise ValidationError(f"{link.named} redirects more than {MAX_REDIRECTS} times")

    def _requested(self, link: Link, takes: Callable[[str], object]) -> Body | Link:
        addresses = self.addresses.of(link.host, link.port)
        for last, address in zip(range(len(addresses) - 1, -1, -1), addresses, strict=True):
            try:
                return self._asked(link, address, takes)
            except ConnectTimeoutError as error:  # also refused or without a route
                if not last:
                    raise _download_error(link, error) from error
            except HTTPError as error:
                raise _download_error(link, error) from error
        raise AssertionError("unreachable: a host has an address")

    def _asked(self, link: Link, address: str, takes: Callable[[str], object]) -> Body | Link:
        with self._pool(link, address) as pool:
            response = pool.urlopen(
                "GET",
                link.target,
                headers={**_HEADERS, "Host": link.named},
                redirect=False,
                retries=False,
                preload_content=False,
                assert_same_host=False,
            )
            try:
                return self._read(link, response, takes)
            finally:
                response.close()

    def _pool(self, link: Link, address: str) -> urllib3.HTTPConnectionPool:
        given: dict[str, Any] = {
            "timeout": urllib3.Timeout(connect=self.seconds / 2, read=self.seconds)
        }
        if link.scheme == "http":
            return urllib3.HTTPConnectionPool(address, link.port, **given)
        name = link.host.partition("%")[0]
        given.update(server_hostname=name, assert_hostname=name, **_authorities())
        return urllib3.HTTPSConnectionPool(address, link.port, **given)

    def _read(
        self, link: Link, response: urllib3.BaseHTTPResponse, takes: Callable[[str], object]
    ) -> Body | Link:
        location = response.headers.get("Location")
        if response.status in _REDIRECTS and location is not None:
            try:
                return link.joined(_as_written(location))
            except GenaiError as error:
                raise ValidationError(f"{link.named} redirects: {error.message}") from error
        if not 200 <= response.status < 300:
            raise _refused(link, response.status)
        encodings = response.headers.get("Content-Encoding", "").lower().split(",")
        if not {encoding.strip() for encoding in encodings} <= {*_ENCODINGS}:
            raise ValidationError(f"{link.named} sent an unsupported content encoding")
        kind = response.headers.get("Content-Type", "")[:200]
        takes(kind)
        return Body(link, kind, self._data(link, response))

    def _data(self, link: Link, response: urllib3.BaseHTTPResponse) -> bytes:
        """Return the body; raises `ValidationError` if it is too large after decompression."""
        data = bytearray()
        while piece := response.read(_PIECE, decode_content=True):
            data += piece
            if len(data) > self.most:
                raise ValidationError(
                    f"the page at {link.named} is larger than {self.most / 2**20:g} MiB",
                    hint="raise tools.pages.megabytes",
                )
        return bytes(data)


def _authorities() -> dict[str, str]:
    """Return the CA certificates: from the environment variables of `requests`, else certifi."""
    path = next(filter(None, map(os.environ.get, _AUTHORITIES)), None) or certifi.where()
    return {"ca_cert_dir" if os.path.isdir(path) else "ca_certs": path}


def _as_written(location: str) -> str:
    """Decode a header. It is read as Latin-1, but usually contains UTF-8."""
    try:
        return location.encode("latin-1").decode()
    except UnicodeError:
        return location


def _refused(link: Link, status: int) -> GenaiError:
    message = f"{link.named} responded with status {status}"
    if status == 429 or status >= 500:
        return ServiceUnavailable(message, status=status)
    if status in (404, 410):
        message += ": page not found"
    elif status in (401, 402, 403, 407, 451):
        message += ": the page is not public"
    return BadRequest(message, status=status)


def _download_error(link: Link, error: HTTPError) -> GenaiError:
    """Convert an error of urllib3, without its objects and without the query of the link."""
    if isinstance(error, NewConnectionError):
        return ServiceUnavailable(f"cannot connect to {link.named}")
    if isinstance(error, TimeoutError):
        return ProviderTimeout(f"{link.named} did not respond in time", deadline="read_timeout")
    if isinstance(error, SSLError):
        reason = getattr(error.args[0], "verify_message", "") if error.args else ""
        return ServiceUnavailable(
            f"{link.named}: TLS error: {reason or 'handshake failed'}", retryable=False
        )
    if isinstance(error, DecodeError):
        return ValidationError(f"cannot decompress the response of {link.named}")
    if isinstance(error, ProtocolError):
        return ServiceUnavailable(f"{link.named} closed the connection, or does not use HTTP")
    return ServiceUnavailable(f"cannot read from {link.named}")
