"""Jobs, and requests that are sent twice, over the native API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from genai_server.native import api as native
from genai_server.native import idempotency, jobs
from genai_server.native.job_records import QUEUE, JobRecord, JobRecords

from genai_host.api import Cancellation, RouteRequest
from genai_host.errors import Conflict, Interrupted, NotFound, ServiceUnavailable, StoreError
from genai_host.store import Store
from genai_host.store.writer import Addition, EntryWriter
from genai_host_testing import ManualClock
from genai_host_testing.fake_service import HANG
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.native_api import Api, native_api, served

pytestmark = pytest.mark.part


@pytest.fixture
def api(make_host: MakeHost, tmp_path: Path) -> Iterator[Api]:
    with native_api(make_host, tmp_path) as api:
        yield api


def test_a_job_is_done_while_nobody_waits(api: Api) -> None:
    job = api.post("/jobs", {"message": "hi"})
    assert job["status"] in ("running", "done")
    result = api.get(f"/jobs/{job['id']}/result?wait=30")
    assert result["answer"]["text"] == "hi"
    assert api.get(f"/jobs/{job['id']}")["status"] == "done"
    assert api.get(f"/conversations/{job['conversation']}")["turns"][0]["status"] == "answered"


def test_a_job_goes_on_with_a_conversation(api: Api) -> None:
    path = api.opened()
    api.said(path, "one")
    job = api.post("/jobs", {"conversation": path.rpartition("/")[2], "message": "two"})
    api.get(f"/jobs/{job['id']}/result?wait=30")
    assert len(api.get(path)["turns"]) == 2


def test_a_job_that_fails_says_why(api: Api) -> None:
    api.fake.faults[0] = ServiceUnavailable("away")
    job = api.post("/jobs", {"message": "hi"})
    assert api.refused("GET", f"/jobs/{job['id']}/result?wait=30") == (503, "unavailable")
    assert api.get(f"/jobs/{job['id']}")["error"]["code"] == "unavailable"


def test_a_job_whose_end_was_not_written_at_first_is_on_record(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = EntryWriter.add
    refused: list[Addition] = []

    def fail_once(writer: EntryWriter, addition: Addition) -> None:
        if not refused and addition.rows[-1].kind == "turn_ended":
            refused.append(addition)
            raise StoreError("another program holds the lock")
        add(writer, addition)

    monkeypatch.setattr(EntryWriter, "add", fail_once)
    job = api.post("/jobs", {"message": "hi"})
    answer = api.get(f"/jobs/{job['id']}/result?wait=30")["answer"]
    assert refused
    assert (answer["text"], answer.get("record_error")) == ("hi", None)
    assert api.get(f"/conversations/{job['conversation']}")["turns"][0]["status"] == "answered"


def test_the_end_of_a_turn_that_the_store_refused_is_recorded_later(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "_RECORD_PAUSES", (0.0,))
    with closing(api.host.open("chat", "mock", owner="")) as conversation:
        turn = conversation.begin("hi")
        ending = Cancellation()
        add = EntryWriter.add
        with monkeypatch.context() as patched:
            patched.setattr(EntryWriter, "add", lambda *_: raised(StoreError("the disk is full")))
            conversation.abandon()
            with pytest.raises(StoreError, match="disk is full"):
                jobs.record_result(conversation, ending)
        assert EntryWriter.add is add
        jobs.record_result(conversation, ending)
        [recorded] = api.get(f"/conversations/{conversation.id}")["turns"]
        assert (recorded["turn"], recorded["status"]) == (turn, "failed")


def raised(error: Exception) -> None:
    raise error


def test_a_job_keeps_an_answer_that_is_not_recorded(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = EntryWriter.add

    def fail(writer: EntryWriter, addition: Addition) -> None:
        if addition.rows[-1].kind == "turn_ended":
            raise StoreError("the disk is full")
        add(writer, addition)

    monkeypatch.setattr(EntryWriter, "add", fail)
    monkeypatch.setattr(jobs, "_RECORD_PAUSES", (0.0,))
    job = api.post("/jobs", {"message": "hi"})
    answer = api.get(f"/jobs/{job['id']}/result?wait=30")["answer"]
    assert (answer["text"], answer["record_error"]["code"]) == ("hi", "store")


def test_a_job_that_runs_can_be_cancelled(api: Api) -> None:
    api.fake.faults[0] = HANG
    job = api.post("/jobs", {"message": "hi"})
    assert api.fake.hanging.wait(30)
    assert api.send("GET", f"/jobs/{job['id']}/result").status_code == 202
    assert api.send("DELETE", f"/jobs/{job['id']}").status_code == 204
    assert api.refused("GET", f"/jobs/{job['id']}") == (404, "not_found")


def test_a_job_of_a_server_that_ends_is_done_by_another(
    make_host: MakeHost, tmp_path: Path
) -> None:
    with native_api(make_host, tmp_path) as api:
        api.fake.faults[0] = HANG
        with served(api.host, api.fake) as other:
            job = other.post("/jobs", {"message": "hi"})
            assert api.fake.hanging.wait(30)
        assert api.get(f"/jobs/{job['id']}/result?wait=30")["answer"]["text"] == "hi"
        [turn] = api.get(f"/conversations/{job['conversation']}")["turns"]
        assert turn["status"] == "answered"
        assert api.fake.calls == 2


def test_records_are_kept_for_a_day_and_while_their_job_is_queued(
    make_host: MakeHost, tmp_path: Path
) -> None:
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
        left = [id for id in ("ended", "queued", "lost", "new") if records.read("ann", id)]
        assert left == ["queued", "new"]
        with pytest.raises(NotFound, match="unknown job"):
            records.find("ann", "ended")


def test_a_job_of_another_is_not_there(api: Api) -> None:
    with served(api.host, api.fake, "ann") as ann:
        job = ann.post("/jobs", {"message": "hi"})["id"]
    for method, path in (("GET", ""), ("GET", "/result"), ("DELETE", "")):
        assert api.refused(method, f"/jobs/{job}{path}") == (404, "not_found")


@pytest.mark.parametrize(
    "body", [{}, {"message": 3}, {"message": "hi", "nonsense": 1}, {"message": "hi", "model": "x"}]
)
def test_what_is_wrong_opens_no_conversation(api: Api, body: object) -> None:
    assert api.refused("POST", "/jobs", body)[0] in (400, 404)
    assert api.get("/conversations")["data"] == []


def test_more_jobs_than_are_done_at_once_wait(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_AT_ONCE", 1)
    api.fake.faults[0] = HANG
    first = api.post("/jobs", {"message": "one"})["id"]
    assert api.fake.hanging.wait(30)
    others = [api.post("/jobs", {"message": "other"})["id"] for _ in range(3)]
    assert {api.get(f"/jobs/{each}")["status"] for each in others} == {"running"}
    api.send("DELETE", f"/jobs/{first}")
    for each in others:
        assert api.get(f"/jobs/{each}/result?wait=30")["answer"]["text"] == "other"


def test_jobs_that_have_ended_make_room(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_MOST", 2)
    done = api.post("/jobs", {"message": "hi"})["id"]
    api.get(f"/jobs/{done}/result?wait=30")
    api.fake.faults[1] = api.fake.faults[2] = HANG
    running = [api.post("/jobs", {"message": "hi"})["id"] for _ in range(2)]
    assert api.get(f"/jobs/{done}")["status"] == "done"  # as the store knows
    reply = api.send("POST", "/jobs", {"message": "hi"})
    assert (reply.status_code, reply.headers["retry-after"]) == (429, "10")
    for each in running:
        api.send("DELETE", f"/jobs/{each}")


def test_who_leaves_does_not_wait_on(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_LONGEST_WAIT", 3600.0)
    server = native.Api(api.host)
    left = Cancellation()
    api.fake.faults[0] = HANG
    asked = RouteRequest("POST", "/jobs", body=b'{"message": "hi"}', limits=Cancellation())
    job = json.loads(server.submit(asked).body)["id"]  # type: ignore[arg-type]
    assert api.fake.hanging.wait(30)
    left.cancel()
    asked = RouteRequest("GET", "/x", {"id": job}, query={"wait": "3600"}, limits=left)
    assert server.jobs.result(asked).status == 202
    server.close()


def test_a_fault_in_a_job_is_told(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "whole", lambda *given: 1 / 0)
    job = api.post("/jobs", {"message": "hi"})["id"]
    assert api.refused("GET", f"/jobs/{job}/result?wait=30") == (500, "plugin")
    assert api.get(f"/jobs/{job}")["status"] == "failed"


@pytest.mark.parametrize("wait", ["-1", "31", "x", "nan"])
def test_a_wait_is_a_number_of_seconds(api: Api, wait: str) -> None:
    job = api.post("/jobs", {"message": "hi"})["id"]
    assert api.refused("GET", f"/jobs/{job}/result?wait={wait}")[0] == 400


def test_a_request_that_is_sent_twice_is_done_once(api: Api) -> None:
    path = api.opened()
    body, key = {"message": "hi"}, {"idempotency-key": "k"}
    first = api.post(f"{path}/turns", body, headers=key)
    assert api.post(f"{path}/turns", body, headers=key) == first
    assert api.fake.calls == 1
    other = api.send("POST", f"{path}/turns", {"message": "other"}, headers=key)
    assert other.status_code == 400
    with served(api.host, api.fake, "ann") as ann:  # a key is its owner's
        assert ann.send("POST", f"{path}/turns", body, headers=key).status_code == 404


def test_a_stream_that_is_asked_for_twice_is_sent_again(api: Api) -> None:
    path = api.opened()
    key = {"idempotency-key": "k"}
    first = api.events(f"{path}/turns", {"message": "hi"}, headers=key)
    assert api.events(f"{path}/turns", {"message": "hi"}, headers=key) == first
    assert api.fake.calls == 1


def test_what_failed_may_be_asked_again(api: Api) -> None:
    path = api.opened()
    key = {"idempotency-key": "k"}
    api.fake.faults[0] = ServiceUnavailable("away")
    assert api.send("POST", f"{path}/turns", {"message": "hi"}, headers=key).status_code == 503
    assert api.post(f"{path}/turns", {"message": "hi"}, headers=key)["status"] == "answered"


def test_a_stream_that_failed_may_be_asked_again(api: Api) -> None:
    path = api.opened()
    key = {"idempotency-key": "k"}
    api.fake.faults[0] = ServiceUnavailable("away")
    assert api.events(f"{path}/turns", {"message": "hi"}, headers=key)[-1][0] == "error"
    assert api.events(f"{path}/turns", {"message": "hi"}, headers=key)[-1][0] == "answer"


def test_a_request_that_is_sent_again_too_early_has_to_wait(api: Api) -> None:
    server = native.Api(api.host)
    id = api.opened().rpartition("/")[2]
    request = RouteRequest(
        "POST",
        "/x",
        {"id": id},
        headers={"idempotency-key": "k"},
        body=b'{"message": "hi", "stream": true}',
        limits=Cancellation(),
    )
    stream = server.say(request)
    with pytest.raises(Conflict, match="in progress"):
        server.say(request)
    stream.body.close()  # type: ignore[union-attr]  # and so it ends early
    again = server.say(request)
    assert b"event: answer" in b"".join(again.body)  # type: ignore[arg-type]
    server.close()


def test_what_was_done_is_not_done_again_when_its_reply_is_gone(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = api.opened()
    first, second = ({"headers": {"idempotency-key": name}} for name in ("a", "b"))
    monkeypatch.setattr(idempotency, "_MOST_BYTES", 3)
    api.post(f"{path}/turns", {"message": "hi"}, **first)
    monkeypatch.undo()
    api.post(f"{path}/turns", {"message": "hi"}, **second)
    assert api.send("POST", f"{path}/turns", {"message": "hi"}, **first).status_code == 409
    assert api.send("POST", f"{path}/turns", {"message": "hi"}, **second).status_code == 200
    assert api.fake.calls == 2
