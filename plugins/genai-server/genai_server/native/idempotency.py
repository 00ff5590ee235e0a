"""Idempotency keys: repeated requests get the first reply and are not executed again, by any server
of the same store, also after a restart.

Source: draft-ietf-httpapi-idempotency-key-header.

A key is claimed before its request is executed, and the reply is saved with it at the end. It is
deleted with its conversation, or after a day. If the store fails, it is held in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any

from attrs import evolve

from genai_host.api import RouteRequest, RouteResponse
from genai_host.conversations.recorder import warn_unrecorded
from genai_host.errors import Conflict, NotFound, StoreError, ValidationError
from genai_host.host import Host
from genai_host.serving.memory import DocumentCollection, MemoryCache

HEADER = "idempotency-key"
_COLLECTION = "idempotency"
_LONGEST = 255
_LIFE = 24 * 3600  # seconds
_MOST_BYTES = 2**20  # maximum size of a saved reply
_SWEPT = 5  # expired entries removed per request; more than are added
_MEMORY = 16 * 2**20


class Replies:
    """Replies by idempotency key, of one host. Thread-safe."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._memory = MemoryCache(_MEMORY)
        # claims by user and id: even without a store, a request is executed once per process
        self._under_way: dict[tuple[str, str], Mapping[str, Any]] = {}

    def once(self, request: RouteRequest, answer: Callable[[], RouteResponse]) -> RouteResponse:
        """Answer a request, or return the saved reply of its key. A failed request can be repeated.

        Raises:
            Conflict: The first request is in progress, or its reply is no longer stored.
            ValidationError: The key is invalid, or was sent with another request.
        """
        key = request.headers.get(HEADER)
        if key is None:
            return answer()
        if not 0 < len(key) <= _LONGEST:
            raise ValidationError(f"{HEADER} must have 1 to {_LONGEST} characters", path=HEADER)
        id = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()
        hashed = hashlib.sha256(f"{request.method}\0{request.path}\0".encode())
        hashed.update(request.body)
        digest = hashed.hexdigest()
        claim = {"digest": digest, "until": self._now() + _LIFE}
        mine = (request.user, id)
        first = self._under_way.setdefault(mine, claim)
        if first is not claim:
            return _saved_reply(first, digest)

        def end(body: bytes | None) -> None:
            try:
                self._end(request, id, None if body is None else {**claim, **_kept(reply, body)})
            finally:
                del self._under_way[mine]

        try:
            before = self._begin(request, id, claim)
        except BaseException:
            del self._under_way[mine]
            raise
        if before is not None:
            del self._under_way[mine]
            return before
        try:
            reply = answer()
        except BaseException:
            end(None)
            raise
        if not isinstance(reply.body, bytes):
            return evolve(reply, body=_Copied(reply.body, end))
        end(reply.body)
        return reply

    def _begin(
        self, request: RouteRequest, id: str, claim: Mapping[str, Any]
    ) -> RouteResponse | None:
        """The saved reply; None if the key is claimed for this request now."""
        self._sweep(request.user)
        for shelf, every in self._shelves(request):
            try:
                self._claim(shelf, every, id, claim)
            except Conflict:
                return self._before(every, id, claim["digest"])
            except StoreError as error:
                warn_unrecorded(error)
                continue
            break
        return None

    def _claim(
        self,
        shelf: DocumentCollection,
        every: DocumentCollection,
        id: str,
        claim: Mapping[str, Any],
    ) -> None:
        """Store a claim, in place of one that has expired. Raises `Conflict` if there is one."""
        try:
            shelf.put(id, claim, expect=0)
        except Conflict:
            try:
                found = every.get(id)
            except NotFound:  # deleted meanwhile
                shelf.put(id, claim, expect=0)
                return
            if found.value["until"] >= self._now():
                raise
            every.put(id, claim, expect=found.version)

    def _before(self, shelf: DocumentCollection, id: str, digest: str) -> RouteResponse:
        try:
            return _saved_reply(shelf.get(id).value, digest)
        except NotFound as error:
            raise Conflict(
                "the first request with this key has just failed", hint="send it again"
            ) from error

    def _end(self, request: RouteRequest, id: str, value: Mapping[str, Any] | None) -> None:
        """Save the result of a request; None makes it repeatable."""
        for shelf, _ in self._shelves(request):
            try:
                if value is None:
                    shelf.delete(id)
                else:
                    shelf.put(id, value)
            except StoreError as error:
                warn_unrecorded(error)
                continue
            break

    def _shelves(
        self, request: RouteRequest
    ) -> Iterator[tuple[DocumentCollection, DocumentCollection]]:
        """Where a key can be stored, best first: the documents of the request's conversation, and
        those of all conversations of the user, in which a key is unique."""
        if self._host.store is not None:
            store, conversation = self._host.store_for(request.user), request.parameters.get("id")
            try:
                documents = store.documents(_COLLECTION, conversation=conversation)
            except (NotFound, StoreError):  # raised again by the handler
                pass
            else:
                yield documents, store.documents(_COLLECTION)
        memory = self._memory.shelf(request.user, _COLLECTION)
        yield memory, memory

    def _sweep(self, user: str) -> None:
        if self._host.store is None:
            return
        try:
            documents = self._host.store_for(user).documents(_COLLECTION)
            for oldest in documents.list(limit=_SWEPT, newest_first=False):
                if oldest.value["until"] >= self._now():
                    break
                documents.delete(oldest.id)
        except StoreError:  # reported when the claim is written
            pass

    def _now(self) -> int:
        return int(self._host.clock.now().timestamp())


def _kept(reply: RouteResponse, body: bytes) -> dict[str, Any]:
    if len(body) > _MOST_BYTES:
        return {"status": reply.status}
    # these replies are JSON or events with JSON
    return {"status": reply.status, "headers": dict(reply.headers), "body": body.decode()}


def _saved_reply(claim: Mapping[str, Any], digest: str) -> RouteResponse:
    if claim["digest"] != digest:
        raise ValidationError(f"this {HEADER} was already used for another request", path=HEADER)
    if "status" not in claim:
        raise Conflict(
            "the first request with this key is in progress, or its server has stopped",
            hint="wait for it, then check the conversation",
        )
    if "body" not in claim:
        raise Conflict(
            "the request was completed, but its reply is no longer stored",
            hint="check the conversation",
        )
    return RouteResponse(claim["body"].encode(), status=claim["status"], headers=claim["headers"])


class _Copied:
    """The body of a stream, copied while it is sent.

    Args:
        body: The body. Its `is_done`, if present, is whether the request must not be repeated, even
            if the client disconnects before the end.
        end: Receives the whole body, or None if the request can be repeated.
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
            self._has_ended = True
            self._report_end(getattr(self._body, "is_done", False))

    def _copied(self) -> Generator[bytes, None, None]:
        for piece in self._body:
            self._copy.append(piece)
            yield piece
        self._has_ended = True
        self._report_end(getattr(self._body, "is_done", True))

    def _report_end(self, is_done: bool) -> None:
        self._end(b"".join(self._copy) if is_done else None)
