"""Batches: rows run in threads or by an executor, and results written as they are completed.

A batch reads a file of rows and writes a file of results:

    Batch.run → Journal (rows already done) → _do_rest: submit … _take → _write (in order)
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from pathlib import Path

from attrs import define, evolve, field, frozen

from genai_batch.journal import BatchJournal
from genai_batch.rows import BatchRow, rows_in, survey
from genai_batch.work import RowResult, Task, Worker, do_row, problem_of
from genai_host import Host
from genai_host.api import write_json
from genai_host.errors import (
    Cancelled,
    ConfigurationError,
    GenaiError,
    LimitExceeded,
    ServiceUnavailable,
    StoreError,
)

_SEEN = 0.2  # seconds between checks for an interruption
_SILENT = 600.0  # seconds without a result after which it is logged: a row may take long

_log = logging.getLogger(__name__)


@frozen
class BatchProgress:
    """Progress of a batch.

    Attributes:
        rows: Number of rows.
        done: Number of rows with a result, including errors.
        failed: Number of rows with an error.
        before: Number of rows done before this run.
        cost: Known cost of all runs, in US dollars.
        unknown: Number of calls of unknown cost.
        seconds: Time since the start of this run.
    """

    rows: int
    done: int = 0
    failed: int = 0
    before: int = 0
    cost: float = 0.0
    unknown: int = 0
    seconds: float = 0.0


def _task_of(given: Task | None) -> Task:
    return given or Task()


@define(eq=False, repr=False, slots=False)
class Batch:
    """A batch.

    Args:
        host: The host.
        source: File of rows; see `genai_batch.rows`.
        output: File of results, one line per row, in order, written when all rows are done. Until
            then, results are in `OUTPUT.journal`, from which an interrupted batch continues.
        task: Settings for all rows.
        concurrency: Number of rows that run concurrently.
        max_cost: Limit on the cost of all runs, in US dollars; None for no limit. No row starts
            once it is reached, or while running rows could exceed it at the average cost so far.
        executor: Runs the rows in other processes; None for threads of this process. It is not
            closed.
        retry_failed: Whether to run failed rows again.
        overwrite: Whether to discard the results of earlier runs. An existing output is replaced
            when all rows are done.
        on_progress: Called after each row.
    """

    _host: Host
    _source: Path = field(converter=Path)
    _output: Path = field(converter=Path)
    _task: Task = field(default=None, converter=_task_of)
    _concurrency: int = field(default=8, kw_only=True)
    _max_cost: float | None = field(default=None, kw_only=True)
    _executor: Executor | None = field(default=None, kw_only=True)
    _retry_failed: bool = field(default=False, kw_only=True)
    _overwrite: bool = field(default=False, kw_only=True)
    _on_progress: Callable[[BatchProgress], None] = field(
        default=lambda progress: None, kw_only=True
    )
    _progress: BatchProgress = field(init=False)
    _began: float = field(init=False)
    _last_result: float = field(init=False)

    @property
    def journal_path(self) -> Path:
        return self._output.with_name(f"{self._output.name}.journal")

    def run(self) -> BatchProgress:
        """Run all rows without a result. If rows failed, the journal remains, so that they can be
        retried.

        Results are saved as they are completed. After an error, another run continues the batch.

        Returns:
            The final progress.

        Raises:
            ValidationError: The source is not a file of rows.
            OSError: The source cannot be read.
            Conflict: Another process runs this batch.
            ConfigurationError: The output already exists, is the source or not a file, or the
                journal is of another batch.
            StoreError: The journal or the output cannot be written.
            LimitExceeded: The limit on cost is reached.
            ServiceUnavailable: The executor has stopped.
        """
        self._check_output()
        found = survey(self._source)
        head = {"rows": found.digest, "task": self._task.to_json()}
        name = hashlib.sha256(write_json(head)).hexdigest()
        self._must_be_new()
        journal_path, clock = self.journal_path, self._host.clock
        with BatchJournal(journal_path, head, clock, is_new=self._overwrite) as journal:
            if self._retry_failed:
                journal.forget(set(journal.failed))
            self._began = self._last_result = self._host.clock.monotonic()
            self._progress = BatchProgress(found.rows, before=len(journal.done))
            self._report(journal)
            self._do_rest(journal, name)
            self._write(journal)
            if not journal.failed:
                journal.remove()
        return self._progress

    def _check_output(self) -> None:
        for path in (self._output, self.journal_path):
            if path.exists() and not path.is_file():
                raise ConfigurationError(f"{path} is not a file", hint="use another --output")
            if path.exists() and path.samefile(self._source):
                raise ConfigurationError(
                    f"{path} would replace the input", hint="use another --output"
                )

    def _must_be_new(self) -> None:
        if self._output.exists() and not (self._overwrite or self.journal_path.exists()):
            raise ConfigurationError(
                f"{self._output} already exists", hint="use another --output, or --overwrite"
            )

    def _do_rest(self, journal: BatchJournal, name: str) -> None:
        with self._doing(name) as submit:
            under_way: dict[Future[RowResult], BatchRow] = {}
            try:
                for row in rows_in(self._source):
                    if row.number in journal.done:
                        continue
                    while len(under_way) >= self._concurrency:
                        self._take(journal, under_way)
                    while under_way and not self._fits(journal, len(under_way) + 1):
                        self._take(journal, under_way)
                    self._must_be_affordable(journal)
                    if row.wrong:
                        self._add(journal, row, _failed(row, "invalid_data", row.wrong))
                    else:
                        under_way[submit(row)] = row
                while under_way:
                    self._take(journal, under_way)
            except LimitExceeded:
                while under_way:  # calls in progress cost money
                    self._take(journal, under_way)
                raise
            finally:
                for future in under_way:
                    future.cancel()

    @contextlib.contextmanager
    def _doing(self, name: str) -> Iterator[Callable[[BatchRow], Future[RowResult]]]:
        """Yield a function that submits a row. At the end, running rows are cancelled."""
        if self._executor is not None:
            elsewhere, task = self._executor, self._task.to_json()
            yield lambda row: elsewhere.submit(do_row, task, name, row)
            return
        worker = Worker(self._host, self._task, name)
        threads = ThreadPoolExecutor(self._concurrency, "genai-batch")
        try:
            yield lambda row: threads.submit(worker.do, row)
        finally:
            worker.end()
            threads.shutdown(cancel_futures=True)
            worker.close()

    def _take(self, journal: BatchJournal, under_way: dict[Future[RowResult], BatchRow]) -> None:
        """Save completed results; may time out without any."""
        ended, _ = wait(under_way, timeout=_SEEN, return_when=FIRST_COMPLETED)
        now = self._host.clock.monotonic()
        silent = now - self._last_result
        if not ended and silent >= _SILENT:
            where = _name_of(self._executor)
            what = "no row was completed for %.0f seconds; number of rows in %s: %d"
            _log.warning(what, silent, where, len(under_way))
        if ended or silent >= _SILENT:
            self._last_result = now
        for future in ended:
            row = under_way.pop(future)
            self._add(journal, row, _result_of(row, future))

    def _add(self, journal: BatchJournal, row: BatchRow, result: RowResult) -> None:
        journal.add(row.number, result)
        self._report(journal)

    def _report(self, journal: BatchJournal) -> None:
        self._progress = evolve(
            self._progress,
            done=len(journal.done),
            failed=len(journal.failed),
            cost=journal.spent,
            unknown=journal.unknown,
            seconds=self._host.clock.monotonic() - self._began,
        )
        self._on_progress(self._progress)

    def _fits(self, journal: BatchJournal, rows: int) -> bool:
        """Whether the rows fit into the limit at the average cost so far. The first row runs alone,
        to measure its cost."""
        if self._max_cost is None:
            return True
        if not journal.done:
            return rows == 1
        usual = journal.spent / len(journal.done)
        return journal.spent + usual * rows <= self._max_cost

    def _must_be_affordable(self, journal: BatchJournal) -> None:
        if self._max_cost is not None and journal.spent >= self._max_cost:
            raise LimitExceeded(
                f"cost limit reached: ${journal.spent:.4f} of ${self._max_cost:g} spent, "
                f"{len(journal.done)} of {self._progress.rows} rows done",
                hint="continue with the same command and a larger --max-cost",
            )

    def _write(self, journal: BatchJournal) -> None:
        """Write all results, in order. The file is replaced atomically."""
        output = Path(os.path.realpath(self._output))  # preserve a symbolic link
        part = output.with_name(f"{output.name}.part")
        try:
            with part.open("wb") as stream:
                for number, result in journal.results():
                    stream.write(write_json({"row": number, **result}) + b"\n")
                stream.flush()
                os.fsync(stream.fileno())
            part.replace(output)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise StoreError(
                f"cannot write {self._output}: {error.strerror or error}",
                file=str(self._output),
                hint=f"the results are in {self.journal_path}; continue with the same command",
            ) from error


def _name_of(executor: Executor | None) -> str:
    if executor is None:
        return "threads of this process"
    has_name = type(executor).__str__ is not object.__str__
    return str(executor) if has_name else type(executor).__name__


def _failed(row: BatchRow, code: str, message: str) -> RowResult:
    return {**row.names, "error": {"code": code, "message": message, "hint": ""}}


def _result_of(row: BatchRow, future: Future[RowResult]) -> RowResult:
    """The result of a row. Errors of a plugin or of the row's process fail only this row."""
    try:
        return future.result()
    except (Cancelled, CancelledError):
        raise ServiceUnavailable(
            "rows were cancelled by the executor", hint="continue with the same command"
        ) from None
    except GenaiError as error:
        return {**row.names, "error": problem_of(error)}
    except Exception as error:  # noqa: BLE001 - see above
        return _failed(row, "internal", str(error) or type(error).__name__)
