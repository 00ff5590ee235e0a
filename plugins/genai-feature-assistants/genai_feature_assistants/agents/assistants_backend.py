"""The backend over the Assistants API, version 2.

A run is polled (`PolledRun`) or streamed (`AssistantsStreamedRun`).

Source: document 002, "Run processing"; OpenAI's OpenAPI document 2.3.0: `RunObject`,
`RunStepObject`, `AssistantStreamEvent`, and the paths below `/assistants` and `/threads`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, cast

from genai_feature_assistants.agents.assistants_form import (
    assistant_request,
    read_definition,
    read_thread,
    run_request,
    thread_request,
)
from genai_feature_assistants.agents.client import ServiceClient, path_of
from genai_feature_assistants.agents.content import (
    AgentDelta,
    AgentMessage,
    Wire,
    read_message,
    written_message,
)
from genai_feature_assistants.agents.definitions import OpenAIAssistantDefinition
from genai_feature_assistants.agents.functions import output_text
from genai_feature_assistants.agents.options import OpenAIThreadCreationOptions, Pace
from genai_feature_assistants.agents.runs import (
    ENDED,
    FINAL,
    OPEN,
    BackendRun,
    RunOrder,
    ThreadSettings,
    endless,
    no_calls,
    run_error,
    stream_error,
)
from genai_host.api import (
    Message,
    ToolCall,
    list_in,
    malformed,
    object_in,
    read_tool_call,
    string_in,
)
from genai_host.errors import IncompleteReply, ProviderError


class _Run(BackendRun):
    """One run, from its start to its end."""

    def __init__(self, client: ServiceClient, order: RunOrder, pace: Pace) -> None:
        super().__init__(client, order, pace)
        self._rounds = 0

    def execute(self) -> Iterator[AgentMessage | AgentDelta]:
        try:
            yield from self._execute()
        finally:
            if self.state and self.state.get("status") not in FINAL:
                self.cancel()

    @abstractmethod
    def _execute(self) -> Iterator[AgentMessage | AgentDelta]: ...

    def path(self, *more: str) -> str:
        return path_of("threads", self.order.thread_id, "runs", self.step_messages.run_id, *more)

    def update(self, state: Wire) -> None:
        """Store the current state of the run.

        Raises:
            MalformedReply: It is another run; the known state is kept.
        """
        id = string_in(state, "id")
        if not id or self.step_messages.run_id not in ("", id):
            raise malformed("it belongs to another run")
        self.step_messages.run_id = id
        self.state = self.client.without_key(state)

    def calls(self) -> list[ToolCall]:
        """Return the calls of functions.

        Raises:
            RunStuck: The run names none, or made too many.
        """
        action = object_in(object_in(self.state, "required_action"), "submit_tool_outputs")
        found = [each for each in list_in(action, "tool_calls") if isinstance(each, Mapping)]
        if not found:
            raise no_calls(self.state, self.order)
        self._rounds += 1
        if self._rounds > self.pace.options.round_trips:
            raise endless(self.state, self.order, self._rounds)
        return [_read_call(each) for each in found]

    def outputs(self, calls: list[ToolCall]) -> list[Wire]:
        """Call the functions, and return their outputs as the API takes them."""
        results = self.order.functions.call(calls)
        self.step_messages.answered(results)
        return [{"tool_call_id": each.id, "output": output_text(each)} for each in results]

    def check(self) -> None:
        """Raise the error of a run that ended badly, or that has an unknown status."""
        status = string_in(self.state, "status")
        if status in ENDED or status not in (*OPEN, "requires_action", "completed"):
            raise run_error(self.state, self.order)


class PolledRun(_Run):
    """A run whose status is polled."""

    def _execute(self) -> Iterator[AgentMessage]:
        path = path_of("threads", self.order.thread_id, "runs")
        self.update(self.client.post(path, run_request(self.order)))
        while True:
            self.wait(OPEN)
            self.check()
            asked: list[ToolCall] = []
            if self.state["status"] == "requires_action":
                asked = self.calls()
                yield self.step_messages.asked(asked)
            done = self.state["status"] == "completed"
            if asked:
                outputs = {"tool_outputs": self.outputs(asked)}
                self.update(self.client.post(self.path("submit_tool_outputs"), outputs))
            yield from self._of_steps()
            if done:
                return

    def _of_steps(self) -> Iterator[AgentMessage]:
        steps = self.pace.tried(lambda: list(self.client.pages(self.path("steps"))))
        for step in self.step_messages.new(steps):
            if string_in(step, "type") == "message_creation":
                yield self._message_of(step)
            else:
                yield from self.step_messages.tool_messages(step)

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

    def __init__(self, client: ServiceClient, order: RunOrder, pace: Pace) -> None:
        super().__init__(client, order, pace)
        self._messages: set[str] = set()

    def _execute(self) -> Iterator[AgentMessage | AgentDelta]:
        path = path_of("threads", self.order.thread_id, "runs")
        body = run_request(self.order)
        while True:
            yield from self._of_stream(path, body)
            self.check()
            if self.state["status"] == "completed":
                return
            if self.state["status"] != "requires_action":
                raise IncompleteReply(
                    "the stream ended before the run was complete", text="".join(self.text)
                )
            asked = self.calls()
            yield self.step_messages.asked(asked)
            path, body = self.path("submit_tool_outputs"), {"tool_outputs": self.outputs(asked)}
            self.state = {**self.state, "status": "queued"}  # until a new state is received

    def _of_stream(self, path: str, body: Wire) -> Iterator[AgentMessage | AgentDelta]:
        for kind, data in self.events(path, body):
            yield from self._of_event(kind, data)
        if not self.state:
            raise IncompleteReply("the stream ended before the run began")

    def _of_event(self, kind: str, data: Wire) -> Iterator[AgentMessage | AgentDelta]:
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
            for step in self.step_messages.new([data]):
                yield from self.step_messages.tool_messages(step)
        elif kind.startswith("thread.run.") and not kind.startswith("thread.run.step."):
            self.update(data)

    def _of_pieces(self, id: str, delta: Mapping[str, Any]) -> Iterator[AgentDelta]:
        for part in list_in(delta, "content"):
            text = string_in(object_in(part, "text"), "value") if isinstance(part, dict) else ""
            if text:
                self.text.append(text)
                yield AgentDelta(text, "text", self.order.name, id, self.step_messages.run_id)

    def _of_program(self, id: str, delta: Mapping[str, Any]) -> Iterator[AgentDelta]:
        for call in list_in(object_in(delta, "step_details"), "tool_calls"):
            code = object_in(call, "code_interpreter") if isinstance(call, dict) else {}
            text = string_in(code, "input")
            if text:
                yield AgentDelta(text, "code", self.order.name, id, self.step_messages.run_id)


def _read_call(data: Mapping[str, Any]) -> ToolCall:
    function = object_in(data, "function")
    return read_tool_call(
        string_in(data, "id"), string_in(function, "name"), function.get("arguments")
    )


class AssistantsBackend:
    """Assistants, threads and runs of the service.

    Every method raises the errors of `ServiceClient`, and `ValidationError` before anything is
    sent. Definitions are listed newest first, messages oldest first. A run that is open when the
    iterator of `run` or `stream` ends is cancelled: it would lock its thread.
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
        return self._deleted(path_of("assistants", id))

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

    def run(self, order: RunOrder, pace: Pace) -> Iterator[AgentMessage]:
        return cast("Iterator[AgentMessage]", PolledRun(self._client, order, pace).execute())

    def stream(self, order: RunOrder, pace: Pace) -> Iterator[AgentMessage | AgentDelta]:
        return AssistantsStreamedRun(self._client, order, pace).execute()

    def _name_of(self, id: str) -> str:
        """Return the name of an assistant; its id if it has no name, or was deleted."""
        try:
            return string_in(self._client.get(path_of("assistants", id)), "name") or id
        except ProviderError as error:
            if error.status != 404:
                raise
            return id

    def _deleted(self, path: str) -> bool:
        """Delete an object. One that another client has deleted counts as deleted."""
        try:
            return self._client.delete(path).get("deleted") is True
        except ProviderError as error:
            if error.status != 404:
                raise
            return True
