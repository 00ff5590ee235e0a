"""The work of a batch, in any process: its rows are answered as the server answers requests.

    BatchWork.do → _Run.work → _start: rows are counted
                             → _answer_rows: HttpRoutes.answer for each, a document for each result
                             → _finish: the documents become files

A result is stored before it is counted. A worker that continues a batch repeats only the rows that
have none: at most those that were in progress.

Source: OpenAI API reference, "Batch", "The request output object".
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from attrs import frozen
from genai_wire_openai.server.files import Files
from genai_wire_openai.server.objects import Object, ObjectStore

from genai_batch.rows import with_version
from genai_batch.server.rows import Row, lines_in, rows_in
from genai_batch.work import body_in, sleep
from genai_host.api import (
    Cancellation,
    Job,
    RouteRequest,
    RouteResponse,
    ended_with,
    read_json,
    write_json,
)
from genai_host.errors import (
    Cancelled,
    Conflict,
    GenaiError,
    Interrupted,
    NotFound,
    PluginError,
    ProviderTimeout,
    StoreError,
    ValidationError,
)
from genai_host.serving import FEATURE

if TYPE_CHECKING:
    from genai_host.api import HostServices

ENDED = ("failed", "completed", "expired", "cancelled")
"""Statuses of batches that have ended."""

CONCURRENCY = 8
"""Rows of one batch that run concurrently."""

MAX_ROWS = 50_000
"""Maximum number of rows."""

OUTPUT_LIFE = "_output_expires_after"
"""Field of a batch with the seconds after which its files expire."""

_ATTEMPTS = 4  # of a row whose service has reached its rate limit
_MAX_WAIT = 60.0  # seconds between them
_PAGE_SIZE = 8  # results in memory, each of up to several megabytes
_COUNTED = 1.0  # seconds between updates of the counts that clients see
_EXPIRED = "This request could not be executed before the completion window expired."
_RATE_LIMITED = 429

_log = logging.getLogger(__name__)

Answers = Callable[[RouteRequest], RouteResponse]


def batches_of(host: HostServices, user: str) -> ObjectStore:
    """Return the batches of a user."""
    return ObjectStore(host, user, "batch", plugin="batch")


class _Expired(ProviderTimeout):
    """A batch exceeded its time limit."""


class _EmptyFile(ValidationError):
    code = "empty_file"


class _TooManyRows(ValidationError):
    code = "too_many_rows"


class _InputMissing(NotFound):
    code = "input_file_not_found"


@frozen(eq=False, repr=False)
class BatchWork:
    """Does the batches of a host in this process."""

    host: HostServices
    files: Files
    answer: Answers

    def do(self, job: Job, ending: Cancellation) -> None:
        """Do a batch until it has ended. Raises `Interrupted`: another worker must continue the
        batch."""
        batches = batches_of(self.host, job.user)
        batch = batches.find(job.id)
        if batch is None:
            return
        with Cancellation(ending) as limits:
            _Run(self, job, batch, limits).work()


@frozen
class _Result:
    """The outcome of a row: a line of the output, or of the errors."""

    is_error: bool
    line: Mapping[str, Any]


class _Run:
    def __init__(self, its: BatchWork, job: Job, batch: Object, ending: Cancellation) -> None:
        self._its = its
        self._job = job
        self._batch = batch
        self._ending = ending
        self._batches = batches_of(its.host, job.user)
        self._results = ObjectStore(its.host, job.user, "row", batch["id"], plugin="batch")
        self._counted = its.host.clock.monotonic()

    def work(self) -> None:
        try:
            self._do()
        except Interrupted:
            if self._batches.get(self._batch["id"])["status"] not in ENDED:
                raise
        self._results.clear()

    def _do(self) -> None:
        self._check_status(self._batch)
        clock, ending = self._its.host.clock, self._ending
        left = max(0.0, self._batch["expires_at"] - clock.now().timestamp())
        over = clock.call_later(left, lambda: ending.cancel(_Expired("the batch has expired")))
        try:
            if self._batch["status"] == "cancelling":
                raise Cancelled("the batch was cancelled")
            if self._job.is_exhausted:
                raise PluginError("the worker process of the batch ended repeatedly")
            self._start()
            self._answer_rows()
            self._finish("completed")
        except GenaiError as error:
            self._end(ended_with(ending) or error)
        except Exception:  # noqa: BLE001 - a batch ends, whatever a plugin raises
            _log.exception("the batch %s failed", self._batch["id"])
            internal = PluginError("internal error; see the log of the server")
            self._end(ended_with(ending) or internal)
        finally:
            over.release()

    def _end(self, error: GenaiError) -> None:
        """End with an error. Raises it if another worker must continue the batch."""
        if isinstance(error, (Interrupted, StoreError)):
            raise error
        if isinstance(error, Conflict):
            raise Interrupted(error.message) from error
        if isinstance(error, _Expired):
            self._finish("expired")
        elif isinstance(error, Cancelled):
            self._finish("cancelled")
        else:
            self._finish("failed", error)

    def _start(self) -> None:
        if self._batch["status"] != "validating":
            return
        total = sum(1 for _ in lines_in(self._chunks()))
        if not total:
            raise _EmptyFile("the input file has no rows")
        if total > MAX_ROWS:
            raise _TooManyRows(f"the input file must have at most {MAX_ROWS} rows")
        self._move("in_progress", request_counts=self._counts(total))

    def _answer_rows(self) -> None:
        threads = ThreadPoolExecutor(CONCURRENCY, f"genai-{self._batch['id']}")
        with threads, Cancellation(self._ending) as ending:  # of the rows in progress
            running: dict[Future[_Result], Row] = {}
            try:
                for row in rows_in(self._chunks(), self._batch["endpoint"]):
                    while len(running) >= CONCURRENCY:
                        self._take(running)
                    self._ending.check()
                    if row.number in self._done:
                        continue
                    if row.code:
                        self._add(row, self._refusal(row, row.code, row.message))
                    else:
                        running[threads.submit(self._answer, row, ending)] = row
                while running:
                    self._take(running)
            finally:
                ending.cancel()

    def _take(self, running: dict[Future[_Result], Row]) -> None:
        """Store the next results. Raises the error of an interrupted batch."""
        ended, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in sorted(ended, key=lambda each: each.result().is_error):
            row, result = running.pop(future), future.result()
            if result.is_error:
                self._ending.check()  # it may be why the row failed
            self._add(row, result)

    def _add(self, row: Row, result: _Result) -> None:
        value = {"id": str(row.number), "is_error": result.is_error, "line": result.line}
        self._results.put(value)
        self._done[row.number] = result.is_error
        now = self._its.host.clock.monotonic()
        if now - self._counted >= _COUNTED:
            self._counted = now
            self._change(lambda batch: {**batch, "request_counts": self._counts()})

    def _answer(self, row: Row, ending: Cancellation) -> _Result:
        """Answer a row, in one of the threads. An error of a plugin fails only this row."""
        try:
            return self._answered(row, ending)
        except Exception as error:  # noqa: BLE001 - see above
            _log.warning("a row of the batch %s failed", self._batch["id"], exc_info=True)
            message = error.message if isinstance(error, GenaiError) else "internal error"
            return self._refusal(row, "server_error", message)

    def _answered(self, row: Row, ending: Cancellation) -> _Result:
        request_id = f"req_{secrets.token_hex(16)}"
        for attempt in range(_ATTEMPTS):
            with Cancellation(ending) as limits:
                reply = self._its.answer(
                    RouteRequest(
                        "POST",
                        with_version(self._batch["endpoint"]),
                        headers={"content-type": "application/json"},
                        body=row.body,
                        limits=limits,
                        user=self._job.user,
                        request_id=request_id,
                    )
                )
            if not _may_succeed_later(row, reply) or attempt == _ATTEMPTS - 1:
                break
            sleep(self._its.host.clock, _seconds_until(reply, 2.0**attempt), ending)
            if ending.is_cancelled():
                break
        body = _json_or_text(body_in(reply))
        response = {"status_code": reply.status, "request_id": request_id, "body": body}
        return _Result(reply.status >= 400, self._line(row, response=response))

    def _refusal(self, row: Row, code: str, message: str) -> _Result:
        return _Result(True, self._line(row, error={"code": code, "message": message}))

    def _line(self, row: Row, response: Any = None, error: Any = None) -> dict[str, Any]:
        id = f"batch_req_{self._digest(row.number)}"
        return {"id": id, "custom_id": row.custom_id, "response": response, "error": error}

    def _finish(self, status: str, error: GenaiError | None = None) -> None:
        """Write the files, and end with a status."""
        self._check_status(self._batches.get(self._batch["id"]))
        if status == "completed":
            self._move("finalizing")
        if status == "expired":
            with suppress(_InputMissing):  # the input file is gone
                for row in rows_in(self._chunks(), self._batch["endpoint"]):
                    if row.number not in self._done:
                        self._add(row, self._refusal(row, "batch_expired", _EXPIRED))
        self._move(
            status,
            output_file_id=self._file(is_error=False),
            error_file_id=self._file(is_error=True),
            request_counts=self._counts(),
            errors=None if error is None else _errors(error),
        )

    def _file(self, *, is_error: bool) -> str | None:
        """Write the output or the errors to a file, in the order of the rows. Returns its id, which
        is the same if this is repeated; None if there is nothing to write."""
        if is_error not in self._done.values():
            return None
        what = "error" if is_error else "output"
        name = f"{self._batch['id']}_{what}.jsonl"
        id = f"file_{self._digest(what)}"
        lines = self._lines(is_error=is_error)
        life = self._batch.get(OUTPUT_LIFE)
        file = self._its.files.keep(self._job.user, name, lines, "batch_output", id=id, life=life)
        return str(file["id"])

    def _lines(self, *, is_error: bool) -> Iterator[bytes]:
        for number in sorted(self._done):
            if self._done[number] is is_error:
                yield write_json(self._results.get(str(number))["line"]) + b"\n"

    def _move(self, status: str, **fields: Any) -> None:
        """Change the status. A batch that is being cancelled only becomes `cancelled`.

        Raises:
            Cancelled: The batch is being cancelled.
            Interrupted: Another worker has ended the batch.
        """
        now = self._batches.now()

        def moved(batch: Object) -> Object:
            if batch["status"] == "cancelling" and status not in ENDED:
                raise Cancelled("the batch was cancelled")
            is_cancelled = batch["status"] == "cancelling" and status == "completed"
            reached = "cancelled" if is_cancelled else status
            return {**batch, **fields, "status": reached, f"{reached}_at": now}

        self._change(moved)

    def _change(self, changed: Callable[[Object], Object]) -> None:
        """Change the batch. Raises `Interrupted` if another worker has ended it."""

        def make(batch: Object) -> tuple[Object, Object]:
            self._check_status(batch)
            value = changed(batch)
            return value, value

        self._batch = self._batches.change(self._batch["id"], make)

    def _check_status(self, batch: Object) -> None:
        if batch["status"] in ENDED:
            raise Interrupted("another worker has ended the batch")

    def _counts(self, total: int | None = None) -> dict[str, int]:
        failed = sum(self._done.values())
        known = self._batch["request_counts"]["total"] if total is None else total
        return {"total": known, "completed": len(self._done) - failed, "failed": failed}

    @cached_property
    def _done(self) -> dict[int, bool]:
        """Rows with a result, and whether it is an error."""
        found = self._results.all(page_size=_PAGE_SIZE)
        return {int(each["id"]): each["is_error"] for each in found}

    def _chunks(self) -> Iterator[bytes]:
        try:
            return self._its.files.chunks(self._job.user, self._batch["input_file_id"])
        except NotFound as error:
            raise _InputMissing(error.message) from error

    def _digest(self, part: object) -> str:
        return sha256(f"{self._batch['id']}/{part}".encode()).hexdigest()[:24]


def _may_succeed_later(row: Row, reply: RouteResponse) -> bool:
    """Whether the row can be repeated: its service has reached its rate limit, and no tools of a
    feature have run."""
    return (
        reply.status == _RATE_LIMITED
        and reply.headers.get("x-should-retry") != "false"
        and not row.model.startswith(FEATURE)
    )


def _seconds_until(reply: RouteResponse, usual: float) -> float:
    given = reply.headers.get("retry-after", "")
    return min(_MAX_WAIT, float(given) if given.isdecimal() else usual)


def _json_or_text(body: bytes) -> Any:
    try:
        return read_json(body)
    except ValueError:
        return body.decode("utf-8", "replace")


def _errors(error: GenaiError) -> dict[str, Any]:
    item = {"code": error.code, "message": error.message, "param": None, "line": None}
    return {"object": "list", "data": [item]}
