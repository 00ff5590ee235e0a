"""Keys of requests that are done once, by several servers of one store."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from genai_server.native import idempotency
from genai_server.native.idempotency import Replies

from genai_host.api import Cancellation, RouteRequest, RouteResponse
from genai_host.errors import Conflict, NotFound, StoreError, ValidationError
from genai_host.store import Store
from genai_host.store.documents import Documents
from genai_host_testing.clock import ManualClock
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.stores import MakeStore, begin

Pair = tuple[Replies, Replies]


@pytest.fixture
def stores(make_store: MakeStore) -> list[Store]:
    return [make_store() for _ in range(2)]


@pytest.fixture
def servers(make_host: MakeHost, stores: list[Store], clock: ManualClock) -> Pair:
    one, other = (Replies(make_host(store=each, clock=clock)) for each in stores)
    return one, other


def asked(body: bytes = b"x", key: str = "k", **given: Any) -> RouteRequest:
    headers = {"idempotency-key": key}
    return RouteRequest("POST", "/a", body=body, headers=headers, limits=Cancellation(), **given)


def twice() -> RouteResponse:
    raise AssertionError("it is done twice")


def test_the_other_gives_the_reply_of_the_first(servers: Pair) -> None:
    one, other = servers
    reply = RouteResponse('{"a": "ä"}'.encode(), status=201, headers={"x": "y"})
    one.once(asked(), lambda: reply)
    assert other.once(asked(), twice) == reply
    assert other.once(asked(user="ann"), lambda: RouteResponse(b"hers")).body == b"hers"
    with pytest.raises(ValidationError):
        other.once(asked(b"y"), twice)


def test_while_it_is_under_way_it_is_refused_at_the_other(servers: Pair) -> None:
    one, other = servers

    def answer() -> RouteResponse:
        with pytest.raises(Conflict, match="in progress"):
            other.once(asked(), twice)
        return RouteResponse(b"once")

    one.once(asked(), answer)
    assert other.once(asked(), twice).body == b"once"


def test_what_failed_may_be_asked_of_the_other(servers: Pair) -> None:
    one, other = servers

    def fail() -> RouteResponse:
        raise NotFound("no")

    with pytest.raises(NotFound):
        one.once(asked(), fail)
    assert other.once(asked(), lambda: RouteResponse(b"done")).body == b"done"
    assert one.once(asked(), twice).body == b"done"


def test_a_stream_is_known_to_the_other_once_it_has_ended(servers: Pair) -> None:
    one, other = servers
    body: Any = one.once(asked(), lambda: RouteResponse(iter([b"1", b"2"]))).body
    with pytest.raises(Conflict):
        other.once(asked(), twice)
    assert b"".join(body) == b"12"
    assert other.once(asked(), twice).body == b"12"
    cut: Any = one.once(asked(key="cut"), lambda: RouteResponse(iter([b"1", b"2"]))).body
    next(iter(cut))
    cut.close()
    assert other.once(asked(key="cut"), lambda: RouteResponse(b"again")).body == b"again"


def test_a_reply_that_is_too_large_is_not_kept_and_not_made_twice(
    servers: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "_MOST_BYTES", 3)
    servers[0].once(asked(), lambda: RouteResponse(b"four"))
    with pytest.raises(Conflict, match="no longer stored"):
        servers[1].once(asked(), twice)


def test_they_go_after_a_day(servers: Pair, clock: ManualClock, stores: list[Store]) -> None:
    one, other = servers
    one.once(asked(), lambda: RouteResponse(b"first"))
    clock.advance(25 * 3600)
    other.once(asked(key="other"), lambda: RouteResponse(b"other"))
    assert len(stores[0].documents("idempotency").list()) == 1
    assert other.once(asked(), lambda: RouteResponse(b"second")).body == b"second"


def test_they_go_with_their_conversation(servers: Pair, stores: list[Store]) -> None:
    id = begin(stores[0]).id
    request = asked(parameters={"id": id})
    servers[0].once(request, lambda: RouteResponse(b"said"))
    assert servers[1].once(request, twice).body == b"said"
    stores[0].delete(id)
    assert stores[0].documents("idempotency").list() == []


def test_a_key_is_for_one_conversation(servers: Pair, stores: list[Store]) -> None:
    ids = [begin(stores[0]).id for _ in range(2)]
    first, second = (
        evolve(asked(parameters={"id": id}), path=f"/conversations/{id}") for id in ids
    )
    servers[0].once(first, lambda: RouteResponse(b"said"))
    with pytest.raises(ValidationError, match="another request"):
        servers[1].once(second, twice)


def test_one_that_fails_while_it_is_looked_for_may_be_asked_again(
    servers: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its claim is gone between the two looks of the other."""
    one, other = servers
    one.once(asked(), lambda: RouteResponse(b"once"))

    def gone(self: Documents, id: str) -> None:
        raise NotFound("it is gone")

    monkeypatch.setattr(Documents, "get", gone)
    with pytest.raises(Conflict, match="has just failed"):
        other.once(asked(), twice)


def test_a_store_that_fails_and_works_again_does_nothing_twice(
    make_host: MakeHost, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = Replies(make_host(store=make_store()))

    def fail(self: Documents, *given: Any, **more: Any) -> None:
        raise StoreError("it is full")

    def answer() -> RouteResponse:
        monkeypatch.undo()
        with pytest.raises(Conflict, match="in progress"):
            replies.once(asked(), twice)
        return RouteResponse(b"once")

    monkeypatch.setattr(Documents, "put", fail)
    assert replies.once(asked(), answer).body == b"once"
    assert replies.once(asked(), twice).body == b"once"


@pytest.fixture
def failing(make_host: MakeHost, make_store: MakeStore) -> Replies:
    store = make_store()
    replies = Replies(make_host(store=store))
    store.check()
    store.close()
    return replies


def test_a_store_that_fails_keeps_nobody_from_an_answer(failing: Replies) -> None:
    assert failing.once(asked(), lambda: RouteResponse(b"done")).body == b"done"
    assert failing.once(asked(), twice).body == b"done"
