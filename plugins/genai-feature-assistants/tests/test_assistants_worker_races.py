"""A worker whose beat comes amid something else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from genai_feature_assistants.service.jobs import Job, Worker

from genai_host import Host
from genai_host.api.cancellation import Cancellation
from genai_host.errors import StoreError
from genai_host.store import Store
from genai_host_testing.fixtures import MakeHost

JOB = Job("j1", "work", "", {})


@pytest.fixture
def host(make_host: MakeHost, tmp_path: Path) -> Iterator[Host]:
    with Store(tmp_path / "store.db") as store:
        yield make_host(store=store)


def test_a_beat_does_not_take_a_new_job_for_lost(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is known to the worker before it is on record."""
    worker = Worker(host)
    add = worker.jobs.add
    may, done = threading.Event(), threading.Event()
    ended: list[bool] = []

    def work(job: Job, ending: Cancellation) -> None:
        assert may.wait(30)
        ended.append(ending.is_cancelled())
        done.set()

    def add_late(job: Job, *, taken: bool) -> None:
        worker._keep()
        add(job, taken=taken)

    monkeypatch.setattr(worker.jobs, "add", add_late)
    worker.start({"work": work})
    worker.submit(JOB)
    may.set()
    assert done.wait(10)
    worker.close()
    assert ended == [False]


def test_a_job_that_cannot_be_put_on_record_takes_no_room(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(host)

    def fail(*given: Any, **more: Any) -> None:
        raise StoreError("the store is away")

    with monkeypatch.context() as patch:
        patch.setattr(worker.jobs, "add", fail)
        for number in range(20):
            with pytest.raises(StoreError):
                worker.submit(Job(f"lost {number}", "work", "", {}))
    done = threading.Event()
    worker.start({"work": lambda job, ending: done.set()})
    worker.submit(JOB)
    assert done.wait(10)
    worker.close()
