"""One call of a model at a provider in a dialect; secrets are redacted from its errors.

    Route.stream → _stream → _request → Dialect.prepare_request → Provider.stream
                 → StreamedChunks.decoded → StreamDecoder.feed ... → finish → Completion

An exception of a plugin that is not a `GenaiError` becomes a `PluginError`, so that callers need
no guard against plugins.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from attrs import evolve

from genai_host.api import (
    Call,
    Clock,
    Completion,
    Delta,
    Dialect,
    Embeddings,
    ModerationResult,
    ProviderReply,
    ProviderRequest,
    ReplyStream,
    StreamDecoder,
    TokenCount,
    ToolSchema,
    Transcription,
    Usage,
    VendorTool,
)
from genai_host.api.cancellation import Cancellation, ended_with
from genai_host.api.dropped import ModelParameter, OfService
from genai_host.api.error_replies import error_of_reply, explain_unreadable, retry_after_of
from genai_host.api.http_provider import HttpProvider
from genai_host.api.models import EXTRA_BODY, merged_parameters
from genai_host.api.stream_parsers import detect_parser
from genai_host.api.tool_calls import distinct_calls
from genai_host.calls.parameters import ParameterChecker, with_extra_body
from genai_host.calls.passthrough import PassedRequest, PassThrough
from genai_host.calls.pricing import CallPricing
from genai_host.calls.raw_replies import RawReplies
from genai_host.calls.redaction import cause_of, redacted, redacted_reply
from genai_host.calls.streamed_chunks import StreamedChunks, estimated_usage
from genai_host.catalog.join import Candidate
from genai_host.catalog.prices import Prices
from genai_host.errors import (
    GenaiError,
    IncompleteReply,
    Interrupted,
    MalformedReply,
    PluginError,
    ProviderError,
    ProviderTimeout,
)
from genai_host.plugins.observers import NO_PARAMETERS, CallRecord, Observers
from genai_host.plugins.watchdog import Watched
from genai_host.providers.instance import ProviderCall
from genai_host.providers.instances import ProviderInstances
from genai_host.util import concurrency
from genai_host.util.text import describe_exception

E = TypeVar("E", bound=BaseException)
_log = logging.getLogger(__name__)
_GIVEN_UP = frozenset({408, 499, 504})
"""Statuses of a timeout, which do not say whether the work was done."""


class Route:
    """A model at a provider in a dialect.

    Every call is limited by a `Cancellation` and raises only `GenaiError`, with the names of model
    and provider.

    Args:
        candidate: Model, provider and dialect, with capabilities.
        dialect: The dialect.
        instances: The providers of the host.
        observers: Plugins that observe calls.
        clock: Source of time.
        prices: Price list; None if unknown.
    """

    def __init__(
        self,
        candidate: Candidate,
        dialect: Dialect[Any, Any],
        instances: ProviderInstances,
        observers: Observers,
        clock: Clock,
        prices: Prices | None = None,
    ) -> None:
        self.candidate = candidate
        self.info = candidate.info
        self.capabilities = candidate.capabilities
        self._dialect = dialect
        self.accepts_tokens = dialect.accepts_tokens
        self.max_texts = dialect.max_texts
        self.tool_names = dialect.tool_names
        accepts_images = "images" in self.capabilities
        answer_images = accepts_images and dialect.images_in_answers
        self.roles_with_images = frozenset(
            role for role, has in (("tool", accepts_images), ("assistant", answer_images)) if has
        )
        self._instances = instances
        self._observers = observers
        self._clock = clock
        self._prices = prices
        self._pricing = CallPricing(candidate, dialect.price_parameters, clock, prices)
        self._parameters = ParameterChecker(candidate, dialect.reserved, dialect.extensible)

    def parameters(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The given parameters, with the defaults of the model.

        Raises:
            InvalidParameter: A parameter is unknown here or has an invalid value.
        """
        self._parameters.check(given)
        valid = self.candidate.parameters
        usual = {key: v for key, v in self.candidate.defaults.items() if key in valid}
        return merged_parameters(usual, given)

    def accepted(
        self, tools: Sequence[ToolSchema], choice: str | None
    ) -> tuple[Sequence[ToolSchema], str | None]:
        """The tools that the service receives, see `VendorTool`, and the choice among them."""
        if not any(isinstance(tool, VendorTool) for tool in tools):
            return tools, choice
        taken: list[ToolSchema] = []
        for tool in tools:
            sent = self._sent(tool) if isinstance(tool, VendorTool) else tool
            if sent is not None:
                taken.append(sent)
            elif isinstance(tool, VendorTool) and tool.function is not None:
                taken.append(tool.function)
        others = {tool.name for tool in tools} - {tool.name for tool in taken}
        return taken, None if not taken or choice in others else choice

    def receives(self, dialect: str, given: OfService | None) -> bool:
        """See `Receives`."""
        if isinstance(given, ModelParameter):
            return given.name in self.candidate.parameters
        if isinstance(given, type):
            return "assistant" in self.roles_with_images
        if given is None and dialect != self._dialect.name:
            return False
        if isinstance(given, VendorTool):
            return self._sent(given) is not None
        return self._dialect.sends(given, self.candidate.variant)

    def _sent(self, tool: VendorTool) -> VendorTool | None:
        """The tool of the service that it receives for a tool; None if it has none."""
        own = self._dialect.service_tools.get(tool.kind) if tool.translated else None
        name = self._dialect.models_of or self._dialect.name
        translated = VendorTool(tool.name, "", extra={name: own}) if own else tool
        for each in (tool, translated):
            if self._dialect.sends(each, self.candidate.variant):
                return each
        return None

    def passing(self, request: PassedRequest) -> Route | None:
        """This route for one request that passes through; None if it does not fit."""
        if not request.fits(self.candidate, self._dialect.variant):
            return None
        dialect = PassThrough(self._dialect, request)
        return Route(
            self.candidate, dialect, self._instances, self._observers, self._clock, self._prices
        )

    @property
    def suspends(self) -> bool:
        """Whether its provider streams replies by the host's HTTP client alone, so that reading
        them needs no thread."""
        provider = self._instances[self.info.provider].look()
        return (
            isinstance(provider, HttpProvider)
            and type(provider).stream is HttpProvider.stream
            and provider.framings is HttpProvider.framings
        )

    def is_priced(self, parameters: Mapping[str, Any] = NO_PARAMETERS) -> bool:
        """Whether the cost of a call will be known, as far as can be determined before it."""
        return self._pricing.is_known(self._instances[self.info.provider].provider, parameters)

    def stream(
        self,
        call: Call,
        cancellation: Cancellation,
        report: CallRecord | None = None,
        raw: RawReplies | None = None,
    ) -> Generator[Delta, None, Any]:
        """Send a call, yield the chunks of the answer, and return the result. If the call is to be
        streamed and the provider cannot, it yields the answer as one chunk.

        Args:
            call: The call.
            cancellation: Cancels the call.
            report: Filled in with the outcome, also on failure.
            raw: Stores the raw reply.
        """
        started = self._clock.monotonic()
        report = report or CallRecord()
        is_streamed = call.stream
        with self._guarded(call, cancellation, report, raw) as (attempt, call):
            decoder = None
            if call.stream:
                with self._watching("decoder"):
                    decoder = self._dialect.decoder(call)
            if decoder is None:
                whole = evolve(call, stream=False) if call.stream else call
                result = self._send(whole, attempt, report)
                report.result = self._finished(call, result, started, attempt, report)
                if is_streamed:
                    yield from _in_one_piece(result)
            else:
                yield from self._stream(call, decoder, attempt, report, started)
        return report.result

    def _keep(self, attempt: ProviderCall, raw: RawReplies, report: CallRecord) -> None:
        """Store the raw reply of an attempt, if there is one."""
        if attempt.received:
            text = b"\n".join(attempt.received).decode("utf-8", "backslashreplace")
            report.raw_reply = raw.add(self.candidate.name, attempt.without_keys(text))

    def _fitted(self, call: Call, attempt: ProviderCall) -> Call:
        """The call for this provider."""
        id, variant = attempt.provider.provider_model_id(self.candidate.id), self.candidate.variant
        stream = call.stream and "stream" in self.capabilities
        if (call.model_id, call.variant, call.stream) == (id, variant, stream):
            return call
        return evolve(call, model_id=id, variant=variant, stream=stream)

    def _send(self, call: Call, attempt: ProviderCall, report: CallRecord) -> Any:
        request = self._request(call, report)
        attempt.watch.wait()
        report.sent = self._clock.monotonic()
        with self._watching("send", attempt):
            reply = attempt.provider.send(request, attempt.limits)
        attempt.collect(reply.body)
        attempt.limits.check()
        result = self._read(call, reply, attempt, report)
        report.estimated_usage = estimated_usage(call, request, result)
        return result

    def _stream(
        self,
        call: Call,
        decoder: StreamDecoder[Any],
        attempt: ProviderCall,
        report: CallRecord,
        started: float,
    ) -> Generator[Delta, None, None]:
        request = self._request(call, report)
        attempt.watch.expect_first()
        report.sent = self._clock.monotonic()
        with self._watching("stream", attempt):
            events = attempt.provider.stream(request, attempt.limits)
        if isinstance(events, ProviderReply):
            attempt.collect(events.body)
            attempt.limits.check()
            result = self._read(call, events, attempt, report)
            report.estimated_usage = estimated_usage(call, request, result)
            report.result = self._finished(call, result, started, attempt, report)
            yield from _in_one_piece(result)
            return
        streamed = StreamedChunks()
        with (
            attempt.limits.on_cancel(partial(self._close_soon, events, attempt)),
            self._watching("stream", attempt) as streaming,
            self._watching("feed") as feeding,
        ):
            try:
                pieces = streamed.decoded(events, decoder, attempt, feeding, streaming)
                for first in pieces:
                    report.first = self._clock.monotonic() - report.sent
                    yield first
                    break
                yield from pieces
            except GeneratorExit:
                self._charge(call, streamed.usage(request, decoder), started, attempt, report)
                raise
            except Exception as error:  # noqa: BLE001 - errors after the end are irrelevant
                if not decoder.done:
                    self._charge(call, streamed.usage(request, decoder), started, attempt, report)
                    raise _with_partial_text(error, decoder, attempt) from error.__cause__
            finally:
                with self._watching("close", attempt, limited=False):
                    events.close()
        try:
            if not decoder.done:
                attempt.limits.check()
            with self._watching("finish"):
                result = _with_distinct_calls(decoder.finish())
        except Exception:
            self._charge(call, streamed.usage(request, decoder), started, attempt, report)
            raise
        report.estimated_usage = estimated_usage(call, request, result)
        report.result = self._finished(call, result, started, attempt, report)
        yield from streamed.rest(result)

    def _charge(
        self, call: Call, usage: Usage, started: float, attempt: ProviderCall, report: CallRecord
    ) -> None:
        """Note the usage of a stream that has no result, for which services charge."""
        report.estimated_usage = usage
        # while the process ends, the import of the price list could take too long
        if usage.total and not isinstance(ended_with(attempt.limits), Interrupted):
            seconds, provider = self._clock.monotonic() - started, attempt.provider
            report.estimated_cost = self._pricing.listed(provider, call.model_id, usage, seconds)

    def _close_soon(self, events: ReplyStream, attempt: ProviderCall) -> None:
        """Close a stream in another thread, since its provider could block the thread that
        cancels."""

        def close() -> None:
            try:
                with self._watching("close", attempt, limited=False):
                    events.close()
            except Exception:  # noqa: BLE001 - it ends no thread but this one
                _log.warning("close() of a stream failed", exc_info=True)

        concurrency.new_thread("genai-host-close", close).start()

    @contextmanager
    def _guarded(
        self, call: Call, cancellation: Cancellation, report: CallRecord, raw: RawReplies | None
    ) -> Iterator[tuple[ProviderCall, Call]]:
        """Make one attempt within its limits, and store its raw reply, also on failure; all
        exceptions become a `GenaiError`."""
        try:
            instance = self._instances[self.info.provider]
            with instance.attempt(cancellation, self.candidate.id) as attempt:
                try:
                    call = self._fitted(call, attempt)
                except Exception as error:  # noqa: BLE001 - it is raised again
                    raise redacted(error, attempt) from error.__cause__
                operation = self._dialect.operation
                watching = self._observers.call(operation, self.info, call, self._clock, report)
                with watching as watched:
                    report.id = watched.id
                    attempt.limits.check()
                    _log.debug("calling %s in %s", self.candidate.name, self.info.dialect)
                    if raw is not None:
                        attempt = evolve(attempt, received=[])
                    try:
                        yield attempt, call
                    except (Exception, SystemExit) as error:  # noqa: BLE001 - raised again, without keys
                        raise redacted(error, attempt) from error.__cause__
                    finally:
                        if raw is not None:
                            self._keep(attempt, raw, report)
        except GenaiError as error:
            raise error.located(provider=self.info.provider, model=self.info.model) from (
                error.__cause__
            )
        except RecursionError as error:
            raise MalformedReply("the reply is nested too deeply", **self._place()) from error
        except (Exception, SystemExit) as error:
            raise PluginError(
                f"{self.candidate.name} failed: {describe_exception(error)}",
                hint="this is a fault of a plugin; -v shows where",
                **self._place(),
            ) from error

    def _place(self) -> dict[str, Any]:
        return {"provider": self.info.provider, "model": self.info.model}

    def _watching(
        self, method: str, attempt: ProviderCall | None = None, *, limited: bool = True
    ) -> Watched:
        """Watch a method of the dialect, or of the provider of an attempt. A provider may wait for
        its service until the attempt is cancelled, if it is limited."""
        watch = self._observers.watchdog.watch
        if attempt is None:
            return watch("dialect", self.info.dialect, method)
        limits = attempt.limits if limited else None
        return watch("provider", attempt.type_name, method, limits=limits)

    def _request(self, call: Call, report: CallRecord) -> ProviderRequest:
        """The request of the dialect, adapted to the provider."""
        extra = call.parameters.get(EXTRA_BODY)
        if extra is not None:
            others = {name: v for name, v in call.parameters.items() if name != EXTRA_BODY}
            call = evolve(call, parameters=others)
        with self._watching("prepare_request"):
            request = self._dialect.prepare_request(call)
        if extra:
            body = with_extra_body(request.body, extra, self._dialect.extensible)
            request = evolve(request, body=body)
        further = self._observers.headers(report.id, self.info) if report.id else None
        if further:
            request = evolve(request, headers={**further, **request.headers})
        serve = self.candidate.serve
        path = (request.stream and serve.stream_path) or serve.path
        request = request.at_endpoint(path, serve.query)
        if not (serve.extra_fields or serve.omit_fields or serve.header_to_body):
            return request
        body = {key: value for key, value in request.body.items() if key not in serve.omit_fields}
        body.update(serve.extra_fields)
        headers = dict(request.headers)
        for header, name in serve.header_to_body.items():
            if header in headers:
                body[name] = headers.pop(header)
        return evolve(request, body=body, headers=headers)

    def _read(
        self, call: Call, reply: ProviderReply, attempt: ProviderCall, report: CallRecord
    ) -> Any:
        if reply.status < 300:
            try:
                with self._watching("extract_result"):
                    return _with_distinct_calls(self._extract(call, reply))
            except MalformedReply as malformed:
                unreadable = explain_unreadable(redacted_reply(reply, attempt.without_keys))
                raise unreadable or malformed from malformed.__cause__
        report.refused = reply.status not in _GIVEN_UP
        reply = redacted_reply(reply, attempt.without_keys)
        with self._watching("map_error", attempt):
            error: Exception | None = attempt.provider.map_error(reply)
        if error is None:
            with self._watching("map_error"):
                error = self._dialect.map_error(reply) or error_of_reply(reply)
        if isinstance(error, ProviderError) and error.retry_after is None:
            error.retry_after = retry_after_of(reply, self._clock.now())
        raise error

    def _extract(self, call: Call, reply: ProviderReply) -> Any:
        """The result of a complete reply, also of a stream that was not requested."""
        if reply.body.startswith(b"{") and b"\n" not in reply.body:  # in most cases
            return self._dialect.extract_result(call, reply)
        parser, blocks = detect_parser(iter((reply.body,)))
        decoder = None if parser is None else self._dialect.decoder(call)
        if parser is None or decoder is None:
            return self._dialect.extract_result(call, reply)
        for event in parser(blocks):
            if not decoder.done and not event.is_keepalive:
                decoder.feed(event)
        return decoder.finish()

    def _finished(
        self, call: Call, result: Any, started: float, attempt: ProviderCall, report: CallRecord
    ) -> Any:
        seconds = self._clock.monotonic() - started
        if isinstance(result, TokenCount):
            return evolve(result, route=self.info, seconds=seconds)
        if not isinstance(result, (Completion, Embeddings, ModerationResult, Transcription)):
            raise TypeError(f"dialect {self.info.dialect} returned a {type(result).__name__}")
        usage = None if isinstance(result, ModerationResult) else result.usage
        is_estimated = report.estimated_usage.total > 0
        if is_estimated:
            usage = report.estimated_usage
        listed = self._pricing.listed(attempt.provider, call.model_id, usage, seconds)
        is_unsure = is_estimated or self._pricing.is_changed_by(call.parameters)
        report.estimated_cost = listed
        cost = None if is_unsure and listed else listed
        if type(result) is not Completion:
            return evolve(result, route=self.info, seconds=seconds, cost=cost)
        return Completion(  # `evolve` takes three times as long
            result.message,
            result.finish,
            result.usage,
            result.value,
            result.vendor_finish,
            self.info,
            seconds,
            cost,
            result.raw_reply,
            extra=result.extra,
        )


def _in_one_piece(result: Any) -> Iterator[Delta]:
    if isinstance(result, Completion) and (result.text or result.extra):
        yield result.in_one_piece()


def _with_distinct_calls(result: Any) -> Any:
    """The result, in which each tool call has a unique id."""
    if not isinstance(result, Completion) or not result.tool_calls:
        return result
    content = distinct_calls(result.message.content, repeated=True)
    return evolve(result, message=evolve(result.message, content=content))


def _with_partial_text(
    error: Exception, decoder: StreamDecoder[Any], attempt: ProviderCall
) -> Exception:
    """The error of an interrupted stream, with the text received so far."""
    error = cause_of(error, attempt.limits)
    if isinstance(error, (IncompleteReply, ProviderTimeout)) and not error.text:
        try:
            error.text = getattr(decoder.finish(), "text", "")
        except IncompleteReply as cut:
            error.text = cut.text
    return error
