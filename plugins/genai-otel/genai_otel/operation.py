"""Turns, calls, tools and requests in the terms of the semantic conventions: attributes of spans,
and points of metrics.

Input and output of models are not recorded unless configured. The same holds for error messages, in
which services quote them. Messages are JSON (`gen-ai-input-messages.json` and
`gen-ai-output-messages.json`), because attributes have no structure. Images and files are named,
not copied.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from attrs import define, field

from genai_host.api import (
    Answer,
    ChatCall,
    Completion,
    Embeddings,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolOutput,
    ToolResult,
    Transcription,
    Usage,
    VendorTool,
)
from genai_host.errors import GenaiError, TurnPaused
from genai_otel import conventions as names
from genai_otel.conventions import Instrument

if TYPE_CHECKING:
    from genai_host.api import Call, RouteInfo, RouteRequest, ToolSchema
    from genai_otel.telemetry import Listener

SpanKind = Literal["client", "internal", "server"]
Point = tuple[Instrument, float, Mapping[str, Any]]
"""A measurement: instrument, value and attributes."""


def input_attributes(call: ChatCall) -> dict[str, str]:
    """Return the attributes with the input of a model."""
    system = [part for each in call.messages if each.role == "system" for part in each.content]
    others = [each for each in call.messages if each.role != "system"]
    attributes = {"gen_ai.input.messages": messages_json(others)}
    if system:
        attributes["gen_ai.system_instructions"] = _json([_part(part) for part in system])
    if call.tools:
        attributes["gen_ai.tool.definitions"] = _json([_definition(tool) for tool in call.tools])
    return attributes


def _definition(tool: ToolSchema) -> Mapping[str, str]:
    """The type and the name of a tool. A tool of a service has its own type, or else its name."""
    kind = "function"
    if isinstance(tool, VendorTool):
        kinds = [fields.get("type") for fields in (tool.extra or {}).values()]
        kind = next((each for each in kinds if isinstance(each, str)), tool.name)
    return {"type": kind, "name": tool.name}


def messages_json(messages: Iterable[Message], finish: str = "") -> str:
    """Messages as JSON in the form of the semantic conventions. `finish` is empty for messages
    that are not the model's."""
    ended = {"finish_reason": finish.removesuffix("s") if finish == "tool_calls" else finish}
    return _json(
        [
            {
                "role": each.role,
                "parts": [_part(part) for part in each.content],
                **(ended if finish else {}),
            }
            for each in messages
        ]
    )


def text_of(content: Iterable[Part]) -> str:
    return "\n".join(part.text for part in content if isinstance(part, Text))


def _part(part: Part) -> Mapping[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "content": part.text}
    if isinstance(part, Reasoning):
        return {"type": "reasoning", "content": part.text}
    if isinstance(part, ToolCall):
        return {
            "type": "tool_call",
            "id": part.id,
            "name": part.name,
            "arguments": dict(part.arguments),
        }
    if isinstance(part, ToolResult):
        response = text_of(part.content)
        return {"type": "tool_call_response", "id": part.id, "response": response}
    return {"type": part.type}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


@define(eq=False)
class ObservedOperation:
    """An operation that becomes a span and metrics.

    Attributes:
        name: Name of its span.
        kind: Kind of its span.
        attributes: Attributes of its span; those known at its start are used for sampling.
        labels: Attributes of its metrics. Their values are limited to declared and installed names.
        parent: Turn that it belongs to; None if there is none, or it is unknown.
        headers: Headers of a request, which can continue a trace.
        scoped: Whether it starts and ends in one thread, without other operations in between.
        error: Type of the error; empty without one.
        points: Measurements to record at its end.
        listeners: Listeners that received its start.
        span: Its span.
        token: Token that restores the previous context.
    """

    name: str
    kind: SpanKind
    attributes: dict[str, Any]
    labels: Mapping[str, Any]
    duration: Instrument
    parent: ObservedOperation | None = None
    headers: Mapping[str, str] | None = None
    scoped: bool = False
    active: Instrument | None = None
    error: str = ""
    seconds: float = 0.0
    points: list[Point] = field(factory=list)
    listeners: list[Listener] = field(factory=list)
    span: Any = None
    token: Any = None

    def answered(self, answer: Answer | None, *, captures: bool) -> None:
        """Record the end of a turn."""
        if answer is not None:
            self._use(answer.usage)
            if answer.cost.known:
                self.attributes["genai_host.cost"] = answer.cost.dollars
            if captures:
                message = Message("assistant", answer.summary)
                self.attributes["gen_ai.output.messages"] = messages_json([message], "stop")

    def called(self, result: Any, first: float | None, *, captures: bool) -> None:
        """Record the end of a model call."""
        if first is not None:
            self.attributes["gen_ai.response.time_to_first_chunk"] = first
            self._measure(names.FIRST, first)
        if isinstance(result, Completion):
            self.attributes["gen_ai.response.finish_reasons"] = [result.finish]
            if captures:
                output = messages_json([result.message], result.finish)
                self.attributes["gen_ai.output.messages"] = output
        elif isinstance(result, Embeddings) and result.model:
            self.attributes["gen_ai.response.model"] = result.model
        if isinstance(result, (Completion, Embeddings, Transcription)):
            self._use(result.usage)
            for kind, tokens in (
                ("input", result.usage.input_tokens),
                ("output", result.usage.output_tokens),
            ):
                if tokens:
                    self._measure(names.TOKENS, tokens, {names.TOKEN_TYPE: kind})
        if result is not None:
            self._pay(result.cost)

    def gave(self, output: ToolOutput | None, *, captures: bool) -> None:
        """Record the end of a tool call."""
        if output is not None and output.error:
            self.error = "tool_failed"
        if output is not None and captures:
            self.attributes["gen_ai.tool.call.result"] = text_of(output.content)

    def replied(self, status: int) -> None:
        """Record the response to a request."""
        self.attributes[names.STATUS] = status
        self.labels = {**self.labels, names.STATUS: status}
        if status >= 500:
            self.error = str(status)

    def ended(self, error: Exception | None, seconds: float) -> None:
        """Record the end, after all other data."""
        self.seconds = seconds
        if isinstance(error, TurnPaused):
            self.attributes["genai_host.waits_for"] = error.kind
        elif error is not None:
            self.error = error.code if isinstance(error, GenaiError) else type(error).__qualname__
        failed = {names.ERROR: self.error} if self.error else {}
        self.attributes.update(failed)
        self._measure(self.duration, seconds, failed)

    def moved(self, by: int) -> Sequence[Point]:
        """The change in the number of operations in progress."""
        return () if self.active is None else ((self.active, by, self.labels),)

    def _use(self, usage: Usage) -> None:
        tokens = {
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
            "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
        }
        self.attributes.update({name: count for name, count in tokens.items() if count})

    def _pay(self, dollars: float | None) -> None:
        if dollars is None:
            self._measure(names.UNPRICED, 1)
        elif dollars:
            self.attributes["genai_host.cost"] = dollars
            self._measure(names.COST, dollars)

    def _measure(
        self, instrument: Instrument, value: float, further: Mapping[str, str] | None = None
    ) -> None:
        self.points.append((instrument, value, {**self.labels, **(further or {})}))


def of_turn(
    feature: str, conversation: str, model: str, message: Message | None
) -> ObservedOperation:
    """The operation of a turn."""
    attributes: dict[str, Any] = {names.OPERATION: "invoke_agent", names.AGENT: feature}
    if conversation:
        attributes[names.CONVERSATION] = conversation
    if model:
        attributes[names.MODEL] = model.rpartition("@")[0] or model
    if message is not None:
        attributes["gen_ai.input.messages"] = messages_json([message])
    labels = {names.AGENT: feature}
    return ObservedOperation(f"invoke_agent {feature}", "internal", attributes, labels, names.TURNS)


def of_call(
    operation: str,
    route: RouteInfo,
    call: Call,
    parent: ObservedOperation | None,
    *,
    captures: bool,
) -> ObservedOperation:
    name = names.OPERATIONS.get(operation, operation)
    provider = names.PROVIDERS.get(route.provider, route.provider)
    attributes: dict[str, Any] = {
        names.OPERATION: name,
        names.PROVIDER: provider,
        names.MODEL: call.model_id,
        **_of_parent(parent),
        **dict(_parameters(call.parameters)),
    }
    if call.stream:
        attributes["gen_ai.request.stream"] = True
    if isinstance(call, ChatCall):
        if call.schema is not None:
            attributes["gen_ai.output.type"] = "json"
        if captures:
            attributes.update(input_attributes(call))
    labels = {
        names.OPERATION: name,
        names.PROVIDER: provider,
        names.MODEL: names.OTHER if _is_undeclared(route) else call.model_id,
        names.AGENT: attributes.get(names.AGENT, ""),
    }
    return ObservedOperation(
        f"{name} {call.model_id}",
        "client",
        attributes,
        labels,
        names.DURATION,
        parent,
        active=names.ACTIVE_CALLS,
    )


def of_tool(
    call: ToolCall, parent: ObservedOperation | None, *, captures: bool
) -> ObservedOperation:
    attributes: dict[str, Any] = {
        names.OPERATION: "execute_tool",
        names.TOOL: call.name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": call.id,
        **_of_parent(parent),
    }
    if captures:
        attributes["gen_ai.tool.call.arguments"] = json.dumps(call.arguments, default=str)
    labels = {names.TOOL: call.name, names.AGENT: attributes.get(names.AGENT, "")}
    name = f"execute_tool {call.name}"
    return ObservedOperation(name, "internal", attributes, labels, names.TOOLS, parent, scoped=True)


def of_request(request: RouteRequest, route: str) -> ObservedOperation:
    """The operation of a request to the server.

    Args:
        request: The request.
        route: Path of the route with the names of its parameters; empty if there is none.
    """
    method = request.method if request.method in names.METHODS else names.OTHER
    attributes: dict[str, Any] = {
        names.METHOD: method,
        "url.path": request.path[:1000],
    }
    if route:
        attributes[names.ROUTE] = route
    return ObservedOperation(
        f"{method} {route}".strip(),
        "server",
        attributes,
        {names.METHOD: method, names.ROUTE: route},
        names.REQUESTS,
        headers=request.headers,
        scoped=True,
        active=names.ACTIVE_REQUESTS,
    )


def _of_parent(parent: ObservedOperation | None) -> dict[str, Any]:
    shared = (names.AGENT, names.CONVERSATION)
    known = {} if parent is None else parent.attributes
    return {name: known[name] for name in shared if name in known}


def _parameters(given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in given.items():
        attribute = names.PARAMETERS.get(name)
        if attribute is None:
            continue
        if isinstance(value, str):
            yield attribute, [value]
        elif isinstance(value, (list, tuple)):
            yield attribute, [str(each) for each in value]
        elif isinstance(value, (int, float)):
            yield attribute, value


def _is_undeclared(route: RouteInfo) -> bool:
    """Whether a route is an undeclared id that is passed through, for example `instance/id`."""
    return route.model.startswith(f"{route.provider}/")
