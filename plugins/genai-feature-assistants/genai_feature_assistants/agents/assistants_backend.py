"""The backend over the Assistants API, version 2.

A run is polled (`PolledRun`) or streamed (`AssistantsStreamedRun`).

Source: document 002, "Run processing"; OpenAI's OpenAPI document 2.3.0: `AssistantObject`,
`CreateAssistantRequest`, `ThreadObject`, `CreateThreadRequest`, `CreateRunRequest`, `RunObject`,
`RunStepObject`, `AssistantStreamEvent`, and the paths below `/assistants` and `/threads`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from genai_feature_assistants.agents.client import ServiceClient, path_of
from genai_feature_assistants.agents.content import (
    AgentDelta,
    AgentMessage,
    Wire,
    read_code,
    read_message,
    written_message,
)
from genai_feature_assistants.agents.definitions import (
    OpenAIAssistantDefinition,
    assistant_request,
    built_in_tools,
    given,
    read_definition,
    read_resources,
    tool_resources,
)
from genai_feature_assistants.agents.functions import function_json, output_text
from genai_feature_assistants.agents.options import (
    OpenAIThreadCreationOptions,
    Pace,
    checked_files,
    checked_metadata,
)
from genai_feature_assistants.agents.runs import (
    ENDED,
    FINAL,
    OPEN,
    BackendRun,
    RunOrder,
    RunUpdate,
    ThreadSettings,
    run_error,
    stream_error,
)
from genai_host.api import (
    Message,
    ToolCall,
    ToolResult,
    count_in,
    list_in,
    malformed,
    object_in,
    objects_in,
    read_tool_call,
    string_in,
)
from genai_host.errors import IncompleteReply, ProviderError


def thread_request(options: OpenAIThreadCreationOptions) -> Wire:
    """What a thread is made from. Raises `ValidationError` and `UnsupportedPart`."""
    files = checked_files(options.code_interpreter_file_ids, "the thread")
    return given(
        messages=list(map(written_message, options.messages)) or None,
        metadata=checked_metadata(options.metadata, "the thread") or None,
        tool_resources=tool_resources(files, options.vector_store_id),
    )


def read_thread(data: Mapping[str, Any]) -> ThreadSettings:
    """The settings stored with a thread. Raises `MalformedReply`."""
    files, store = read_resources(data)
    metadata = object_in(data, "metadata")
    return ThreadSettings(files, store, {key: string_in(metadata, key) for key in metadata})


def run_request(order: RunOrder) -> Wire:
    """Return the request of a run. Fields of the definition are omitted, except the tools, because
    functions are not stored with the assistant."""
    settings, options, offered = order.settings, order.options, order.functions.offered
    count, json = settings.truncation_message_count, options.enable_json_response
    last_messages = {"type": "last_messages", "last_messages": count}
    return {
        "assistant_id": order.assistant_id,
        "tools": [
            *built_in_tools(settings.enable_code_interpreter, settings.enable_file_search),
            *({"type": "function", "function": function_json(each.schema)} for each in offered),
        ],
        **given(
            model=options.model_name,
            additional_instructions=settings.additional_instructions,
            additional_messages=list(map(written_message, settings.additional_messages)) or None,
            temperature=options.temperature,
            top_p=options.top_p,
            response_format=None if json is None else {"type": "json_object" if json else "text"},
            max_completion_tokens=settings.max_completion_tokens,
            max_prompt_tokens=settings.max_prompt_tokens,
            parallel_tool_calls=settings.parallel_tool_calls_enabled,
            truncation_strategy=last_messages if count is not None else None,
            metadata=dict(settings.metadata) or None,
        ),
    }


class _Run(BackendRun):
    def __init__(self, client: ServiceClient, order: RunOrder, pace: Pace) -> None:
        super().__init__(client, order, pace)
        self._rounds = 0
        self._called: dict[str, ToolCall] = {}  # that were yielded when the run required them
        self._results: dict[str, ToolResult] = {}  # of functions, until their step is completed
        self._steps: set[str] = set()  # ids of those that were returned
        self._messages: set[str] = set()

    def leave(self) -> None:
        if self.state and self.state.get("status") not in FINAL:
            self.cancel()

    def path(self, *more: str) -> str:
        return path_of("threads", self.order.thread_id, "runs", self.run_id, *more)

    def update(self, state: Wire) -> None:
        """Store the current state of the run. Raises `MalformedReply`: it is another run; the known
        state is kept."""
        id = string_in(state, "id")
        if not id or self.run_id not in ("", id):
            raise malformed("it belongs to another run")
        self.run_id = id
        self.state = self.client.without_key(state)

    def calls(self) -> list[ToolCall]:
        """Return the calls of functions. Raises `RunStuck`: the run names none, or made too
        many."""
        action = object_in(object_in(self.state, "required_action"), "submit_tool_outputs")
        found = [each for each in list_in(action, "tool_calls") if isinstance(each, Mapping)]
        if not found:
            raise self.stuck("it requires an action without calls")
        self._rounds += 1
        if self._rounds > self.pace.options.round_trips:
            raise self.stuck(f"it called functions {self._rounds} times")
        return [_read_call(each) for each in found]

    def outputs(self, calls: list[ToolCall]) -> list[Wire]:
        """Call the functions, and return their outputs as the API takes them."""
        results = self.order.functions.call(calls)
        self._results.update((each.id, each) for each in results)
        return [{"tool_call_id": each.id, "output": output_text(each)} for each in results]

    def asked(self, calls: Sequence[ToolCall]) -> AgentMessage:
        self._called.update((each.id, each) for each in calls)
        return super().asked(calls)

    def completed(self, steps: Sequence[Wire]) -> list[Wire]:
        """Return the completed steps that were not returned before, tool calls before messages.
        Raises `MalformedReply`: a step has no id."""
        found = []
        for each in steps:
            id = string_in(each, "id")
            if not id:
                raise malformed("a step has no id")
            if each.get("status") == "completed" and id not in self._steps:
                self._steps.add(id)
                found.append(each)
        return sorted(
            found, key=lambda each: (each.get("type") != "tool_calls", count_in(each, "created_at"))
        )

    def tool_messages(self, step: Wire) -> Iterator[AgentMessage]:
        """Yield the messages of a step of tool calls: visible code, and hidden results, with the
        hidden call if it was not yielded before."""
        id = string_in(step, "id")
        for call in objects_in(object_in(step, "step_details"), "tool_calls"):
            kind = call.get("type")
            if kind == "code_interpreter":
                yield self.message(
                    [read_code(object_in(call, "code_interpreter"), "input", _file_id)], id=id
                )
            elif kind == "function":
                yield from self._function_messages(call, id)

    def _function_messages(self, data: Mapping[str, Any], step_id: str) -> Iterator[AgentMessage]:
        call = self._called.get(string_in(data, "id"))
        if call is None:
            call = _read_call(data)
            yield self.message([call], visible=False, id=step_id)
        output = string_in(object_in(data, "function"), "output")
        result = self._results.get(call.id) or ToolResult(call.id, call.name, output)
        yield self.message([result], visible=False, id=step_id, role="tool")

    def check(self) -> None:
        """Raise the error of a run that ended badly, or that has an unknown status."""
        status = string_in(self.state, "status")
        if status in ENDED or status not in (*OPEN, "requires_action", "completed"):
            raise run_error(self.state, self.order)


class PolledRun(_Run):
    """A run whose status is polled."""

    def updates(self) -> Iterator[AgentMessage]:
        path = path_of("threads", self.order.thread_id, "runs")
        self.update(self.client.post(path, run_request(self.order)))
        while True:
            self.wait(OPEN)
            self.check()
            done = self.state["status"] == "completed"
            if self.state["status"] == "requires_action":
                asked = self.calls()
                yield self.asked(asked)
                outputs = {"tool_outputs": self.outputs(asked)}
                self.update(self.client.post(self.path("submit_tool_outputs"), outputs))
            yield from self._of_steps()
            if done:
                return

    def _of_steps(self) -> Iterator[AgentMessage]:
        steps = self.pace.tried(lambda: list(self.client.pages(self.path("steps"))))
        for step in self.completed(steps):
            if string_in(step, "type") == "message_creation":
                yield self._message_of(step)
            else:
                yield from self.tool_messages(step)

    def _message_of(self, step: Mapping[str, Any]) -> AgentMessage:
        details = object_in(object_in(step, "step_details"), "message_creation")
        path = path_of(
            "threads", self.order.thread_id, "messages", string_in(details, "message_id")
        )
        # the step may be there a moment before its message is
        found = self.pace.tried(lambda: self.client.get(path), lambda error: error.status == 404)
        return read_message(found, self.order.name)


class AssistantsStreamedRun(_Run):
    """A run whose events are streamed: one stream until it requires functions, another after."""

    def updates(self) -> Iterator[RunUpdate]:
        path = path_of("threads", self.order.thread_id, "runs")
        body = run_request(self.order)
        while True:
            for kind, data in self.events(path, body):
                yield from self._of_event(kind, data)
            if not self.state:
                raise IncompleteReply("the stream ended before the run began")
            self.check()
            if self.state["status"] == "completed":
                return
            if self.state["status"] != "requires_action":
                raise IncompleteReply(
                    "the stream ended before the run was complete", text="".join(self.text)
                )
            asked = self.calls()
            yield self.asked(asked)
            path, body = self.path("submit_tool_outputs"), {"tool_outputs": self.outputs(asked)}
            self.state = {**self.state, "status": "queued"}  # until a new state is received

    def _of_event(self, kind: str, data: Wire) -> Iterator[RunUpdate]:
        """Yield the messages of an event. Unknown kinds are ignored."""
        if kind == "error":
            raise stream_error(self.client.without_key(data))
        if kind == "thread.message.delta":
            yield from self._of_pieces(string_in(data, "id"), object_in(data, "delta"))
        elif kind in ("thread.message.completed", "thread.message.incomplete"):
            if string_in(data, "id") not in self._messages:
                self._messages.add(string_in(data, "id"))
                yield read_message(data, self.order.name)
        elif kind == "thread.run.step.delta":
            yield from self._of_program(string_in(data, "id"), object_in(data, "delta"))
        elif kind == "thread.run.step.completed":
            for step in self.completed([data]):
                yield from self.tool_messages(step)
        elif kind.startswith("thread.run.") and not kind.startswith("thread.run.step."):
            self.update(data)

    def _of_pieces(self, id: str, delta: Mapping[str, Any]) -> Iterator[AgentDelta]:
        for part in list_in(delta, "content"):
            text = string_in(object_in(part, "text"), "value") if isinstance(part, dict) else ""
            if text:
                yield self.delta(text, "text", id)

    def _of_program(self, id: str, delta: Mapping[str, Any]) -> Iterator[AgentDelta]:
        for call in list_in(object_in(delta, "step_details"), "tool_calls"):
            code = object_in(call, "code_interpreter") if isinstance(call, dict) else {}
            text = string_in(code, "input")
            if text:
                yield self.delta(text, "code", id)


def _read_call(data: Mapping[str, Any]) -> ToolCall:
    function = object_in(data, "function")
    return read_tool_call(
        string_in(data, "id"), string_in(function, "name"), function.get("arguments")
    )


class AssistantsBackend:
    """Assistants, threads and runs of the service.

    Every method raises the errors of `ServiceClient`, and `ValidationError` before anything is
    sent. Definitions are listed newest first, messages oldest first. A run that is open when the
    iterator of `run` ends is cancelled: it would lock its thread.
    """

    def __init__(self, client: ServiceClient) -> None:
        self._client = client

    def create(self, definition: OpenAIAssistantDefinition) -> OpenAIAssistantDefinition:
        return read_definition(self._client.post("assistants", assistant_request(definition)))

    def definitions(self) -> Iterator[OpenAIAssistantDefinition]:
        return map(read_definition, self._client.pages("assistants", order="desc"))

    def definition(self, id: str) -> OpenAIAssistantDefinition:
        return read_definition(self._client.get(path_of("assistants", id)))

    def delete(self, id: str) -> bool:
        """Delete an assistant. One that another client has deleted counts as deleted."""
        try:
            return self._client.delete(path_of("assistants", id)).get("deleted") is True
        except ProviderError as error:
            if error.status != 404:
                raise
            return True

    def create_thread(self, options: OpenAIThreadCreationOptions) -> str:
        made = string_in(self._client.post("threads", thread_request(options)), "id")
        if not made:
            raise malformed("the thread has no id")
        return made

    def thread(self, thread_id: str) -> ThreadSettings:
        return read_thread(self._client.get(path_of("threads", thread_id)))

    def delete_thread(self, thread_id: str) -> bool:
        return self._client.delete(path_of("threads", thread_id)).get("deleted") is True

    def check(self, message: Message) -> None:
        written_message(message)

    def add_message(self, thread_id: str, message: Message) -> AgentMessage:
        body = written_message(message)
        return read_message(self._client.post(path_of("threads", thread_id, "messages"), body))

    def messages(self, thread_id: str) -> Iterator[AgentMessage]:
        names: dict[str, str] = {}
        for data in self._client.pages(path_of("threads", thread_id, "messages")):
            id = string_in(data, "assistant_id")
            if id and id not in names:
                names[id] = self._name_of(id)
            yield read_message(data, names.get(id, ""))

    def run(self, order: RunOrder, pace: Pace, *, streamed: bool) -> Iterator[RunUpdate]:
        kind = AssistantsStreamedRun if streamed else PolledRun
        return kind(self._client, order, pace).execute()

    def _name_of(self, id: str) -> str:
        """Return the name of an assistant; its id if it has no name, or was deleted."""
        try:
            return string_in(self._client.get(path_of("assistants", id)), "name") or id
        except ProviderError as error:
            if error.status != 404:
                raise
            return id


def _file_id(output: Mapping[str, Any]) -> str:
    return string_in(object_in(output, "image"), "file_id")
