"""Admission of requests: tokens, origins, queue, rate limits.

    AccessPolicy.admit → _check_host → _check_origin → _user → _check_media_type

`AccessPolicy` is applied before any other part of a request is examined. A browser on this machine
sends the requests of any page. With or without a token, these requests are refused: a host name of
another server (DNS rebinding), another origin, and a body that a form can send without a preflight
(RFC 6454; the "simple requests" of the Fetch standard).
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import math
import re
from collections import OrderedDict, deque
from collections.abc import Mapping
from ipaddress import IPv6Network
from typing import TypeVar

from genai_host.api import HttpProblem
from genai_host.config.key import ANY
from genai_host.util.addresses import address_of, is_loopback
from genai_server.heads import Head, Refused
from genai_server.settings import ServerSettings

K = TypeVar("K")
V = TypeVar("V")

_log = logging.getLogger(__name__)

_HOST = re.compile(r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")
_FORWARDED = frozenset({"forwarded", "x-forwarded-for", "x-real-ip"})
_TOKEN_HEADERS = ("x-api-key", "x-goog-api-key", "api-key")
_PUBLIC_PATHS = ("/", "/page", "/health", "/ready")
_PUBLIC_PREFIX = "/page/assets/"
_MULTIPART = "multipart/form-data"
_FORM_TYPES = ("", "text/plain", "application/x-www-form-urlencoded", _MULTIPART)
_CORS_METHODS = "GET, POST, PUT, PATCH, DELETE"


class AccessPolicy:
    """Checks of host, origin, token and media type. Stores only digests of tokens."""

    def __init__(self, settings: ServerSettings) -> None:
        self._cors = [re.compile(_origin_pattern(each)) for each in settings.cors_origins]
        self._tokens = [(user, _digest(token.reveal())) for user, token in settings.tokens.items()]
        self._hosts = frozenset(map(_normalized, (*settings.allowed_hosts, settings.bind)))
        bound = address_of(settings.bind)
        # DNS can map any name to this server, but not an address
        self._accepts_addresses = bound is not None and bound.is_unspecified
        self._accepts_any_host = ANY in settings.allowed_hosts

    def is_attempt(self, head: Head) -> bool:
        """Whether the request has a token that must be checked."""
        is_public = head.is_reading and _is_public(head.path)
        return bool(self._tokens and not is_public and _token(head.headers))

    def admit(self, head: Head) -> str:
        """Check a request and return its user, whose conversations it can see; empty for the
        operator. Raises `Refused`."""
        self._check_origin(head, self._check_host(head))
        user = self._user(head)
        _check_media_type(head)
        return user

    def check_client(self, head: Head) -> None:
        """Without tokens, check that the client is on this machine, for servers that may listen
        anywhere. Some take the address of the client from a header. Raises `Refused`."""
        is_here = is_loopback(head.client) and head.headers.keys().isdisjoint(_FORWARDED)
        if not self._tokens and not is_here:
            raise Refused(_NOT_LOCAL)

    def cors(self, head: Head) -> dict[str, str]:
        """Return the CORS headers for a reply; without an allowed origin, at most `vary`."""
        if not self._cors:
            return {}
        origin = head.headers.get("origin", "")
        if not self._is_allowed(origin.lower()):
            return {"vary": "origin"}
        return {
            "access-control-allow-origin": origin,
            "access-control-expose-headers": "*",  # it has no effect for requests with cookies
            "cross-origin-resource-policy": "cross-origin",
            "vary": "origin",
        }

    def preflight(self, head: Head) -> dict[str, str]:
        """Return the headers of the reply to a CORS preflight request. Raises `Refused` if the host
        or the origin is not allowed."""
        self._check_origin(head, self._check_host(head))
        wanted = head.headers.get("access-control-request-headers", "")
        return {
            **self.cors(head),
            "access-control-allow-methods": _CORS_METHODS,
            "access-control-allow-headers": ", ".join(_header_names(wanted)),
            "access-control-max-age": "600",
        }

    def _check_host(self, head: Head) -> str:
        """Check the `host` header and return it, with the port."""
        host = head.headers.get("host", "").lower()
        found = _HOST.fullmatch(host)
        if found is None:
            raise Refused(HttpProblem(400, "bad_request", "the Host header is missing or invalid"))
        name = _normalized(found[1])
        if not (
            self._accepts_any_host
            or name in self._hosts
            or is_loopback(name)
            or (self._accepts_addresses and address_of(name) is not None)
        ):
            raise Refused(
                HttpProblem(
                    421,
                    "wrong_host",
                    "this server does not accept that host name",
                    hint="the operator can allow it: genai-host serve --allow-host NAME",
                )
            )
        return host

    def _check_origin(self, head: Head, host: str) -> None:
        origin = head.headers.get("origin", "").lower()
        if self._is_allowed(origin):
            return
        is_own = not origin or _is_same_origin(origin, host, is_https=head.is_https)
        if not is_own or _is_cross_site(head.headers, head.method):
            raise Refused(
                HttpProblem(
                    403,
                    "wrong_origin",
                    "pages of other origins cannot use this server",
                    hint="the operator can allow one: genai-host serve --cors ORIGIN",
                )
            )

    def _is_allowed(self, origin: str) -> bool:
        return any(each.fullmatch(origin) for each in self._cors)

    def _user(self, head: Head) -> str:
        if not self._tokens:
            return ""
        user = self._user_with(_digest(_token(head.headers)))
        if user is None and not (head.is_reading and _is_public(head.path)):
            raise Refused(
                HttpProblem(
                    401,
                    "unauthorized",
                    "a token of this server is required",
                    hint="send it as Authorization: Bearer TOKEN",
                    headers={"www-authenticate": "Bearer"},
                )
            )
        return user or ""

    def _user_with(self, digest: bytes) -> str | None:
        """Compare all tokens, so that the duration reveals nothing."""
        found = None
        for user, known in self._tokens:
            if hmac.compare_digest(known, digest):
                found = user
        return found


_NOT_LOCAL = HttpProblem(
    403,
    "wrong_client",
    "without a token, this server accepts clients on this machine only",
    hint="the operator can set a token: GENAI_HOST_SERVER_TOKEN",
)


def _check_media_type(head: Head) -> None:
    """Refuse compressed bodies, and media types that a page can send to any server without a
    preflight. Multipart bodies are allowed with a token header, which a form cannot send, and a
    missing media type without headers of browsers."""
    if head.is_reading or head.length == 0:
        return
    if head.headers.get("content-encoding", "").strip().lower() not in ("", "identity"):
        raise Refused(
            HttpProblem(
                415,
                "unsupported_media_type",
                "a compressed body is not supported",
                headers={"accept-encoding": "identity"},  # RFC 9110, section 12.5.3
            )
        )
    if "content-type" not in head.headers and not _is_of_browser(head.headers):
        return
    media_type = head.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type == _MULTIPART and _token(head.headers):
        return
    if media_type in _FORM_TYPES or "/" not in media_type:
        raise Refused(
            HttpProblem(
                415,
                "unsupported_media_type",
                "the body must have the content type of JSON",
                hint="send the header Content-Type: application/json",
            )
        )


def _is_of_browser(headers: Mapping[str, str]) -> bool:
    """Whether a browser may have sent a request with a body. They send the origin of the page with
    each of these, and newer ones `Sec-Fetch-Site`."""
    return "origin" in headers or any(name.startswith("sec-fetch-") for name in headers)


def _origin_pattern(origin: str) -> str:
    """A regular expression of a configured origin. `*` is any host, or any port."""
    escaped = re.escape(origin).replace(r":\*", "(:[0-9]{1,5})?")
    return escaped.replace(r"//\*", "//[a-z0-9._-]+")


def _is_public(path: str) -> bool:
    return path in _PUBLIC_PATHS or path.startswith(_PUBLIC_PREFIX)


def _token(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    return next((headers[name] for name in _TOKEN_HEADERS if headers.get(name)), "")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("latin-1", "replace")).digest()


def _is_same_origin(origin: str, host: str, *, is_https: bool) -> bool:
    """Behind a proxy that terminates TLS, the origin is `https` and the request `http`."""
    return origin == f"https://{host}" or (origin == f"http://{host}" and not is_https)


def _is_cross_site(headers: Mapping[str, str], method: str) -> bool:
    """Whether the browser reports a request of a foreign page, except for a followed link: the
    page cannot read its reply."""
    if headers.get("sec-fetch-site", "none").lower() in ("none", "same-origin"):
        return False
    is_link = headers.get("sec-fetch-mode") == "navigate"
    return not (method == "GET" and is_link and headers.get("sec-fetch-dest") == "document")


def _normalized(name: str) -> str:
    """Normalize a host name: lower case, without brackets and a trailing dot."""
    return name.lower().removeprefix("[").removesuffix("]").removesuffix(".")


def _header_names(wanted: str) -> list[str]:
    """The valid header names of a comma-separated list."""
    names = [name.strip().lower() for name in wanted.split(",")]
    return [name for name in names if name.isascii() and name.replace("-", "").isalnum()]


_MAX_ENTRIES = 10_000  # maximum number of users and addresses whose rate is stored
_RETRY_AFTER = 1.0  # seconds to wait before a retry


_FREE_ATTEMPTS = 5  # wrong tokens without a delay
_FIRST_DELAY = 0.125  # seconds of the first delay; doubles with each wrong token
_RESET_AFTER = 60.0  # seconds without a wrong token after which the count restarts


class FailedAttempts:
    """Counts of wrong tokens by address, and the resulting delays. For one event loop.

    A valid token is delayed as long as a wrong one; otherwise a client could recognize a wrong
    token by its delay. Valid tokens already used from an address are not delayed: a client with an
    old token must not slow down others behind the same proxy.

    Args:
        most: Maximum delay in seconds.
    """

    def __init__(self, most: float) -> None:
        self._most = most
        self._failed: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._valid: OrderedDict[tuple[str, str], None] = OrderedDict()

    def attempt(self, client: str, user: str | None, now: float) -> float:
        """Record an attempt and return its delay in seconds.

        Wrong tokens of an address are logged after 5, 10, 20, 40 ... attempts.

        Args:
            client: Address of the client.
            user: User of the token; None if the token is wrong.
            now: Seconds of a monotonic clock.
        """
        network = _network_of(client)
        count, then = self._failed.get(network, (0, now))
        if now - then > _RESET_AFTER:
            count = 0
        if user is None:
            _remember(self._failed, network, (count + 1, now))
            times, rest = divmod(count + 1, _FREE_ATTEMPTS)
            if not rest and times & (times - 1) == 0:
                _log.warning("%d invalid tokens in a row from %s", count + 1, network or "-")
        elif (network, user) in self._valid or count < _FREE_ATTEMPTS:
            _remember(self._valid, (network, user), None)
            return 0.0
        # limited, because a large power of 2 does not fit into a float
        return (
            min(self._most, _FIRST_DELAY * 2 ** min(count - _FREE_ATTEMPTS, 30))
            if count >= _FREE_ATTEMPTS
            else 0.0
        )


def _remember(known: OrderedDict[K, V], key: K, value: V) -> None:
    """Insert an entry as the latest, and drop the oldest beyond `_MAX_ENTRIES`."""
    known[key] = value
    known.move_to_end(key)
    if len(known) > _MAX_ENTRIES:
        known.popitem(last=False)


def _network_of(client: str) -> str:
    """The part of an address that its owner cannot choose: of IPv6, the first 64 bits."""
    address = address_of(client)
    if address is None or address.version == 4:
        return client
    mapped = address.ipv4_mapped
    return str(mapped or IPv6Network((int(address), 64), strict=False))


class RequestQueue:
    """Queue that limits concurrent requests, first in, first out. For one event loop."""

    def __init__(self, at_once: int, waiting: int) -> None:
        self._free = at_once
        self._most_waiting = waiting
        self._waiting: deque[asyncio.Future[None]] = deque()

    def acquire(self) -> asyncio.Future[None] | None:
        """Take a slot: None if one is free, else a future for it. `release` releases it. Raises
        `Refused` if the queue is full."""
        if self._free:
            self._free -= 1
            return None
        if len(self._waiting) >= self._most_waiting:
            raise Refused(
                HttpProblem(
                    429,
                    "overloaded",
                    "too many concurrent requests",
                    retry_after=_RETRY_AFTER,
                )
            )
        slot = asyncio.get_running_loop().create_future()
        self._waiting.append(slot)
        return slot

    def cancel_wait(self, slot: asyncio.Future[None]) -> None:
        """Stop waiting for a slot."""
        if slot.done() and not slot.cancelled() and slot.exception() is None:
            self.release()  # the slot was assigned, but not used
        elif slot in self._waiting:
            self._waiting.remove(slot)

    def release(self) -> None:
        while self._waiting:
            slot = self._waiting.popleft()
            if not slot.done():
                slot.set_result(None)
                return
        self._free += 1


class UserRateLimiter:
    """Limit on requests per minute and user. Unused requests accumulate for up to one minute."""

    def __init__(self, per_minute: int | None) -> None:
        self._most = per_minute
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def acquire(self, who: str, now: float) -> None:
        """Count one request of a user or address, at a time of a monotonic clock. Raises `Refused`
        if the limit is reached."""
        if self._most is None:
            return
        left, then = self._left.pop(who, (float(self._most), now))
        left = min(self._most, left + (now - then) * self._most / 60)
        self._left[who] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > _MAX_ENTRIES:
            self._left.popitem(last=False)
        if left < 1:
            raise Refused(
                HttpProblem(
                    429,
                    "rate_limited",
                    f"rate limit of {self._most} requests per minute exceeded",
                    retry_after=math.ceil((1 - left) * 60 / self._most),
                )
            )


class ByteBudget:
    """Limit on the total size of request bodies in memory."""

    def __init__(self, most: int) -> None:
        self.left = most

    def acquire(self, size: int) -> None:
        """Reserve bytes. Raises `Refused` if not enough bytes are free."""
        if size > self.left:
            raise Refused(
                HttpProblem(
                    429,
                    "overloaded",
                    "the server has no memory for this request now",
                    retry_after=_RETRY_AFTER,
                )
            )
        self.left -= size

    def release(self, size: int) -> None:
        self.left += size
