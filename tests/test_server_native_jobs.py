"""Jobs, and requests that are sent twice, over the native API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures import MakeHost
from native_form import Api, native_api, served

from genai_host.errors import Unavailable
from genai_host.testing.fake_service import HANG


@pytest.fixture
def api(make_host: MakeHost, tmp_path: Path) -> Iterator[Api]:
    with native_api(make_host, tmp_path) as api:
        yield api


def test_a_job_is_done_while_nobody_waits(api: Api) -> None:
    job = api.post("/jobs", {"message": "hi"})
    assert job["status"] in ("running", "done")
    result = api.get(f"/jobs/{job['id']}/result?wait=30")
    assert result["answer"]["summary"] == "hi"
    assert api.get(f"/jobs/{job['id']}")["status"] == "done"
    assert api.get(f"/conversations/{job['conversation']}")["turns"][0]["status"] == "answered"


def test_a_job_goes_on_with_a_conversation(api: Api) -> None:
    path = api.opened()
    api.said(path, "one")
    job = api.post("/jobs", {"conversation": path.rpartition("/")[2], "message": "two"})
    api.get(f"/jobs/{job['id']}/result?wait=30")
    assert len(api.get(path)["turns"]) == 2


def test_a_job_that_fails_says_why(api: Api) -> None:
    api.fake.faults[0] = Unavailable("away")
    job = api.post("/jobs", {"message": "hi"})
    assert api.refused("GET", f"/jobs/{job['id']}/result?wait=30") == (503, "unavailable")
    assert api.get(f"/jobs/{job['id']}")["error"]["code"] == "unavailable"


def test_a_job_that_runs_can_be_cancelled(api: Api) -> None:
    api.fake.faults[0] = HANG
    job = api.post("/jobs", {"message": "hi"})
    assert api.fake.hanging.wait(30)
    assert api.send("GET", f"/jobs/{job['id']}/result").status_code == 202
    assert api.send("DELETE", f"/jobs/{job['id']}").status_code == 204
    assert api.refused("GET", f"/jobs/{job['id']}") == (404, "not_found")


def test_what_is_cut_off_by_the_end_of_the_server_can_be_gone_on_with(
    make_host: MakeHost, tmp_path: Path
) -> None:
    with native_api(make_host, tmp_path) as api:
        api.fake.faults[0] = HANG
        with served(api.host, api.fake) as other:
            id = other.post("/jobs", {"message": "hi"})["conversation"]
            assert api.fake.hanging.wait(30)
        [turn] = api.get(f"/conversations/{id}")["turns"]
        assert turn["status"] == "unfinished"
        assert api.post(f"/conversations/{id}/resume")["answer"]["summary"] == "hi"


def test_a_job_of_another_is_not_there(api: Api) -> None:
    with served(api.host, api.fake, "ann") as ann:
        job = ann.post("/jobs", {"message": "hi"})["id"]
    for method, path in (("GET", ""), ("GET", "/result"), ("DELETE", "")):
        assert api.refused(method, f"/jobs/{job}{path}") == (404, "not_found")


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
    api.fake.faults[0] = Unavailable("away")
    assert api.send("POST", f"{path}/turns", {"message": "hi"}, headers=key).status_code == 503
    assert api.post(f"{path}/turns", {"message": "hi"}, headers=key)["status"] == "answered"
