"""One way to call a model: a candidate that runs, with its dialect and its provider.

    Route.stream → _request → Dialect.prepare_request → Provider.stream
                 → Dialect.decoder → Completion

What a plugin raises that is no `GenaiError` becomes a `PluginError` here, so that
nothing above needs to guard against plugins.
"""

from __future__ import annotations

import difflib
import logging
import math
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any

from attrs import evolve

from genai_host.api import (
    Call,
    Checker,
    Clock,
    Completion,
    Delta,
    Dialect,
    Provider,
    ProviderReply,
    ProviderRequest,
    Vectors,
)
from genai_host.cancellation import Cancellation
from genai_host.errors import (
    GenaiError,
    InvalidData,
    InvalidParameter,
    MalformedReply,
    PluginError,
    error_of_status,
)
from genai_host.instances import Instances
from genai_host.observers import Observers
from genai_host.resolution import Candidate

_log = logging.getLogger(__name__)


class Route:
    """A model at a provider instance in a dialect, ready to call.

    Every call is bounded by a `Cancellation`, raises `GenaiError` and nothing else,
    and names the model and the provider in it.
    """

    def __init__(
        self,
        candidate: Candidate,
        dialect: Dialect[Any, Any],
        instances: Instances,
        observers: Observers,
        clock: Clock,
    ) -> None:
        self.candidate = candidate
        self.info = candidate.info
        self.capabilities = candidate.capabilities
        self._dialect = dialect
        self._instances = instances
        self._observers = observers
        self._clock = clock
        self._checkers: dict[str, Checker] = {}

    def parameters(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What is given, over what suits the model.

        Raises `InvalidParameter` for a name that is not taken here, and for a bad
        value.
        """
        for name, value in given.items():
            self._check_parameter(name, value)
        valid = self.candidate.parameters
        usual = {key: v for key, v in self.candidate.model.defaults.items() if key in valid}
        return {**usual, **given}

    def call(self, call: Call, cancellation: Cancellation) -> Any:
        """Send a call, wait, and give what the dialect reads from the reply."""
        started = self._clock.monotonic()
        with self._guarded(cancellation) as (provider, limits, report):
            reply = provider.send(self._request(call, provider), limits)
            limits.check()
            report.result = self._finished(self._read(call, reply, provider), started)
        return report.result

    def stream(self, call: Call, cancellation: Cancellation) -> Generator[Delta, None, Completion]:
        """Send a call and give the pieces of the answer as they come, then the whole."""
        started = self._clock.monotonic()
        with self._guarded(cancellation) as (provider, limits, report):
            decoder = self._dialect.decoder(call)
            if decoder is None or "stream" not in self.capabilities:
                reply = provider.send(self._request(call, provider), limits)
                result = yield from self._in_one_piece(call, reply, provider, limits)
            else:
                events = provider.stream(self._request(call, provider), limits)
                if isinstance(events, ProviderReply):
                    result = yield from self._in_one_piece(call, events, provider, limits)
                else:
                    with limits.on_cancel(events.close):
                        try:
                            for event in events:
                                yield from decoder.feed(event)
                        finally:
                            events.close()
                    limits.check()
                    result = decoder.finish()
            completion: Completion = self._finished(result, started)
            report.result = completion
        return completion

    def _check_parameter(self, name: str, value: Any) -> None:
        valid = self.candidate.parameters
        if name not in valid:
            near = difflib.get_close_matches(name, valid, 1)
            raise InvalidParameter(
                f"{self.candidate.name} takes no parameter {name!r}",
                parameter=name,
                valid=sorted(valid),
                hint=f"did you mean {near[0]}?" if near else f"it takes {', '.join(sorted(valid))}",
                model=self.info.model,
                provider=self.info.provider,
            )
        if name not in self._checkers:
            self._checkers[name] = Checker(valid[name])
        try:
            self._checkers[name].check(value)
        except InvalidData as error:
            about = valid[name].get("description", "") if isinstance(valid[name], Mapping) else ""
            raise InvalidParameter(
                f"{name}: {error}",
                parameter=name,
                valid=sorted(valid),
                hint=f"{name}: {about}" if about else "",
                model=self.info.model,
                provider=self.info.provider,
            ) from error

    @contextmanager
    def _guarded(self, cancellation: Cancellation) -> Iterator[tuple[Provider, Any, Any]]:
        """The bounds of one attempt; whatever is raised inside leaves as one of ours."""
        try:
            instance = self._instances[self.info.provider]
            with (
                instance.attempt(cancellation) as limits,
                self._observers.call(self.info, self._clock) as report,
            ):
                limits.check()
                _log.debug("calling %s in %s", self.candidate.name, self.info.dialect)
                try:
                    yield instance.provider, limits, report
                except Exception:
                    limits.check()  # being cancelled is why, whatever it looks like below
                    raise
        except GenaiError as error:
            raise error.located(provider=self.info.provider, model=self.info.model) from (
                error.__cause__
            )
        except RecursionError as error:
            raise MalformedReply("the reply is nested too deeply", **self._place()) from error
        except Exception as error:
            raise PluginError(
                f"{self.candidate.name} failed: {type(error).__name__}: {error}",
                hint="this is a fault of a plugin; -v shows where",
                **self._place(),
            ) from error

    def _place(self) -> dict[str, Any]:
        return {"provider": self.info.provider, "model": self.info.model}

    def _request(self, call: Call, provider: Provider) -> ProviderRequest:
        """The dialect's request, with the provider's differences applied."""
        call = evolve(
            call,
            model_id=provider.wire_id(self.candidate.id),
            variant=self.candidate.variant,
        )
        request = self._dialect.prepare_request(call)
        serve = self.candidate.serve
        if not (serve.add or serve.drop or serve.header_to_body):
            return request
        body = {key: value for key, value in request.body.items() if key not in serve.drop}
        body.update(serve.add)
        headers = dict(request.headers)
        for header, name in serve.header_to_body.items():
            if header in headers:
                body[name] = headers.pop(header)
        return evolve(request, body=body, headers=headers)

    def _in_one_piece(
        self, call: Call, reply: ProviderReply, provider: Provider, limits: Cancellation
    ) -> Generator[Delta, None, Any]:
        limits.check()
        result = self._read(call, reply, provider)
        if isinstance(result, Completion) and result.text:
            yield Delta(text=result.text)
        return result

    def _read(self, call: Call, reply: ProviderReply, provider: Provider) -> Any:
        if reply.status >= 400:
            raise (
                provider.explain_error(reply)
                or self._dialect.explain_error(reply)
                or error_of_status(
                    reply.status,
                    f"the service answered with status {reply.status}",
                    retry_after=_retry_after(reply, self._clock),
                )
            )
        return self._dialect.extract_result(call, reply)

    def _finished(self, result: Any, started: float) -> Any:
        if not isinstance(result, (Completion, Vectors)):
            raise TypeError(f"dialect {self.info.dialect} gives a {type(result).__name__}")
        return evolve(result, route=self.info, seconds=self._clock.monotonic() - started)


def _retry_after(reply: ProviderReply, clock: Clock) -> float | None:
    """Seconds that the service asks to wait: a number, or a date (RFC 9110, 10.2.3)."""
    value = next((v for name, v in reply.headers.items() if name.lower() == "retry-after"), "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(value) - clock.now()).total_seconds()
        except (ValueError, TypeError):  # neither, or a date without an offset
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None
