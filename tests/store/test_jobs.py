"""The queue of background jobs: leases, takeover, tries, cancellation, the end of a worker."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from genai_host.api import Cancellation, Job, ended_with
from genai_host.api.jobs import MOST_TRIES
from genai_host.errors import Cancelled, ConversationBusy, Interrupted, StoreError
from genai_host.store import Store
from genai_host.store.documents import Documents
from genai_host.store.jobs import LEASE, JobQueue, JobWorker
from genai_host_testing import ManualClock

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
def worker(make_queue: MakeQueue) -> Iterator[JobWorker]:
    worker = make_queue().worker(at_once=4)
    yield worker
    worker.close()


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


def take(queue: JobQueue, most: int) -> list[Job]:
    taken = [queue.take(each) for each in queue.free()[:most]]
    return [job for job in taken if job is not None]


def join(worker: JobWorker) -> None:
    for thread in list(worker._threads):
        thread.join(30)


class TestLeases:
    def test_a_job_is_taken_by_one_worker(self, make_queue: MakeQueue) -> None:
        one, other = make_queue(), make_queue()
        second = Job("j2", "work", "", {})
        assert one.add(JOB, taken=False)
        assert one.add(second, taken=False)
        assert take(one, 1) == [JOB]  # the oldest
        assert take(one, 1) == [second]
        other.renew()
        assert take(other, 5) == []
        assert take(one, 5) == []

    def test_a_job_is_added_once(self, make_queue: MakeQueue) -> None:
        one, other = make_queue(), make_queue()
        assert one.add(JOB, taken=True)
        assert not other.add(JOB, taken=True)
        assert list(one.mine()) == [JOB.id]
        assert other.mine() == {}
        assert other.find(JOB.id) == Job(JOB.id, "work", "ann", {"number": 1}, tries=JOB.tries)
        assert other.find("unknown") is None

    def test_the_jobs_of_a_killed_worker_are_taken_when_its_lease_has_expired(
        self, make_queue: MakeQueue, clock: ManualClock
    ) -> None:
        killed, other = make_queue(), make_queue()
        killed.add(JOB, taken=True)
        clock.advance(LEASE - 1)
        assert take(other, 5) == []
        clock.advance(1)
        [taken] = take(other, 5)
        assert (taken.id, taken.tries) == (JOB.id, 2)
        assert killed.mine() == {}

    def test_a_lease_holds_as_long_as_it_is_renewed(
        self, make_queue: MakeQueue, clock: ManualClock
    ) -> None:
        one, other = make_queue(), make_queue()
        one.add(JOB, taken=True)
        for _ in range(10):
            clock.advance(LEASE - 1)
            one.renew()
            assert take(other, 5) == []

    @pytest.mark.parametrize(
        ("seconds", "is_due"), [(0, False), (4, False), (5, True), (LEASE, True), (-1, True)]
    )
    def test_a_lease_is_renewed_when_ten_seconds_are_left(
        self, make_queue: MakeQueue, clock: ManualClock, store: Store, seconds: float, is_due: bool
    ) -> None:
        queue = make_queue()
        queue.renew()
        clock.advance(seconds)
        queue.renew()
        [lease] = store.documents("jobs/workers").list()
        assert lease.version == 1 + is_due
        assert lease.value["until"] == clock.now().timestamp() + LEASE - (0 if is_due else seconds)

    def test_a_clock_that_is_set_back_a_day_does_not_keep_a_job_for_a_day(
        self, make_queue: MakeQueue, clock: ManualClock
    ) -> None:
        killed, other = make_queue(), make_queue()
        killed.add(JOB, taken=True)
        clock.advance(-LEASE)
        assert take(other, 5) == []
        clock.advance(-1)
        assert len(other.free()) == 1
        clock.advance(-86400)
        [taken] = take(other, 5)
        other.give_back(taken.id, counts=True, seconds=5.0)
        assert take(other, 5) == []
        clock.advance(-86400)
        [taken] = take(other, 5)
        assert (taken.id, taken.tries) == (JOB.id, 3)

    def test_one_write_renews_the_lease_of_all_jobs(
        self, make_queue: MakeQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """However slow each write is, no job of a busy worker is lost to others."""
        queue = make_queue()
        for number in range(16):
            queue.add(Job(f"j{number}", "work", "", {}), taken=True)
        clock.advance(LEASE - 1)
        writes: list[str] = []
        put = Documents.put

        def write(self: Documents, id: str, *given: Any, **named: Any) -> int:
            writes.append(id)
            return put(self, id, *given, **named)

        monkeypatch.setattr(Documents, "put", write)
        queue.renew()
        queue.renew()
        assert writes == [queue.owner]

    def test_a_lease_is_begun_once_by_jobs_that_come_together(
        self, make_queue: MakeQueue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two that write it at the same time would be in conflict."""
        queue = make_queue()
        writes: list[str] = []
        has_begun, may_end = threading.Event(), threading.Event()
        put = Documents.put

        def write(self: Documents, id: str, *given: Any, **named: Any) -> int:
            writes.append(id)
            has_begun.set()
            assert may_end.wait(30)
            return put(self, id, *given, **named)

        monkeypatch.setattr(Documents, "put", write)
        threads = [threading.Thread(target=queue.renew) for _ in range(4)]
        for thread in threads:
            thread.start()
        assert has_begun.wait(30)
        may_end.set()
        for thread in threads:
            thread.join(30)
        assert writes == [queue.owner]

    def test_a_lease_holds_while_jobs_are_taken_from_a_slow_store(
        self, make_queue: MakeQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one, other = make_queue(), make_queue()
        for number in range(16):
            one.add(Job(f"j{number}", "work", "", {}), taken=False)
        put = Documents.put

        def slow(self: Documents, *given: Any, **named: Any) -> int:
            clock.advance(2.0)
            return put(self, *given, **named)

        monkeypatch.setattr(Documents, "put", slow)
        assert len(take(one, 16)) == 16
        assert take(other, 16) == []

    def test_leases_of_workers_that_are_gone_are_removed(
        self, make_queue: MakeQueue, clock: ManualClock, store: Store
    ) -> None:
        gone, one = make_queue(), make_queue()
        gone.add(JOB, taken=True)
        clock.advance(2 * LEASE)
        one.free()
        assert [each.id for each in store.documents("jobs/workers").list()] == [gone.owner]
        clock.advance(1)
        take(one, 1)
        assert [each.id for each in store.documents("jobs/workers").list()] == [one.owner]

    def test_a_worker_that_leaves_lets_others_take_its_jobs_at_once(
        self, make_queue: MakeQueue
    ) -> None:
        one, other = make_queue(), make_queue()
        one.add(JOB, taken=True)
        one.leave()
        assert [job.id for job in take(other, 5)] == [JOB.id]

    def test_a_worker_without_a_lease_leaves_without_the_store(
        self, make_queue: MakeQueue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        unused, one = make_queue(), make_queue()
        one.add(JOB, taken=True)
        one.leave()
        monkeypatch.setattr(Documents, "delete", None)
        unused.leave()
        one.leave()


class TestTries:
    def test_a_job_that_ends_its_workers_is_exhausted_in_the_end(
        self, make_queue: MakeQueue, clock: ManualClock
    ) -> None:
        make_queue().add(JOB, taken=True)
        for _ in range(MOST_TRIES - 1):
            clock.advance(LEASE)
            [job] = take(make_queue(), 1)
            assert not job.is_exhausted
        clock.advance(LEASE)
        [job] = take(make_queue(), 1)
        assert job.is_exhausted

    def test_what_is_given_back_in_order_is_no_try(self, make_queue: MakeQueue) -> None:
        queue = make_queue()
        queue.add(JOB, taken=True)
        for _ in range(3 * MOST_TRIES):
            queue.give_back(JOB.id, counts=False)
            [job] = take(queue, 1)
            assert job.tries == 1

    def test_a_job_that_failed_waits_before_it_is_tried_again(
        self, make_queue: MakeQueue, clock: ManualClock
    ) -> None:
        queue = make_queue()
        queue.add(JOB, taken=True)
        queue.give_back(JOB.id, counts=True, seconds=5.0)
        assert take(queue, 1) == []
        clock.advance(4.5)
        assert take(queue, 1) == []
        clock.advance(0.5)
        assert [job.tries for job in take(queue, 1)] == [2]

    def test_only_who_has_a_job_gives_it_back_or_is_done_with_it(
        self, make_queue: MakeQueue
    ) -> None:
        one, other = make_queue(), make_queue()
        one.add(JOB, taken=True)
        other.give_back(JOB.id, counts=True)
        other.done(JOB.id)
        assert list(one.mine()) == [JOB.id]
        one.done(JOB.id)
        assert one.count() == 0


class TestWorker:
    def test_a_job_that_is_submitted_is_done_and_removed(self, worker: JobWorker) -> None:
        done = threading.Event()
        worker.start({"work": lambda job, ending: done.set()})
        worker.submit(JOB)
        assert done.wait(30)
        worker.close()
        assert worker.queue.count() == 0

    def test_a_job_that_others_left_is_done(self, worker: JobWorker, make_queue: MakeQueue) -> None:
        make_queue().add(JOB, taken=False)
        held = Held()
        worker.start({"work": held})
        held.wait()
        assert held.begun == [JOB]

    def test_no_more_jobs_are_under_way_than_there_is_room_for_however_they_come(
        self, worker: JobWorker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Room is taken before a job is put on record, which takes its time."""
        adding = threading.Barrier(8)
        add = worker.queue.add
        here: list[bool] = []

        def add_together(job: Job, *, taken: bool) -> bool:
            adding.wait(30)
            here.append(taken)
            return add(job, taken=taken)

        monkeypatch.setattr(worker.queue, "add", add_together)
        held = Held()
        monkeypatch.setattr(worker, "_works", {"work": held})
        threads = [
            threading.Thread(target=worker.submit, args=[Job(f"j{number}", "work", "", {})])
            for number in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert sorted(here) == [False] * 4 + [True] * 4
        assert worker.queue.count() == 8

        assert len(worker._under_way) == 4

    def test_a_job_takes_one_slot_however_often_it_is_submitted(
        self, worker: JobWorker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        held = Held()
        monkeypatch.setattr(worker, "_works", {"work": held})
        for number in [0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7]:
            worker.submit(Job(f"j{number}", "work", "", {}))
        assert list(worker._under_way) == ["j0", "j1", "j2", "j3"]
        worker.submit(Job("j8", "work", "", {}), here=True)
        assert list(worker._under_way) == ["j0", "j1", "j2", "j3", "j8"]
        assert worker.queue.count() == 9

    def test_a_job_that_another_worker_takes_first_takes_no_slot(
        self, worker: JobWorker, make_queue: MakeQueue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other, held, queue_take = make_queue(), Held(), worker.queue.take
        monkeypatch.setattr(worker, "_works", {"work": held})

        def take_late(found: Any) -> Job | None:
            other.take(found)
            return queue_take(found)

        for number in range(10):
            other.add(Job(f"j{number}", "work", "", {}), taken=False)
        with monkeypatch.context() as patch:
            patch.setattr(worker.queue, "take", take_late)
            worker._take()
        assert len(other.mine()) == 10
        for number in range(10, 20):
            other.add(Job(f"j{number}", "work", "", {}), taken=False)
        worker._take()
        assert list(worker._under_way) == ["j10", "j11", "j12", "j13"]

    def test_the_end_of_a_job_starts_the_next_one(
        self, make_queue: MakeQueue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It does not wait for the next beat."""
        monkeypatch.setattr("genai_host.store.jobs._BEAT", 3600.0)
        queue, held = make_queue(), Held()
        for number in range(2):
            queue.add(Job(f"j{number}", "work", "", {}), taken=False)
        worker = queue.worker(at_once=1)
        worker.start({"work": held})
        held.wait()
        held.may_end.set()
        held.wait()
        worker.close()
        assert not worker._beating.is_alive()

    def test_a_beat_does_not_take_a_new_job_for_lost(
        self, worker: JobWorker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It comes just before the job is on record, and just after."""
        add, held = worker.queue.add, Held()

        def add_amid_beats(job: Job, *, taken: bool) -> bool:
            worker._keep()
            worker._take()
            is_new = add(job, taken=taken)
            worker._keep()
            worker._take()
            return is_new

        monkeypatch.setattr(worker.queue, "add", add_amid_beats)
        monkeypatch.setattr(worker, "_works", {"work": held})
        worker.submit(JOB)
        held.wait()
        held.may_end.set()
        join(worker)
        assert [job.tries for job in held.begun] == [1]
        assert held.ended_with == [None]

    def test_a_job_that_cannot_be_put_on_record_takes_no_room(
        self, worker: JobWorker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*given: Any, **more: Any) -> bool:
            raise StoreError("the store is away")

        with monkeypatch.context() as patch:
            patch.setattr(worker.queue, "add", fail)
            for number in range(20):
                with pytest.raises(StoreError):
                    worker.submit(Job(f"lost {number}", "work", "", {}))
        held = Held()
        worker.start({"work": held})
        worker.submit(JOB)
        held.wait()

    def test_a_job_whose_taking_failed_halfway_is_taken_again(
        self, worker: JobWorker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is on record as this worker's, and nobody is at it."""
        worker.queue.add(JOB, taken=True)
        held = Held()
        monkeypatch.setattr(worker, "_works", {"work": held})
        worker._take()
        held.wait()
        worker._take()
        assert [job.tries for job in held.begun] == [2]

    def test_a_job_that_cannot_be_returned_is_taken_again(
        self,
        worker: JobWorker,
        clock: ManualClock,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        def fail(*given: Any, **more: Any) -> None:
            raise StoreError("the store is away")

        monkeypatch.setattr(worker, "_works", {"work": fail})
        with monkeypatch.context() as patch, caplog.at_level(logging.INFO):
            patch.setattr(worker.queue, "give_back", fail)
            worker.submit(JOB)
            join(worker)
        assert [record.getMessage() for record in caplog.records] == [
            "the job j1 will be retried: the store is away",
            "the job j1 will be retried when the lease expires",
        ]
        held = Held()
        monkeypatch.setattr(worker, "_works", {"work": held})
        worker._take()
        held.wait()

    def test_a_job_whose_thread_cannot_start_is_queued_again(
        self,
        worker: JobWorker,
        clock: ManualClock,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        def fail(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", fail)
            worker.submit(JOB)
        assert [record.getMessage() for record in caplog.records] == [
            "the job j1 is queued again: cannot start a thread"
        ]
        assert (worker._under_way, worker._threads) == ({}, set())
        assert take(worker.queue, 1) == []
        clock.advance(5)
        assert take(worker.queue, 1) == [JOB]

    def test_a_look_for_jobs_takes_no_room_from_those_that_come(
        self, worker: JobWorker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        held, free = Held(), worker.queue.free

        def submit_amid(*given: Any) -> Any:
            found = free(*given)
            worker.submit(JOB)
            return found

        monkeypatch.setattr(worker.queue, "free", submit_amid)
        monkeypatch.setattr(worker, "_works", {"work": held})
        worker._take()
        held.wait()
        assert list(worker.queue.mine()) == [JOB.id]

    def test_a_job_is_cancelled_wherever_it_is_under_way(
        self, worker: JobWorker, make_queue: MakeQueue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        held = Held()
        monkeypatch.setattr(worker, "_works", {"work": held})
        worker.submit(JOB)
        held.wait()
        assert not make_queue().worker().cancel(JOB.id)
        worker._keep()
        join(worker)
        assert [type(error) for error in held.ended_with] == [Cancelled]

    def test_a_job_is_cancelled_in_this_process(
        self, worker: JobWorker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        held = Held()
        monkeypatch.setattr(worker, "_works", {"work": held})
        worker.submit(JOB)
        held.wait()
        assert worker.cancel(JOB.id)
        join(worker)
        assert not worker.cancel(JOB.id)
        worker.queue.add(Job("j2", "work", "", {}), taken=False)
        worker.cancel("j2")
        worker._take()
        join(worker)
        assert [type(error) for error in held.ended_with] == [Cancelled, Cancelled]

    def test_a_job_that_waits_can_be_cancelled(self, make_queue: MakeQueue) -> None:
        queue = make_queue()
        queue.add(JOB, taken=False)
        queue.cancel(JOB.id)
        queue.cancel("unknown")
        [job] = take(queue, 1)
        assert job.is_cancelled

    def test_a_job_that_another_worker_has_taken_is_interrupted(
        self,
        worker: JobWorker,
        make_queue: MakeQueue,
        clock: ManualClock,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        held, other = Held(), make_queue()
        monkeypatch.setattr(worker, "_works", {"work": held})
        worker.submit(JOB)
        held.wait()
        clock.advance(LEASE)
        assert [job.tries for job in take(other, 1)] == [2]
        worker._keep()
        join(worker)
        assert [type(error) for error in held.ended_with] == [Interrupted]
        assert list(other.mine()) == [JOB.id]

    def test_a_worker_that_is_closed_gives_its_jobs_back_at_once_and_they_count_as_no_try(
        self,
        worker: JobWorker,
        make_queue: MakeQueue,
        store: Store,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        held = Held()
        monkeypatch.setattr(worker, "_works", {"work": held})
        worker.submit(JOB)
        held.wait()
        worker.close()
        assert not worker._threads
        assert store.documents("jobs/workers").list() == []
        assert take(make_queue(), 1) == [JOB]

    def test_a_worker_that_is_closed_while_it_adds_a_job_leaves_it_to_others(
        self, worker: JobWorker, make_queue: MakeQueue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        add = worker.queue.add

        def add_and_close(job: Job, *, taken: bool) -> bool:
            is_new = add(job, taken=taken)
            worker.close()
            return is_new

        monkeypatch.setattr(worker.queue, "add", add_and_close)
        worker.submit(JOB)
        assert take(make_queue(), 1) == [JOB]

    def test_a_lease_that_cannot_be_released_expires(
        self, worker: JobWorker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail() -> None:
            raise StoreError("the store is away")

        monkeypatch.setattr(worker.queue, "leave", fail)
        with caplog.at_level(logging.INFO):
            worker.close()
        assert [record.getMessage() for record in caplog.records] == [
            "cannot release the lease of a worker; it will expire: the store is away"
        ]

    def test_only_a_worker_with_jobs_renews_its_lease(
        self, worker: JobWorker, clock: ManualClock, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        leases = store.documents("jobs/workers")
        worker._keep()
        assert leases.list() == []
        held = Held()
        monkeypatch.setattr(worker, "_works", {"work": held})
        worker.submit(JOB)
        held.wait()
        clock.advance(LEASE - 1)
        worker._keep()
        assert [lease.version for lease in leases.list()] == [2]

    def test_a_job_that_comes_when_the_worker_is_closed_is_left_to_others(
        self, worker: JobWorker, make_queue: MakeQueue, store: Store
    ) -> None:
        worker.close()
        worker.submit(JOB)
        worker.submit(Job("j2", "work", "", {}), here=True)
        assert store.documents("jobs/workers").list() == []
        assert len(take(make_queue(), 5)) == 2

    @pytest.mark.parametrize("error", [StoreError("away"), ConversationBusy("busy")])
    def test_what_cannot_be_done_now_is_no_try(
        self,
        worker: JobWorker,
        clock: ManualClock,
        caplog: pytest.LogCaptureFixture,
        error: Exception,
    ) -> None:
        assert self._tried(worker, clock, error, 3 * MOST_TRIES) == [1] * 3 * MOST_TRIES
        messages = {record.getMessage() for record in caplog.records}
        assert messages == {f"the job j1 will be retried: {error}"}

    def test_a_job_whose_work_is_broken_is_tried_for_a_while_and_removed(
        self, worker: JobWorker, clock: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        tries = self._tried(worker, clock, SystemExit(3), 5 * MOST_TRIES)
        assert {record.getMessage() for record in caplog.records} == {"the job j1 failed"}
        assert tries == list(range(1, 2 * MOST_TRIES + 2))
        assert worker.queue.count() == 0

    def test_an_interruption_by_the_work_itself_is_a_try(
        self, worker: JobWorker, clock: ManualClock
    ) -> None:
        assert self._tried(worker, clock, Interrupted("a bug"), 3) == [1, 2, 3]

    def _tried(
        self, worker: JobWorker, clock: ManualClock, error: BaseException, times: int
    ) -> list[int]:
        """How often a job was tried, as it was told each time."""
        tries: list[int] = []

        def work(job: Job, ending: Cancellation) -> None:
            tries.append(job.tries)
            raise error

        worker._works = {"work": work}
        worker.queue.add(JOB, taken=False)
        for _ in range(times):
            worker._take()
            join(worker)
            clock.advance(60)
        return tries

    @pytest.mark.parametrize(
        ("error", "has_traceback"), [(StoreError("away"), False), (ValueError("a bug"), True)]
    )
    def test_each_failure_of_the_store_is_logged_once(
        self,
        worker: JobWorker,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
        error: Exception,
        has_traceback: bool,
    ) -> None:
        beats = threading.Semaphore(0)
        fails = iter([True, True, True, False, True, True])

        def look(*given: Any) -> list[Job]:
            beats.release()
            worker._wake.set()
            if next(fails, True):
                raise error
            return []

        monkeypatch.setattr(worker.queue, "free", look)
        with caplog.at_level(logging.WARNING):
            worker.start({})
            for _ in range(7):
                assert beats.acquire(timeout=30)
            worker.close()
        assert [(record.getMessage(), bool(record.exc_info)) for record in caplog.records] == [
            (f"background jobs: {error}", has_traceback)
        ] * 2
