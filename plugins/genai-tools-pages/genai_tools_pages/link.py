"""A validated link to a page."""

from __future__ import annotations

import re
from urllib.parse import urljoin

from attrs import frozen
from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

from genai_host.errors import ValidationError

MOST_LINK = 4000
"""Maximum number of characters of a link."""

_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[a-z0-9._-]{1,253}|\[[0-9a-f:.]+(%[a-z0-9._-]+)?\]")
_ODD = re.compile("[\x00-\x1f\x7f\\\\]")


@frozen
class Link:
    """A link to a page.

    Attributes:
        host: Host in lower case ASCII; IPv6 without brackets.
        target: Path and query as sent.
    """

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
    """Parse an untrusted link.

    Raises:
        ValidationError: It is not a link to a page, for example because of its scheme, credentials
            in it, or a missing host.
    """
    given = given.strip()
    if len(given) > MOST_LINK:
        raise ValidationError(f"the link has {len(given)} characters; the limit is {MOST_LINK}")
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
