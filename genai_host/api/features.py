"""Features, the steps they yield, and the events of a turn.

A feature is what a user converses with:

    def respond(turn: Turn[Settings]) -> FeatureSteps:
        completion = yield from Prompt([*turn.history, turn.message])
        return Answer(completion.text)

A feature does no I/O. It yields steps, each typed by its result, and the host performs, limits
and records them. A feature can therefore be replayed from its event log.

`respond` must be deterministic: time, ids and randomness are steps, and the order of an
unordered collection, such as a set, must not decide anything. `respond` must have no effects in
`finally`, since a pause closes the generator.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Literal

from attrs import converters as convert
from attrs import field, frozen
from attrs import validators as must
from typing_extensions import TypeVar

from genai_host.api.calls import (
    Completion,
    Cost,
    Delta,
    Embeddings,
    ModerationResult,
    Operation,
    TokenCount,
    ToolSchema,
)
from genai_host.api.messages import Image, Message, ToolCall, Usage
from genai_host.api.settings import SETTINGS
from genai_host.api.tools import AvailableTool, ToolOutput
from genai_host.api.validators import (
    ANY_BY_NAME,
    CALLABLE,
    OPERATIONS,
    TEXT,
    Must,
    string_set,
    strings,
)

R_co = TypeVar("R_co", covariant=True, default=Any)


@frozen
class Step(Generic[R_co]):
    """Base of all steps; `yield from step` returns its result, of type R.

    Attributes:
        step: Name of the kind of step in the event log.
    """

    step: ClassVar[str]

    def is_idempotent(self) -> bool:
        """Whether the step may run again if it is unknown whether it ran before."""
        return True

    def __iter__(self) -> Generator[Step[Any], Any, R_co]:
        result: R_co = yield self
        return result


@frozen
class RateLimit:
    """Maximum rate of calls to a model.

    Attributes:
        requests: Number of calls that may start in a period.
        seconds: Length of the period.
    """

    requests: int = field(validator=must.ge(1))
    seconds: float = field(validator=must.gt(0))

    def __str__(self) -> str:
        return f"at most {self.requests} times in {self.seconds:g} s"


_NONE: Mapping[str, Any] = MappingProxyType({})
"""One shared object, so that steps that use it keep the digest they had before the field existed.
"""


def _kept(messages: Iterable[Message]) -> tuple[Message, ...]:
    return tuple(messages)


@frozen
class Prompt(Step[Completion]):
    """A prompt to a model.

    Attributes:
        messages: Messages for the model, oldest first.
        role: Role of the feature that answers.
        parameters: Model parameters for this prompt only.
        defaults: Model parameters, overridden by `parameters` and by those of the conversation.
        tools: Tools that the model may call.
        tool_choice: `auto`, `none`, `required` or a tool name; None for the model's default.
        schema: JSON Schema of the answer; its value is in `Completion.value`.
        stream: Whether the answer is streamed to the user.
        rate: Maximum rate of calls to the model in this host, retries included; None for no limit.
        raw_reply_file: File to which raw replies are added, without known keys; empty for none. A
            file belongs to one conversation: if it exists already for another, the name is changed.
    """

    step = "prompt"
    messages: Sequence[Message] = field(converter=_kept)
    role: str = "main"
    parameters: Mapping[str, Any] = field(factory=dict)
    tools: Sequence[ToolSchema] = ()
    tool_choice: str | None = None
    schema: Mapping[str, Any] | None = None
    stream: bool = True
    defaults: Mapping[str, Any] = _NONE
    rate: RateLimit | None = None
    raw_reply_file: str = ""


@frozen
class CountTokens(Step[TokenCount]):
    """Count the input tokens of a prompt, as the service does.

    Attributes:
        prompt: The prompt; it is not sent to the model.
    """

    step = "count_tokens"
    prompt: Prompt


@frozen
class Embed(Step[Embeddings]):
    """Compute embedding vectors, one per text, in order.

    Attributes:
        texts: The texts.
        role: Role of the feature whose model is used.
        purpose: Use of the vectors; some models embed queries and documents differently.
    """

    step = "embed"
    texts: Sequence[str] = field(converter=strings)
    role: str = "embed"
    purpose: Literal["query", "document"] = "document"


@frozen
class Moderate(Step[ModerationResult]):
    """Check a text against the rules of a service.

    Attributes:
        text: The text.
        role: Role of the feature whose model is used.
    """

    step = "moderate"
    text: str
    role: str = "moderate"


@frozen
class CallFunction(Step[R_co]):
    """Call a function that does I/O, for example one that uses a vendor's own API.

    The feature receives exceptions of the function as `FunctionFailed`, also if the result is not
    JSON or does not match its class. A `GenaiError` is passed on unchanged.

    Attributes:
        function: A function at module level, so that it can be imported again.
        arguments: Keyword arguments; JSON values.
        returns: Class of the result, to restore it from the event log; None for plain JSON.
        idempotent: Whether it may run again after a crash that left its outcome unknown.
    """

    step = "call_function"
    function: Callable[..., R_co]
    arguments: Mapping[str, Any] = field(factory=dict)
    returns: type[R_co] | None = None
    idempotent: bool = False

    def is_idempotent(self) -> bool:
        """Whether the function may run again after a crash."""
        return self.idempotent


@frozen
class ListTools(Step[tuple[AvailableTool, ...]]):
    """The tools that are available in a context and not denied, sorted by name.

    Attributes:
        context: JSON, for example `Turn.context`.
    """

    step = "offered_tools"
    context: Mapping[str, Any] = field(factory=dict)


@frozen
class CallTool(Step[ToolOutput]):
    """Call a tool for a model. Errors become part of the output, for the model.

    After a crash that left its outcome unknown, it runs again only if the tool is `idempotent`.
    Otherwise the output reports that the call was interrupted.

    Attributes:
        call: Call requested by the model.
        context: JSON for the tool, for example `Turn.context`.
        approved: Whether a person approved the call. A tool with the rule `ask` runs only if
            approved; one with the rule `deny` never runs.
    """

    step = "call_tool"
    call: ToolCall
    context: Mapping[str, Any] = field(factory=dict)
    approved: bool = False


def _calls(calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    return tuple(calls)


@frozen
class CallTools(Step[tuple[ToolOutput, ...]]):
    """Call several tools concurrently; the outputs are in the order of the calls.

    Attributes:
        calls: Calls requested by the model.
        context: JSON for the tools, for example `Turn.context`.
        approved: Ids of the approved calls.
    """

    step = "call_tools"
    calls: Sequence[ToolCall] = field(converter=_calls)
    context: Mapping[str, Any] = field(factory=dict)
    approved: frozenset[str] = field(default=frozenset(), converter=string_set)

    @property
    def steps(self) -> tuple[CallTool, ...]:
        """One step per call; each is recorded separately."""
        return tuple(CallTool(each, self.context, each.id in self.approved) for each in self.calls)


@frozen
class Pause(Step[R_co]):
    """Pause the turn until its result is given, in this process or another.

    Attributes:
        kind: Kind of result, for example `approval`.
        payload: JSON that describes the decision to make.
        returns: Class of the result; None for plain JSON. Other values are refused, and the turn
            stays paused.
    """

    step = "wait"
    kind: str
    payload: Any = None
    returns: type[R_co] | None = None


@frozen
class All(Step["tuple[R_co, ...]"]):
    """Run several steps concurrently; the results are in the order of the steps.

    If a step fails, the others are cancelled and the feature receives the error. Answers are not
    streamed meanwhile.

    Attributes:
        steps: The steps.
    """

    step = "all"
    steps: Sequence[Step[R_co]]


@frozen
class AllSettled(Step["tuple[R_co | Exception, ...]"]):
    """Run several steps concurrently; the result of a failed step is its error.

    Attributes:
        steps: The steps.
    """

    step = "settled"
    steps: Sequence[Step[R_co]]


@frozen
class Now(Step[str]):
    """The current time, as ISO 8601 with the local UTC offset."""

    step = "now"


@frozen
class NewId(Step[str]):
    """A unique id: the prefix and 24 random hexadecimal digits.

    Attributes:
        prefix: The prefix.
    """

    step = "new_id"
    prefix: str = ""


@frozen
class Progress(Step[None]):
    """Report progress to the user. It is not recorded and does not count as a step.

    Attributes:
        text: One line for the user.
        data: JSON for programs.
    """

    step = "progress"
    text: str
    data: Any = None


S = TypeVar("S")


@frozen
class Turn(Generic[S]):
    """A user's message and its context, for a feature to answer.

    Attributes:
        message: The user's message.
        history: Earlier messages, oldest first; managed by the host.
        settings: Settings of the feature in this conversation.
        context: JSON from the client, for this turn.
        schema: JSON Schema of `Answer.data`; None if none was requested.
        state: `Answer.state` of the previous turn.
        roles: Roles that have a model.
        opened_at: When the conversation was opened: ISO 8601 with the local UTC offset; empty if
            unknown.
        tag: Eight hexadecimal digits that distinguish conversations opened at the same time.
    """

    message: Message
    history: Sequence[Message]
    settings: S
    context: Mapping[str, Any] = field(factory=dict)
    schema: Mapping[str, Any] | None = None
    state: Any = None
    roles: frozenset[str] = frozenset({"main"})
    opened_at: str = ""
    tag: str = ""


@frozen
class Detail:
    """Background of an answer, shown on request.

    Attributes:
        kind: Kind of detail, for example `prompt`.
        title: One line.
        data: JSON. `reactions` lists client actions, each with a `type`: those of tools, and those
            that a feature adds.
    """

    kind: str = field(validator=TEXT)
    title: str = field(validator=TEXT)
    data: Mapping[str, Any] = field(factory=dict, validator=ANY_BY_NAME)


def _details(given: Iterable[Detail]) -> tuple[Detail, ...]:
    return tuple(given)


def _pictures(given: Iterable[Image]) -> tuple[Image, ...]:
    return tuple(given)


def _messages(given: Iterable[Message]) -> tuple[Message, ...]:
    return tuple(given)


_DETAILS = Must("details", lambda given: all(isinstance(each, Detail) for each in given))
_PICTURES = Must("images", lambda given: all(isinstance(each, Image) for each in given))
_MESSAGES = Must("messages", lambda given: all(isinstance(each, Message) for each in given or ()))


def _is_reaction(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("type"), str)


@frozen
class Answer:
    """A feature's answer.

    Attributes:
        summary: Text of the answer.
        details: Background of the answer; the host inserts the steps of the turn before it.
        data: JSON for programs; it matches `Turn.schema` if there is one.
        adds: Messages to add to the history; None for the user's message and the summary.
        state: JSON for the next `Turn.state`.
        usage: Tokens used by all prompts of the turn; set by the host.
        cost: Cost of all model calls of the turn; set by the host.
        pictures: Images for the user; the host inserts the images of tools before them.

    Raises:
        TypeError: A field has a value of the wrong type.
    """

    summary: str = field(validator=TEXT)
    details: Sequence[Detail] = field(default=(), converter=_details, validator=_DETAILS)
    data: Any = None
    adds: Sequence[Message] | None = field(
        default=None, converter=convert.optional(_messages), validator=_MESSAGES
    )
    state: Any = None
    usage: Usage = field(factory=Usage)
    cost: Cost = field(factory=Cost)
    pictures: Sequence[Image] = field(default=(), converter=_pictures, validator=_PICTURES)

    @property
    def text(self) -> str:
        """Text of the answer."""
        return self.summary

    @property
    def reactions(self) -> tuple[Mapping[str, Any], ...]:
        """Client actions from the details: those of tools in the order of their calls, then those
        of the feature."""
        given = [detail.data.get("reactions") for detail in self.details]
        lists = [each for each in given if isinstance(each, (list, tuple))]
        return tuple(each for found in lists for each in found if _is_reaction(each))


FeatureSteps = Generator[Step[Any], Any, Answer]
"""Return type of `respond`: a generator that yields steps and returns the answer."""


@frozen
class Feature(Generic[S]):
    """A declaration of a feature, which users converse with.

    Attributes:
        name: Unique among all plugins; `[a-z0-9-]+`.
        settings: Attrs class of its settings; see `genai_host.api.settings`.
        respond: Answers one turn.
        roles: Roles with their purpose, one line each. `main` owns the history.
        optional_roles: Roles that may have no model. An optional chat role gets only a model that
            is named for it; other optional roles get any available model.
        version: Change it when `respond` yields other steps than before, so that old event logs are
            not replayed with it.
        help: One line for listings.
    """

    name: str = field(validator=TEXT)
    settings: type[S] = field(validator=SETTINGS)
    respond: Callable[[Turn[S]], FeatureSteps] = field(validator=CALLABLE)
    roles: Mapping[str, Operation] = field(factory=lambda: {"main": "chat"}, validator=OPERATIONS)
    optional_roles: frozenset[str] = field(default=frozenset(), converter=string_set)
    version: str = field(default="1", validator=TEXT)
    help: str = field(default="", validator=TEXT)


@frozen
class RetryWait:
    """A wait before the next attempt of a call.

    Attributes:
        seconds: Duration of the wait.
        provider: Name of the provider.
        reason: Why the last attempt failed, in one line.
    """

    seconds: float
    provider: str
    reason: str

    @property
    def text(self) -> str:
        """One line for a user."""
        return f"{self.provider}: {self.reason}; next attempt in {self.seconds:.0f} s"


@frozen
class Event:
    """An event of a turn.

    Attributes:
        kind: `delta`: a chunk of the answer. `reset`: discard the chunks so far, since their
            prompt is sent again. `progress`: progress of the feature. `retry`: the host waits
            before another attempt. `step`: a step has ended. `waiting`: the turn pauses for a
            result from outside. `answer`: the last event.
        data: By kind: a `Delta`, None, a `Progress`, a `RetryWait`, a `Detail`, a `Pause`, the
            `Answer`.
    """

    kind: Literal["delta", "reset", "progress", "retry", "step", "waiting", "answer"]
    data: Any = None

    @property
    def text(self) -> str:
        """Text of a delta, empty for other events. Printed in order, the texts show the answer as
        it is written."""
        return self.data.text if isinstance(self.data, Delta) else ""

    @property
    def answer(self) -> Answer | None:
        """The answer, if this is the last event."""
        return self.data if isinstance(self.data, Answer) else None
