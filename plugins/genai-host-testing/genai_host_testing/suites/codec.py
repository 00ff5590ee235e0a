"""Base suites for dialects of all operations."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from attrs import evolve

from genai_host.api import (
    Call,
    Completion,
    Dialect,
    ProviderReply,
    SchemaValidator,
    StreamDecoder,
    StreamEvent,
    Usage,
)
from genai_host.api.dialects import CAPABILITIES
from genai_host.config import Config
from genai_host.errors import GenaiError
from genai_host.plugins.discovery import Plugins, StaticPlugins
from genai_host_testing.plugins import InlinePlugin
from genai_host_testing.purity import NO_REPLIES, damaged
from genai_host_testing.suites.base import Suite

_OF_TYPES: Mapping[str, Any] = {"string": "sample", "boolean": True, "object": {}, "null": None}


def sample_of(schema: Any) -> Any:
    """A value that a simple schema accepts; undefined for other schemas."""
    if not isinstance(schema, Mapping):
        return "sample"
    for given in ("const", "default"):
        if given in schema:
            return schema[given]
    if schema.get("enum"):
        return schema["enum"][0]
    for either in ("anyOf", "oneOf"):
        if schema.get(either):
            return sample_of(schema[either][0])
    kind = schema.get("type", "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind in ("number", "integer"):
        return schema.get("minimum", schema.get("maximum", 1))
    if kind == "array":
        return [sample_of(schema.get("items", {}))]
    if kind == "object" and "properties" in schema:
        return {name: sample_of(each) for name, each in schema["properties"].items()}
    return _OF_TYPES.get(kind, "sample")


class CodecSuite(Suite):
    """Base of the dialect suites; use `DialectSuite` or `EmbedDialectSuite`.

    Attributes:
        dialect: Tested dialect.
        reply: Body of a whole reply, as sent by the service.
        refusals: Error replies: status (400 or more), body, class of the error.
        parameter_values: Values of parameters, where none can be generated from the JSON Schema.
    """

    dialect: Dialect[Any, Any]
    reply: bytes
    refusals: Sequence[tuple[int, bytes, type[GenaiError]]] = ()
    parameter_values: Mapping[str, Any] = {}

    def call(self) -> Any:
        """A call with all content that the dialect can write."""
        raise NotImplementedError

    def written(self, call: Call) -> Any:
        """The body written by the dialect, parsed, and the headers."""
        return self.data(call), self.dialect.prepare_request(call).headers

    def data(self, call: Call) -> Any:
        """The body written by the dialect, parsed."""
        return json.loads(self.dialect.prepare_request(call).data())

    def test_declaration_is_valid(self) -> None:
        dialect = self.dialect
        plugins = Plugins(StaticPlugins({"tested": InlinePlugin(dialects=[dialect])}), Config())
        assert not plugins.broken, plugins.broken[0].line()
        assert dialect.capabilities <= CAPABILITIES.keys()
        for name, schema in dialect.parameters.items():
            assert schema is not False, f"{name}: a parameter that is refused is left out"
            SchemaValidator(schema).check(self.parameter_value(name))
        assert json.loads(json.dumps(dict(dialect.variant))) == dict(dialect.variant)

    def test_request_states_dialect_operation_and_model(self) -> None:
        request = self.dialect.prepare_request(self.call())
        assert (request.operation, request.dialect) == (self.dialect.operation, self.dialect.name)
        assert (request.model_id, request.stream) == ("m-1", False)
        json.loads(request.data())

    def test_equal_calls_are_written_equally(self) -> None:
        """Calls in between have no effect: a dialect has no state."""
        first = self.dialect.prepare_request(self.call())
        self.dialect.prepare_request(evolve(self.call(), model_id="m-2"))
        second = self.dialect.prepare_request(self.call())
        assert first.data() == second.data()
        assert (first.headers, first.path, first.query) == (
            second.headers, second.path, second.query,
        )  # fmt: skip

    def test_each_parameter_is_written(self) -> None:
        without = self.written(self.call())
        for name in self.dialect.parameters:
            value = self.parameter_value(name)
            written = self.written(evolve(self.call(), parameters={name: value}))
            assert written != without, f"{name} is left out"

    def test_omitted_variant_equals_default_variant(self) -> None:
        chosen = evolve(self.call(), variant=dict(self.dialect.variant))
        assert self.data(chosen) == self.data(self.call())

    def test_a_reply_is_read_the_same_each_time(self) -> None:
        assert self.extracted(self.reply) == self.extracted(self.reply)

    def test_invalid_reply_raises_typed_error(self) -> None:
        for body in NO_REPLIES:
            try:
                found = self.extracted(body)
            except (GenaiError, RecursionError):  # the host raises a typed error for this one
                continue
            except Exception as error:
                raise AssertionError(f"{short(body)} raises {error!r}") from error
            raise AssertionError(f"{short(body)} is read as {found!r}")

    def test_a_damaged_reply_is_read_or_is_a_typed_error(self) -> None:
        for body in damaged(self.reply):
            found = read(body, self.extracted, body)
            assert found is None or self.is_sound(found), f"{short(body)} is read as {found!r}"

    def test_truncated_reply_is_never_complete(self) -> None:
        """A reply that ends with its connection may be truncated."""
        for length in range(len(self.reply.rstrip())):
            body = self.reply[:length]
            assert read(body, self.extracted, body) is None, short(body)

    def test_refusals_are_explained(self) -> None:
        for status, body, kind in self.refusals:
            error = self.dialect.map_error(ProviderReply(body, status))
            assert type(error) is kind, f"{status} {short(body)} is {error!r}"
            assert "\n" not in error.message

    def test_unreadable_refusal_is_mapped_by_status(self) -> None:
        samples = [body for _, body, _ in self.refusals] or [self.reply]
        for body in (*NO_REPLIES, *(each for sample in samples for each in damaged(sample))):
            for status in (400, 401, 429, 500):
                error = read(body, self.dialect.map_error, ProviderReply(body, status))
                assert error is None or isinstance(error, GenaiError), f"{error!r}"

    def extracted(self, body: bytes) -> Any:
        return self.dialect.extract_result(self.call(), ProviderReply(body))

    def is_sound(self, result: Any) -> bool:
        """Whether a result has the right types, whatever its content."""
        raise NotImplementedError

    def parameter_value(self, name: str) -> Any:
        given = self.parameter_values
        return given[name] if name in given else sample_of(self.dialect.parameters[name])


class StreamSuite(CodecSuite):
    """Base of the suites of dialects whose answers are texts, whole or streamed.

    Attributes:
        stream: Data of the events of the reply, streamed; the last one is the end marker of the
            format. None for a format without streams.
        closing_events: Number of events after the end of the answer; more than the end marker if
            the service may omit them.
        usage: Usage in the reply.
    """

    stream: Sequence[bytes] | None
    closing_events = 1
    usage = Usage()

    def test_a_damaged_stream_is_read_or_is_a_typed_error(self) -> None:
        for events in self.streams():
            for at, event in enumerate(events):
                for other in (*damaged(event), *NO_REPLIES):
                    changed = [*events[:at], other, *events[at + 1 :]]
                    found = read(other, self.decoded, changed)
                    if found is not None:
                        pieces, result = found
                        assert self.is_sound(result), f"{short(other)} makes it {result!r}"
                        assert all(isinstance(piece.text, str) for piece in pieces), short(other)

    def streams(self) -> Sequence[Sequence[bytes]]:
        return [self.events()]

    def events(self) -> Sequence[bytes]:
        if self.stream is None:
            assert "stream" not in self.dialect.capabilities, "it can stream: give `stream`"
            pytest.skip("the format has no streams")
        return self.stream

    def decoder(self) -> StreamDecoder[Any]:
        decoder = self.dialect.decoder(evolve(self.call(), stream=True))
        assert decoder is not None, f"{self.dialect.name} has no decoder"
        return decoder

    def decoded(self, events: Sequence[bytes]) -> tuple[list[Any], Any]:
        """The chunks of a stream, and the result."""
        decoder = self.decoder()
        return list(fed(decoder, events)), decoder.finish()

    def is_sound(self, result: Any) -> bool:
        return isinstance(result, Completion) and isinstance(result.text, str)


def read(data: bytes, read: Callable[[Any], Any], given: Any) -> Any:
    """The parsed result; None if the data is rejected with a valid error."""
    try:
        return read(given)
    except (GenaiError, RecursionError):
        return None
    except Exception as error:
        raise AssertionError(f"{short(data)} raises {error!r}") from error


def short(data: bytes) -> str:
    return repr(data if len(data) < 300 else data[:300] + b" ...")


def fed(decoder: StreamDecoder[Any], events: Sequence[bytes]) -> Iterator[Any]:
    """The chunks that a decoder gives for the events of a stream."""
    for event in events:
        yield from decoder.feed(StreamEvent(event))
