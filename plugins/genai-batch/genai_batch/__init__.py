"""Batches: many prompts in a file, and their answers in a file, in the same order.

    with Host(retry_policy=RETRY_POLICY) as host:
        done = Batch(host, "prompts.jsonl", "answers.jsonl", Task(model="smollm2")).run()
        print(done.rows, done.failed, done.cost)

- `batch`: `Batch`: which rows run, in which order, and when it stops
- `work`: one row and its result, by a host in this process or a process of an executor
- `rows`: lines of the input, read as requests
- `journal`: results on disk, as they are completed
- `cli`: the command `genai-host batch`
- `server`: OpenAI's Batch API under `/v1/batches`, for clients of the server
"""

from __future__ import annotations

from collections.abc import Iterable

from genai_host.api import Command, HttpRoute, hookimpl

_SERVICE = "genai_batch.server.service:BatchesService"


@hookimpl
def genai_commands() -> Iterable[Command]:
    yield Command("batch", "Run many prompts from a file.", "genai_batch.cli:command")


@hookimpl
def genai_http_routes() -> Iterable[HttpRoute]:
    yield HttpRoute("POST", "/v1/batches", f"{_SERVICE}.create")
    yield HttpRoute(  # loaded at start-up, and with it the worker that continues batches
        "GET", "/v1/batches", f"{_SERVICE}.page", rate_limited=False, run_at_startup=True
    )
    yield HttpRoute("GET", "/v1/batches/{batch}", f"{_SERVICE}.show", rate_limited=False)
    yield HttpRoute("POST", "/v1/batches/{batch}/cancel", f"{_SERVICE}.cancel")
