"""Operations as spans.

The parent of a span is the span of its turn, whatever the thread. Otherwise it is the current span:
of the request, of the running tool, or of the application.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry import context, propagate, trace
from opentelemetry.trace import SpanKind, Status, StatusCode

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

    from genai_otel.operation import ObservedOperation

_KINDS = {
    "client": SpanKind.CLIENT,
    "internal": SpanKind.INTERNAL,
    "server": SpanKind.SERVER,
}


class Spans:
    """Listener that creates spans with a tracer."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def begin(self, operation: ObservedOperation) -> None:
        span = operation.span = self._tracer.start_span(
            operation.name,
            _above(operation),
            _KINDS[operation.kind],
            operation.attributes,
        )
        if operation.scoped:
            operation.token = context.attach(trace.set_span_in_context(span))

    def end(self, operation: ObservedOperation) -> None:
        if operation.token is not None:
            context.detach(operation.token)
        span = operation.span
        span.set_attributes(operation.attributes)
        if operation.error:
            span.set_status(Status(StatusCode.ERROR))
        span.end()


def headers_of(span: Span) -> dict[str, str]:
    """Return the headers that propagate the trace, from the propagators of the environment."""
    headers: dict[str, str] = {}
    propagate.inject(headers, trace.set_span_in_context(span))
    return headers


def _above(operation: ObservedOperation) -> Context | None:
    """Return the context of the parent; None for the current context."""
    if operation.headers is not None:  # with the propagators of the environment
        return propagate.extract(operation.headers)
    if operation.parent is not None and operation.parent.span is not None:
        return trace.set_span_in_context(operation.parent.span)
    return None
