"""Batches: many requests in a file, answered in the background.

OpenAI's Batch API under `/v1/batches`, for any model of the host:

- `service`: the routes, and the batches as clients see them
- `work`: answers the rows of a batch, and writes its files
- `rows`: the rows of a file
"""

from __future__ import annotations

from collections.abc import Iterable

from genai_host.api import HttpRoute, hookimpl

_SERVICE = "genai_batch.service:BatchesService"


@hookimpl
def genai_http_routes() -> Iterable[HttpRoute]:
    yield HttpRoute("POST", "/v1/batches", f"{_SERVICE}.create")
    yield HttpRoute(  # loaded at start-up, and with it the worker that continues batches
        "GET", "/v1/batches", f"{_SERVICE}.page", rate_limited=False, run_at_startup=True
    )
    yield HttpRoute("GET", "/v1/batches/{batch}", f"{_SERVICE}.show", rate_limited=False)
    yield HttpRoute("POST", "/v1/batches/{batch}/cancel", f"{_SERVICE}.cancel")
