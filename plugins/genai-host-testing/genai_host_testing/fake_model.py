"""A model in this process that answers what a function returns.

It is for tests of features:

    fake = FakeModel(lambda heard: f"you said {heard.text}")
    host = make_host(fake=fake, mine=my_plugin)
    assert host.open("mine", "fake").say("hi").text == "you said hi"

`ASKING` is a feature that only asks a model, for tests of providers.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from genai_host.api import (
    Answer,
    CancelToken,
    Codec,
    Completion,
    DialectEndpoint,
    Embeddings,
    Feature,
    FeatureSteps,
    Message,
    Model,
    NoSettings,
    Prompt,
    Provider,
    ProviderReply,
    ProviderRequest,
    ProviderType,
    ReplyStream,
    Services,
    StreamEvent,
    TokenCount,
    Turn,
    hookimpl,
)
from genai_host.api.codec import default_codec
from genai_host.api.json_text import read_json
from genai_host.errors import GenaiError, IncompleteReply
from genai_host_testing.fake_service import CUT, HANG, Act


def _respond(turn: Turn[NoSettings]) -> FeatureSteps:
    completion = yield from Prompt([*turn.history, turn.message])
    return Answer(completion.text)


ASKING = Feature("asking", NoSettings, _respond, help="ask a model")


_CHUNK = 8  # characters per chunk of a streamed answer
_SIZE = 8


@frozen
class RecordedPrompt:
    """A prompt received by the model.

    Attributes:
        number: Number of earlier prompts.
        messages: Messages, oldest first.
        schema: JSON Schema that the answer must satisfy; None for free text.
        tools: Names of the offered tools.
        parameters: Model parameters by name.
    """

    number: int
    messages: Sequence[Message]
    schema: Mapping[str, Any] | None = None
    tools: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(factory=dict)

    @property
    def text(self) -> str:
        """Text of the last message."""
        return self.messages[-1].text


FakeAnswer = str | Completion | Act
"""Answer of the model: a text, a completion, or `HANG` for no answer until the call is
cancelled."""


def echo(heard: RecordedPrompt) -> str:
    return heard.text


class FakeModel:
    """A plugin with the provider `fake` and its models: `fake` for chat, `fake-embed` for
    embeddings, whose vectors are equal for equal texts, and `fake-moderate`.

    Args:
        answer: Returns the answer, or raises `GenaiError`; called in the thread that calls the
            model.

    Attributes:
        flags: Whether a text violates the rules.
        faults: Faults by number of the call, including embedding and moderation: an error to raise,
            `HANG`, or `CUT` to break off a streamed answer after its first chunk.
        prompts: The prompts received.
        calls: Number of calls.
        hanging: Set when a call hangs.
    """

    def __init__(self, answer: Callable[[RecordedPrompt], FakeAnswer] = echo) -> None:
        self.answer = answer
        self.flags: Callable[[str], bool] = lambda text: False
        self.faults: dict[int, GenaiError | Act] = {}
        self.prompts: list[RecordedPrompt] = []
        self.calls = 0
        self.hanging = threading.Event()
        self._lock = threading.Lock()

    @hookimpl
    def genai_providers(self) -> Iterable[ProviderType[Any]]:
        yield ProviderType("fake", NoSettings, self._open, automatic=False)

    @hookimpl
    def genai_models(self) -> Iterable[Model]:
        yield Model(
            "fake",
            dialects=["plain"],
            capabilities={"tools", "schema", "images", "files", "reasoning"},
            at={"fake": "fake"},
        )
        yield Model(
            "fake-embed", dialects=["plain-embed"], operation="embed", at={"fake": "fake-embed"}
        )
        yield Model(
            "fake-moderate",
            dialects=["openai-moderate"],
            operation="moderate",
            at={"fake": "fake-moderate"},
        )

    def begin(self, limits: CancelToken) -> bool:
        """Count a call, and cause its fault if there is one. Returns whether to break off the
        answer."""
        with self._lock:
            fault = self.faults.get(self.calls)
            self.calls += 1
        if fault is HANG:
            self.hang(limits)
        if isinstance(fault, GenaiError):
            raise fault
        return fault is CUT

    def hear(self, body: Mapping[str, Any], codec: Codec) -> FakeAnswer:
        """The answer to a request."""
        messages = codec.from_json(body["messages"], tuple[Message, ...])
        tools = tuple(tool["name"] for tool in body.get("tools", ()))
        with self._lock:
            number = len(self.prompts)
            prompt = RecordedPrompt(number, messages, body.get("schema"), tools, body["parameters"])
            self.prompts.append(prompt)
        return self.answer(prompt)

    def hang(self, limits: CancelToken) -> None:
        """Wait until the call is cancelled."""
        woken = threading.Event()
        with limits.on_cancel(woken.set):
            self.hanging.set()
            woken.wait()
            limits.check()

    def _open(self, settings: NoSettings, services: Services) -> Provider:
        return _FakeProvider(self)


class _FakeProvider(Provider):
    serves = {
        "plain": DialectEndpoint(),
        "plain-embed": DialectEndpoint(),
        "plain-count": DialectEndpoint(),
        "openai-moderate": DialectEndpoint(),
    }
    default_models = {"chat": "fake", "embed": "fake-embed", "moderate": "fake-moderate"}

    def __init__(self, model: FakeModel) -> None:
        self._model = model

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        self._model.begin(limits)
        body = read_json(request.data())
        if request.operation == "embed":
            return self._reply(Embeddings([_vector(text) for text in body["texts"]]))
        if request.operation == "count":
            messages = default_codec().from_json(body["messages"], tuple[Message, ...])
            return self._reply(TokenCount(sum(len(each.text.split()) for each in messages)))
        if request.operation == "moderate":
            return self._reply({"results": [{"flagged": self._model.flags(body["input"])}]})
        return self._reply(self._completion(body, limits))

    def stream(self, request: ProviderRequest, limits: CancelToken) -> ReplyStream:
        is_cut = self._model.begin(limits)
        events = self._events(self._completion(read_json(request.data()), limits))
        return EventList(_cut(events) if is_cut else events)

    def _completion(self, body: Mapping[str, Any], limits: CancelToken) -> Completion:
        answer = self._model.hear(body, default_codec())
        if answer is HANG:
            self._model.hang(limits)
        assert not isinstance(answer, Act), f"a model cannot {answer}"
        return (
            answer if isinstance(answer, Completion) else Completion(Message("assistant", answer))
        )

    def _reply(self, value: Any) -> ProviderReply:
        return ProviderReply(json.dumps(default_codec().to_json(value)).encode())

    def _events(self, completion: Completion) -> Iterator[StreamEvent]:
        text = completion.text
        for at in range(0, len(text), _CHUNK):
            yield _event({"delta": {"text": text[at : at + _CHUNK]}})
        for call in completion.tool_calls:
            yield _event({"delta": {"tool_call": default_codec().to_json(call)}})
        yield _event({"end": default_codec().to_json(completion)})


class EventList:
    """A stream of given events."""

    def __init__(self, events: Iterable[StreamEvent]) -> None:
        self._events = events

    def __iter__(self) -> Iterator[StreamEvent]:
        return iter(self._events)

    def close(self) -> None:
        """Do nothing."""


def _cut(events: Iterator[StreamEvent]) -> Iterator[StreamEvent]:
    yield next(events)
    raise IncompleteReply("the reply was interrupted")


def _event(value: Any) -> StreamEvent:
    return StreamEvent(json.dumps(value).encode())


def _vector(text: str) -> list[float]:
    numbers = [byte / 255 - 0.5 for byte in hashlib.sha256(text.encode()).digest()[:_SIZE]]
    length = sum(number * number for number in numbers) ** 0.5
    return [number / length for number in numbers]
