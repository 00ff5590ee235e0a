"""Answers a request for a completion: a model or a feature is asked, whole or in a stream.

    answer → _of_model → Host.prompt
           → _of_feature → Host.open → Conversation.stream

Each API reads its own requests into a `ChatRequest`, and writes the result in its own form. The
conversation with a feature is closed when the request ends. `capabilities` is for formats whose
requests name things that not every model has, and that may be left out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from attrs import evolve, field, frozen

from genai_host.api import (
    Answer,
    CancelToken,
    Completion,
    Delta,
    FinishReason,
    Message,
    Operation,
    Prompt,
    RouteInfo,
    RouteRequest,
    RouteResponse,
    Text,
    ToolSchema,
)
from genai_host.api.cancellation import ended_with
from genai_host.api.dialects import CAPABILITIES
from genai_host.api.json_text import write_json
from genai_host.catalog.catalog import ModelChoice
from genai_host.conversations.conversation import Conversation
from genai_host.conversations.record import (
    Opened,
    TurnEnded,
    TurnStarted,
    models_on_record,
    new_tag,
    warn_unrecorded,
)
from genai_host.errors import (
    Cancelled,
    ConversationClosed,
    GenaiError,
    NoRoute,
    NotFound,
    PluginError,
    StoreError,
    UnexpectedFinish,
    ValidationError,
)
from genai_host.host import Host

_log = logging.getLogger(__name__)


@contextmanager
def close_on_disconnect(limits: CancelToken, conversation: Conversation) -> Iterator[None]:
    """Close a conversation when this is left, or once limits end: the turn under way raises
    what they end with, and one that is interrupted can be gone on with."""
    try:
        with conversation, limits.on_cancel(lambda: conversation.close(ended_with(limits))):
            yield
    except ConversationClosed as error:  # before the turn began
        raise (ended_with(limits) or Cancelled("cancelled")) from error


@contextmanager
def _expected() -> Iterator[None]:
    """What nobody expects becomes an error that a stream can tell of: a client that sees only
    its connection end takes what it has for the whole."""
    try:
        yield
    except (GenaiError, StopIteration):
        raise
    except Exception as error:
        _log.exception("an answer failed")
        raise PluginError("this failed; the log of the server says why") from error


FEATURE = "feature:"
"""What a name begins with that stands for a feature and not for a model."""


def _kept(messages: Iterable[Message]) -> tuple[Message, ...]:
    return tuple(messages)


@frozen(kw_only=True)
class ChatRequest:
    """One request, free of the form of its API.

    model        a name as `Host.open` takes it, or `feature:NAME`; None for the usual one
    messages     what was said, oldest first
    tools        tools that the client runs itself
    tool_choice  `auto`, `none`, `required` or the name of a tool; None leaves it to the model
    schema       JSON Schema of the answer; None for free text
    parameters   model parameters, by the host's names
    in_pieces    whether the answer is wanted as it is written
    """

    model: str | None
    messages: Sequence[Message] = field(converter=_kept)
    tools: Sequence[ToolSchema] = ()
    tool_choice: str | None = None
    schema: Mapping[str, Any] | None = None
    parameters: Mapping[str, Any] = field(factory=dict)
    in_pieces: bool = False


COMMENT = b": ping\n\n"
"""What clients of server-sent events skip."""


class CompletionStream:
    """An answer: iterate over its pieces, once; `completion` is the whole.

    `begin` waits for the first piece: what fails before is raised there, so that the reply can
    still have the status of that, and again where the pieces are asked for, if it has been sent
    meanwhile. `close`, or closing the reply, ends the answer.
    """

    def __init__(self, answer: Generator[Delta, None, Completion]) -> None:
        self._answer = answer
        self._first: Delta | None = None
        self._whole: Completion | None = None
        self._failed: GenaiError | None = None
        self._has_begun = False

    def begin(self) -> None:
        self._has_begun = True
        try:
            with _expected():
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
            with _expected():
                self._whole = yield from self._answer

    @property
    def completion(self) -> Completion:
        """The whole answer, once the pieces have ended."""
        if self._whole is None:
            raise RuntimeError("the pieces have not ended")
        return self._whole

    def close(self) -> None:
        self._answer.close()


def answer(host: Host, asked: ChatRequest, request: RouteRequest) -> CompletionStream:
    """What is asked, which is sent once it begins. The client going ends it.

    Raises what a call raises, as `GenaiError`; `ValidationError` for what a feature is not
    asked for.
    """
    if asked.model is not None and asked.model.startswith(FEATURE):
        return CompletionStream(_of_feature(host, asked, request))
    return CompletionStream(_of_model(host, asked, request))


def whole(host: Host, asked: ChatRequest, request: RouteRequest) -> Completion:
    """Ask, and wait for the whole answer; see `answer`."""
    answering = answer(host, asked, request)
    for _ in answering:
        pass
    completion = answering.completion
    return completion if asked.schema is None else _out_of_its_fence(completion)


def _out_of_its_fence(completion: Completion) -> Completion:
    """A model that is asked for JSON in words may put it into a fence of Markdown."""
    if not completion.text.lstrip().startswith("```"):
        return completion
    message = completion.message
    others = [part for part in message.content if not isinstance(part, Text)]
    bare = Text(write_json(completion.value).decode())
    return evolve(completion, message=evolve(message, content=[*others, bare]))


def finish_word(completion: Completion, words: Mapping[FinishReason, str]) -> str:
    """Why a model stopped, in the words of an API.

    Raises `UnexpectedFinish` for a reason that the API has no word for: any of its words would say
    that the answer is usable.
    """
    word = words.get(completion.finish)
    if word is None:
        raise UnexpectedFinish(
            f"the model stopped because of {completion.reason}",
            reason=completion.reason,
            detail=completion.text,
            **completion.place,
        )
    return word


def streamed(
    answering: CompletionStream,
    write: Callable[[CompletionStream], Iterator[bytes]],
    kind: str = "text/event-stream",
    silence: bytes = COMMENT,
) -> RouteResponse:
    """A reply whose body is written as the answer comes.

    answering   has not begun: it begins within `RouteResponse.begin`
    write       the bytes of the answer: what fails on the way, it writes as well
    kind        its media type
    silence     as `RouteResponse` has it
    """
    headers = {"content-type": kind, "cache-control": "no-store"}
    body = _Body(answering, write)
    return RouteResponse(body, headers=headers, silence=silence, begin=answering.begin)


class _Body:
    """Closing it ends the answer, also where nobody has asked for the first bytes: a
    generator that has not begun would not notice."""

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
        parameters=asked.parameters,
    )
    is_kept = host.config.server.record_api_calls and host.store is not None
    completion = yield from host.prompt(
        prompt,
        model=asked.model,
        in_pieces=asked.in_pieces,
        limits=request.limits,
        owner=request.user,
        is_kept=is_kept,
    )
    if is_kept:
        try:
            _keep(host, asked, completion, request.user)
        except StoreError as error:  # which keeps nobody from an answer
            warn_unrecorded(error)
    return completion


def _keep(host: Host, asked: ChatRequest, completion: Completion, user: str) -> None:
    """Put what was asked and answered into the store, as a conversation of one turn."""
    feature = host.feature(host.config.feature)
    route = completion.route
    *before, message = asked.messages
    record = host.kept(user).create(
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
    said = Answer(
        completion.text,
        data=completion.value,
        adds=[message, completion.message],
        usage=completion.usage,
    )
    record.append(TurnEnded(0, said))


def _choice_of(host: Host, route: RouteInfo) -> ModelChoice:
    """A name that resolves to it; that of a model which is passed through says where."""
    is_passed = route.model.startswith(f"{route.provider}/")
    name = route.model if is_passed else f"{route.model}@{route.provider}"
    if route.configuration not in host.catalog.configurations:  # any more
        return ModelChoice(name, route.configuration)
    return evolve(host.catalog.choice(route.configuration), model=name)


def _of_feature(
    host: Host, asked: ChatRequest, request: RouteRequest
) -> Generator[Delta, None, Completion]:
    """A feature has tools and models of its own: what it is given is what was said."""
    name = (asked.model or "").removeprefix(FEATURE)
    if name not in host.registry.features:
        raise NotFound(f"unknown model {asked.model!r}", hint="GET /v1/models lists them")
    if asked.tools:
        raise ValidationError(f"{FEATURE}{name} takes no tools: it has its own", path="$.tools")
    if not asked.messages or asked.messages[-1].role != "user":
        raise ValidationError("the last message must be the user's", path="$.messages")
    *before, message = asked.messages
    conversation = host.open(
        name,
        history=before,
        parameters=asked.parameters,
        record=host.config.server.record_api_calls,
        owner=request.user,
        returns=asked.schema,
    )
    shown: list[str] = []
    with close_on_disconnect(request.limits, conversation):
        for event in conversation.stream(message):
            if isinstance(event.data, Delta):
                shown.append(event.data.text)
                # its calls of tools are no client's to run, and signatures none's to keep
                yield Delta(event.data.text, event.data.reasoning)
            elif event.answer is not None:
                said = event.answer
    if not "".join(shown).endswith(said.summary):  # it was not shown as it was written
        yield Delta(f"\n\n{said.summary}" if shown else said.summary)
    return Completion(Message("assistant", said.summary), usage=said.usage, value=said.data)


@frozen
class Capabilities:
    """
    parameters     that it takes, name to JSON Schema
    capabilities   as `CAPABILITIES` names them
    dialect        that it is spoken to in; empty for a feature
    """

    parameters: Mapping[str, Any] = field(factory=dict)
    capabilities: frozenset[str] = frozenset(CAPABILITIES)
    dialect: str = ""


def capabilities(host: Host, model: str, operation: Operation = "chat") -> Capabilities:
    """What the best route can; a feature takes no parameters that may be left out, as it has
    models of its own. Raises `NoRoute`, and `NotFound` for a feature that is not there."""
    if model.startswith(FEATURE):
        if operation != "chat" or model.removeprefix(FEATURE) not in host.registry.features:
            raise NotFound(f"unknown model {model!r} for {operation}")
        return Capabilities()
    try:
        best = host.catalog.resolve(model, None, operation)[0]
    except NoRoute:  # what it lacked may have come since
        best = host.refresh().resolve(model, None, operation)[0]
    return Capabilities(best.parameters, best.capabilities, best.dialect)
