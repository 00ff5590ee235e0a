"""The Assistant microservice over HTTP: `POST /api/assistant`.

The reply is JSON. A client that prefers server-sent events to JSON receives events:

    progress   {"text"}   the current step
    delta      {"text"}   a chunk of the answer
    void       {}         discard the chunks so far: the answer restarts
    result     the body of the reply, once, last
    error      {"error": {"code", "message", "hint"}}, once, last
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from genai_feature_research.assistant import Assistant
from genai_host.api import (
    Progress,
    RouteRequest,
    RouteResponse,
    StreamedBody,
    json_response,
    prefers_events,
    sse_event,
)
from genai_host.errors import GenaiError, NoRoute, ServiceUnavailable

if TYPE_CHECKING:
    from genai_host.api import Event, HostServices


def answer(request: RouteRequest, host: HostServices) -> RouteResponse:
    assistant = Assistant(host, owner=request.user)
    given = request.json()
    if not prefers_events(request):
        with _with_a_model():
            return json_response(assistant.answer(given, request.limits))
    body = StreamedBody(_written(assistant.stream(given, request.limits)), _failed)
    headers = {"content-type": "text/event-stream", "cache-control": "no-cache"}
    return RouteResponse(body, headers=headers, keepalive=b": ping\n\n", begin=body.begin)


@contextmanager
def _with_a_model() -> Iterator[None]:
    """Convert `NoRoute`: the host has no model, since the client named only models of the host."""
    try:
        yield
    except NoRoute as error:
        raise ServiceUnavailable(error.message, hint=error.hint) from error


def _written(events: Generator[Event, None, dict[str, Any]]) -> Generator[bytes, None, None]:
    with closing(events), _with_a_model():
        while True:
            try:
                event = next(events)
            except StopIteration as end:
                yield sse_event("result", end.value)
                return
            yield from _of(event)


def _failed(error: GenaiError) -> bytes:
    body = {"code": error.code, "message": error.message, "hint": error.hint}
    return sse_event("error", {"error": body})


def _of(event: Event) -> Generator[bytes, None, None]:
    if event.text:
        yield sse_event("delta", {"text": event.text})
    elif event.kind == "reset":
        yield sse_event("void", {})
    elif isinstance(event.data, Progress):
        yield sse_event("progress", {"text": event.data.text})
