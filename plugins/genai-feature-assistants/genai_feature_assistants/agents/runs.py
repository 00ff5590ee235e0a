"""Settings and outcomes of runs, and settings of threads.

`settled` computes the settings of a run: options of the invocation precede settings of the
thread, which precede the definition. `BackendRun` is what the runs of both APIs have in common, and
`run_error` the error of a run that did not complete.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import attrs
from attrs import field, frozen

from genai_feature_assistants.agents.content import AgentDelta, AgentMessage, Wire
from genai_feature_assistants.agents.definitions import (
    OpenAIAssistantDefinition,
    from_json,
    to_json,
)
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
    OpenAIThreadCreationOptions,
    Pace,
    TimeIsUp,
    checked_files,
    checked_metadata,
)
from genai_host.api import (
    Part,
    ToolCall,
    malformed,
    object_in,
    one_line,
    read_json,
    read_object,
    string_in,
    write_json,
)
from genai_host.errors import (
    GenaiError,
    IncompleteReply,
    ProviderError,
    ProviderTimeout,
    ValidationError,
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
class RunSettings(OpenAIAssistantInvocationOptions):
    """The options of a run after those of its definition, and its resources. None leaves a setting
    to the service."""

    instructions: str = ""
    code_interpreter_file_ids: Sequence[str] = ()
    vector_store_id: str | None = None


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
    """Return the settings of a run. Raises `ValidationError`: the merged metadata exceeds a
    limit."""
    execution = definition.execution_options or OpenAIAssistantExecutionOptions()
    files = thread.code_interpreter_file_ids or definition.code_interpreter_file_ids
    store = definition.vector_store_id if thread.vector_store_id is None else thread.vector_store_id
    inherited = {
        **attrs.asdict(execution, recurse=False),
        "model_name": definition.model_id,
        "enable_code_interpreter": definition.enable_code_interpreter or bool(files),
        "enable_file_search": definition.enable_file_search or bool(store),
        "enable_json_response": definition.enable_json_response,
        "temperature": definition.temperature,
        "top_p": definition.top_p,
    }
    given = attrs.asdict(options, recurse=False, filter=lambda _, value: value is not None)
    known = attrs.fields_dict(RunSettings)  # subclasses of the options may have further fields
    metadata = {**definition.metadata, **thread.metadata, **options.metadata}
    values = {**inherited, **given, "metadata": checked_metadata(metadata, "the run")}
    return RunSettings(
        **{name: value for name, value in values.items() if name in known},
        instructions=definition.instructions or "",
        code_interpreter_file_ids=files,
        vector_store_id=store,
    )


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
    """Return the error of a run that did not complete: a run of the Assistants API, or a response.
    Its class and its reason are those of the run, if not given."""
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


RunUpdate = AgentMessage | AgentDelta


class BackendRun(ABC):
    """One run over an API, from its start to its end.

    Attributes:
        state: The run or response, as last received; empty at first.
        run_id: Its id; empty at first.
        text: Streamed text.
    """

    def __init__(self, client: ServiceClient, order: RunOrder, pace: Pace) -> None:
        self.client = client
        self.order = order
        self.pace = pace
        self.state: Wire = {}
        self.run_id = ""
        self.text: list[str] = []

    def execute(self) -> Iterator[RunUpdate]:
        """Yield the messages of the run. Cancel it if it is left before its end."""
        try:
            yield from self.updates()
        finally:
            self.leave()

    @abstractmethod
    def updates(self) -> Iterator[RunUpdate]:
        """Yield the messages of the run."""

    @abstractmethod
    def leave(self) -> None:
        """Cancel the run if it is open."""

    @abstractmethod
    def path(self, *more: str) -> str:
        """Return the path of the run."""

    @abstractmethod
    def update(self, state: Wire) -> None:
        """Store the current state."""

    def asked(self, calls: Sequence[ToolCall]) -> AgentMessage:
        """Return the hidden message of the calls of functions."""
        return self.message(calls, visible=False)

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

    def delta(self, text: str, kind: Literal["text", "code"], id: str) -> AgentDelta:
        if kind == "text":
            self.text.append(text)
        return AgentDelta(text, kind, self.order.name, id, self.run_id)

    def wait(self, open_states: Collection[str]) -> None:
        """Poll the run while it has one of these states. Raises `RunTimedOut`."""
        try:
            self.pace.until(
                self._fetched, lambda found: found.get("status") in open_states, self.state
            )
        except TimeIsUp:
            raise self.timed_out() from None

    def events(self, path: str, body: Wire) -> Iterator[tuple[str, Wire]]:
        """Yield the kind and the data of each event of a streamed request.

        Raises:
            RunTimedOut: The stream took too long.
            IncompleteReply: The stream was interrupted; the error has the text so far.
        """
        body = {**body, "stream": True}
        try:
            for event in self.client.stream(path, body, seconds=self.pace.options.timeout):
                yield event.name or "", read_object(event.data)
        except ProviderTimeout as error:
            if error.deadline != "timeout":
                raise
            raise self.timed_out() from None
        except IncompleteReply as error:
            error.text = "".join(self.text)
            raise

    def cancel(self) -> None:
        """Cancel the run. A failure is ignored: the reason for the cancel matters more."""
        with suppress(GenaiError):
            self.client.post(self.path("cancel"), seconds=CANCELLING)

    def stuck(self, why: str) -> RunError:
        return run_error(self.state, self.order, RunStuck, why)

    def timed_out(self) -> RunError:
        seconds = self.pace.options.timeout
        return run_error(self.state, self.order, RunTimedOut, f"not done within {seconds:g} s")

    def _fetched(self) -> Wire:
        self.update(self.client.get(self.path()))
        return self.state


THREAD_OPTIONS = "__thread_options"
"""Prefix of the keys of thread settings, as JSON, in the metadata of a conversation."""

_MAX_LENGTH = 512
_NUMBERED = re.compile(rf"{THREAD_OPTIONS}_\d+")


def conversation_metadata(options: OpenAIThreadCreationOptions) -> dict[str, str]:
    """The metadata of the conversation that a thread is. Raises `ValidationError`."""
    for key in options.metadata:
        if _NUMBERED.fullmatch(key):
            raise ValidationError(
                f"{key} is reserved for {THREAD_OPTIONS}", path=f"$.metadata.{key}"
            )
    kept = OpenAIThreadCreationOptions(
        code_interpreter_file_ids=checked_files(options.code_interpreter_file_ids, "the thread"),
        vector_store_id=options.vector_store_id,
    )
    data = to_json(kept)
    text = write_json(data).decode() if data else ""
    pieces = [text[at : at + _MAX_LENGTH] for at in range(0, len(text), _MAX_LENGTH)]
    ours = {f"{THREAD_OPTIONS}_{number:02}": piece for number, piece in enumerate(pieces)}
    return checked_metadata({**options.metadata, **ours}, "the thread")


def conversation_settings(conversation: Mapping[str, Any]) -> ThreadSettings:
    """Return the settings of a conversation. Raises `MalformedReply`: the stored options are
    invalid."""
    metadata = object_in(conversation, "metadata")
    ours = sorted(key for key in metadata if _NUMBERED.fullmatch(key))
    kept = OpenAIThreadCreationOptions()
    if ours:
        try:
            data = read_json("".join(string_in(metadata, key) for key in ours))
            kept = from_json(data, OpenAIThreadCreationOptions)
        except (ValueError, ValidationError) as error:
            raise malformed(f"{THREAD_OPTIONS}: {error}") from error
    return ThreadSettings(
        kept.code_interpreter_file_ids,
        kept.vector_store_id,
        {key: string_in(metadata, key) for key in metadata if key not in ours},
    )
