"""The steps of a feature: what it asks of the host, each typed by what comes back.

    completion = yield from Prompt([*turn.history, turn.message])

A feature does no I/O of its own; it yields steps, and the host performs, bounds
and records them. That is why a feature can be replayed from its record.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Literal

from attrs import field, frozen
from attrs import validators as must
from typing_extensions import TypeVar

from genai_host.api.calls import Completion, TokenCount, ToolSchema, Vectors, Verdict
from genai_host.api.converters import string_set, strings
from genai_host.api.messages import Message, ToolCall
from genai_host.api.tools import OfferedTool, ToolOutput

R_co = TypeVar("R_co", covariant=True, default=Any)


@frozen
class Step(Generic[R_co]):
    """Base of all steps; R is what `yield from` gives back.

    step   its name on record
    """

    step: ClassVar[str]

    def repeatable(self) -> bool:
        """Whether it may run again when nobody knows if it ran before."""
        return True

    def __iter__(self) -> Generator[Step[Any], Any, R_co]:
        result: R_co = yield self
        return result


@frozen
class Rate:
    """How often a model may be called.

    requests   calls of it that may begin
    seconds    within this time
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

    messages     all that it is to see, oldest first
    role         which of the feature's agents answers
    parameters   model parameters for this prompt only
    defaults     model parameters where neither `parameters` nor the conversation has them
    tools        tools that it may ask for
    tool_choice  `auto`, `none`, `required` or the name of a tool
    schema       JSON Schema that the answer must satisfy; its value is then in
                 `Completion.value`
    show         whether the answer is streamed to the user as it is written
    rate         how often the model may be called, in this host: each call waits for its
                 turn, a repeated one as well; None for no bound
    keep_replies_in   file to which replies are added as their service sent them, without
                 the keys that it knows; one file is one conversation's alone, so that it
                 may get another name; empty for none
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
    rate: Rate | None = None
    keep_replies_in: str = ""


@frozen
class CountTokens(Step[TokenCount]):
    """Ask how many tokens a prompt would take, of the service that would answer it.

    prompt   what would be asked; nobody answers it
    """

    step = "count_tokens"
    prompt: Prompt


@frozen
class Embed(Step[Vectors]):
    """Turn texts into vectors, one each, in order."""

    step = "embed"
    texts: Sequence[str] = field(converter=strings)
    role: str = "embed"
    purpose: Literal["query", "document"] = "document"


@frozen
class Moderate(Step[Verdict]):
    """Ask whether a text breaks a service's rules."""

    step = "moderate"
    text: str
    role: str = "moderate"


@frozen
class CallFunction(Step[R_co]):
    """Call a function that does what no other step does, such as a vendor's own API.

    function     defined at the top of a module, so that it can be found again
    arguments    by name, JSON
    returns      class of what it returns, so that it can be read from the record
    twice        whether it may run twice, after a crash that left its end unknown

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
class OfferedTools(Step[tuple[OfferedTool, ...]]):
    """The tools that apply in a context and are not denied, by name.

    context   JSON, as `Turn.context`
    """

    step = "offered_tools"
    context: Mapping[str, Any] = field(factory=dict)


@frozen
class CallTool(Step[ToolOutput]):
    """Call a tool for a model. Whatever goes wrong is told in the output, for the model.

    call       what the model asks for
    context    JSON that the tool gets, as `Turn.context`
    approved   whether a human has said that it may run: a tool that asks for approval
               runs only then, and one that is denied never

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

    approved   ids of the calls that a human has said may run
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
class Wait(Step[R_co]):
    """Pause the turn until somebody gives the result, in this process or another.

    kind      what it waits for, as `approval`
    payload   JSON for whoever is to decide
    returns   class of the result; None for plain JSON. Anything else that is given is
              refused, and the turn waits on
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
class Settled(Step["tuple[R_co | Exception, ...]"]):
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
