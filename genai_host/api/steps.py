"""The steps that features yield, each typed by its result.

The host performs, limits and records steps, so that a feature can be replayed from its event log.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Literal

from attrs import field, frozen, validators as must
from typing_extensions import TypeVar

from genai_host.api.calls import ToolSchema
from genai_host.api.messages import Message, ToolCall
from genai_host.api.results import Completion, Embeddings, ModerationResult, TokenCount
from genai_host.api.tools import AvailableTool, ToolOutput
from genai_host.api.validators import string_set, texts_or_tokens

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
        strict: Whether the service must enforce the schema, if it can; it is checked in any case.
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
    strict: bool = False


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
        texts: The texts, each of them a string, or its token IDs for the tokenizer of the
            model (see `Dialect.accepts_tokens`).
        role: Role of the feature whose model is used.
        purpose: Use of the vectors, for models that embed queries and documents differently; None
            for the default of the service.
    """

    step = "embed"
    texts: Sequence[str | Sequence[int]] = field(converter=texts_or_tokens)
    role: str = "embed"
    purpose: Literal["query", "document"] | None = None


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
