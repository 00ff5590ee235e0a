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
_MAX_KEY_LENGTH = 255
_LIFETIME = 24 * 3600  # seconds
_MAX_REPLY_SIZE = 2**20  # maximum size of a saved reply
_MAX_SWEPT = 5  # expired entries removed per request; more than are added
_MEMORY_SIZE = 16 * 2**20


class Replies:
    """Replies by idempotency key, of one host. Thread-safe."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._memory = MemoryCache(_MEMORY_SIZE)
        # claims by user and id: even without a store, a request is executed once per process
        self._running: dict[tuple[str, str], Mapping[str, Any]] = {}

    def once(self, request: RouteRequest, answer: Callable[[], RouteResponse]) -> RouteResponse:
        """Answer a request, or return the saved reply of its key. A failed request can be repeated.

        Raises:
            Conflict: The first request is in progress, or its reply is no longer stored.
            ValidationError: The key is invalid, or was sent with another request.
        """
        key = request.headers.get(HEADER)
        if key is None:
            return answer()
        if not 0 < len(key) <= _MAX_KEY_LENGTH:
            raise ValidationError(
                f"{HEADER} must have 1 to {_MAX_KEY_LENGTH} characters", path=HEADER
            )
        id = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()
        hashed = hashlib.sha256(f"{request.method}\0{request.path}\0".encode())
        hashed.update(request.body)
        digest = hashed.hexdigest()
        claim = {"digest": digest, "until": self._now() + _LIFETIME}
        claim_key = (request.user, id)
        first = self._running.setdefault(claim_key, claim)
        if first is not claim:
            return _saved_reply(first, digest)

        def end(body: bytes | None) -> None:
            try:
                self._end(
                    request, id, None if body is None else {**claim, **_stored_reply(reply, body)}
                )
            finally:
                del self._running[claim_key]

        try:
            before = self._begin(request, id, claim)
        except BaseException:
            del self._running[claim_key]
            raise
        if before is not None:
            del self._running[claim_key]
            return before
        try:
            reply = answer()
        except BaseException:
            end(None)
            raise
        if not isinstance(reply.body, bytes):
            return evolve(reply, body=_CopiedBody(reply.body, end))
        end(reply.body)
        return reply

    def _begin(
        self, request: RouteRequest, id: str, claim: Mapping[str, Any]
    ) -> RouteResponse | None:
        """The saved reply; None if the key is claimed for this request now."""
        self._sweep(request.user)
        for collection, all_keys in self._collections(request):
            try:
                self._claim(collection, all_keys, id, claim)
            except Conflict:
                return self._first_reply(all_keys, id, claim["digest"])
            except StoreError as error:
                warn_unrecorded(error)
                continue
            break
        return None

    def _claim(
        self,
        collection: DocumentCollection,
        all_keys: DocumentCollection,
        id: str,
        claim: Mapping[str, Any],
    ) -> None:
        """Store a claim, in place of one that has expired. Raises `Conflict` if there is one."""
        try:
            collection.put(id, claim, expect=0)
        except Conflict:
            try:
                found = all_keys.get(id)
            except NotFound:  # deleted meanwhile
                collection.put(id, claim, expect=0)
                return
            if found.value["until"] >= self._now():
                raise
            all_keys.put(id, claim, expect=found.version)

    def _first_reply(self, collection: DocumentCollection, id: str, digest: str) -> RouteResponse:
        try:
            return _saved_reply(collection.get(id).value, digest)
        except NotFound as error:
            raise Conflict(
                "the first request with this key has just failed", hint="send it again"
            ) from error

    def _end(self, request: RouteRequest, id: str, value: Mapping[str, Any] | None) -> None:
        """Save the result of a request; None makes it repeatable."""
        for collection, _ in self._collections(request):
            try:
                if value is None:
                    collection.delete(id)
                else:
                    collection.put(id, value)
            except StoreError as error:
                warn_unrecorded(error)
                continue
            break

    def _collections(
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
            for oldest in documents.list(limit=_MAX_SWEPT, newest_first=False):
                if oldest.value["until"] >= self._now():
                    break
                documents.delete(oldest.id)
        except StoreError:  # reported when the claim is written
            pass

    def _now(self) -> int:
        return int(self._host.clock.now().timestamp())


def _stored_reply(reply: RouteResponse, body: bytes) -> dict[str, Any]:
    if len(body) > _MAX_REPLY_SIZE:
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


class _CopiedBody:
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
        self._chunks = self._generate()

    def __iter__(self) -> Iterator[bytes]:
        return self._chunks

    def close(self) -> None:
        self._chunks.close()
        close = getattr(self._body, "close", None)
        if close is not None:
            close()
        if not self._has_ended:
            self._has_ended = True
            self._report_end(getattr(self._body, "is_done", False))

    def _generate(self) -> Generator[bytes, None, None]:
        for chunk in self._body:
            self._copy.append(chunk)
            yield chunk
        self._has_ended = True
        self._report_end(getattr(self._body, "is_done", True))

    def _report_end(self, is_done: bool) -> None:
        self._end(b"".join(self._copy) if is_done else None)
