"""Admission of requests: tokens, origins, queue, rate limits.

    AccessPolicy.admit → _check_host → _check_origin → _user → _check_media_type

`AccessPolicy` is applied before anything else of a request is looked at. A browser on this machine
sends the requests of any page. With or without a token, these are refused: a host name that is not
this server's (DNS rebinding), another origin, and what a form can send without a preflight (RFC
6454; the "simple requests" of the Fetch standard).
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
from genai_host.server.heads import Head, Refused
from genai_host.server.settings import ServerSettings
from genai_host.util.addresses import address_of, is_loopback

K = TypeVar("K")
V = TypeVar("V")

_log = logging.getLogger(__name__)

_HOST = re.compile(r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")
_TOKEN_HEADERS = ("x-api-key", "x-goog-api-key", "api-key")
_OPEN = ("/", "/page", "/health", "/ready")
_OPEN_BELOW = "/page/assets/"
_OF_FILES = "multipart/form-data"
_OF_FORMS = ("", "text/plain", "application/x-www-form-urlencoded", _OF_FILES)
_METHODS = "GET, POST, PUT, PATCH, DELETE"


class AccessPolicy:
    """Knows tokens by their digest alone."""

    def __init__(self, settings: ServerSettings) -> None:
        self._cors = frozenset(settings.cors_origins)
        self._tokens = [(user, _digest(token.reveal())) for user, token in settings.tokens.items()]
        self._hosts = frozenset(map(_plain, (*settings.allowed_hosts, settings.bind)))
        bound = address_of(settings.bind)
        # a name can be made to lead here, an address cannot
        self._takes_addresses = bound is not None and bound.is_unspecified
        self._takes_any = ANY in settings.allowed_hosts

    def is_attempt(self, head: Head) -> bool:
        """Whether it has a token, which is to be checked."""
        is_open = head.is_reading and _is_open(head.path)
        return bool(self._tokens and not is_open and _token(head.headers))

    def admit(self, head: Head) -> str:
        """The user who asks: whose conversations they may see; empty for whoever runs the
        server. Raises `Refused`."""
        self._check_origin(head, self._check_host(head))
        user = self._user(head)
        _check_media_type(head)
        return user

    def cors(self, head: Head) -> dict[str, str]:
        """The headers of any reply that let a page of another origin read it, if it may."""
        if not self._cors:
            return {}
        origin = head.headers.get("origin", "").lower()
        if origin not in self._cors:
            return {"vary": "origin"}
        return {
            "access-control-allow-origin": origin,
            "access-control-expose-headers": "retry-after",
            "cross-origin-resource-policy": "cross-origin",
            "vary": "origin",
        }

    def preflight(self, head: Head) -> dict[str, str]:
        """The headers of the reply to a browser that asks for a page of another origin
        whether that may send a request. Raises `Refused`."""
        self._check_origin(head, self._check_host(head))
        wanted = head.headers.get("access-control-request-headers", "")
        return {
            **self.cors(head),
            "access-control-allow-methods": _METHODS,
            "access-control-allow-headers": ", ".join(_names(wanted)),
            "access-control-max-age": "600",
        }

    def _check_host(self, head: Head) -> str:
        """The host that was asked for, with its port."""
        host = head.headers.get("host", "").lower()
        found = _HOST.fullmatch(host)
        if found is None:
            raise Refused(HttpProblem(400, "bad_request", "the header host is missing, or is none"))
        name = _plain(found[1])
        if not (
            self._takes_any
            or name in self._hosts
            or is_loopback(name)
            or (self._takes_addresses and address_of(name) is not None)
        ):
            raise Refused(
                HttpProblem(
                    421,
                    "wrong_host",
                    "this server does not answer under that name",
                    hint="whoever runs it can allow it: genai-host serve --allow-host NAME",
                )
            )
        return host

    def _check_origin(self, head: Head, host: str) -> None:
        origin = head.headers.get("origin", "").lower()
        if origin in self._cors:
            return
        is_own = not origin or _is_same(origin, host, is_https=head.is_https)
        if not is_own or _is_foreign(head.headers, head.method):
            raise Refused(
                HttpProblem(
                    403,
                    "wrong_origin",
                    "pages of other origins may not use this server",
                    hint="whoever runs it can allow one: genai-host serve --cors ORIGIN",
                )
            )

    def _user(self, head: Head) -> str:
        if not self._tokens:
            return ""
        user = self._owner(_digest(_token(head.headers)))
        if user is None and not (head.is_reading and _is_open(head.path)):
            raise Refused(
                HttpProblem(
                    401,
                    "unauthorized",
                    "a token of this server is needed",
                    hint="send it as Authorization: Bearer TOKEN",
                    headers={"www-authenticate": "Bearer"},
                )
            )
        return user or ""

    def _owner(self, digest: bytes) -> str | None:
        """All are compared, so that the time that it takes tells nothing."""
        found = None
        for user, known in self._tokens:
            if hmac.compare_digest(known, digest):
                found = user
        return found


def _check_media_type(head: Head) -> None:
    """A page can send these to any server, without being asked whether it may. Files come so
    as well, from clients that say who they are, which no form can."""
    if head.is_reading or head.length == 0:
        return
    media_type = head.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type == _OF_FILES and _token(head.headers):
        return
    if media_type in _OF_FORMS or "/" not in media_type:
        raise Refused(
            HttpProblem(
                415,
                "unsupported_media_type",
                "the body must be JSON, and say so",
                hint="send the header Content-Type: application/json",
            )
        )


def _is_open(path: str) -> bool:
    return path in _OPEN or path.startswith(_OPEN_BELOW)


def _token(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    return next((headers[name] for name in _TOKEN_HEADERS if headers.get(name)), "")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("latin-1", "replace")).digest()


def _is_same(origin: str, host: str, *, is_https: bool) -> bool:
    """Behind a proxy that ends TLS, pages are of https and requests of http."""
    return origin == f"https://{host}" or (origin == f"http://{host}" and not is_https)


def _is_foreign(headers: Mapping[str, str], method: str) -> bool:
    """Whether a browser says that a page of elsewhere asks. A link that is followed is no
    use to that page: it sees nothing of what comes."""
    if headers.get("sec-fetch-site", "none").lower() in ("none", "same-origin"):
        return False
    is_link = headers.get("sec-fetch-mode") == "navigate"
    return not (method == "GET" and is_link and headers.get("sec-fetch-dest") == "document")


def _plain(name: str) -> str:
    """A name as it is compared: brackets and a dot at the end say nothing."""
    return name.lower().removeprefix("[").removesuffix("]").removesuffix(".")


def _names(wanted: str) -> list[str]:
    """Names of headers, those left out that are none."""
    names = [name.strip().lower() for name in wanted.split(",")]
    return [name for name in names if name.isascii() and name.replace("-", "").isalnum()]


_KNOWN = 10_000  # users and addresses whose rate is remembered
_RETRY = 1.0  # seconds after which there may be room


_FREE = 5  # wrong tokens that delay nothing
_STEP = 0.125  # seconds of the first delay: each further wrong token doubles it
_FORGET = 60.0  # seconds without a wrong token after which an address begins anew


class FailedAttempts:
    """Wrong tokens by address, and how long what comes from there waits for its reply. Of one loop.

    A right token waits as long as a wrong one, or nobody would wait for the reply to a wrong one.
    Those that came from an address before do not wait: a client with an old token must not slow
    down all others behind the same proxy.

    most   seconds of the longest delay
    """

    def __init__(self, most: float) -> None:
        self._most = most
        self._failed: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._right: OrderedDict[tuple[str, str], None] = OrderedDict()

    def attempt(self, client: str, user: str | None, now: float) -> float:
        """Seconds that a request waits. Wrong tokens of an address are logged when there are 5,
        10, 20, 40 ...

        user   whose token it has; None if that is wrong
        now    seconds, of any clock that only goes on
        """
        network = _network(client)
        count, then = self._failed.get(network, (0, now))
        if now - then > _FORGET:
            count = 0
        if user is None:
            _remember(self._failed, network, (count + 1, now))
            times, rest = divmod(count + 1, _FREE)
            if not rest and times & (times - 1) == 0:
                _log.warning("%d wrong tokens in a row came from %s", count + 1, network or "-")
        elif (network, user) in self._right or count < _FREE:
            _remember(self._right, (network, user), None)
            return 0.0
        # as 2 to the power of a large number is no float
        return min(self._most, _STEP * 2 ** min(count - _FREE, 30)) if count >= _FREE else 0.0


def _remember(known: OrderedDict[K, V], key: K, value: V) -> None:
    """As the latest of `_KNOWN`."""
    known[key] = value
    known.move_to_end(key)
    if len(known) > _KNOWN:
        known.popitem(last=False)


def _network(client: str) -> str:
    """The part of an address that who has it cannot choose: of version 6, the first 64 bits."""
    address = address_of(client)
    if address is None or address.version == 4:
        return client
    mapped = address.ipv4_mapped
    return str(mapped or IPv6Network((int(address), 64), strict=False))


class RequestQueue:
    """Places for requests under way, in the order in which they came. Of one loop."""

    def __init__(self, at_once: int, waiting: int) -> None:
        self._free = at_once
        self._most_waiting = waiting
        self._waiting: deque[asyncio.Future[None]] = deque()

    def enter(self) -> asyncio.Future[None] | None:
        """Take a place: None if there is one, else what is done once it is there. It is
        given back by `leave`. Raises `Refused` where too many wait."""
        if self._free:
            self._free -= 1
            return None
        if len(self._waiting) >= self._most_waiting:
            raise Refused(
                HttpProblem(
                    429,
                    "overloaded",
                    "the server answers as many requests as it may at once",
                    retry_after=_RETRY,
                )
            )
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        return turn

    def give_up(self, turn: asyncio.Future[None]) -> None:
        """Wait for it no longer."""
        if turn.done() and not turn.cancelled() and turn.exception() is None:
            self.leave()  # it was its turn, and nobody took it
        elif turn in self._waiting:
            self._waiting.remove(turn)

    def leave(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class UserRateLimiter:
    """So many requests a minute for each of those who ask: what is not used is kept, up to
    those of a minute."""

    def __init__(self, a_minute: int | None) -> None:
        self._most = a_minute
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, who: str, now: float) -> None:
        """One of them. Raises `Refused` where there is none left.

        now   seconds, of any clock that only goes on
        """
        if self._most is None:
            return
        left, then = self._left.pop(who, (float(self._most), now))
        left = min(self._most, left + (now - then) * self._most / 60)
        self._left[who] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > _KNOWN:
            self._left.popitem(last=False)
        if left < 1:
            raise Refused(
                HttpProblem(
                    429,
                    "rate_limited",
                    f"at most {self._most} requests a minute are answered",
                    retry_after=math.ceil((1 - left) * 60 / self._most),
                )
            )


class ByteBudget:
    """Bytes of all bodies that are held at once.

    left   how many more may be held
    """

    def __init__(self, most: int) -> None:
        self.left = most

    def take(self, size: int) -> None:
        """Raises `Refused` where there is not so much."""
        if size > self.left:
            raise Refused(
                HttpProblem(
                    429,
                    "overloaded",
                    "the server has no room for so much at once",
                    retry_after=_RETRY,
                )
            )
        self.left -= size

    def give_back(self, size: int) -> None:
        self.left += size
