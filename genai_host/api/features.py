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
    """Base of all steps; R is what `yield from` gives back.

    Attributes:
        step: Its name on record.
    """

    step: ClassVar[str]

    def repeatable(self) -> bool:
        """Whether it may run again when nobody knows if it ran before."""
        return True

    def __iter__(self) -> Generator[Step[Any], Any, R_co]:
        result: R_co = yield self
        return result


@frozen
class RateLimit:
    """How often a model may be called.

    Attributes:
        requests: Calls of it that may begin.
        seconds: Within this time.
    """

    requests: int = field(validator=must.ge(1))
    seconds: float = field(validator=must.gt(0))

    def __str__(self) -> str:
        return f"at most {self.requests} times in {self.seconds:g} s"


_NONE: Mapping[str, Any] = MappingProxyType({})
"""One object, so that a step where it stands has the digest that it had before the field was."""


def _kept(messages: Iterable[Message]) -> tuple[Message, ...]:
    return tuple(messages)


@frozen
class Prompt(Step[Completion]):
    """Ask a model.

    Attributes:
        messages: All that it is to see, oldest first.
        role: Which of the feature's agents answers.
        parameters: Model parameters for this prompt only.
        defaults: Model parameters where neither `parameters` nor the conversation has them.
        tools: Tools that it may ask for.
        tool_choice: `auto`, `none`, `required` or the name of a tool.
        schema: JSON Schema that the answer must satisfy; its value is then in `Completion.value`.
        show: Whether the answer is streamed to the user as it is written.
        rate: How often the model may be called, in this host: each call waits for its turn, a
            repeated one as well; None for no bound.
        keep_replies_in: File to which replies are added as their service sent them, without the
            keys that it knows; one file is one conversation's alone, so that it may get another
            name; empty for none.
    """

    step = "prompt"
    messages: Sequence[Message] = field(converter=_kept)
    role: str = "main"
    parameters: Mapping[str, Any] = field(factory=dict)
    tools: Sequence[ToolSchema] = ()
    tool_choice: str | None = None
    schema: Mapping[str, Any] | None = None
    show: bool = True
    defaults: Mapping[str, Any] = _NONE
    rate: RateLimit | None = None
    keep_replies_in: str = ""


@frozen
class CountTokens(Step[TokenCount]):
    """Ask how many tokens a prompt would take, of the service that would answer it.

    Attributes:
        prompt: What would be asked; nobody answers it.
    """

    step = "count_tokens"
    prompt: Prompt


@frozen
class Embed(Step[Embeddings]):
    """Turn texts into vectors, one each, in order."""

    step = "embed"
    texts: Sequence[str] = field(converter=strings)
    role: str = "embed"
    purpose: Literal["query", "document"] = "document"


@frozen
class Moderate(Step[ModerationResult]):
    """Ask whether a text breaks a service's rules."""

    step = "moderate"
    text: str
    role: str = "moderate"


@frozen
class CallFunction(Step[R_co]):
    """Call a function that does what no other step does, such as a vendor's own API.

    Attributes:
        function: Defined at the top of a module, so that it can be found again.
        arguments: By name, JSON.
        returns: Class of what it returns, so that it can be read from the record.
        twice: Whether it may run twice, after a crash that left its end unknown.

    What it raises reaches the feature as `FunctionFailed`, and so does a result that is
    not JSON or not of its class; a `GenaiError` comes as it is.
    """

    step = "call_function"
    function: Callable[..., R_co]
    arguments: Mapping[str, Any] = field(factory=dict)
    returns: type[R_co] | None = None
    twice: bool = False

    def repeatable(self) -> bool:
        return self.twice


@frozen
class ListTools(Step[tuple[AvailableTool, ...]]):
    """The tools that apply in a context and are not denied, by name.

    Attributes:
        context: JSON, for example `Turn.context`.
    """

    step = "offered_tools"
    context: Mapping[str, Any] = field(factory=dict)


@frozen
class CallTool(Step[ToolOutput]):
    """Call a tool for a model. Whatever goes wrong is told in the output, for the model.

    Attributes:
        call: What the model asks for.
        context: JSON that the tool gets, for example `Turn.context`.
        approved: Whether a human has said that it may run: a tool that asks for approval runs only
            then, and one that is denied never.

    After a crash that left its end unknown it runs again only if the tool is `repeatable`;
    else the output says that it was interrupted.
    """

    step = "call_tool"
    call: ToolCall
    context: Mapping[str, Any] = field(factory=dict)
    approved: bool = False


def _calls(calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    return tuple(calls)


@frozen
class CallTools(Step[tuple[ToolOutput, ...]]):
    """Call several tools at once; the outputs come in the order of the calls.

    Attributes:
        approved: Ids of the calls that a human has said may run.
    """

    step = "call_tools"
    calls: Sequence[ToolCall] = field(converter=_calls)
    context: Mapping[str, Any] = field(factory=dict)
    approved: frozenset[str] = field(default=frozenset(), converter=string_set)

    @property
    def steps(self) -> tuple[CallTool, ...]:
        """What it is made of: each is recorded by itself."""
        return tuple(CallTool(each, self.context, each.id in self.approved) for each in self.calls)


@frozen
class Pause(Step[R_co]):
    """Pause the turn until somebody gives the result, in this process or another.

    Attributes:
        kind: What it waits for, for example `approval`.
        payload: JSON for whoever is to decide.
        returns: Class of the result; None for plain JSON. Anything else that is given is refused,
            and the turn waits on.
    """

    step = "wait"
    kind: str
    payload: Any = None
    returns: type[R_co] | None = None


@frozen
class All(Step["tuple[R_co, ...]"]):
    """Do several steps at once; the results come in their order.

    If one fails, the others are cancelled and the feature gets that failure.
    Answers are not streamed meanwhile.
    """

    step = "all"
    steps: Sequence[Step[R_co]]


@frozen
class AllSettled(Step["tuple[R_co | Exception, ...]"]):
    """Do several steps at once; for each that failed, its error is the result."""

    step = "settled"
    steps: Sequence[Step[R_co]]


@frozen
class Now(Step[str]):
    """The time, as ISO 8601 with the local offset."""

    step = "now"


@frozen
class NewId(Step[str]):
    """An id that is used nowhere else: the prefix and 24 hexadecimal digits."""

    step = "new_id"
    prefix: str = ""


@frozen
class Progress(Step[None]):
    """Tell the user how it goes. Neither recorded nor counted as a step, since nothing
    depends on it."""

    step = "progress"
    text: str
    data: Any = None


S = TypeVar("S")


@frozen
class Turn(Generic[S]):
    """What a feature gets to answer.

    Attributes:
        message: What the user said.
        history: What was said before, oldest first; the agent owns it.
        settings: The feature's settings, for this conversation.
        context: JSON from the front end, for this turn.
        schema: JSON Schema that `Answer.data` must satisfy; None if none was asked.
        state: What the last answer left in `Answer.state`.
        roles: The roles for which there is a model.
        began: When the conversation was opened: ISO 8601 with the local offset; empty where its
            record does not say.
        tag: Eight hexadecimal digits that tell the conversation from others that were opened at the
            same time.
    """

    message: Message
    history: Sequence[Message]
    settings: S
    context: Mapping[str, Any] = field(factory=dict)
    schema: Mapping[str, Any] | None = None
    state: Any = None
    roles: frozenset[str] = frozenset({"main"})
    began: str = ""
    tag: str = ""


@frozen
class Detail:
    """Something behind an answer, shown on demand.

    Attributes:
        kind: What it is, for example `prompt`.
        title: One line.
        data: JSON. Under `reactions` is what a front end is to show or do, each with a `type`:
            tools have theirs there, and a feature may give others.
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
    """What a feature answers.

    Attributes:
        summary: The answer itself.
        details: What is behind it; the host puts the steps of the turn before them.
        data: JSON for programs; the value that `Turn.schema` asked for.
        adds: What enters the history; None for the message and the summary.
        state: JSON to be given back in the next `Turn.state`.
        usage: Tokens used by all prompts of the turn; filled in by the host.
        cost: Of all calls of models in the turn; filled in by the host.
        pictures: For the user to see; the host puts those that tools gave before them.

    Raises:
        TypeError: It is made, for what is no text, detail, message or image.
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
        return self.summary

    @property
    def reactions(self) -> tuple[Mapping[str, Any], ...]:
        """What a front end is to show or do beside the text: that of tools in the order of
        their calls, then that of the feature. It is read from the details."""
        given = [detail.data.get("reactions") for detail in self.details]
        lists = [each for each in given if isinstance(each, (list, tuple))]
        return tuple(each for found in lists for each in found if _is_reaction(each))


FeatureSteps = Generator[Step[Any], Any, Answer]
"""What `respond` is: a generator that yields steps and returns the answer."""


@frozen
class Feature(Generic[S]):
    """What a plugin registers: something to converse with.

    Attributes:
        name: Unique among all plugins; `[a-z0-9-]+`.
        settings: Attrs class of its settings; see `genai_host.api.settings`.
        respond: Answers one turn.
        roles: The agents that it prompts, and what each of them is for; `main` owns the history.
        optional: The roles that it can do without. One that chats is played only by a model that is
            named for it, others by what there is.
        version: Changes when `respond` takes other steps than before, so that an old record is not
            replayed with it.
        help: One line for lists.
    """

    name: str = field(validator=TEXT)
    settings: type[S] = field(validator=SETTINGS)
    respond: Callable[[Turn[S]], FeatureSteps] = field(validator=CALLABLE)
    roles: Mapping[str, Operation] = field(factory=lambda: {"main": "chat"}, validator=OPERATIONS)
    optional: frozenset[str] = field(default=frozenset(), converter=string_set)
    version: str = field(default="1", validator=TEXT)
    help: str = field(default="", validator=TEXT)


@frozen
class RetryWait:
    """The host waits before it calls a service again.

    Attributes:
        seconds: How long.
        provider: The instance that is called again.
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
        kind: `delta`: a chunk of the answer. `void`: discard the chunks so far, since their
            prompt is sent again. `progress`: progress of the feature. `retry`: the host waits
            before another attempt. `step`: a step has ended. `waiting`: the turn pauses for a
            result from outside. `answer`: the last event.
        data: By kind: a `Delta`, None, a `Progress`, a `RetryWait`, a `Detail`, a `Pause`, the
            `Answer`.
    """

    kind: Literal["delta", "void", "progress", "retry", "step", "waiting", "answer"]
    data: Any = None

    @property
    def text(self) -> str:
        """The text of a delta, empty for all else: printed one after the other, the
        events show the answer as it is written."""
        return self.data.text if isinstance(self.data, Delta) else ""

    @property
    def answer(self) -> Answer | None:
        return self.data if isinstance(self.data, Answer) else None
