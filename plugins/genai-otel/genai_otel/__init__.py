"""Traces and metrics of the host with OpenTelemetry, and for Prometheus at `GET /metrics`.

- `OtelPlugin`: receives turns, calls, tools and requests from the hooks
- `telemetry`: has the operations in progress, and the listeners
- `operation`: an operation in the terms of the semantic conventions
- `spans`, `providers`, `scrape`: listeners for traces, metrics and Prometheus

OpenTelemetry is not imported before it is known to be needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from genai_host.api import Answer, HttpRoute, ToolOutput, hookimpl
from genai_otel.telemetry import Telemetry

if TYPE_CHECKING:
    from genai_host.api import Call, RouteInfo, RouteRequest, ToolCall, Turn
    from genai_otel.operation import ObservedOperation


__all__ = ["OtelPlugin", "plugin"]


class OtelPlugin:
    """The hooks, which convert events of the host to an `ObservedOperation` if there are listeners.

    Args:
        telemetry: Receives the operations; None for the telemetry of the process environment.
    """

    def __init__(self, telemetry: Telemetry | None = None) -> None:
        self.telemetry = telemetry or Telemetry()

    @hookimpl
    def genai_http_routes(self) -> Iterable[HttpRoute]:
        # loaded at the start, so that metrics before the first scrape count too
        load = "genai_otel.scrape:Scrape.answer"
        yield HttpRoute("GET", "/metrics", load, rate_limited=False, run_at_startup=True)

    @hookimpl
    def genai_on_turn_start(
        self, id: str, feature: str, turn: Turn[Any], conversation: str, model: str
    ) -> None:
        if self.telemetry.has_listeners():
            from genai_otel.operation import of_turn

            message = turn.message if self.telemetry.captures else None
            self._begin(id, of_turn(feature, conversation, model, message))

    @hookimpl
    def genai_on_turn_end(
        self, id: str, answer: Answer | None, error: Exception | None, seconds: float
    ) -> None:
        captures = self.telemetry.captures
        self._end(id, error, seconds, lambda turn: turn.answered(answer, captures=captures))

    @hookimpl
    def genai_on_call_start(
        self, id: str, parent: str, operation: str, route: RouteInfo, call: Call
    ) -> None:
        if self.telemetry.has_listeners():
            from genai_otel.operation import of_call

            above = self.telemetry.under_way(parent)
            captures = self.telemetry.captures
            self._begin(id, of_call(operation, route, call, above, captures=captures))

    @hookimpl
    def genai_call_headers(self, id: str) -> Mapping[str, str]:
        call = self.telemetry.under_way(id) if self.telemetry.propagates else None
        if call is None or call.span is None:
            return {}
        from genai_otel.spans import headers_of

        return headers_of(call.span)

    @hookimpl
    def genai_on_call_end(
        self,
        id: str,
        result: Any,
        first_token_seconds: float | None,
        error: Exception | None,
        seconds: float,
    ) -> None:
        captures = self.telemetry.captures
        self._end(
            id,
            error,
            seconds,
            lambda call: call.called(result, first_token_seconds, captures=captures),
        )

    @hookimpl
    def genai_on_tool_start(self, id: str, parent: str, call: ToolCall) -> None:
        if self.telemetry.has_listeners():
            from genai_otel.operation import of_tool

            above = self.telemetry.under_way(parent)
            self._begin(id, of_tool(call, above, captures=self.telemetry.captures))

    @hookimpl
    def genai_on_tool_end(
        self, id: str, output: ToolOutput | None, error: Exception | None, seconds: float
    ) -> None:
        captures = self.telemetry.captures
        self._end(id, error, seconds, lambda tool: tool.gave(output, captures=captures))

    @hookimpl
    def genai_on_request_start(self, id: str, request: RouteRequest, route: str) -> None:
        if self.telemetry.has_listeners():
            from genai_otel.operation import of_request

            self._begin(id, of_request(request, route))

    @hookimpl
    def genai_on_request_end(
        self, id: str, status: int, error: Exception | None, seconds: float
    ) -> None:
        self._end(id, error, seconds, lambda request: request.replied(status))

    @hookimpl
    def genai_on_close(self) -> None:
        self.telemetry.flush()

    def _begin(self, id: str, operation: ObservedOperation) -> None:
        self.telemetry.begin(id, operation)

    def _end(
        self,
        id: str,
        error: Exception | None,
        seconds: float,
        record_result: Callable[[ObservedOperation], None],
    ) -> None:
        operation = self.telemetry.taken(id)
        if operation is not None:  # None if there were no listeners at its start
            record_result(operation)
            operation.ended(error, seconds)
            self.telemetry.end(operation)


plugin = OtelPlugin()
