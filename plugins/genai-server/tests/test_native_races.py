"""Concurrent requests to the native API, and requests in the wrong order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
from genai_server.native import idempotency
from genai_server.native import jobs as jobs_module
from genai_server.native.api import Api as NativeApi
from genai_server.native.idempotency import Replies
from genai_server.native.jobs import Jobs
from genai_server.native.turns import Live

from genai_host import Host
from genai_host.api import (
    Answer,
    Cancellation,
    Feature,
    FeatureSteps,
    NewId,
    NoSettings,
    Pause,
    RouteRequest,
    RouteResponse,
    Turn,
)
from genai_host.errors import Conflict, Interrupted, ServiceUnavailable, ValidationError
from genai_host_testing import InlinePlugin
from genai_host_testing.fake_service import HANG
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.native_api import Api, native_api

pytestmark = pytest.mark.part


def breaks(turn: Turn[NoSettings]) -> FeatureSteps:
    yield from ()
    raise RuntimeError("a bug")


def cut(turn: Turn[NoSettings]) -> FeatureSteps:
    yield from NewId("x")  # with which the turn is on record
    if turn.message.text == "cut":
        raise Interrupted("as if it was killed")
    return Answer("done")


def exits(turn: Turn[NoSettings]) -> FeatureSteps:
    yield from NewId("x")
    raise SystemExit(3)


def waits(turn: Turn[NoSettings]) -> FeatureSteps:
    said = yield from Pause("word", {}, str)
    return Answer(said)


@pytest.fixture
def api(make_host: MakeHost, tmp_path: Path) -> Iterator[Api]:
    features: list[Any] = [
        Feature("breaks", NoSettings, breaks, roles={}),
        Feature("cut", NoSettings, cut, roles={}),
        Feature("exits", NoSettings, exits, roles={}),
        Feature("waits", NoSettings, waits, roles={}),
    ]
    with native_api(make_host, tmp_path, extra=InlinePlugin(features=features)) as api:
        yield api


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def hanging(api: Api, pool: ThreadPoolExecutor, path: str) -> Future[Any]:
    """Start a turn that does not end; return its status and error code."""
    api.fake.faults[api.fake.calls] = HANG

    def say() -> tuple[int, str]:
        with requests.Session() as own:  # which is one thread's alone
            return Api(api.url, api.fake, api.host, own).refused(
                "POST", f"{path}/turns", {"message": "hi"}
            )

    done = pool.submit(say)
    assert api.fake.hanging.wait(30)
    return done


def asked(body: bytes = b"{}", key: str | None = "k", **given: Any) -> RouteRequest:
    headers = {} if key is None else {"idempotency-key": key}
    given = {"limits": Cancellation(), **given}
    return RouteRequest("POST", "/x", body=body, headers=headers, **given)


class TestConversations:
    def test_one_with_a_turn_under_way_is_deleted(self, api: Api, pool: ThreadPoolExecutor) -> None:
        path = api.opened()
        turn = hanging(api, pool, path)
        assert api.send("DELETE", path).status_code == 204
        assert turn.result(30)[0] == 409
        assert api.refused("GET", path) == (404, "not_found")
        assert api.get("/conversations")["data"] == []

    @pytest.mark.parametrize(
        ("method", "below", "body"),
        [
            ("POST", "/turns", {"message": "x"}),
            ("POST", "/turns", {"message": "x", "stream": True}),
            ("POST", "/resume", {}),
            ("POST", "/resume", {"stream": True}),
            ("POST", "/undo", {}),
            ("POST", "/abandon", {}),
            ("PATCH", "", {"parameters": {"top_p": 1}}),
        ],
    )
    def test_one_that_is_busy_is_left_alone(
        self, api: Api, pool: ThreadPoolExecutor, method: str, below: str, body: Any
    ) -> None:
        path = api.opened()
        turn = hanging(api, pool, path)
        assert api.refused(method, path + below, body) == (409, "conversation_busy")
        job = {"conversation": path.rpartition("/")[2], "message": "x"}
        assert api.refused("POST", "/jobs", job) == (409, "conversation_busy")
        assert api.patch(path, {"title": "it has a name"})["status"] == "running"
        assert api.post(f"{path}/cancel") == {"cancelled": True}
        assert turn.result(30) == (409, "cancelled")
        assert [turn["status"] for turn in api.get(path)["turns"]] == ["failed"]

    def test_the_beginning_of_an_id_is_none(self, api: Api) -> None:
        path = api.opened()
        for method, below in (("GET", ""), ("DELETE", ""), ("GET", "/export"), ("POST", "/undo")):
            assert api.refused(method, path[:-1] + below, {}) == (404, "not_found")
        job = {"conversation": path.rpartition("/")[2][:-1], "message": "x"}
        assert api.refused("POST", "/jobs", job) == (404, "not_found")
        assert api.get(path)["turns"] == []

    def test_what_is_wrong_drops_no_turn_that_was_cut_off(self, api: Api) -> None:
        path = api.opened(feature="cut")
        assert api.refused("POST", f"{path}/turns", {"message": "cut"}) == (503, "interrupted")
        assert api.refused("POST", f"{path}/turns", {"message": "x", "nonsense": 1})[0] == 400
        assert [turn["status"] for turn in api.get(path)["turns"]] == ["unfinished"]
        assert api.said(path, "again")["answer"]["text"] == "done"
        assert [turn["status"] for turn in api.get(path)["turns"]] == ["failed", "answered"]

    def test_resume_of_one_that_waits_for_nothing(self, api: Api) -> None:
        path = api.opened()
        assert api.refused("POST", f"{path}/resume", {}) == (409, "replay")
        assert api.refused("POST", f"{path}/resume", {"stream": True}) == (409, "replay")

    @pytest.mark.parametrize("number", ["9" * 5000, "1" + "0" * 10, "-1", "x", "1.5", "\u0661"])
    def test_numbers_that_are_none(self, api: Api, number: str) -> None:
        path = api.opened()
        assert api.refused("GET", f"{path}?before={number}")[0] == 400
        assert api.refused("GET", f"{path}?limit={number}")[0] == 400

    def test_nothing_comes_before_the_first_turn(self, api: Api) -> None:
        path = api.opened()
        api.said(path)
        assert api.get(f"{path}?before=0")["turns"] == []


class TestJobs:
    @pytest.mark.parametrize(
        "body",
        [{}, {"message": ""}, {"message": "x", "nonsense": 1}, {"message": "x", "regenerate": 3}],
    )
    def test_what_is_wrong_opens_nothing(self, api: Api, body: Any) -> None:
        assert api.refused("POST", "/jobs", body)[0] == 400
        assert api.get("/conversations")["data"] == []

    def test_one_whose_conversation_is_deleted_ends(self, api: Api) -> None:
        api.fake.faults[0] = HANG
        job = api.post("/jobs", {"message": "hi"})
        assert api.fake.hanging.wait(30)
        assert api.send("DELETE", f"/conversations/{job['conversation']}").status_code == 204
        assert api.refused("GET", f"/jobs/{job['id']}/result?wait=30")[0] == 409
        assert api.get(f"/jobs/{job['id']}")["status"] in ("cancelled", "failed")

    def test_one_that_fails_for_a_bug_has_failed(self, api: Api) -> None:
        job = api.post("/jobs", {"message": "hi", "feature": "breaks"})
        status, _ = api.refused("GET", f"/jobs/{job['id']}/result?wait=30")
        assert status >= 500
        assert api.get(f"/jobs/{job['id']}")["status"] == "failed"

    def test_one_whose_plugin_would_end_the_process_has_failed_and_makes_room(
        self, api: Api, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(jobs_module, "_AT_ONCE", 1)
        job = api.post("/jobs", {"message": "hi", "feature": "exits"})
        assert api.refused("GET", f"/jobs/{job['id']}/result?wait=30") == (500, "plugin")
        assert api.get(f"/jobs/{job['id']}")["status"] == "failed"
        other = api.post("/jobs", {"message": "hi"})
        assert api.get(f"/jobs/{other['id']}/result?wait=30")["status"] == "answered"

    def test_nobody_waits_on_for_a_client_that_has_gone(self, api: Api) -> None:
        api.fake.faults[0] = HANG
        jobs = Jobs(api.host, Live())
        try:
            id = read(jobs.submit(asked(b'{"message": "hi"}')))["id"]
            gone = Cancellation()
            waiting = threading.Thread(
                target=jobs.result,
                args=[asked(parameters={"id": id}, query={"wait": "30"}, limits=gone)],
            )
            waiting.start()
            gone.cancel()
            waiting.join(15)
            assert not waiting.is_alive()
        finally:
            jobs.close()

    def test_none_is_begun_once_the_server_ends(self, api: Api) -> None:
        jobs = Jobs(api.host, Live())
        jobs.close()
        with pytest.raises(Interrupted):
            jobs.submit(asked(b'{"message": "hi"}'))

    def test_an_error_does_not_grow_with_each_time_that_it_is_told(self, api: Api) -> None:
        api.fake.faults[0] = ServiceUnavailable("away")
        jobs = Jobs(api.host, Live())
        try:
            id = read(jobs.submit(asked(b'{"message": "hi"}')))["id"]
            lengths = {length_of_error(jobs, id) for _ in range(3)}
            assert len(lengths) == 1
        finally:
            jobs.close()


def read(reply: RouteResponse) -> Any:
    return RouteRequest("GET", "/", body=reply.body, limits=Cancellation()).json()  # type: ignore[arg-type]  # it is whole


def length_of_error(jobs: Jobs, id: str) -> int:
    with pytest.raises(ServiceUnavailable) as error:
        jobs.result(asked(parameters={"id": id}, query={"wait": "30"}))
    return len(error.traceback)


class TestKeys:
    def test_the_second_is_refused_while_the_first_is_under_way(self, host: Host) -> None:
        replies = Replies(host)

        def answer() -> RouteResponse:
            with pytest.raises(Conflict):
                replies.once(asked(), lambda: RouteResponse(b"twice"))
            return RouteResponse(b"once")

        assert replies.once(asked(), answer).body == b"once"
        assert replies.once(asked(), lambda: RouteResponse(b"twice")).body == b"once"

    def test_none_that_is_under_way_is_forgotten_for_others(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(idempotency, "_MEMORY", 2000)
        replies = Replies(host)

        def answer() -> RouteResponse:
            for number in range(20):
                replies.once(asked(key=str(number)), lambda: RouteResponse(b"other"))
            with pytest.raises(Conflict):
                replies.once(asked(), lambda: RouteResponse(b"twice"))
            return RouteResponse(b"once")

        replies.once(asked(), answer)

    def test_a_key_that_is_under_way_is_for_one_request(self, host: Host) -> None:
        replies = Replies(host)

        def answer() -> RouteResponse:
            with pytest.raises(ValidationError, match="another request"):
                replies.once(asked(b"other"), lambda: RouteResponse(b"twice"))
            return RouteResponse(b"once")

        replies.once(asked(), answer)

    def test_a_stream_that_was_cut_off_may_be_asked_for_again(self, host: Host) -> None:
        replies = Replies(host)
        body: Any = replies.once(asked(), lambda: RouteResponse(iter([b"1", b"2"]))).body
        assert next(iter(body)) == b"1"
        body.close()
        body.close()
        again: Any = replies.once(asked(), lambda: RouteResponse(iter([b"3"]))).body
        assert b"".join(again) == b"3"
        again.close()
        assert replies.once(asked(), lambda: RouteResponse(b"twice")).body == b"3"

    def test_a_stream_that_failed_may_be_asked_for_again(self, api: Api) -> None:
        path, key = api.opened(), {"idempotency-key": "k"}
        api.fake.faults[0] = ServiceUnavailable("away")
        first = api.events(f"{path}/turns", {"message": "hi"}, headers=key)
        assert first[-1][0] == "error"
        second = api.events(f"{path}/turns", {"message": "hi"}, headers=key)
        assert second[-1][0] == "answer"
        assert api.events(f"{path}/turns", {"message": "hi"}, headers=key) == second

    @pytest.mark.parametrize("last", [b"answer", b"paused"])
    def test_what_was_done_is_not_done_again_for_a_client_that_missed_the_end(
        self, api: Api, last: bytes
    ) -> None:
        native = NativeApi(api.host)
        id = api.opened(feature="waits" if last == b"paused" else "chat").rpartition("/")[2]
        request = asked(b'{"message": "hi", "stream": true}', parameters={"id": id})
        first: Any = native.say(request).body
        told = []
        for piece in first:
            told.append(piece)
            if piece.startswith(b"event: " + last):
                break
        first.close()
        assert native.say(request).body == b"".join(told)
        assert len(api.get(f"/conversations/{id}")["turns"]) == 1
        native.close()

    @pytest.mark.parametrize("key", ["", "x" * 256])
    def test_keys_that_are_none(self, host: Host, key: str) -> None:
        with pytest.raises(ValidationError):
            Replies(host).once(asked(key=key), lambda: RouteResponse(b"done"))
