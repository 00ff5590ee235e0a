"""Calls that pass through: client and service use the same API format, so that the host changes the
name of the model and reads the usage, and leaves the rest as it is.

    Host.pass_through → Agent.pass_through → Route.stream, with a `PassThrough` as its dialect

Retries, failover, limits, budgets and observers are the same as for other calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

from genai_host.api import (
    ChatCall,
    Completion,
    Delta,
    Dialect,
    EncodedJson,
    Operation,
    ProviderReply,
    ProviderRequest,
    StreamDecoder,
    StreamEvent,
    TokenCount,
)
from genai_host.api.models import EXTRA_BODY
from genai_host.catalog.join import Candidate
from genai_host.errors import GenaiError


@frozen
class PassedRequest:
    """A request of a client that passes through.

    Attributes:
        dialect: Name of the dialect that has the client's format.
        fields: Fields of the body, encoded.
        stream: Whether the client wants a stream.
        headers: Headers of the format that the service receives, too.
        neutral: Options of the dialect (`Dialect.variant`) that matter only to requests that the
            host writes.
        renamed: Fields to rename: the option of the dialect that has the name of a field at the
            service, with its name in the request.
        parameters: Parameters by which the dialect reads replies.
        operation: `chat`, or `count` to count tokens.
    """

    dialect: str
    fields: Mapping[str, EncodedJson]
    stream: bool = False
    headers: Mapping[str, str] = field(factory=dict)
    neutral: frozenset[str] = frozenset()
    renamed: Mapping[str, str] = field(factory=dict)
    parameters: Mapping[str, Any] = field(factory=dict)
    operation: Operation = "chat"

    def fits(self, candidate: Candidate, usual: Mapping[str, Any]) -> bool:
        """Whether the service takes the request as it is.

        Args:
            candidate: Model, provider and dialect.
            usual: Options of the dialect with their defaults.
        """
        if candidate.dialect != self.dialect:
            return False
        if self.operation == "chat" and EXTRA_BODY not in candidate.parameters:
            return False  # providers in this process have no further fields
        if self.stream and "stream" not in candidate.capabilities:
            return False
        serve = candidate.serve
        if serve.extra_fields or serve.omit_fields or serve.header_to_body:
            return False
        names = {*candidate.variant, *usual} - self.neutral - self.renamed.keys()
        return not candidate.defaults and all(
            candidate.variant.get(name) == usual.get(name) for name in names
        )


@frozen
class PassedDelta(Delta):
    """A chunk of an answer, with the event of the service.

    Attributes:
        event: The event; None for a further chunk of the same event.
    """

    event: StreamEvent | None = None


@frozen
class PassedCompletion(Completion):
    """An answer, with the reply of the service.

    Attributes:
        body: The body; empty for a stream.
    """

    body: bytes = b""


@frozen
class PassedCount(TokenCount):
    """A number of tokens, with the reply of the service.

    Attributes:
        body: The body.
    """

    body: bytes = b""


class PassThrough(Dialect[ChatCall, Completion | TokenCount]):
    """The dialect of a route, for one request that passes through.

    Args:
        dialect: The dialect, which reads usage and errors.
        request: The request.
    """

    def __init__(self, dialect: Dialect[ChatCall, Any], request: PassedRequest) -> None:
        self.dialect = dialect
        self.operation = dialect.operation  # type: ignore[misc]  # of this dialect
        self.price_parameters = dialect.price_parameters  # type: ignore[misc]  # of this dialect
        self.reserved = dialect.reserved  # type: ignore[misc]  # of this dialect
        self.extensible = dialect.extensible  # type: ignore[misc]  # of this dialect
        self._request = request

    def prepare_request(self, call: ChatCall) -> ProviderRequest:
        body: dict[str, Any] = dict(self._request.fields)
        if "model" in body:
            body["model"] = call.model_id
        variant = {**self.dialect.variant, **call.variant}
        for option, name in self._request.renamed.items():
            body[variant[option]] = body.pop(name)
        dialect, headers = self._request.dialect, self._request.headers
        return ProviderRequest(self.operation, dialect, call.model_id, body, call.stream, headers)

    def extract_result(self, call: ChatCall, reply: ProviderReply) -> Completion | TokenCount:
        result = self.dialect.extract_result(self._read_as(call), reply)
        if isinstance(result, TokenCount):
            return PassedCount(result.tokens, body=reply.body)
        return _passed(result, reply.body)

    def decoder(self, call: ChatCall) -> StreamDecoder[Completion] | None:
        decoder = self.dialect.decoder(self._read_as(call))
        return None if decoder is None else _Decoder(decoder)

    def _read_as(self, call: ChatCall) -> ChatCall:
        parameters = self._request.parameters
        return evolve(call, parameters=parameters) if parameters else call

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        return self.dialect.map_error(reply)


class _Decoder:
    """A decoder whose chunks have the events of the service."""

    def __init__(self, decoder: StreamDecoder[Completion]) -> None:
        self._decoder = decoder
        self._result: Completion | None = None

    @property
    def done(self) -> bool:
        return self._decoder.done

    def feed(self, event: StreamEvent) -> Sequence[Delta]:
        first, *others = self._decoder.feed(event) or (Delta(),)
        if self._decoder.done:
            self._result = self._decoder.finish()  # an error is raised before the end is passed on
        fields = (first.text, first.reasoning, first.tool_call, first.opaque, first.extra)
        passed = PassedDelta(*fields, first.citations, event)
        return [passed, *others]

    def finish(self) -> Completion:
        return _passed(self._result or self._decoder.finish(), b"")


def _passed(result: Completion, body: bytes) -> Completion:
    fields = (result.message, result.finish, result.usage, result.value, result.vendor_finish)
    return PassedCompletion(*fields, body=body, extra=result.extra)
