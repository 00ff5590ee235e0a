"""The Batch API of one host: batches are created, listed, read and cancelled.

    BatchesService.create → BackgroundWorker.submit → BatchWork.do, in any process

Source: OpenAI API reference, "Batch"; OpenAPI document 2.3.0, "Batch".
"""

from __future__ import annotations

from typing import Any

from genai_wire_openai.responses.fields import Fields, fields_of
from genai_wire_openai.responses.request import read_metadata
from genai_wire_openai.server.files import Files, expiry_in
from genai_wire_openai.server.objects import Object, new_id, shown

from genai_batch.rows import URLS, with_version
from genai_batch.server.work import ENDED, OUTPUT_LIFE, BatchWork, batches_of
from genai_host import Host
from genai_host.api import HttpProblem, Job, RouteRequest, RouteResponse, json_response
from genai_host.errors import NotFound, ValidationError
from genai_host.serving import HttpRoutes

JOBS = "batch/jobs"
"""Queue of batches."""

KIND = "batch"
"""Kind of their jobs."""

WINDOW = 24 * 60 * 60
"""Seconds after which a batch expires."""


_STAMPS = (
    *("in_progress_at", "finalizing_at", "completed_at", "failed_at"),
    *("expired_at", "cancelling_at", "cancelled_at"),
)


class BatchesService:
    """The Batch API of a host. One object for each host and process.

    Its worker continues unfinished batches, of this process or of others, until `close`.

    Raises:
        ConfigurationError: The host has no store.
    """

    def __init__(self, host: Host) -> None:
        host.store_for()
        self._host = host
        self._files = Files(host)
        self._routes = HttpRoutes(host)
        self._worker = host.jobs(JOBS).worker()
        self._worker.start({KIND: BatchWork(host, self._files, self._routes.answer).do})

    def create(self, request: RouteRequest) -> RouteResponse:
        batch = self._batch(request.user, fields_of(request))
        shelf = batches_of(self._host, request.user)
        shelf.add(batch)
        try:
            self._worker.submit(_job_of(request.user, batch))
        except Exception:
            shelf.delete(batch["id"])
            raise
        return json_response(shown(batch))

    def show(self, request: RouteRequest) -> RouteResponse:
        batch = batches_of(self._host, request.user).get(request.parameters["batch"])
        self._settle(request.user, batch)
        return json_response(shown(batch))

    def page(self, request: RouteRequest) -> RouteResponse:
        page = batches_of(self._host, request.user).page(request.query)
        for batch in page["data"]:
            self._settle(request.user, batch)
        return json_response(page)

    def cancel(self, request: RouteRequest) -> RouteResponse:
        shelf = batches_of(self._host, request.user)

        def make(batch: Object) -> tuple[Object | None, Object]:
            if batch["status"] in ENDED:
                raise ValidationError(f"Cannot cancel a batch with status '{batch['status']}'.")
            if batch["status"] == "cancelling":
                return None, batch
            value = {**batch, "status": "cancelling", "cancelling_at": shelf.now()}
            return value, value

        batch = shelf.change(request.parameters["batch"], make)
        self._settle(request.user, batch)
        self._worker.cancel(batch["id"])
        return json_response(shown(batch))

    def close(self) -> None:
        """Stop the work. Other processes continue it."""
        self._worker.close()
        self._routes.close()

    def _settle(self, user: str, batch: Object) -> None:
        """Submit a batch again whose process ended before it could."""
        if batch["status"] not in ENDED and self._worker.queue.find(batch["id"]) is None:
            self._worker.submit(_job_of(user, batch))

    def _batch(self, user: str, given: Fields) -> dict[str, Any]:
        """Return the new batch of a request. Raises `ValidationError`."""
        file = self._input(user, given)
        endpoint = given.needed("endpoint")
        path = with_version(endpoint)
        if path not in URLS or isinstance(self._routes.find("POST", path), HttpProblem):
            raise given.must_be("endpoint", f"one of {', '.join(URLS)}")
        if given.needed("completion_window") != "24h":
            raise given.must_be("completion_window", "24h")
        metadata = read_metadata(given) if "metadata" in given else None
        life = expiry_in(given.object("output_expires_after"))
        given.drop_others()
        now = batches_of(self._host, user).now()
        return {
            "id": new_id("batch"),
            "object": "batch",
            "endpoint": endpoint,
            "errors": None,
            "input_file_id": file,
            "completion_window": "24h",
            "status": "validating",
            "output_file_id": None,
            "error_file_id": None,
            "created_at": now,
            "expires_at": now + WINDOW,
            **dict.fromkeys(_STAMPS),
            "request_counts": {"total": 0, "completed": 0, "failed": 0},
            "metadata": metadata,
            OUTPUT_LIFE: life,
        }

    def _input(self, user: str, given: Fields) -> str:
        id = given.needed("input_file_id")
        try:
            file = self._files.get(user, id)
        except NotFound as error:
            raise ValidationError(error.message, path=given.at("input_file_id")) from error
        if file["purpose"] != "batch":
            raise given.must_be("input_file_id", "a file with the purpose batch")
        return id


def _job_of(user: str, batch: Object) -> Job:
    return Job(batch["id"], KIND, user, {})
