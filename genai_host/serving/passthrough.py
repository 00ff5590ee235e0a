"""Requests that pass through to a service of the same API format.

An API calls `fields_to_pass`, then `pass_through`. If that returns a reply, the bytes of the
client's fields were sent as they were, except for the name of the model and the fields that the API
sets, and those of the service are returned. Otherwise the API reads the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import msgspec
from attrs import evolve, field, frozen

from genai_host.api import (
    Completion,
    EncodedJson,
    Operation,
    RouteRequest,
    RouteResponse,
    StreamEvent,
    ValueBudget,
    json_response,
)
from genai_host.api.http_routes import reported
from genai_host.calls.passthrough import PassedCompletion, PassedCount, PassedDelta, PassedRequest
from genai_host.errors import GenaiError, ValidationError
from genai_host.host import Host
from genai_host.serving.completion import COMMENT, CompletionStream, streamed
from genai_host.serving.models import FEATURE, capabilities, suspends_for

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_EMPTY = (b"null", b'""', b"[]", b"{}")


class ReplyWriter(Protocol):
    """Writes answers in the format of an API."""

    def whole(self, completion: Completion) -> Any:
        """A complete answer, as JSON."""

    def events(self, answering: CompletionStream) -> Iterator[bytes]:
        """The events of a stream, including an error."""


@frozen(kw_only=True)
class PassingFormat:
    """How requests of an API pass through.

    Attributes:
        dialect: Name of the dialect that has the format of the API.
        operation: `chat`, or `count` to count tokens.
        parameters: Parameters in the request that not every model has. The request does not pass
            through to a model without them.
        of_client: Those of `parameters` that the service accepts from this client, if the model has
            them.
        neutral: Options of the dialect that have no effect on these requests; see `PassedRequest`.
        renamed: See `PassedRequest`.
        reply_parameters: Parameters by which replies are read, for example the number of answers.
        headers: Headers of the format that the service receives, too.
        write_event: Writes an event of the service; empty to leave it out.
        write_body: Writes a complete reply of the service.
        write_error: Writes an error as the last event of a stream.
        writer: Writes an answer of a service that did not stream as requested.
        keepalive: See `RouteResponse`.
    """

    dialect: str
    operation: Operation = "chat"
    parameters: frozenset[str] = frozenset()
    of_client: frozenset[str] = frozenset()
    neutral: frozenset[str] = frozenset()
    renamed: Mapping[str, str] = field(factory=dict)
    reply_parameters: Mapping[str, Any] = field(factory=dict)
    headers: tuple[str, ...] = ()
    write_event: Callable[[StreamEvent], bytes]
    write_body: Callable[[bytes], bytes] = bytes
    write_error: Callable[[GenaiError], bytes]
    writer: ReplyWriter
    keepalive: bytes = field(default=COMMENT)


def fields_to_pass(host: Host, request: RouteRequest) -> dict[str, EncodedJson] | None:
    """The fields of a request that may pass through, encoded as they are.

    Returns:
        None if passing through is not enabled, calls are recorded, or the body is not a JSON object
        or has too many values (`ValueBudget`).
    """
    config = host.config
    enabled = config.server.pass_through
    if enabled is None:  # services know prices and data of other users that the host does not
        enabled = not (config.server.users or config.budgets.are_kept)
    if not enabled or (config.server.record_api_calls and host.store is not None):
        return None
    fields = _fields_of(request.body)
    if fields is None:
        return None
    return {name: EncodedJson(bytes(value)) for name, value in fields.items()}


def with_model(request: RouteRequest, model: str) -> RouteRequest:
    """Copy the name of the model from the path of a request to the field `model` of its body. The
    other fields keep their encoding. A body that is not a JSON object or has too many values
    (`ValueBudget`) is not changed."""
    fields = _fields_of(request.body)
    if fields is None:
        return request
    fields["model"] = msgspec.Raw(msgspec.json.encode(model))
    return evolve(request, body=msgspec.json.encode(fields))


def _fields_of(body: bytes) -> dict[str, msgspec.Raw] | None:
    try:
        if body.count(b":") > ValueBudget.SPARE:  # each field takes memory
            ValueBudget().count(body)
        if not body.isascii():
            body.decode()  # the decoder does not look into strings
        return _FIELDS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValidationError):
        return None


def value_of(fields: Mapping[str, EncodedJson], name: str) -> Any:
    """The value of a field; None if it is missing or cannot be read. Raises `ValidationError` if it
    has too many values (`ValueBudget`)."""
    if name not in fields:
        return None
    text = fields[name].data
    ValueBudget().count(text)
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def is_empty(fields: Mapping[str, EncodedJson], name: str) -> bool:
    """Whether a field is missing, null, or an empty text, list or object. It is not decoded."""
    return name not in fields or fields[name].data.translate(None, b" \t\r\n") in _EMPTY


def pass_through(
    host: Host,
    request: RouteRequest,
    fields: Mapping[str, EncodedJson],
    form: PassingFormat,
    *,
    model: str,
    stream: bool,
) -> RouteResponse | None:
    """Answer a request with the reply of a service in the same format.

    Args:
        host: The host.
        request: The HTTP request.
        fields: What `fields_to_pass` returned, as it is to be sent.
        form: How requests of the API pass through.
        model: Name of the model.
        stream: Whether the client wants a stream.

    Returns:
        The reply; None if the request must be read: a provider of the model has another format, or
        the model is a feature, unknown, or without some of the parameters.
    """
    if model.startswith(FEATURE):
        return None
    headers = {name: request.headers[name] for name in form.headers if name in request.headers}
    passed = PassedRequest(
        form.dialect,
        fields,
        stream,
        headers,
        form.neutral,
        form.renamed,
        form.reply_parameters,
        form.operation,
    )
    try:
        if form.parameters:
            can = capabilities(host, model)
            if form.parameters - can.parameters.keys() - (form.of_client - can.refused):
                return None
        answer = host.pass_through(passed, model=model, limits=request.limits, owner=request.user)
    except GenaiError:  # reported with the errors of the request
        return None
    if answer is None:
        return None
    answering = CompletionStream(answer, suspends=stream and suspends_for(host, model))
    if stream:
        return streamed(answering, lambda each: _events(each, form), keepalive=form.keepalive)
    completion = answering.finish()
    if isinstance(completion, (PassedCompletion, PassedCount)) and completion.body:
        body = form.write_body(completion.body)
        return RouteResponse(body, headers={"content-type": "application/json"})
    return json_response(form.writer.whole(completion))


def _events(answering: CompletionStream, form: PassingFormat) -> Iterator[bytes]:
    try:
        if not isinstance(answering.first, PassedDelta):
            yield from form.writer.events(answering)
            return
        with reported():
            for delta in answering:
                if isinstance(delta, PassedDelta) and delta.event is not None:
                    yield form.write_event(delta.event)
    except GenaiError as error:
        yield form.write_error(error)


def named_sse_of(event: StreamEvent) -> bytes:
    """An event as a server-sent event, named by the `type` of its data if it has no name, since
    some services leave the names out; empty for `[DONE]`."""
    if event.is_done:
        return b""
    return sse_of(event if event.name else StreamEvent(event.data, _type_of(event)))


class _Typed(msgspec.Struct):
    """An event, of which only the type is read."""

    type: str | None = None


_TYPED = msgspec.json.Decoder(_Typed)


def _type_of(event: StreamEvent) -> str | None:
    try:
        return _TYPED.decode(event.data).type
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def sse_of(event: StreamEvent) -> bytes:
    """An event of a service as a server-sent event."""
    is_named = event.name and not {"\r", "\n"} & {*event.name}
    name = f"event: {event.name}\n".encode() if is_named else b""
    lines = event.data
    if b"\n" in lines or b"\r" in lines:
        lines = b"\ndata: ".join(lines.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"))
    return name + b"data: " + lines + b"\n\n"
