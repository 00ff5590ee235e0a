"""Jobs whose server is killed before each of its writes: another server takes them over, or gives
up. Jobs that wait for a value."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from genai_server.native.job_records import QUEUE
from genai_server.native.jobs import Jobs
from genai_server.native.turns import RunningTurns

from genai_host import Host
from genai_host.api import (
    Answer,
    CallFunction,
    Cancellation,
    Feature,
    FeatureSteps,
    Job,
    NoSettings,
    Pause,
    Prompt,
    RouteRequest,
    Turn,
    write_json,
)
from genai_host.api.storage import MAX_TRIES
from genai_host.errors import Cancelled, StoreError
from genai_host.store import Store
from genai_host.store.documents import Documents
from genai_host.store.jobs import LEASE, JobWorker
from genai_host.store.store import StoredRecord
from genai_host_testing import FakeModel, InlinePlugin, ManualClock
from genai_host_testing.internal.faults import Killed, killed_before
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.native_api import CONFIG, Api, native_api, served

pytestmark = pytest.mark.part

SENT: list[str] = []


def send(text: str) -> str:
    """A side effect that must happen once."""
    SENT.append(text)
    return f"sent {text}"


def sends(turn: Turn[NoSettings]) -> FeatureSteps:
    completion = yield from Prompt([turn.message])
    sent = yield from CallFunction(send, {"text": completion.text}, returns=str)
    return Answer(sent)


def waits(turn: Turn[NoSettings]) -> FeatureSteps:
    word = yield from Pause("word", {}, str)
    return Answer(word)


FEATURES: list[Any] = [
    Feature("sends", NoSettings, sends),
    Feature("waits", NoSettings, waits, roles={}),
]


@pytest.fixture
def api(make_host: MakeHost, tmp_path: Path, clock: ManualClock) -> Iterator[Api]:
    extra = InlinePlugin(features=FEATURES)
    with native_api(make_host, tmp_path, clock=clock, extra=extra) as api:
        yield api


@pytest.fixture
def idle(api: Api, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """Jobs of a server that accepts them but never runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JobWorker, "start", lambda self, works: None)
        jobs = Jobs(api.host, RunningTurns())
    monkeypatch.setattr(jobs._worker, "_start", lambda job: None)
    return jobs


def submit(jobs: Jobs, **body: Any) -> str:
    """Submit a job, and return its id."""
    data = write_json({"message": "hi", **body})
    reply = jobs.submit(RouteRequest("POST", "/x", body=data, limits=Cancellation()))
    id: str = json.loads(reply.body)["id"]  # type: ignore[arg-type]  # it is whole
    return id


def queued(host: Host, id: str) -> Job:
    job = host.jobs(QUEUE).find(id)
    assert job is not None
    return job


def seen(api: Api, id: str) -> tuple[str, int, Any]:
    """Return the status of a job, and the status code and value of its result."""
    reply = api.send("GET", f"/jobs/{id}/result?wait=30")
    value = reply.json()
    outcome = value["error"]["code"] if "error" in value else value.get("answer", {}).get("text")
    return api.get(f"/jobs/{id}")["status"], reply.status_code, outcome


def conversation_of(api: Api, id: str) -> str:
    """The path of a job's conversation."""
    return f"/conversations/{api.get(f'/jobs/{id}')['conversation']}"


def cancel_its_turn(api: Api, id: str) -> None:
    path = f"{conversation_of(api, id)}/cancel"
    assert [api.post(path) for _ in range(2)] == [{"cancelled": True}, {"cancelled": False}]


def delete_its_conversation(api: Api, id: str) -> None:
    assert api.send("DELETE", conversation_of(api, id)).status_code == 204


@pytest.mark.parametrize(("meanwhile", "ending"), [
    (lambda api, id: None, ("done", 200, "hi")),
    # its server was killed amid the cancellation
    (lambda api, id: api.host.jobs(QUEUE).cancel(id), ("cancelled", 409, "cancelled")),
    (cancel_its_turn, ("cancelled", 409, "cancelled")),
    (delete_its_conversation, ("failed", 409, "conflict")),
], ids=["nothing", "cancelled", "turn cancelled", "conversation deleted"])  # fmt: skip
def test_a_job_is_taken_over_when_the_lease_of_its_server_has_expired(
    api: Api, idle: Jobs, clock: ManualClock, meanwhile: Callable[[Api, str], Any], ending: Any
) -> None:
    id = submit(idle)
    assert api.get(f"/jobs/{id}")["status"] == "running"
    assert api.send("GET", f"/jobs/{id}/result").status_code == 202
    meanwhile(api, id)
    clock.advance(LEASE)
    assert seen(api, id) == ending
    assert api.fake.calls == (ending[0] == "done")


def test_a_request_waits_as_long_as_it_asks(api: Api, idle: Jobs, clock: ManualClock) -> None:
    id = submit(idle)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(api.send, "GET", f"/jobs/{id}/result?wait=10")
        clock.wait_for_alarm_in(10)
        clock.advance(9.9)
        assert not waiting.done()
        clock.advance(0.1)
        assert waiting.result(30).status_code == 202


def test_a_job_whose_server_is_killed_anywhere_is_done_once(api: Api, idle: Jobs) -> None:
    """The server is killed before its first write, then before its second, and so on."""
    endings = set()
    number, is_killed = 0, True
    while is_killed:
        SENT.clear()
        calls = api.fake.calls
        id = submit(idle, feature="sends", message=f"text {number}")
        job = queued(api.host, id)
        try:
            with killed_before(number):
                idle._run(job, Cancellation())
            is_killed = False
        except Killed:
            idle._run(job, Cancellation())
        assert idle._worker is not None
        idle._worker.queue.done(id)
        assert SENT in ([f"text {number}"], []), f"killed before write {number}"
        assert api.fake.calls - calls <= 2
        ending = seen(api, id)
        assert ending in [
            ("done", 200, f"sent text {number}"),
            # the function was begun, and it is not known whether it was done
            ("failed", 409, "step_interrupted"),
        ]
        endings.add(ending[0])
        number += 1
    assert endings == {"done", "failed"}
    assert number > 5


def test_a_job_that_ends_its_servers_has_failed_and_says_why(api: Api, idle: Jobs) -> None:
    id = submit(idle)
    documents = api.host.store_for("").documents(QUEUE)
    value = documents.get(id).value
    documents.put(id, {**value, "worker": "killed", "tries": MAX_TRIES})
    assert seen(api, id) == ("failed", 500, "plugin")
    assert "4 times" in api.get(f"/jobs/{id}")["error"]["message"]
    path = conversation_of(api, id)
    assert api.get(path)["turns"][0]["status"] == "failed"
    assert api.take_turn(path, "more")["status"] == "answered"
    assert api.fake.calls == 1


def test_a_waiting_job_is_cancelled(api: Api, idle: Jobs, clock: ManualClock) -> None:
    id = submit(idle)
    path = conversation_of(api, id)
    assert api.send("DELETE", f"/jobs/{id}").status_code == 204
    assert api.refused("GET", f"/jobs/{id}") == (404, "not_found")
    assert api.take_turn(path, "other")["answer"]["text"] == "other"
    clock.advance(LEASE)
    other = api.post("/jobs", {"message": "last"})["id"]
    assert seen(api, other) == ("done", 200, "last")
    assert [turn["status"] for turn in api.get(path)["turns"]] == ["failed", "answered"]
    assert api.fake.calls == 2


@pytest.mark.parametrize(
    ("is_cancelled", "is_deleted"), [(True, False), (True, True), (False, True)]
)
def test_the_turn_of_a_job_ends_before_its_thread_has_begun(
    api: Api, idle: Jobs, is_cancelled: bool, is_deleted: bool
) -> None:
    """The record of a job is deleted by its client, or after a day."""
    id = submit(idle)
    path = conversation_of(api, id)
    ending = Cancellation()
    if is_cancelled:
        ending.cancel(Cancelled("the job was cancelled"))
    if is_deleted:
        api.host.store_for("").documents("jobs").delete(id)
    idle._run(queued(api.host, id), ending)
    [turn] = api.get(path)["turns"]
    assert turn["status"] == ("failed" if is_cancelled else "answered")
    assert api.fake.calls == (0 if is_cancelled else 1)


def test_the_conversation_of_a_job_that_waits_is_busy(api: Api, idle: Jobs) -> None:
    path = conversation_of(api, submit(idle))
    job = {"conversation": path.rpartition("/")[2], "message": "x"}
    for below, body in [
        (f"{path}/turns", {"message": "x"}), (f"{path}/resume", {}), (f"{path}/undo", {}),
        ("/jobs", job),
    ]:  # fmt: skip
        assert api.refused("POST", below, body) == (409, "conversation_busy"), below
    assert api.get(path)["status"] == "running"


def test_the_answer_of_a_job_goes_with_its_conversation(api: Api) -> None:
    job = api.post("/jobs", {"message": "hi"})
    assert seen(api, job["id"]) == ("done", 200, "hi")
    assert api.send("DELETE", f"/conversations/{job['conversation']}").status_code == 204
    assert api.get(f"/jobs/{job['id']}")["status"] == "done"
    assert api.refused("GET", f"/jobs/{job['id']}/result") == (404, "not_found")


def test_a_job_that_pauses_waits_for_its_client(api: Api) -> None:
    job = api.post("/jobs", {"message": "hi", "feature": "waits"})
    reply = api.get(f"/jobs/{job['id']}/result?wait=30")
    assert (reply["status"], reply["pause"]["kind"]) == ("paused", "word")
    assert api.get(f"/jobs/{job['id']}")["status"] == "paused"
    api.post(f"/conversations/{job['conversation']}/resume", {"result": "word"})
    assert api.get(f"/jobs/{job['id']}/result")["answer"]["text"] == "word"


def test_what_cannot_be_recorded_is_not_accepted(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **named: Any) -> None:
        raise StoreError("the disk is full")

    for owner, name in ((StoredRecord, "flush"), (JobWorker, "submit"), (Documents, "put")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fail)
            assert api.refused("POST", "/jobs", {"message": "hi"}) == (503, "store")
    assert api.fake.calls == 0
    statuses = [each["status"] for each in api.get("/conversations")["data"]]
    assert set(statuses) <= {"idle", "failed"}


def test_jobs_of_a_store_are_done_by_a_server_that_starts(
    make_host: MakeHost, tmp_path: Path, clock: ManualClock
) -> None:
    fake = FakeModel()
    with Store(tmp_path / "store.db") as store:
        host = make_host(fake=fake, config=CONFIG, store=store, clock=clock)
        with pytest.MonkeyPatch.context() as patch, served(host, fake) as ended:
            patch.setattr(JobWorker, "_start", lambda self, job: None)
            id = ended.post("/jobs", {"message": "hi"})["id"]
    with Store(tmp_path / "store.db") as store:
        host = make_host(fake=fake, config=CONFIG, store=store, clock=clock)
        with served(host, fake) as api:
            assert seen(api, id) == ("done", 200, "hi")
