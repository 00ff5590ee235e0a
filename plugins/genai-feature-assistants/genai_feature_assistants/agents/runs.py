"""Settings, steps and outcomes of runs.

`settled` computes the settings of a run: options of the invocation precede settings of the
thread, which precede the definition. `StepMessages` converts the steps of a run to messages, each
step once. `BackendRun` is what the runs of both APIs have in common, and `run_error` the error of a
run that did not complete.

Source: OpenAI's OpenAPI document 2.3.0: `RunStepObject`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from genai_feature_assistants.agents.content import AgentDelta, AgentMessage, Code, Wire
from genai_feature_assistants.agents.definitions import OpenAIAssistantDefinition
from genai_feature_assistants.agents.errors import (
    RunCancelled,
    RunError,
    RunExpired,
    RunFailed,
    RunIncomplete,
    RunStuck,
    RunTimedOut,
)
from genai_feature_assistants.agents.functions import Functions
from genai_feature_assistants.agents.options import (
    OpenAIAssistantExecutionOptions,
    OpenAIAssistantInvocationOptions,
    Pace,
    TimeIsUp,
    checked_metadata,
)
from genai_host.api import (
    Message,
    Part,
    ToolCall,
    ToolResult,
    count_in,
    list_in,
    malformed,
    object_in,
    objects_in,
    one_line,
    read_object,
    read_tool_call,
    string_in,
)
from genai_host.errors import (
    GenaiError,
    IncompleteReply,
    ProviderError,
    ProviderTimeout,
    error_of_status,
)

if TYPE_CHECKING:
    from genai_feature_assistants.agents.client import ServiceClient


@frozen
class ThreadSettings:
    """Settings of a thread, which precede those of the definition."""

    code_interpreter_file_ids: Sequence[str] = ()
    vector_store_id: str | None = None
    metadata: Mapping[str, str] = field(factory=dict)


@frozen
class RunSettings:
    """The settings of a run. None leaves a setting to the service.

    `code_interpreter` and `file_search` are whether the model has these tools.
    """

    model: str
    instructions: str
    additional_instructions: str | None
    code_interpreter: bool
    file_search: bool
    enable_json_response: bool
    code_interpreter_file_ids: Sequence[str]
    vector_store_id: str | None
    temperature: float | None
    top_p: float | None
    max_completion_tokens: int | None
    max_prompt_tokens: int | None
    parallel_tool_calls_enabled: bool | None
    truncation_message_count: int | None
    metadata: Mapping[str, str]
    additional_messages: Sequence[Message]


@frozen
class RunOrder:
    """A run to be made.

    Attributes:
        thread_id: Id of its thread.
        definition: Definition of its assistant.
        options: Options as they were given. If the service has the definition, None is not sent.
        settings: The settings that hold.
        functions: The functions of the agent.
    """

    thread_id: str
    definition: OpenAIAssistantDefinition
    options: OpenAIAssistantInvocationOptions
    settings: RunSettings
    functions: Functions

    @property
    def assistant_id(self) -> str:
        return self.definition.id or ""

    @property
    def name(self) -> str:
        """Name of the agent."""
        return self.definition.name or self.assistant_id


def settled(
    definition: OpenAIAssistantDefinition,
    thread: ThreadSettings,
    options: OpenAIAssistantInvocationOptions,
) -> RunSettings:
    """Return the settings of a run.

    Raises:
        ValidationError: The merged metadata exceeds a limit.
    """
    execution = definition.execution_options or OpenAIAssistantExecutionOptions()
    files = thread.code_interpreter_file_ids or definition.code_interpreter_file_ids
    store = _first(thread.vector_store_id, definition.vector_store_id)
    metadata = {**definition.metadata, **thread.metadata, **options.metadata}

    def option(name: str) -> Any:
        return _first(getattr(options, name), getattr(execution, name))

    return RunSettings(
        model=_first(options.model_name, definition.model_id),
        instructions=definition.instructions or "",
        additional_instructions=option("additional_instructions"),
        code_interpreter=_first(
            options.enable_code_interpreter, definition.enable_code_interpreter or bool(files)
        ),
        file_search=_first(
            options.enable_file_search, definition.enable_file_search or bool(store)
        ),
        enable_json_response=_first(options.enable_json_response, definition.enable_json_response),
        code_interpreter_file_ids=files,
        vector_store_id=store,
        temperature=_first(options.temperature, definition.temperature),
        top_p=_first(options.top_p, definition.top_p),
        max_completion_tokens=option("max_completion_tokens"),
        max_prompt_tokens=option("max_prompt_tokens"),
        parallel_tool_calls_enabled=option("parallel_tool_calls_enabled"),
        truncation_message_count=option("truncation_message_count"),
        metadata=checked_metadata(metadata, "the run"),
        additional_messages=options.additional_messages,
    )


def _first(*values: Any) -> Any:
    """Return the first value that is not None. 0 and False are values."""
    return next((value for value in values if value is not None), None)


OPEN = ("queued", "in_progress", "cancelling")
"""The statuses of a run that is polled."""

ENDED: Mapping[str, type[RunError]] = {
    "failed": RunFailed,
    "cancelled": RunCancelled,
    "expired": RunExpired,
    "incomplete": RunIncomplete,
}
"""The errors of runs that did not complete, by status."""

FINAL = ("completed", *ENDED)

CANCELLING = 5.0
"""Time limit of the request that cancels a run, in seconds."""


def run_error(
    run: Mapping[str, Any], order: RunOrder, kind: type[RunError] | None = None, why: str = ""
) -> RunError:
    """Return the error of a run that did not complete.

    Args:
        run: A run of the Assistants API, or a response. Both have `id`, `status` and
            `incomplete_details`; a run has `last_error`, a response `error`.
        order: The order of the run.
        kind: Class of the error; None to choose it by the status.
        why: The reason; empty to take it from the run.
    """
    status = string_in(run, "status")
    id = string_in(run, "id")
    last = object_in(run, "last_error") or object_in(run, "error")
    reason = string_in(object_in(run, "incomplete_details"), "reason")
    known = kind or ENDED.get(status, RunStuck)
    detail = why or one_line(string_in(last, "message")) or reason
    ended = f"the run {id or 'without an id'} is {status or 'in no state'}"
    return known(
        f"{ended}: {detail}" if detail else ended,
        run_id=id,
        thread_id=order.thread_id,
        assistant_id=order.assistant_id,
        run_status=status,
        last_error=last or None,
        incomplete_reason=reason,
        reason=string_in(last, "code") or reason or status,
        retryable=last.get("code") in ("server_error", "rate_limit_exceeded"),
    )


def stream_error(data: Mapping[str, Any]) -> ProviderError:
    """Return the error of an `error` event, which has it as its data or in its data."""
    error = object_in(data, "error") or data
    message = one_line(string_in(error, "message"))
    return error_of_status(500, message or "the stream reported an error")


def timed_out(run: Mapping[str, Any], order: RunOrder, seconds: float) -> RunError:
    return run_error(run, order, RunTimedOut, f"not done within {seconds:g} s")


def no_calls(run: Mapping[str, Any], order: RunOrder) -> RunError:
    return run_error(run, order, RunStuck, "it requires an action without calls")


def endless(run: Mapping[str, Any], order: RunOrder, times: int) -> RunError:
    return run_error(run, order, RunStuck, f"it called functions {times} times")


WireObject = Mapping[str, Any]


@define
class StepMessages:
    """Makes messages of the steps of a run, each step once.

    Attributes:
        order: The order of the run.
        run_id: Id of the run; empty at first.
        called: Calls of functions by id that were yielded when the run required them.
        results: Results of functions, by the id of the call.
    """

    order: RunOrder
    run_id: str = ""
    called: dict[str, ToolCall] = field(factory=dict)
    results: dict[str, ToolResult] = field(factory=dict)
    _returned: set[str] = field(factory=set)

    def new(self, steps: Sequence[WireObject]) -> list[WireObject]:
        """Return the completed steps that were not returned before, tool calls before messages.

        Raises:
            MalformedReply: A step has no id.
        """
        found = []
        for each in steps:
            id = string_in(each, "id")
            if not id:
                raise malformed("a step has no id")
            if each.get("status") == "completed" and id not in self._returned:
                self._returned.add(id)
                found.append(each)
        return sorted(
            found, key=lambda each: (string_in(each, "type") != "tool_calls", _begun(each))
        )

    def asked(self, calls: Sequence[ToolCall]) -> AgentMessage:
        """Return the hidden message of the calls of functions."""
        self.called.update((each.id, each) for each in calls)
        return self.message(calls, visible=False)

    def answered(self, results: Sequence[ToolResult]) -> None:
        """Store the results of functions until their step is completed."""
        self.results.update((each.id, each) for each in results)

    def tool_messages(self, step: WireObject) -> Iterator[AgentMessage]:
        """Yield the messages of a step of tool calls.

        These are visible code, and hidden results, with the hidden call if it was not yielded
        before.
        """
        id = string_in(step, "id")
        for call in objects_in(object_in(step, "step_details"), "tool_calls"):
            kind = call.get("type")
            if kind == "code_interpreter":
                yield self.message([_code(object_in(call, "code_interpreter"))], id=id)
            elif kind == "function":
                yield from self._function_messages(call, id)

    def message(
        self, parts: Sequence[Part], *, visible: bool = True, id: str = "", role: Any = "assistant"
    ) -> AgentMessage:
        return AgentMessage(
            role,
            parts,
            name=self.order.name,
            visible=visible,
            id=id,
            thread_id=self.order.thread_id,
            run_id=self.run_id,
            assistant_id=self.order.assistant_id,
        )

    def _function_messages(self, data: WireObject, step_id: str) -> Iterator[AgentMessage]:
        function = object_in(data, "function")
        id = string_in(data, "id")
        call = self.called.get(id)
        if call is None:
            call = read_tool_call(id, string_in(function, "name"), function.get("arguments"))
            yield self.message([call], visible=False, id=step_id)
        result = self.results.get(id) or ToolResult(id, call.name, string_in(function, "output"))
        yield self.message([result], visible=False, id=step_id, role="tool")


def _begun(step: WireObject) -> int:
    return count_in(step, "created_at")


def _code(data: WireObject) -> Code:
    outputs = [each for each in list_in(data, "outputs") if isinstance(each, Mapping)]
    logs = [string_in(each, "logs") for each in outputs if each.get("type") == "logs"]
    images = [
        string_in(object_in(each, "image"), "file_id")
        for each in outputs
        if each.get("type") == "image"
    ]
    return Code(string_in(data, "input"), "\n".join(logs), images)


class BackendRun(ABC):
    """One run over an API, from its start to its end.

    Attributes:
        state: The run or response, as last received; empty at first.
        step_messages: Makes the messages.
        text: Streamed text.
    """

    def __init__(self, client: ServiceClient, order: RunOrder, pace: Pace) -> None:
        self.client = client
        self.order = order
        self.pace = pace
        self.state: Wire = {}
        self.step_messages = StepMessages(order)
        self.text: list[str] = []

    @abstractmethod
    def execute(self) -> Iterator[AgentMessage | AgentDelta]:
        """Yield the messages of the run. Cancel it if it is left before its end."""

    @abstractmethod
    def path(self, *more: str) -> str:
        """Return the path of the run."""

    @abstractmethod
    def update(self, state: Wire) -> None:
        """Store the current state."""

    def wait(self, open_states: Collection[str]) -> None:
        """Poll the run while it has one of these states. Raises `RunTimedOut`."""
        try:
            self.pace.until(
                self._fetched, lambda found: found.get("status") in open_states, self.state
            )
        except TimeIsUp:
            raise timed_out(self.state, self.order, self.pace.options.timeout) from None

    def events(self, path: str, body: Wire) -> Iterator[tuple[str, Wire]]:
        """Yield the kind and the data of each event of a streamed request.

        Raises:
            RunTimedOut: The stream took too long.
            IncompleteReply: The stream was interrupted; the error has the text so far.
        """
        seconds = self.pace.options.timeout
        try:
            for event in self.client.stream(path, {**body, "stream": True}, seconds=seconds):
                yield event.name or "", read_object(event.data)
        except ProviderTimeout as error:
            if error.deadline != "timeout":
                raise
            raise timed_out(self.state, self.order, seconds) from None
        except IncompleteReply as error:
            error.text = "".join(self.text)
            raise

    def cancel(self) -> None:
        """Cancel the run. A failure is ignored: the reason for the cancel matters more."""
        with suppress(GenaiError):
            self.client.post(self.path("cancel"), seconds=CANCELLING)

    def _fetched(self) -> Wire:
        self.update(self.client.get(self.path()))
        return self.state
