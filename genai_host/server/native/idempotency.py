"""The same request again gives the same reply again, and is not done twice.

Source: draft-ietf-httpapi-idempotency-key-header.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator

from attrs import define

from genai_host.api import RouteReply, RouteRequest
from genai_host.errors import Conflict, InvalidData

HEADER = "idempotency-key"
_MOST = 1000  # keys of a user
_LONGEST = 255
_MOST_BYTES = 2**20  # of a reply that is kept


@define
class _Done:
    """
    digest   of what was asked
    reply    None while it is under way
    """

    digest: bytes
    reply: RouteReply | None = None


class Replies:
    """Of one server, in memory. May be used from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[str, OrderedDict[str, _Done]] = {}

    def once(self, request: RouteRequest, answer: Callable[[], RouteReply]) -> RouteReply:
        """The reply to a request; that of before, if its key was there before. One that
        failed may be asked again.

        Raises `Conflict` while the first is under way, `InvalidData` if it asked for
        something else.
        """
        key = request.headers.get(HEADER)
        if key is None:
            return answer()
        if not 0 < len(key) <= _LONGEST:
            raise InvalidData(f"{HEADER} has 1 to {_LONGEST} characters", path=HEADER)
        digest = hashlib.sha256(
            b"\0".join((request.method.encode(), request.path.encode(), request.body))
        ).digest()
        with self._lock:
            mine = self._of.setdefault(request.user, OrderedDict())
            done = mine.get(key)
            if done is not None:
                return _again(done, digest)
            mine[key] = done = _Done(digest)
            while len(mine) > _MOST:
                mine.popitem(last=False)
        try:
            reply = answer()
        except BaseException:
            self._forget(request.user, key)
            raise
        if isinstance(reply.body, bytes):
            done.reply = reply
            return reply
        return RouteReply(
            _Kept(reply, done, lambda: self._forget(request.user, key)),
            status=reply.status,
            headers=reply.headers,
        )

    def _forget(self, user: str, key: str) -> None:
        with self._lock:
            self._of[user].pop(key, None)


def _again(done: _Done, digest: bytes) -> RouteReply:
    if done.digest != digest:
        raise InvalidData(f"this {HEADER} was sent with another request", path=HEADER)
    if done.reply is None:
        raise Conflict("the first request with this key is under way", hint="wait for it")
    return done.reply


class _Kept:
    """The body of a stream, kept as it is sent; one that ends early is not kept."""

    def __init__(self, reply: RouteReply, done: _Done, forget: Callable[[], None]) -> None:
        self._reply = reply
        self._done = done
        self._forget = forget
        self._pieces = self._copied()

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces

    def close(self) -> None:
        self._pieces.close()
        close = getattr(self._reply.body, "close", None)
        if close is not None:
            close()
        if self._done.reply is None:
            self._forget()

    def _copied(self) -> Generator[bytes, None, None]:
        kept: list[bytes] = []
        size = 0
        assert not isinstance(self._reply.body, bytes)  # the caller has looked
        for piece in self._reply.body:
            size += len(piece)
            if size <= _MOST_BYTES:
                kept.append(piece)
            yield piece
        if size <= _MOST_BYTES:
            headers = self._reply.headers
            self._done.reply = RouteReply(
                b"".join(kept), status=self._reply.status, headers=headers
            )
