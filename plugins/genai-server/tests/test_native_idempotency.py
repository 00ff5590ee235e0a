"""Keys of requests that are done once, by one server and by several of one store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from genai_server.native import idempotency
from genai_server.native.api import Api as NativeApi
from genai_server.native.idempotency import Replies

from genai_host import Host
from genai_host.api import (
    Answer,
    Cancellation,
    Feature,
    FeatureSteps,
    NoSettings,
    Pause,
    RouteRequest,
    RouteResponse,
    Turn,
)
from genai_host.errors import Conflict, NotFound, ServiceUnavailable, StoreError, ValidationError
from genai_host.store import Store
from genai_host.store.documents import Documents
from genai_host_testing import InlinePlugin
from genai_host_testing.clock import ManualClock
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.native_api import Api, native_api
from genai_host_testing.internal.stores import MakeStore, begin

Pair = tuple[Replies, Replies]


@pytest.fixture
def stores(make_store: MakeStore) -> list[Store]:
    return [make_store() for _ in range(2)]


@pytest.fixture
def servers(make_host: MakeHost, stores: list[Store], clock: ManualClock) -> Pair:
    one, other = (Replies(make_host(store=each, clock=clock)) for each in stores)
    return one, other


def post_request(body: bytes = b"x", key: str = "k", **fields: Any) -> RouteRequest:
    headers = {"idempotency-key": key}
    return RouteRequest("POST", "/a", body=body, headers=headers, limits=Cancellation(), **fields)


def twice() -> RouteResponse:
    raise AssertionError("it is done twice")


def test_the_other_gives_the_reply_of_the_first(servers: Pair) -> None:
    one, other = servers
    reply = RouteResponse('{"a": "ä"}'.encode(), status=201, headers={"x": "y"})
    one.once(post_request(), lambda: reply)
    assert other.once(post_request(), twice) == reply
    assert other.once(post_request(user="ann"), lambda: RouteResponse(b"hers")).body == b"hers"
    with pytest.raises(ValidationError):
        other.once(post_request(b"y"), twice)


def refused_meanwhile(one: Replies, other: Replies) -> None:
    def answer() -> RouteResponse:
        with pytest.raises(Conflict, match="in progress"):
            other.once(post_request(), twice)
        return RouteResponse(b"once")

    assert one.once(post_request(), answer).body == b"once"
    assert other.once(post_request(), twice).body == b"once"


def test_request_in_progress_is_refused_at_other_server(servers: Pair) -> None:
    refused_meanwhile(*servers)


def test_what_failed_may_be_asked_of_the_other(servers: Pair) -> None:
    one, other = servers

    def fail() -> RouteResponse:
        raise NotFound("no")

    with pytest.raises(NotFound):
        one.once(post_request(), fail)
    assert other.once(post_request(), lambda: RouteResponse(b"done")).body == b"done"
    assert one.once(post_request(), twice).body == b"done"


def test_a_stream_is_known_to_the_other_once_it_has_ended(servers: Pair) -> None:
    one, other = servers
    body: Any = one.once(post_request(), lambda: RouteResponse(iter([b"1", b"2"]))).body
    with pytest.raises(Conflict):
        other.once(post_request(), twice)
    assert b"".join(body) == b"12"
    assert other.once(post_request(), twice).body == b"12"
    cut: Any = one.once(post_request(key="cut"), lambda: RouteResponse(iter([b"1", b"2"]))).body
    next(iter(cut))
    cut.close()
    assert other.once(post_request(key="cut"), lambda: RouteResponse(b"again")).body == b"again"


def test_a_reply_that_is_too_large_is_not_kept_and_not_made_twice(
    servers: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "_MAX_REPLY_SIZE", 3)
    servers[0].once(post_request(), lambda: RouteResponse(b"four"))
    with pytest.raises(Conflict, match="no longer stored"):
        servers[1].once(post_request(), twice)


def test_they_go_after_a_day(servers: Pair, clock: ManualClock, stores: list[Store]) -> None:
    one, other = servers
    one.once(post_request(), lambda: RouteResponse(b"first"))
    clock.advance(25 * 3600)
    other.once(post_request(key="other"), lambda: RouteResponse(b"other"))
    assert len(stores[0].documents("idempotency").list()) == 1
    assert other.once(post_request(), lambda: RouteResponse(b"second")).body == b"second"


def test_expired_keys_have_no_effect(servers: Pair, clock: ManualClock) -> None:
    """Also those that are not deleted yet."""
    one, other = servers
    keys = [f"k{number}" for number in range(12)]
    for key in keys:
        one.once(post_request(key=key), lambda: RouteResponse(b"first"))
    clock.advance(25 * 3600)
    for key in reversed(keys):
        request = post_request(b"another", key=key)
        assert other.once(request, lambda: RouteResponse(b"second")).body == b"second"
        assert one.once(request, twice).body == b"second"


def test_they_go_with_their_conversation(servers: Pair, stores: list[Store]) -> None:
    id = begin(stores[0]).id
    request = post_request(parameters={"id": id})
    servers[0].once(request, lambda: RouteResponse(b"said"))
    assert servers[1].once(request, twice).body == b"said"
    stores[0].delete(id)
    assert stores[0].documents("idempotency").list() == []


def test_a_key_is_for_one_conversation(servers: Pair, stores: list[Store]) -> None:
    ids = [begin(stores[0]).id for _ in range(2)]
    first, second = (
        evolve(post_request(parameters={"id": id}), path=f"/conversations/{id}") for id in ids
    )
    servers[0].once(first, lambda: RouteResponse(b"said"))
    with pytest.raises(ValidationError, match="another request"):
        servers[1].once(second, twice)


def test_one_that_has_just_failed(servers: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its claim is gone between the two looks of the other."""
    one, other = servers
    one.once(post_request(), lambda: RouteResponse(b"once"))

    def gone(self: Documents, id: str) -> None:
        raise NotFound("it is gone")

    monkeypatch.setattr(Documents, "get", gone)
    with pytest.raises(Conflict, match="has just failed"):
        other.once(post_request(), twice)


def test_a_store_that_fails_and_works_again_does_nothing_twice(
    make_host: MakeHost, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = Replies(make_host(store=make_store()))

    def fail(self: Documents, *arguments: Any, **more: Any) -> None:
        raise StoreError("it is full")

    def answer() -> RouteResponse:
        monkeypatch.undo()
        with pytest.raises(Conflict, match="in progress"):
            replies.once(post_request(), twice)
        return RouteResponse(b"once")

    monkeypatch.setattr(Documents, "put", fail)
    assert replies.once(post_request(), answer).body == b"once"
    assert replies.once(post_request(), twice).body == b"once"


def test_answers_need_no_store(make_host: MakeHost, make_store: MakeStore) -> None:
    store = make_store()
    replies = Replies(make_host(store=store))
    store.check()
    store.close()
    assert replies.once(post_request(), lambda: RouteResponse(b"done")).body == b"done"
    assert replies.once(post_request(), twice).body == b"done"


class TestInMemory:
    """Of a server without a store."""

    @pytest.fixture
    def replies(self, host: Host) -> Replies:
        return Replies(host)

    def test_while_it_is_under_way_it_is_refused(self, replies: Replies) -> None:
        refused_meanwhile(replies, replies)

    def test_what_is_under_way_is_not_forgotten_for_others_and_has_one_request(
        self, replies: Replies, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(idempotency, "_MEMORY_SIZE", 2000)

        def answer() -> RouteResponse:
            with pytest.raises(ValidationError, match="another request"):
                replies.once(post_request(b"other"), twice)
            for number in range(20):
                replies.once(post_request(key=str(number)), lambda: RouteResponse(b"other"))
            with pytest.raises(Conflict):
                replies.once(post_request(), twice)
            return RouteResponse(b"once")

        replies.once(post_request(), answer)

    def test_a_stream_that_was_cut_off_may_be_asked_for_again(self, replies: Replies) -> None:
        body: Any = replies.once(post_request(), lambda: RouteResponse(iter([b"1", b"2"]))).body
        assert next(iter(body)) == b"1"
        body.close()
        body.close()
        again: Any = replies.once(post_request(), lambda: RouteResponse(iter([b"3"]))).body
        assert b"".join(again) == b"3"
        again.close()
        assert replies.once(post_request(), twice).body == b"3"

    @pytest.mark.parametrize("key", ["", "x" * 256])
    def test_keys_that_are_none(self, replies: Replies, key: str) -> None:
        with pytest.raises(ValidationError):
            replies.once(post_request(key=key), lambda: RouteResponse(b"done"))


def waits(turn: Turn[NoSettings]) -> FeatureSteps:
    word = yield from Pause("word", {}, str)
    return Answer(word)


@pytest.mark.part
class TestTurns:
    """Over the native API."""

    @pytest.fixture
    def api(self, make_host: MakeHost, tmp_path: Path) -> Iterator[Api]:
        extra = InlinePlugin(features=[Feature("waits", NoSettings, waits, roles={})])
        with native_api(make_host, tmp_path, extra=extra) as api:
            yield api

    @pytest.fixture
    def native(self, api: Api) -> Iterator[NativeApi]:
        with closing(NativeApi(api.host)) as native:
            yield native

    @pytest.mark.parametrize("stream", [False, True])
    def test_what_failed_is_done_again_and_no_answer(self, api: Api, stream: bool) -> None:
        path, key = f"{api.opened()}/turns", {"idempotency-key": "k"}
        body = {"message": "hi", "stream": stream}
        api.fake.faults[0] = ServiceUnavailable("away")
        failed, first, second = (api.send("POST", path, body, headers=key) for _ in range(3))
        assert failed.status_code == (200 if stream else 503)
        assert ("event: error" in failed.text) is stream
        assert first.status_code == second.status_code == 200
        assert ("event: answer" in first.text) is stream
        assert second.content == first.content
        assert api.fake.calls == 2
        other = {**body, "message": "other"}
        assert api.send("POST", path, other, headers=key).status_code == 400

    @pytest.mark.parametrize("last", [b"answer", b"paused"])
    def test_what_was_done_is_not_done_again_for_a_client_that_missed_the_end(
        self, api: Api, native: NativeApi, last: bytes
    ) -> None:
        id = api.opened(feature="waits" if last == b"paused" else "chat").rpartition("/")[2]
        request = post_request(b'{"message": "hi", "stream": true}', parameters={"id": id})
        first: Any = native.say(request).body
        pieces = []
        for piece in first:
            pieces.append(piece)
            if piece.startswith(b"event: " + last):
                break
        first.close()
        assert native.say(request).body == b"".join(pieces)
        assert len(api.get(f"/conversations/{id}")["turns"]) == 1

    def test_one_that_is_sent_again_early_waits(self, api: Api, native: NativeApi) -> None:
        id = api.opened().rpartition("/")[2]
        request = post_request(b'{"message": "hi", "stream": true}', parameters={"id": id})
        stream: Any = native.say(request).body
        with pytest.raises(Conflict, match="in progress"):
            native.say(request)
        stream.close()  # and so it ends early
        again: Any = native.say(request).body
        assert b"event: answer" in b"".join(again)
