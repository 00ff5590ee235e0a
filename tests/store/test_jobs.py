"""The queue of background jobs: leases, takeover, tries, cancellation, the end of a worker."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from genai_host.api import Cancellation, Job, ended_with
from genai_host.api.storage import MAX_TRIES
from genai_host.errors import Cancelled, ConversationBusy, Interrupted, StoreError
from genai_host.store import Store
from genai_host.store.documents import Documents
from genai_host.store.jobs import LEASE, JobQueue, JobWorker
from genai_host_testing import ManualClock
from genai_host_testing.suites.base import in_background

JOB = Job("j1", "work", "ann", {"number": 1})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.db") as store:
        yield store


MakeQueue = Callable[[], JobQueue]


@pytest.fixture
def make_queue(store: Store, clock: ManualClock) -> MakeQueue:
    return lambda: JobQueue("jobs", store.documents, clock)


@pytest.fixture
def one(make_queue: MakeQueue) -> JobQueue:
    return make_queue()


@pytest.fixture
def other(make_queue: MakeQueue) -> JobQueue:
    return make_queue()


@pytest.fixture
def leases(store: Store) -> Documents:
    return store.documents("jobs/workers")


@pytest.fixture
def worker(one: JobQueue) -> Iterator[JobWorker]:
    worker = one.worker(at_once=4)
    yield worker
    worker.close()


@pytest.fixture
def held(worker: JobWorker) -> Held:
    """The work of the worker."""
    worker._works = {"work": (work := Held())}
    return work


class Held:
    """Work that waits until it is let go, or cancelled."""

    def __init__(self) -> None:
        self.begun: list[Job] = []
        self.ended_with: list[Any] = []
        self.has_begun = threading.Semaphore(0)
        self.may_end = threading.Event()

    def __call__(self, job: Job, ending: Cancellation) -> None:
        self.begun.append(job)
        self.has_begun.release()
        with ending.on_cancel(self.may_end.set):
            assert self.may_end.wait(30)
        self.ended_with.append(ended_with(ending))
        ending.check()

    def wait(self, jobs: int = 1) -> None:
        for _ in range(jobs):
            assert self.has_begun.acquire(timeout=30)


def take(queue: JobQueue, most: int = 5) -> list[Job]:
    return [job for job in [queue.take(each) for each in queue.free()[:most]] if job is not None]


def jobs(number: int, first: int = 0) -> list[Job]:
    return [Job(f"j{each}", "work", "", {}) for each in range(first, first + number)]


def fail(*args: Any, **more: Any) -> Any:
    raise StoreError("the store is away")


def join(worker: JobWorker) -> None:
    for thread in list(worker._threads):
        thread.join(30)


class TestLeases:
    def test_a_job_is_taken_by_one_worker(self, one: JobQueue, other: JobQueue) -> None:
        [second] = jobs(1)
        assert one.add(JOB, taken=False)
        assert one.add(second, taken=False)
        assert take(one, 1) == [JOB]  # the oldest
        assert take(one, 1) == [second]
        other.renew()
        assert take(other) == []
        assert take(one) == []

    def test_a_job_is_added_once(self, one: JobQueue, other: JobQueue) -> None:
        assert one.add(JOB, taken=True)
        assert not other.add(JOB, taken=True)
        assert list(one.mine()) == [JOB.id]
        assert other.mine() == {}
        assert other.find(JOB.id) == Job(JOB.id, "work", "ann", {"number": 1}, tries=JOB.tries)
        assert other.find("unknown") is None

    def test_the_jobs_of_a_killed_worker_are_taken_when_its_lease_has_expired(
        self, one: JobQueue, other: JobQueue, clock: ManualClock
    ) -> None:
        one.add(JOB, taken=True)
        clock.advance(LEASE - 1)
        assert take(other) == []
        clock.advance(1)
        [job] = take(other)
        assert (job.id, job.tries) == (JOB.id, 2)
        assert one.mine() == {}

    def test_renewed_lease_holds(self, one: JobQueue, other: JobQueue, clock: ManualClock) -> None:
        one.add(JOB, taken=True)
        for _ in range(10):
            clock.advance(LEASE - 1)
            one.renew()
            assert take(other) == []

    @pytest.mark.parametrize(
        ("seconds", "is_due"), [(0, False), (4, False), (5, True), (LEASE, True), (-1, True)]
    )
    def test_a_lease_is_renewed_when_ten_seconds_are_left(
        self, one: JobQueue, clock: ManualClock, leases: Documents, seconds: float, is_due: bool
    ) -> None:
        one.renew()
        clock.advance(seconds)
        one.renew()
        [lease] = leases.list()
        assert lease.version == 1 + is_due
        assert lease.value["until"] == clock.now().timestamp() + LEASE - (0 if is_due else seconds)

    def test_clock_set_back_a_day(self, one: JobQueue, other: JobQueue, clock: ManualClock) -> None:
        one.add(JOB, taken=True)
        clock.advance(-LEASE)
        assert take(other) == []
        clock.advance(-1)
        assert len(other.free()) == 1
        clock.advance(-86400)
        [job] = take(other)
        other.give_back(job.id, counts=True, seconds=5.0)
        assert take(other) == []
        clock.advance(-86400)
        [job] = take(other)
        assert (job.id, job.tries) == (JOB.id, 3)

    @pytest.mark.parametrize("threads", [1, 4])
    def test_one_write_renews_the_lease_of_all_jobs(
        self, one: JobQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, threads: int
    ) -> None:
        """However slow each write is, no job of a busy worker is lost to others. Two that write it
        at the same time would be in conflict."""
        writes: list[str] = []
        has_begun, may_end = threading.Event(), threading.Event()
        put = Documents.put

        def write(self: Documents, id: str, *args: Any, **named: Any) -> int:
            writes.append(id)
            has_begun.set()
            assert may_end.wait(30)
            return put(self, id, *args, **named)

        if threads == 1:
            for job in jobs(16):
                one.add(job, taken=True)
            clock.advance(LEASE - 1)
        monkeypatch.setattr(Documents, "put", write)
        renewals = [in_background(one.renew) for _ in range(threads)]
        assert has_begun.wait(30)
        may_end.set()
        for each in renewals:
            each.result(30)
        one.renew()
        assert writes == [one.owner]

    def test_a_lease_holds_while_jobs_are_taken_from_a_slow_store(
        self, one: JobQueue, other: JobQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for job in jobs(16):
            one.add(job, taken=False)
        put = Documents.put

        def slow(self: Documents, *args: Any, **named: Any) -> int:
            clock.advance(2.0)
            return put(self, *args, **named)

        monkeypatch.setattr(Documents, "put", slow)
        assert len(take(one, 16)) == 16
        assert take(other, 16) == []

    def test_leases_of_workers_that_are_gone_are_removed(
        self, one: JobQueue, other: JobQueue, clock: ManualClock, leases: Documents
    ) -> None:
        other.add(JOB, taken=True)
        clock.advance(2 * LEASE)
        one.free()
        assert [each.id for each in leases.list()] == [other.owner]
        clock.advance(1)
        take(one)
        assert [each.id for each in leases.list()] == [one.owner]

    def test_a_worker_that_leaves_lets_others_take_its_jobs_at_once(
        self, one: JobQueue, other: JobQueue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without a lease it leaves without the store."""
        one.add(JOB, taken=True)
        one.leave()
        assert [job.id for job in take(other)] == [JOB.id]
        other.leave()
        monkeypatch.setattr(Documents, "delete", None)
        one.leave()
        other.leave()


class TestTries:
    def test_a_job_can_be_exhausted(self, make_queue: MakeQueue, clock: ManualClock) -> None:
        make_queue().add(JOB, taken=True)
        is_exhausted = []
        for _ in range(MAX_TRIES):
            clock.advance(LEASE)
            [job] = take(make_queue(), 1)
            is_exhausted.append(job.is_exhausted)
        assert is_exhausted == [False] * (MAX_TRIES - 1) + [True]

    def test_returned_job_is_no_attempt(self, one: JobQueue) -> None:
        one.add(JOB, taken=True)
        for _ in range(3 * MAX_TRIES):
            one.give_back(JOB.id, counts=False)
            assert [job.tries for job in take(one)] == [1]

    def test_a_failed_job_waits_for_the_next_try(self, one: JobQueue, clock: ManualClock) -> None:
        one.add(JOB, taken=True)
        one.give_back(JOB.id, counts=True, seconds=5.0)
        assert take(one) == []
        clock.advance(4.5)
        assert take(one) == []
        clock.advance(0.5)
        assert [job.tries for job in take(one)] == [2]

    def test_only_who_has_a_job_ends_it(self, one: JobQueue, other: JobQueue) -> None:
        one.add(JOB, taken=True)
        other.give_back(JOB.id, counts=True)
        other.done(JOB.id)
        assert list(one.mine()) == [JOB.id]
        one.done(JOB.id)
        assert one.count() == 0

    def test_a_job_that_waits_can_be_cancelled(self, one: JobQueue) -> None:
        one.add(JOB, taken=False)
        one.cancel(JOB.id)
        one.cancel("unknown")
        [job] = take(one)
        assert job.is_cancelled


class TestWorker:
    def test_a_job_is_done_and_removed(self, worker: JobWorker, one: JobQueue) -> None:
        done = threading.Event()
        worker.start({"work": lambda job, ending: done.set()})
        worker.submit(JOB)
        assert done.wait(30)
        worker.close()
        assert one.count() == 0

    def test_a_job_left_is_done(self, worker: JobWorker, other: JobQueue, held: Held) -> None:
        other.add(JOB, taken=False)
        worker.start({"work": held})
        held.wait()
        assert held.begun == [JOB]

    def test_no_more_jobs_are_under_way_than_there_is_room_for_however_they_come(
        self, worker: JobWorker, one: JobQueue, held: Held, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Room is taken before a job is put on record, which takes its time."""
        adding, add = threading.Barrier(8), one.add
        here: list[bool] = []

        def add_together(job: Job, *, taken: bool) -> bool:
            adding.wait(30)
            here.append(taken)
            return add(job, taken=taken)

        monkeypatch.setattr(one, "add", add_together)
        for each in [in_background(worker.submit, job) for job in jobs(8)]:
            each.result(30)
        assert sorted(here) == [False] * 4 + [True] * 4
        assert one.count() == 8
        assert len(worker._under_way) == 4

    def test_a_job_takes_one_slot(self, worker: JobWorker, one: JobQueue, held: Held) -> None:
        *some, last = jobs(9)
        for job in [some[0]] * 5 + some:
            worker.submit(job)
        assert list(worker._under_way) == ["j0", "j1", "j2", "j3"]
        worker.submit(last, here=True)
        assert list(worker._under_way) == ["j0", "j1", "j2", "j3", "j8"]
        assert one.count() == 9

    def test_a_job_that_another_worker_takes_first_takes_no_slot(
        self, worker: JobWorker, one: JobQueue, other: JobQueue, held: Held,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        take_now = one.take

        def take_late(result: Any) -> Job | None:
            other.take(result)
            return take_now(result)

        for job in jobs(10):
            other.add(job, taken=False)
        with monkeypatch.context() as patch:
            patch.setattr(one, "take", take_late)
            worker._take()
        assert len(other.mine()) == 10
        for job in jobs(10, first=10):
            other.add(job, taken=False)
        worker._take()
        assert list(worker._under_way) == ["j10", "j11", "j12", "j13"]

    def test_an_end_starts_the_next(self, one: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
        """It does not wait for the next beat."""
        monkeypatch.setattr("genai_host.store.jobs._BEAT", 3600.0)
        held, worker = Held(), one.worker(at_once=1)
        for job in jobs(2):
            one.add(job, taken=False)
        worker.start({"work": held})
        held.wait()
        held.may_end.set()
        held.wait()
        worker.close()
        assert not worker._beating.is_alive()

    def test_a_beat_does_not_take_a_new_job_for_lost(
        self, worker: JobWorker, one: JobQueue, held: Held, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It comes just before the job is on record, and just after."""
        add = one.add

        def add_amid_beats(job: Job, *, taken: bool) -> bool:
            worker._keep()
            worker._take()
            is_new = add(job, taken=taken)
            worker._keep()
            worker._take()
            return is_new

        monkeypatch.setattr(one, "add", add_amid_beats)
        worker.submit(JOB)
        held.wait()
        held.may_end.set()
        join(worker)
        assert [job.tries for job in held.begun] == [1]
        assert held.ended_with == [None]

    def test_a_job_that_cannot_be_put_on_record_takes_no_room(
        self, worker: JobWorker, one: JobQueue, held: Held, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(one, "add", fail)
            for job in jobs(20):
                with pytest.raises(StoreError):
                    worker.submit(job)
        worker.submit(JOB)
        held.wait()

    def test_a_job_taken_halfway(self, worker: JobWorker, one: JobQueue, held: Held) -> None:
        """It is on record as this worker's, and nobody is at it."""
        one.add(JOB, taken=True)
        worker._take()
        held.wait()
        worker._take()
        assert [job.tries for job in held.begun] == [2]

    def test_a_job_that_cannot_be_returned_is_taken_again(
        self, worker: JobWorker, one: JobQueue, monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:  # fmt: skip
        worker._works = {"work": fail}
        with monkeypatch.context() as patch, caplog.at_level(logging.INFO):
            patch.setattr(one, "give_back", fail)
            worker.submit(JOB)
            join(worker)
        assert caplog.messages == [
            "the job j1 will be retried: the store is away",
            "the job j1 will be retried when the lease expires",
        ]
        worker._works = {"work": (held := Held())}
        worker._take()
        held.wait()

    def test_a_job_whose_thread_cannot_start_is_queued_again(
        self, worker: JobWorker, one: JobQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:  # fmt: skip
        def fail(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", fail)
            worker.submit(JOB)
        assert caplog.messages == ["the job j1 is queued again: cannot start a thread"]
        assert (worker._under_way, worker._threads) == ({}, set())
        assert take(one) == []
        clock.advance(5)
        assert take(one) == [JOB]

    def test_a_look_for_jobs_takes_no_room_from_those_that_come(
        self, worker: JobWorker, one: JobQueue, held: Held, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        free = one.free

        def submit_amid(*args: Any) -> Any:
            jobs_found = free(*args)
            worker.submit(JOB)
            return jobs_found

        monkeypatch.setattr(one, "free", submit_amid)
        worker._take()
        held.wait()
        assert list(one.mine()) == [JOB.id]

    def test_job_cancelled_elsewhere(self, worker: JobWorker, other: JobQueue, held: Held) -> None:
        worker.submit(JOB)
        held.wait()
        assert not other.worker().cancel(JOB.id)
        worker._keep()
        join(worker)
        assert [type(error) for error in held.ended_with] == [Cancelled]

    def test_a_job_cancelled_here(self, worker: JobWorker, one: JobQueue, held: Held) -> None:
        worker.submit(JOB)
        held.wait()
        assert worker.cancel(JOB.id)
        join(worker)
        assert not worker.cancel(JOB.id)
        [second] = jobs(1)
        one.add(second, taken=False)
        worker.cancel(second.id)
        worker._take()
        join(worker)
        assert [type(error) for error in held.ended_with] == [Cancelled, Cancelled]

    def test_a_job_that_another_worker_has_taken_is_interrupted(
        self, worker: JobWorker, other: JobQueue, held: Held, clock: ManualClock
    ) -> None:
        worker.submit(JOB)
        held.wait()
        clock.advance(LEASE)
        assert [job.tries for job in take(other)] == [2]
        worker._keep()
        join(worker)
        assert [type(error) for error in held.ended_with] == [Interrupted]
        assert list(other.mine()) == [JOB.id]

    def test_a_worker_that_is_closed_gives_its_jobs_back_at_once_and_they_count_as_no_try(
        self, worker: JobWorker, other: JobQueue, held: Held, leases: Documents
    ) -> None:
        worker.submit(JOB)
        held.wait()
        worker.close()
        assert not worker._threads
        assert leases.list() == []
        assert take(other) == [JOB]

    def test_a_worker_that_is_closed_while_it_adds_a_job_leaves_it_to_others(
        self, worker: JobWorker, one: JobQueue, other: JobQueue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        add = one.add

        def add_and_close(job: Job, *, taken: bool) -> bool:
            is_new = add(job, taken=taken)
            worker.close()
            return is_new

        monkeypatch.setattr(one, "add", add_and_close)
        worker.submit(JOB)
        assert take(other) == [JOB]

    def test_a_lease_that_cannot_be_released_expires(
        self, worker: JobWorker, one: JobQueue, monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:  # fmt: skip
        monkeypatch.setattr(one, "leave", fail)
        with caplog.at_level(logging.INFO):
            worker.close()
        assert caplog.messages == [
            "cannot release the lease of a worker; it will expire: the store is away"
        ]

    def test_only_a_worker_with_jobs_renews_its_lease(
        self, worker: JobWorker, held: Held, clock: ManualClock, leases: Documents
    ) -> None:
        worker._keep()
        assert leases.list() == []
        worker.submit(JOB)
        held.wait()
        clock.advance(LEASE - 1)
        worker._keep()
        assert [lease.version for lease in leases.list()] == [2]

    def test_a_job_comes_late(self, worker: JobWorker, other: JobQueue, leases: Documents) -> None:
        worker.close()
        worker.submit(JOB)
        worker.submit(*jobs(1), here=True)
        assert leases.list() == []
        assert len(take(other)) == 2

    @pytest.mark.parametrize(("error", "message", "tries"), [
        (StoreError("away"), "will be retried: away", [1] * 3 * MAX_TRIES),
        (ConversationBusy("busy"), "will be retried: busy", [1] * 3 * MAX_TRIES),
        (Interrupted("a bug"), None, [1, 2, 3]),
        (SystemExit(3), "failed", list(range(1, 2 * MAX_TRIES + 2))),
    ], ids=["store", "busy", "interrupted", "exit"])  # fmt: skip
    def test_what_cannot_be_done_now_is_no_try_and_broken_work_is_removed_in_the_end(
        self, worker: JobWorker, one: JobQueue, clock: ManualClock,
        caplog: pytest.LogCaptureFixture, error: BaseException, message: str | None,
        tries: list[int],
    ) -> None:  # fmt: skip
        tried: list[int] = []

        def work(job: Job, ending: Cancellation) -> None:
            tried.append(job.tries)
            raise error

        worker._works = {"work": work}
        one.add(JOB, taken=False)
        is_removed = message == "failed"
        for _ in range(len(tries) + 3 * is_removed):
            worker._take()
            join(worker)
            clock.advance(60)
        assert tried == tries
        assert one.count() == (0 if is_removed else 1)
        if message:
            assert set(caplog.messages) == {f"the job j1 {message}"}

    @pytest.mark.parametrize(
        ("error", "has_traceback"), [(StoreError("away"), False), (ValueError("a bug"), True)]
    )
    def test_each_failure_of_the_store_is_logged_once(
        self, worker: JobWorker, one: JobQueue, monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture, error: Exception, has_traceback: bool,
    ) -> None:  # fmt: skip
        beats = threading.Semaphore(0)
        fails = iter([True, True, True, False, True, True])

        def look(*args: Any) -> list[Job]:
            beats.release()
            worker._wake.set()
            if next(fails, True):
                raise error
            return []

        monkeypatch.setattr(one, "free", look)
        with caplog.at_level(logging.WARNING):
            worker.start({})
            for _ in range(7):
                assert beats.acquire(timeout=30)
            worker.close()
        assert [(record.getMessage(), bool(record.exc_info)) for record in caplog.records] == [
            (f"background jobs: {error}", has_traceback)
        ] * 2
