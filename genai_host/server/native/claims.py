"""Which keys of `idempotency` were used, for all servers of a store: other workers, other machines,
and this one after it was started anew.

A key is claimed before what it stands for is done, and never by two. What came of it is written
beside it once that is known; it goes with the conversation that it is about.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from genai_host.api import RouteReply, RouteRequest
from genai_host.errors import Conflict, InvalidData, NotFound, StoreError
from genai_host.host import Host
from genai_host.recording import warn_unrecorded

if TYPE_CHECKING:
    from genai_host.store.documents import Documents

_COLLECTION = "idempotency"
_LIFE = 24 * 3600  # seconds
_MOST_BYTES = 2**20  # of a reply that is kept
_SWEPT = 5  # of those that are too old, some more than are put in


class Claims:
    """Of one host. Without a store, and while that fails, it knows of none."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def begin(self, request: RouteRequest, key: str, digest: bytes) -> RouteReply | None:
        """What came of it before; None if it is claimed for this request now.

        digest   of what is asked

        Raises `Conflict` where it is not known what came of it, `InvalidData` if it asked for
        something else.
        """
        shelf = self._shelf(request)
        if shelf is None:
            return None
        id = _id_of(key)
        claim = {"digest": digest.hex(), "until": self._now() + _LIFE}
        try:
            try:
                shelf.put(id, claim, expect=0)
            except Conflict:
                return _told(shelf.get(id).value, digest)
            self._sweep(request)
        except StoreError as error:
            warn_unrecorded(error)
        return None

    def end(self, request: RouteRequest, key: str, digest: bytes, reply: RouteReply | None) -> None:
        """
        reply   None if it may be asked again
        """
        shelf = self._shelf(request)
        if shelf is None:
            return
        try:
            if reply is None:
                shelf.delete(_id_of(key))
            else:
                kept = {"digest": digest.hex(), "until": self._now() + _LIFE, **_kept(reply)}
                shelf.put(_id_of(key), kept)
        except StoreError as error:
            warn_unrecorded(error)

    def _shelf(self, request: RouteRequest) -> Documents | None:
        if self._host.store is None:
            return None
        store, conversation = self._host.kept(request.user), request.parameters.get("id")
        try:
            return store.documents(_COLLECTION, conversation=conversation)
        except (NotFound, StoreError):  # of which it is told by whoever answers
            return None

    def _sweep(self, request: RouteRequest) -> None:
        documents = self._host.kept(request.user).documents(_COLLECTION)
        for oldest in documents.list(limit=_SWEPT, newest_first=False):
            if oldest.value["until"] >= self._now():
                break
            documents.delete(oldest.id)

    def _now(self) -> int:
        return int(self._host.clock.now().timestamp())


def _id_of(key: str) -> str:
    """It may have any letters."""
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()


def _kept(reply: RouteReply) -> dict[str, Any]:
    assert isinstance(reply.body, bytes)  # as `Replies` gives it
    if len(reply.body) > _MOST_BYTES:
        return {"status": reply.status}
    body = reply.body.decode()  # all that is answered here is JSON, or events of it
    return {"status": reply.status, "headers": dict(reply.headers), "body": body}


def _told(claim: Mapping[str, Any], digest: bytes) -> RouteReply:
    if claim["digest"] != digest.hex():
        raise InvalidData("this key was sent with another request", path="idempotency-key")
    if "status" not in claim:
        raise Conflict(
            "the first request with this key is under way, or its server has ended",
            hint="wait for it, and look at the conversation",
        )
    if "body" not in claim:
        raise Conflict(
            "this was done, and its reply is not kept any more", hint="look at the conversation"
        )
    return RouteReply(claim["body"].encode(), status=claim["status"], headers=claim["headers"])
