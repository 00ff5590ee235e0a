"""Jobs over the native API."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import requests
from attrs import evolve
from genai_server.native import jobs
from genai_server.native.job_records import QUEUE, JobRecord, JobRecords
from genai_server.native.turns import RunningTurns

from genai_host.api import (
    Answer,
    Cancellation,
    Feature,
    FeatureSteps,
    NewId,
    NoSettings,
    Pause,
    Prompt,
    RouteRequest,
    Turn,
)
from genai_host.errors import Interrupted, NotFound, ServiceUnavailable, StoreError
from genai_host.store import Store
from genai_host.store.writer import Addition, EntryWriter
from genai_host_testing import InlinePlugin, ManualClock
from genai_host_testing.fake_service import HANG
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.native_api import Api, native_api, served

pytestmark = pytest.mark.part


def breaks(turn: Turn[NoSettings]) -> FeatureSteps:
    yield from ()
    raise RuntimeError("a bug")


def exits(turn: Turn[NoSettings]) -> FeatureSteps:
    yield from NewId("x")  # with which the turn is on record
    raise SystemExit(3)


def waits(turn: Turn[NoSettings]) -> FeatureSteps:
    yield from Pause("number")
    completion = yield from Prompt([turn.message])
    return Answer(completion.text)


@pytest.fixture
def api(make_host: MakeHost, tmp_path: Path) -> Iterator[Api]:
    features: list[Any] = [
        *(Feature(each.__name__, NoSettings, each, roles={}) for each in (breaks, exits)),
        Feature("waits", NoSettings, waits),
    ]
    with native_api(make_host, tmp_path, extra=InlinePlugin(features=features)) as api:
        yield api


def test_a_job_is_done_while_nobody_waits(api: Api) -> None:
    job = api.post("/jobs", {"message": "hi"})
    assert job["status"] in ("running", "done")
    assert result(api, job)["answer"]["text"] == "hi"
    assert api.get(f"/jobs/{job['id']}")["status"] == "done"
    assert api.get(f"/conversations/{job['conversation']}")["turns"][0]["status"] == "answered"


def result(api: Api, job: Any) -> Any:
    return api.get(f"/jobs/{job['id']}/result?wait=30")


def test_a_job_goes_on_with_a_conversation(api: Api) -> None:
    path = api.opened()
    api.take_turn(path, "one")
    result(api, api.post("/jobs", {"conversation": path.rpartition("/")[2], "message": "two"}))
    assert len(api.get(path)["turns"]) == 2


def test_a_job_that_fails_says_why(api: Api) -> None:
    api.fake.faults[0] = ServiceUnavailable("away")
    job = api.post("/jobs", {"message": "hi"})
    assert api.refused("GET", f"/jobs/{job['id']}/result?wait=30") == (503, "unavailable")
    assert api.get(f"/jobs/{job['id']}")["error"]["code"] == "unavailable"


def test_a_job_that_paused_has_the_status_of_its_turn(
    api: Api, background: Callable[..., Future[Any]]
) -> None:
    jobs = [api.post("/jobs", {"feature": "waits", "message": "hi"}) for _ in range(4)]
    for job in jobs:
        assert result(api, job)["status"] == "paused"
        assert api.get(f"/jobs/{job['id']}")["status"] == "paused"
    resumed, failed, abandoned, deleted = (f"/conversations/{job['conversation']}" for job in jobs)
    api.fake.faults[0] = HANG
    with requests.Session() as client:
        own = evolve(api, client=client)
        turn = background(own.refused, "POST", f"{resumed}/resume", {"result": 1})
        assert api.fake.hanging.wait(30)
        assert api.get(f"/jobs/{jobs[0]['id']}")["status"] == "running"
        api.post(f"{resumed}/cancel")
        assert turn.result(30) == (409, "cancelled")
    api.fake.faults[1] = ServiceUnavailable("away")
    assert api.refused("POST", f"{failed}/resume", {"result": 1}) == (503, "unavailable")
    api.post(f"{abandoned}/abandon")
    api.send("DELETE", deleted)
    states = [api.get(f"/jobs/{job['id']}")["status"] for job in jobs]
    assert states == ["cancelled", "failed", "cancelled", "failed"]
    assert api.refused("GET", f"/jobs/{jobs[1]['id']}/result") == (503, "unavailable")


@pytest.mark.parametrize("times", [1, 1000])
def test_answers_without_record(api: Api, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """It is recorded later, or else the job keeps it."""
    add = EntryWriter.add
    refused: list[Addition] = []

    def fail(writer: EntryWriter, addition: Addition) -> None:
        if len(refused) < times and addition.rows[-1].kind == "turn_ended":
            refused.append(addition)
            raise StoreError("another program holds the lock")
        add(writer, addition)

    monkeypatch.setattr(EntryWriter, "add", fail)
    if times > 1:
        monkeypatch.setattr(jobs, "_RECORD_DELAYS", (0.0,))
    job = api.post("/jobs", {"message": "hi"})
    answer = result(api, job)["answer"]
    assert refused
    assert answer["text"] == "hi"
    if times > 1:
        assert answer["record_error"]["code"] == "store"
    else:
        assert answer.get("record_error") is None
        assert api.get(f"/conversations/{job['conversation']}")["turns"][0]["status"] == "answered"


def test_a_refused_end_is_recorded_later(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(jobs, "_RECORD_DELAYS", (0.0,))
    with closing(api.host.open("chat", "mock", owner="")) as conversation:
        turn = conversation.begin("hi")
        with monkeypatch.context() as patched:
            patched.setattr(EntryWriter, "add", refuse)
            conversation.abandon()
            with pytest.raises(StoreError, match="disk is full"):
                jobs.record_result(conversation, Cancellation())
        jobs.record_result(conversation, Cancellation())
        [recorded] = api.get(f"/conversations/{conversation.id}")["turns"]
        assert (recorded["turn"], recorded["status"]) == (turn, "failed")


def test_a_job_that_runs_can_be_cancelled(api: Api) -> None:
    api.fake.faults[0] = HANG
    job = api.post("/jobs", {"message": "hi"})
    assert api.fake.hanging.wait(30)
    assert api.send("GET", f"/jobs/{job['id']}/result").status_code == 202
    assert api.send("DELETE", f"/jobs/{job['id']}").status_code == 204
    assert api.refused("GET", f"/jobs/{job['id']}") == (404, "not_found")


def test_a_job_of_a_server_that_ends_is_continued(make_host: MakeHost, tmp_path: Path) -> None:
    with native_api(make_host, tmp_path) as api:
        api.fake.faults[0] = HANG
        with served(api.host, api.fake) as other:
            job = other.post("/jobs", {"message": "hi"})
            assert api.fake.hanging.wait(30)
        assert result(api, job)["answer"]["text"] == "hi"
        [turn] = api.get(f"/conversations/{job['conversation']}")["turns"]
        assert turn["status"] == "answered"
        assert api.fake.calls == 2


def test_how_long_records_are_kept(make_host: MakeHost, tmp_path: Path) -> None:
    clock = ManualClock()
    with Store(tmp_path / "store.db") as store:
        host = make_host(store=store, clock=clock)
        records = JobRecords(host)
        for id in ("ended", "queued", "lost"):
            records.add(JobRecord(id, "ann", "c", 0))
        records.end(JobRecord("ended", "ann", "c", 0, "done"))
        host.jobs(QUEUE).worker().submit(JobRecord("queued", "ann", "c", 0).queued())
        assert records.find("ann", "queued").status == "running"
        lost = records.find("ann", "lost")
        assert (lost.status, type(lost.error)) == ("failed", Interrupted)
        clock.advance(25 * 3600)
        records.add(JobRecord("new", "ann", "c", 0))
        remaining = [id for id in ("ended", "queued", "lost", "new") if records.read("ann", id)]
        assert remaining == ["queued", "new"]
        with pytest.raises(NotFound, match="unknown job"):
            records.find("ann", "ended")


def test_what_is_wrong_opens_no_conversation(api: Api) -> None:
    for body, status in [
        ({}, 400),
        ({"message": ""}, 400),
        ({"message": 3}, 400),
        ({"message": "hi", "nonsense": 1}, 400),
        ({"message": "hi", "regenerate": 3}, 400),
        ({"message": "hi", "model": "x"}, 404),
    ]:
        assert api.refused("POST", "/jobs", body)[0] == status, body
        assert api.get("/conversations")["data"] == []


def test_more_jobs_than_are_done_at_once_wait(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_MAX_RUNNING", 1)
    api.fake.faults[0] = HANG
    first = api.post("/jobs", {"message": "one"})["id"]
    assert api.fake.hanging.wait(30)
    others = [api.post("/jobs", {"message": "other"})["id"] for _ in range(3)]
    assert {api.get(f"/jobs/{each}")["status"] for each in others} == {"running"}
    api.send("DELETE", f"/jobs/{first}")
    for each in others:
        assert api.get(f"/jobs/{each}/result?wait=30")["answer"]["text"] == "other"


def test_jobs_that_have_ended_make_room(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_MAX_QUEUED", 2)
    done = api.post("/jobs", {"message": "hi"})["id"]
    api.get(f"/jobs/{done}/result?wait=30")
    api.fake.faults[1] = api.fake.faults[2] = HANG
    running = [api.post("/jobs", {"message": "hi"})["id"] for _ in range(2)]
    assert api.get(f"/jobs/{done}")["status"] == "done"  # as the store knows
    reply = api.send("POST", "/jobs", {"message": "hi"})
    assert (reply.status_code, reply.headers["retry-after"]) == (429, "10")
    for each in running:
        api.send("DELETE", f"/jobs/{each}")


def test_a_fault_in_a_job_is_told(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "run_turn", lambda *arguments: 1 / 0)
    job = api.post("/jobs", {"message": "hi"})["id"]
    assert api.refused("GET", f"/jobs/{job}/result?wait=30") == (500, "plugin")
    assert api.get(f"/jobs/{job}")["status"] == "failed"


@pytest.mark.parametrize("feature", ["breaks", "exits"])
def test_one_whose_plugin_fails_or_would_end_the_process_has_failed_and_makes_room(
    api: Api, monkeypatch: pytest.MonkeyPatch, feature: str
) -> None:
    monkeypatch.setattr(jobs, "_MAX_RUNNING", 1)
    job = api.post("/jobs", {"message": "hi", "feature": feature})["id"]
    assert api.refused("GET", f"/jobs/{job}/result?wait=30") == (500, "plugin")
    assert api.get(f"/jobs/{job}")["status"] == "failed"
    assert result(api, api.post("/jobs", {"message": "hi"}))["status"] == "answered"


def test_one_whose_conversation_is_deleted_ends(api: Api) -> None:
    api.fake.faults[0] = HANG
    job = api.post("/jobs", {"message": "hi"})
    assert api.fake.hanging.wait(30)
    assert api.send("DELETE", f"/conversations/{job['conversation']}").status_code == 204
    assert api.refused("GET", f"/jobs/{job['id']}/result?wait=30")[0] == 409
    assert api.get(f"/jobs/{job['id']}")["status"] in ("cancelled", "failed")


@pytest.fixture
def own(api: Api) -> Iterator[jobs.Jobs]:
    """The jobs of another server of the same store, without HTTP."""
    with closing(jobs.Jobs(api.host, RunningTurns())) as own:
        yield own


def post_request(**fields: Any) -> RouteRequest:
    return RouteRequest(
        "POST", "/x", **{"body": b'{"message": "hi"}', "limits": Cancellation(), **fields}
    )


def submitted(own: jobs.Jobs) -> str:
    id: str = json.loads(own.submit(post_request()).body)["id"]  # type: ignore[arg-type]  # it is whole
    return id


def test_nobody_waits_on_for_a_client_that_has_gone(
    api: Api, own: jobs.Jobs, background: Callable[..., Future[Any]]
) -> None:
    api.fake.faults[0] = HANG
    gone = Cancellation()
    fields = {"parameters": {"id": submitted(own)}, "query": {"wait": "30"}}
    waiting = background(own.result, post_request(**fields, limits=gone))
    gone.cancel()
    assert waiting.result(15).status == 202


def test_none_is_begun_once_the_server_ends(own: jobs.Jobs) -> None:
    own.close()
    with pytest.raises(Interrupted):
        own.submit(post_request())


def test_an_error_does_not_grow_with_each_time_that_it_is_told(api: Api, own: jobs.Jobs) -> None:
    api.fake.faults[0] = ServiceUnavailable("away")
    request = post_request(parameters={"id": submitted(own)}, query={"wait": "30"})
    lengths = set()
    for _ in range(3):
        with pytest.raises(ServiceUnavailable) as error:
            own.result(request)
        lengths.add(len(error.traceback))
    assert len(lengths) == 1


def test_a_wait_is_a_number_of_seconds(api: Api) -> None:
    job = api.post("/jobs", {"message": "hi"})["id"]
    for wait in ("-1", "31", "x", "nan"):
        assert api.refused("GET", f"/jobs/{job}/result?wait={wait}")[0] == 400, wait
