"""Answers completion requests with a model or a feature, complete or streamed.

    answer → _of_model → Host.prompt
           → _of_feature → Host.open → Conversation.stream

Each API reads its own requests into a `ChatRequest`, and writes the result in its own form. The
conversation with a feature is closed when the request ends.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from attrs import evolve, field, frozen

from genai_host.api import (
    Answer,
    CancelToken,
    Completion,
    Delta,
    FinishReason,
    Message,
    Prompt,
    RouteInfo,
    RouteRequest,
    RouteResponse,
    Text,
    ToolSchema,
)
from genai_host.api.cancellation import ended_with
from genai_host.api.http_routes import reported
from genai_host.api.json_text import write_json
from genai_host.catalog.catalog import ModelChoice
from genai_host.conversations.conversation import Conversation
from genai_host.conversations.record import (
    Opened,
    TurnEnded,
    TurnStarted,
    models_on_record,
    new_tag,
)
from genai_host.conversations.recorder import warn_unrecorded
from genai_host.errors import (
    Cancelled,
    ConversationClosed,
    GenaiError,
    NoRoute,
    StoreError,
    ValidationError,
)
from genai_host.host import Host
from genai_host.serving.models import FEATURE, suspends_for
from genai_host.serving.service_tools import answer_with_tools, replaced_in, with_host_tools
from genai_host.util import waiting


@contextmanager
def close_on_disconnect(limits: CancelToken, conversation: Conversation) -> Iterator[None]:
    """Close a conversation on exit, or when `limits` are cancelled: the running turn raises their
    error, and can be resumed if it was interrupted."""
    try:
        with conversation, limits.on_cancel(lambda: conversation.close(ended_with(limits))):
            yield
    except ConversationClosed as error:  # before the turn started
        raise (ended_with(limits) or Cancelled("cancelled")) from error


def _kept(messages: Iterable[Message]) -> tuple[Message, ...]:
    return tuple(messages)


@frozen(kw_only=True)
class ChatRequest:
    """A chat request, independent of the form of its API.

    Attributes:
        model: Name of the model (see `Host.open`), or `feature:NAME`; None for the default model.
        messages: The conversation, oldest message first.
        tools: Tools that the client runs.
        tool_choice: `auto`, `none`, `required` or a tool name; None for the model's default.
        schema: JSON Schema of the answer; None for free text.
        strict: Whether the service must enforce the schema, if it can.
        parameters: Model parameters by the host's names.
        stream: Whether the answer is streamed.
    """

    model: str | None
    messages: Sequence[Message] = field(converter=_kept)
    tools: Sequence[ToolSchema] = ()
    tool_choice: str | None = None
    schema: Mapping[str, Any] | None = None
    strict: bool = False
    parameters: Mapping[str, Any] = field(factory=dict)
    stream: bool = False


COMMENT = b": ping\n\n"
"""Comment in an event stream, which clients ignore."""


class CompletionStream:
    """An answer: iterate over its chunks once; then `completion` has the complete answer.

    `begin` waits for the first chunk. It raises an error that occurs before it, so that the reply
    can have its status; if the headers are already sent, the iteration raises it again. `close`, or
    closing the reply, cancels the answer.

    Args:
        answer: Generates the answer.
        suspends: See `RouteResponse`.
    """

    def __init__(
        self, answer: Generator[Delta, None, Completion], *, suspends: bool = False
    ) -> None:
        self._answer = answer
        self.suspends = suspends
        self._first: Delta | None = None
        self._whole: Completion | None = None
        self._failed: GenaiError | None = None
        self._has_begun = False

    def begin(self) -> None:
        self._has_begun = True
        try:
            with reported():
                self._first = next(self._answer)
        except StopIteration as end:
            self._whole = end.value
        except GenaiError as error:
            self._failed = error
            raise

    def __iter__(self) -> Iterator[Delta]:
        if not self._has_begun:
            self.begin()
        if self._failed is not None:
            raise self._failed
        if self._first is not None:
            yield self._first
            with reported():
                self._whole = yield from self._answer

    def finish(self) -> Completion:
        """The complete answer, after all chunks that are left."""
        for _ in self:
            pass
        return self.completion

    @property
    def first(self) -> Delta | None:
        """The first chunk, once the answer has begun; None if there is none."""
        return self._first

    @property
    def completion(self) -> Completion:
        """The complete answer, after the last chunk."""
        if self._whole is None:
            raise RuntimeError("the chunks have not ended")
        return self._whole

    def close(self) -> None:
        self._answer.close()


def answer(host: Host, asked: ChatRequest, request: RouteRequest) -> CompletionStream:
    """Prepare the answer of a request. The model is called when the answer begins. A disconnect of
    the client cancels it.

    Raises:
        ValidationError: A feature does not support the request.
        GenaiError: The call failed.
    """
    if asked.model is not None and asked.model.startswith(FEATURE):
        return CompletionStream(_of_feature(host, asked, request))
    if host.config.server.service_tools:
        asked = evolve(asked, tools=with_host_tools(host, asked.tools))
    # tools run in the thread of the answer
    suspends = asked.stream and not replaced_in(asked.tools) and suspends_for(host, asked.model)
    return CompletionStream(_of_model(host, asked, request), suspends=suspends)


def whole(host: Host, asked: ChatRequest, request: RouteRequest) -> Completion:
    """The complete answer of a request; see `answer`."""
    completion = answer(host, asked, request).finish()
    return completion if asked.schema is None else _without_code_fence(completion)


def complete_texts(
    host: Host,
    request: RouteRequest,
    texts: str | Sequence[str | Sequence[int]],
    *,
    model: str,
    suffix: str,
    parameters: Mapping[str, Any],
    stream: bool,
) -> CompletionStream:
    """Prepare the answer of a service with text completions; see `Host.complete`."""
    completing = host.complete(
        texts,
        suffix=suffix,
        model=model,
        parameters=parameters,
        stream=stream,
        limits=request.limits,
        owner=request.user,
        dropped=request.dropped,
    )
    return CompletionStream(completing, suspends=stream and suspends_for(host, model, "complete"))


def _without_code_fence(completion: Completion) -> Completion:
    """Remove a Markdown code fence, which a model may put around JSON."""
    if completion.value is None or not completion.text.lstrip().startswith("```"):
        return completion
    message = completion.message
    others = [part for part in message.content if not isinstance(part, Text)]
    bare = Text(write_json(completion.value).decode())
    return evolve(completion, message=evolve(message, content=[*others, bare]))


def api_finish_reason(completion: Completion, names: Mapping[FinishReason, str]) -> str:
    """The name of the finish reason in an API.

    Raises:
        UnexpectedFinish: The API has no name for it; another name would mean that the answer is
            usable.
    """
    completion.check_finish(*names)
    return names[completion.finish]


def streamed(
    answering: CompletionStream,
    write: Callable[[CompletionStream], Iterator[bytes]],
    kind: str = "text/event-stream",
    keepalive: bytes = COMMENT,
) -> RouteResponse:
    """A reply whose body is written while the answer is generated.

    Args:
        answering: The answer; it begins within `RouteResponse.begin`.
        write: Yields the bytes of the answer, including an error.
        kind: Media type.
        keepalive: Keep-alive data; see `RouteResponse`.
    """
    headers = {"content-type": kind, "cache-control": "no-store"}
    body = _Body(answering, write)
    return RouteResponse(
        body,
        headers=headers,
        keepalive=keepalive,
        begin=answering.begin,
        suspends=answering.suspends,
    )


class _Body:
    """A body whose `close` cancels the answer, even before its first bytes: a generator that has
    not started would not notice."""

    def __init__(
        self, answering: CompletionStream, write: Callable[[CompletionStream], Iterator[bytes]]
    ) -> None:
        self._answering = answering
        self._bytes = write(answering)

    def __iter__(self) -> Iterator[bytes]:
        return self._bytes

    def close(self) -> None:
        close = getattr(self._bytes, "close", None)
        if close is not None:
            close()
        self._answering.close()


def _of_model(
    host: Host, asked: ChatRequest, request: RouteRequest
) -> Generator[Delta, None, Completion]:
    prompt = Prompt(
        asked.messages,
        tools=asked.tools,
        tool_choice=asked.tool_choice,
        schema=asked.schema,
        strict=asked.strict,
        parameters=asked.parameters,
    )
    is_kept = host.config.server.record_api_calls and host.store is not None
    ask = partial(
        host.prompt,
        model=asked.model,
        stream=asked.stream,
        limits=request.limits,
        owner=request.user,
        persisted=is_kept,
        dropped=request.dropped,
        cut=True,  # clients read the finish reason before they parse the answer
    )
    completion = yield from answer_with_tools(host, prompt, ask, request.limits)
    if is_kept:
        try:
            waiting.call(_keep, host, asked, completion, request.user)
        except StoreError as error:  # does not prevent the answer
            warn_unrecorded(error)
    return completion


def _keep(host: Host, asked: ChatRequest, completion: Completion, user: str) -> None:
    """Store request and answer as a conversation of one turn."""
    feature = host.feature(host.config.feature)
    route = completion.route
    *before, message = asked.messages
    record = host.store_for(user).create(
        Opened(
            feature=feature.name,
            version=feature.version,
            **models_on_record({"main": _choice_of(host, route)} if route else {}),
            parameters=asked.parameters,
            history=tuple(before),
            began=host.clock.now().isoformat(timespec="seconds"),
            tag=new_tag(),
        ),
        host.codec,
    )
    record.append(TurnStarted(0, message, feature.version, len(before)))
    recorded = Answer(
        completion.text,
        data=completion.value,
        new_messages=[message, completion.message],
        usage=completion.usage,
    )
    record.append(TurnEnded(0, recorded))


def _choice_of(host: Host, route: RouteInfo) -> ModelChoice:
    """A name that resolves to the model of an answer, with the provider for an undeclared model."""
    is_passed = route.model.startswith(f"{route.provider}/")
    name = route.model if is_passed else f"{route.model}@{route.provider}"
    if route.configuration not in host.catalog.configurations:  # no longer
        return ModelChoice(name, route.configuration)
    return evolve(host.catalog.choice(route.configuration), model=name)


def _of_feature(
    host: Host, asked: ChatRequest, request: RouteRequest
) -> Generator[Delta, None, Completion]:
    """Answer with a feature. It has its own tools and models, so it receives only the messages."""
    name = (asked.model or "").removeprefix(FEATURE)
    if name not in host.registry.features:
        raise NoRoute(f"unknown model {asked.model!r}", hint="GET /v1/models lists them")
    if asked.tools:
        raise ValidationError(f"{FEATURE}{name} accepts no tools: it has its own", path="$.tools")
    if not asked.messages or asked.messages[-1].role != "user":
        raise ValidationError("the last message must be the user's", path="$.messages")
    *before, message = asked.messages
    conversation = host.open(
        name,
        history=before,
        parameters=asked.parameters,
        record=host.config.server.record_api_calls,
        owner=request.user,
        output_type=asked.schema,
    )
    shown: list[str] = []
    with close_on_disconnect(request.limits, conversation):
        for event in conversation.stream(message):
            if isinstance(event.data, Delta):
                shown.append(event.data.text)
                # clients must neither run its tool calls nor store its signatures
                yield Delta(event.data.text, event.data.reasoning)
            elif event.answer is not None:
                final = event.answer
    text = "".join(shown)
    if not text.endswith(final.summary):  # it was not streamed
        rest = f"\n\n{final.summary}" if text else final.summary
        text += rest
        yield Delta(rest)
    if final.citations:
        begin = len(text) - len(final.summary)
        yield Delta(citations=tuple(each.moved(begin) for each in final.citations))
    return Completion(final.message, usage=final.usage, value=final.data)


def count_tokens(host: Host, asked: ChatRequest, limits: CancelToken) -> int:
    """The number of tokens of a request, as counted by the service that would answer.

    Raises:
        ValidationError: The model is a feature.
        NoRoute: No service counts tokens for the model.
    """
    if asked.model is not None and asked.model.startswith(FEATURE):
        raise ValidationError(
            f"{asked.model} is a feature: only models can count tokens", path="$.model"
        )
    return host.count_tokens(
        asked.messages,
        model=asked.model,
        parameters=asked.parameters,
        tools=with_host_tools(host, asked.tools),
        schema=asked.schema,
        limits=limits,
    ).tokens
