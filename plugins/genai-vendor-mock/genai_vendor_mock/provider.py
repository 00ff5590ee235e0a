"""The mock provider: replies from its script, in the host's plain format."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any

from genai_host.api import (
    CancelToken,
    Clock,
    Completion,
    DialectEndpoint,
    Embeddings,
    FinishReason,
    ListedModel,
    Message,
    Part,
    Provider,
    ProviderReply,
    ProviderRequest,
    Reasoning,
    ReplyStream,
    Services,
    StreamEvent,
    Text,
    TokenCount,
    Usage,
)
from genai_host.errors import ContextOverflow, GenaiError, IncompleteReply, ServiceUnavailable
from genai_vendor_mock import Script, ScriptedReply, Settings, codec

_REMEMBERED = 100
_SIZE = 16

_BODIES = {
    "garbage": b'{"message": {"role": "assistant", "content": [{"ty',
    "html": b"<html><body><h1>502 Bad Gateway</h1></body></html>",
    "empty": b"",
}


class MockProvider(Provider):
    """A provider that replies from a script.

    Attributes:
        script: The replies; an empty script repeats the input.
        requests: The last 100 requests.
    """

    serves = {
        "plain": DialectEndpoint(),
        "plain-embed": DialectEndpoint(),
        "plain-count": DialectEndpoint(),
    }
    default_models = {"chat": "mock", "embed": "mock-embed"}

    def __init__(self, settings: Settings, services: Services) -> None:
        self.script = Script(settings.replies, settings.repeat)
        self.requests: deque[dict[str, Any]] = deque(maxlen=_REMEMBERED)
        self.closed = False
        self._lacks = settings.missing
        self._seller = settings.priced_as
        self._clock = services.clock

    def unavailable_reason(self) -> str | None:
        return self._lacks or None

    def price_provider(self, model_id: str) -> str:
        return self._seller

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        body = self._receive(request)
        if request.operation == "embed":
            return ProviderReply(self._dump(_embed(body["texts"])))
        if request.operation == "count":
            return ProviderReply(self._dump(TokenCount(_tokens(body))))
        reply = self._next(body)
        nap = _Nap(self._clock, limits)
        refused = self._begin(reply, nap)
        if refused is not None:
            return refused
        for _ in _pieces(reply)[1:]:
            nap.take(reply.pace)
        if reply.fault == "cut":
            raise IncompleteReply("the reply was interrupted before its end")
        return ProviderReply(self._dump(_completion(reply, body)))

    def stream(self, request: ProviderRequest, limits: CancelToken) -> ReplyStream | ProviderReply:
        body = self._receive(request)
        reply = self._next(body)
        nap = _Nap(self._clock, limits)
        refused = self._begin(reply, nap)
        return _Stream(self._events(reply, body, nap), nap) if refused is None else refused

    def list_models(self, limits: CancelToken) -> Iterable[ListedModel]:
        return [ListedModel("mock", ("plain",)), ListedModel("mock-embed", ("plain-embed",))]

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        if reply.headers.get("fault") == "overflow":
            return ContextOverflow("the prompt is longer than the window", status=reply.status)
        return None

    def close(self) -> None:
        self.closed = True

    def _receive(self, request: ProviderRequest) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(request.data())
        self.requests.append(body)
        return body

    def _next(self, body: dict[str, Any]) -> ScriptedReply:
        return self.script.next() if self.script else _echo(body)

    def _begin(self, reply: ScriptedReply, nap: _Nap) -> ProviderReply | None:
        """Simulate everything before the first chunk; return a reply if there is none."""
        nap.take(reply.delay)
        if reply.fault == "refused":
            raise ServiceUnavailable("the connection was refused")
        if reply.fault == "reset":
            raise ServiceUnavailable("the connection was reset")
        if reply.fault == "crash":
            raise RuntimeError("the mock crashed as configured")
        if reply.fault == "hang":
            nap.take(None)
        if reply.status or reply.fault == "overflow":
            return _refusal(reply)
        body = _BODIES.get(reply.fault or "")
        if body is not None:
            return ProviderReply(body)
        return None

    def _events(
        self, reply: ScriptedReply, body: dict[str, Any], nap: _Nap
    ) -> Iterator[StreamEvent]:
        for number, delta in enumerate(_pieces(reply)):
            if reply.fault == "cut" and number == reply.pieces:
                return
            if number:
                nap.take(reply.pace)
            yield StreamEvent(json.dumps({"delta": delta}).encode())
        if reply.fault != "cut":
            end = codec().to_json(_completion(reply, body))
            yield StreamEvent(json.dumps({"end": end}).encode())

    def _dump(self, value: Any) -> bytes:
        return json.dumps(codec().to_json(value)).encode()


class _Nap:
    """Waits on the host's clock. A wait ends after its time, with the call, or by `end`."""

    def __init__(self, clock: Clock, limits: CancelToken) -> None:
        self._clock = clock
        self._limits = limits
        self._woken = threading.Event()
        self.is_over = False

    def take(self, seconds: float | None) -> None:
        """Wait for some seconds; None for no limit. Raises the error of the call's limits."""
        if seconds is None or seconds > 0:
            with ExitStack() as registered:
                registered.enter_context(self._limits.on_cancel(self._woken.set))
                if seconds is not None:
                    registered.enter_context(self._clock.call_later(seconds, self._woken.set))
                self._woken.wait()
            if not self.is_over:
                self._woken.clear()
        self._limits.check()

    def end(self) -> None:
        """End this wait and all future ones immediately."""
        self.is_over = True
        self._woken.set()


class _Stream:
    """Events until it is closed, which also ends a pause between them."""

    def __init__(self, events: Iterator[StreamEvent], nap: _Nap) -> None:
        self._events = events
        self._nap = nap

    def __iter__(self) -> Iterator[StreamEvent]:
        for event in self._events:
            if self._nap.is_over:
                return
            yield event

    def close(self) -> None:
        self._nap.end()


def _echo(body: dict[str, Any]) -> ScriptedReply:
    from_user = [message for message in body["messages"] if message["role"] == "user"]
    content = from_user[-1]["content"] if from_user else ()
    return ScriptedReply("".join(part["text"] for part in content if part["type"] == "text"))


def _refusal(reply: ScriptedReply) -> ProviderReply:
    headers: dict[str, str] = {"fault": reply.fault or ""}
    if reply.retry_after is not None:
        headers["retry-after"] = f"{reply.retry_after:g}"
    return ProviderReply(b"{}", reply.status or 400, headers)


def _pieces(reply: ScriptedReply) -> list[dict[str, Any]]:
    """Return the chunks of a streamed reply, one per word."""
    pieces = [{"reasoning": reply.reasoning}] if reply.reasoning else []
    pieces += [{"text": word} for word in _words(reply.text)]
    return pieces


def _words(text: str) -> list[str]:
    """Split a text into words, each with the space before it; joined, they are the text."""
    first, *others = text.split(" ")
    words = [f" {word}" for word in others]
    return [first, *words] if first else words


def _completion(reply: ScriptedReply, body: dict[str, Any]) -> Completion:
    content: list[Part] = [Reasoning(reply.reasoning)] if reply.reasoning else []
    content += [Text(reply.text)] if reply.text else []
    content += reply.tool_calls
    usage = reply.usage
    if usage is None:
        usage = Usage(input_tokens=_tokens(body), output_tokens=len(_pieces(reply)))
    finish = reply.finish or _usual_finish(reply)
    return Completion(Message("assistant", content), finish, usage, vendor_finish=finish)


def _tokens(body: dict[str, Any]) -> int:
    return len(json.dumps(body["messages"]).split())


def _usual_finish(reply: ScriptedReply) -> FinishReason:
    if reply.fault == "filtered":
        return "content_filter"
    return "tool_calls" if reply.tool_calls else "stop"


def _embed(texts: list[str]) -> Embeddings:
    """Return deterministic vectors without meaning; equal texts have equal vectors."""
    vectors = []
    for text in texts:
        numbers = [byte / 255 - 0.5 for byte in hashlib.sha256(text.encode()).digest()[:_SIZE]]
        length = sum(number * number for number in numbers) ** 0.5
        vectors.append([number / length for number in numbers])
    return Embeddings(
        vectors, "mock-embed", Usage(input_tokens=sum(len(text.split()) for text in texts))
    )
