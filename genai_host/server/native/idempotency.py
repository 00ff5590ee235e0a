"""The same request again gives the same reply again, and is not done twice.

Source: draft-ietf-httpapi-idempotency-key-header.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator

from attrs import define, evolve

from genai_host.api import RouteReply, RouteRequest
from genai_host.errors import Conflict, InvalidData
from genai_host.server.native.claims import Claims

HEADER = "idempotency-key"
_MOST = 1000  # keys of a user
_LONGEST = 255
_MOST_BYTES = 16 * 2**20  # of the replies to a user that are kept


@define(eq=False)
class _Done:
    """
    digest        of what was asked
    is_over       whether it is not under way any more
    reply, size   None, and 0 bytes, if it is not kept: it is under way, or too large
    """

    digest: bytes
    is_over: bool = False
    reply: RouteReply | None = None
    size: int = 0


_Mine = OrderedDict[str, _Done]


class Replies:
    """Of one server, in memory. May be used from many threads.

    claims   what other servers of the same store see of it; None where there are none
    """

    def __init__(self, claims: Claims | None = None) -> None:
        self._claims = claims
        self._lock = threading.Lock()
        self._of: dict[str, _Mine] = {}

    def once(self, request: RouteRequest, answer: Callable[[], RouteReply]) -> RouteReply:
        """The reply to a request; that of before, if its key was there before. One that
        failed may be asked again.

        Raises `Conflict` while the first is under way, and if its reply is not known any
        more; `InvalidData` if it asked for something else.
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
            _make_room(mine)

        claims = self._claims
        try:
            before = None if claims is None else claims.begin(request, key, digest)
        except BaseException:
            self._end(mine, key, done, None)
            raise
        if before is not None:
            self._end(mine, key, done, before)
            return before

        def tell(reply: RouteReply | None) -> None:
            if claims is not None:
                claims.end(request, key, digest, reply)
            self._end(mine, key, done, reply)

        def end(body: bytes | None) -> None:
            tell(None if body is None else evolve(reply, body=body))

        try:
            reply = answer()
        except BaseException:
            tell(None)
            raise
        if not isinstance(reply.body, bytes):
            return evolve(reply, body=_Copied(reply.body, end))
        end(reply.body)
        return reply

    def _end(self, mine: _Mine, key: str, done: _Done, reply: RouteReply | None) -> None:
        """
        reply   None if it may be asked again
        """
        with self._lock:
            if mine.get(key) is not done:  # there were many since
                return
            if reply is None:
                del mine[key]
                return
            assert isinstance(reply.body, bytes)  # both that call this make sure of it
            done.is_over, done.reply, done.size = True, reply, len(reply.body)
            over = sum(each.size for each in mine.values()) - _MOST_BYTES
            for each in mine.values():  # the oldest first
                if over > 0:
                    over -= each.size
                    each.reply, each.size = None, 0


def _make_room(mine: _Mine) -> None:
    """The oldest go, but for those that are under way: they must not be done twice."""
    over = len(mine) - _MOST
    if over > 0:
        for name in [name for name, each in mine.items() if each.is_over][:over]:
            del mine[name]


def _again(done: _Done, digest: bytes) -> RouteReply:
    if done.digest != digest:
        raise InvalidData(f"this {HEADER} was sent with another request", path=HEADER)
    if not done.is_over:
        raise Conflict("the first request with this key is under way", hint="wait for it")
    if done.reply is None:
        raise Conflict(
            "this was done, and its reply is not kept any more", hint="look at the conversation"
        )
    return done.reply


class _Copied:
    """The body of a stream, copied as it is sent.

    body   its `is_done`, if it has one, says whether what it tells of is done, and may not be
           done again: also for a client that goes before the last of it has come
    end    is told all of it, or None if that may be asked again
    """

    def __init__(self, body: Iterable[bytes], end: Callable[[bytes | None], None]) -> None:
        self._body = body
        self._end = end
        self._has_ended = False
        self._copy: list[bytes] = []
        self._pieces = self._copied()

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces

    def close(self) -> None:
        self._pieces.close()
        close = getattr(self._body, "close", None)
        if close is not None:
            close()
        if not self._has_ended:
            self._tell(getattr(self._body, "is_done", False))

    def _copied(self) -> Generator[bytes, None, None]:
        for piece in self._body:
            self._copy.append(piece)
            yield piece
        self._has_ended = True
        self._tell(getattr(self._body, "is_done", True))

    def _tell(self, is_done: bool) -> None:
        self._end(b"".join(self._copy) if is_done else None)
