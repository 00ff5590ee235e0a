"""The work of a run, in any process: a recorded conversation with its model.

    RunWork.do → _Run.work → Host.open, or Host.conversation after another worker
                           → _go_on, once for each round: the answer → _finish
                                                          tool calls → _call → the next

A result is recorded before it is used. What clients see has ids that follow from the run, so a
worker that continues a run repeats nothing that is visible.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from attrs import define, frozen
from genai_wire_openai.server.objects import Object, ObjectStore

from genai_feature_assistants.service.fields import schema_of
from genai_feature_assistants.service.run_progress import RunProgress
from genai_feature_assistants.service.run_states import (
    ACTIVE,
    RunStates,
    RunSteps,
    Streams,
    owner_of,
)
from genai_feature_assistants.service.run_tools import GUIDE, SCHEMAS, SEARCH, RunTools
from genai_feature_assistants.service.threads import Messages
from genai_feature_assistants.service.vector_stores import VectorStores
from genai_host.api import Answer, Cancellation, Job, Message, ended_with
from genai_host.errors import (
    BudgetExceeded,
    Cancelled,
    Conflict,
    ContextOverflow,
    ConversationBusy,
    ConversationClosed,
    GenaiError,
    Interrupted,
    InvalidParameter,
    NotFound,
    PluginError,
    ProviderTimeout,
    RateLimited,
    StoreError,
    TurnPaused,
    UnsupportedPart,
    ValidationError,
)

if TYPE_CHECKING:
    from genai_host.api import ConversationHandle, Event, HostServices

_MAX_INDEXING = 60.0  # seconds that a search waits for files that are not ready yet
_LOOK = 0.25  # seconds between looks whether they are
_UNFIT = (ContextOverflow, ValidationError, InvalidParameter, UnsupportedPart)
_LEFT_TO_OTHERS = (Conflict, ConversationBusy, ConversationClosed, Interrupted, StoreError)

_log = logging.getLogger(__name__)


@frozen
class RunWork:
    """Does the runs of a host in this process."""

    host: HostServices
    states: RunStates
    steps: RunSteps
    messages: Messages
    tools: RunTools
    stores: VectorStores
    streams: Streams

    def do(self, job: Job, ending: Cancellation) -> None:
        """Do a job, and write its result into the run. Raises `Interrupted`: another worker must
        continue the run."""
        user, about = job.user, job.about
        try:
            run = self.states.get(user, about["thread"], about["run"])
            is_due = run["status"] in ACTIVE and run["status"] != "requires_action"
            if is_due and run["_part"] == about["part"]:
                run = self._done(job, run, ending)
            if run["status"] not in ACTIVE:
                self.states.finish(user, run)
        except NotFound:
            # it was deleted
            if ObjectStore(self.host, user, "thread").find(about["thread"]) is None:
                self.steps.shelf(user, about["run"]).clear()
                self.messages.shelf(user, about["thread"]).clear()
        finally:
            self.streams.end(about["run"])

    def _done(self, job: Job, run: Object, ending: Cancellation) -> Object:
        """Work on a run as far as possible, and return it."""
        user, thread = job.user, run["thread_id"]
        steps, messages = self.steps.shelf(user, run["id"]), self.messages.shelf(user, thread)
        progress = RunProgress(user, run, self.states, steps, messages, self.streams)
        out_of_time = _OutOfTime("the run has expired")
        left = run["_until"] - self.host.clock.now().timestamp()
        over = self.host.clock.call_later(max(0.0, left), lambda: ending.cancel(out_of_time))
        try:
            if run["status"] == "cancelling":
                raise Cancelled("the run was cancelled")
            if job.is_exhausted:
                raise PluginError("the worker process of the run ended repeatedly")
            _Run(self, user, progress, ending).work()
        except GenaiError as error:
            _end(progress, ended_with(ending) or error)
        except Exception:  # noqa: BLE001 - a run ends, whatever a plugin raises
            _log.exception("the run %s failed", run["id"])
            _end(progress, PluginError("internal error; see the log of the server"))
        finally:
            over.release()
        return progress.run


@define(eq=False, repr=False, slots=False)
class _Run:
    _its: RunWork
    _user: str
    _progress: RunProgress
    _ending: Cancellation

    def work(self) -> None:
        self._await_files()
        with self._conversation() as conversation:
            close = lambda: conversation.close(ended_with(self._ending))  # noqa: E731
            with self._ending.on_cancel(close):
                self._converse(conversation)

    def _converse(self, conversation: ConversationHandle) -> None:
        """Do all rounds until the client must act."""
        round = self._progress.rounds()
        answer = _answered(conversation)
        while answer is None:
            result = None
            if conversation.current_pause is not None:
                payload = conversation.current_pause.payload
                result = self._call(payload)
                if result is None:
                    return
                round = payload["round"] + 1
            answer = self._go_on(conversation, round, result)
        self._finish(round, answer)

    def _conversation(self) -> ConversationHandle:
        """The event log of the run. The run has its id before it is created, so that a worker that
        is killed leaves none behind."""
        host, run = self._its.host, self._progress.run
        owner = owner_of(self._user)
        id = run["_conversation"] or host.store_for(owner).new_id()
        self._progress.begin(id)
        if self._progress.run["_conversation"] != id:
            raise Cancelled("the run ended before it began")
        try:
            return host.conversation(id, owner=owner)
        except NotFound:
            conversation = host.open(
                "assistant",
                run["model"],
                parameters=_parameters(run),
                output_type=schema_of(run["response_format"]),
                history=[*_system(run), *self._model_messages[:-1]],
                owner=owner,
                tools=(),
                id=id,
            )
        if not conversation.id:
            raise StoreError("the event log of the run cannot be written")
        if not self._its.states.is_active(self._user, run):  # another worker has ended it
            conversation.close()
            self._its.states.forget(self._user, id)
            raise Cancelled("the run ended before it began")
        return conversation

    @cached_property
    def _model_messages(self) -> list[Message]:
        """The messages for the model; the last one is of the user."""
        run = self._progress.run
        last = run["truncation_strategy"]["last_messages"]
        messages = self._its.messages.for_model(self._user, run["thread_id"], last)
        if not messages or messages[-1].role != "user":
            messages.append(Message("user", "Go on."))
        return messages

    def _go_on(self, conversation: ConversationHandle, round: int, result: Any) -> Answer | None:
        """Start or resume the turn. Returns the answer; None if it waits for tools."""
        has_listeners = self._its.streams.has_listeners(self._progress.run["id"])
        try:
            if conversation.status != "idle":
                if not has_listeners:
                    return conversation.resume(result)
                return self._stream(round, conversation.resume_stream(result))
            message, context = self._model_messages[-1], _context(self._progress.run)
            if not has_listeners:
                return conversation.say(message, context=context)
            return self._stream(round, conversation.stream(message, context=context))
        except TurnPaused:
            return None

    def _stream(self, round: int, events: Iterator[Event]) -> Answer | None:
        answer = None
        for event in events:
            answer = event.answer
            if event.kind == "reset":
                self._progress.discard_text()
            if event.text:
                self._progress.publish_text(round, event.text)
        return answer

    def _call(self, payload: Mapping[str, Any]) -> Mapping[str, str] | None:
        """Return the outputs of a round; None if the client must submit some."""
        progress, run = self._progress, self._progress.run
        round, calls = payload["round"], payload["calls"]
        if payload["text"].strip():
            progress.add_message(round, payload["text"])
        refused = _refused(run, calls)  # which no client has seen, nor sees
        step = progress.call(round, [call for call in calls if call["id"] not in refused])
        for call in calls:
            if call["name"] in SCHEMAS and call["id"] not in step["_outputs"]:
                place = (round, len(step["_found"]))
                given = self._its.tools.call(self._user, run, call, place, self._ending)
                self._ending.check()
                step = progress.called(step, call["id"], given)
        outputs = {**refused, **step["_outputs"], **run["_submitted"]}
        required = [call for call in calls if call["id"] not in outputs]
        if required:
            progress.require(required)
            return None
        mine = {call["id"]: outputs[call["id"]] for call in calls}
        return progress.close_calls(step, mine, payload["usage"])

    def _finish(self, round: int, answer: Answer) -> None:
        known = answer.state
        if answer.text.strip():
            self._progress.add_message(
                round, answer.text, known["usage"], cut=bool(known["incomplete"])
            )
        if known["incomplete"]:
            self._progress.end("incomplete", incomplete_details={"reason": known["incomplete"]})
        else:
            self._progress.end("completed")

    def _await_files(self) -> None:
        """Wait until files are indexed, for a limited time."""
        run, clock = self._progress.run, self._its.host.clock
        if SEARCH not in [tool["type"] for tool in run["tools"]]:
            return
        until = clock.monotonic() + _MAX_INDEXING
        ended = threading.Event()
        with self._ending.on_cancel(ended.set):
            for store in run["_resources"]["stores"]:
                while not self._its.stores.is_ready(self._user, store):
                    if clock.monotonic() > until or ended.wait(_LOOK):
                        return


def _answered(conversation: ConversationHandle) -> Answer | None:
    """Return the answer of a turn that has ended but was not processed."""
    if conversation.status != "idle" or not conversation.turns:
        return None
    if not conversation.history or conversation.history[-1].role != "assistant":
        raise PluginError("the run failed, and its worker process ended")
    return Answer(conversation.history[-1].text, state=conversation.state)


def _end(progress: RunProgress, error: GenaiError) -> None:
    """End a run with an error. Raises `Interrupted` if another worker must continue it."""
    if isinstance(error, _LEFT_TO_OTHERS):
        raise Interrupted(error.message) from error
    if isinstance(error, _OutOfTime):
        progress.end("expired")
    elif isinstance(error, Cancelled):
        progress.end("cancelled")
    else:
        progress.end("failed", last_error=last_error(error))


def last_error(error: GenaiError) -> dict[str, str]:
    """Return the error as the API has it."""
    message = f"{error.message}; {error.hint}" if error.hint else error.message
    if isinstance(error, (RateLimited, BudgetExceeded)):
        return {"code": "rate_limit_exceeded", "message": message}
    code = "invalid_prompt" if isinstance(error, _UNFIT) else "server_error"
    return {"code": code, "message": message}


class _OutOfTime(ProviderTimeout):
    """A run exceeded its time limit."""


def _parameters(run: Object) -> dict[str, Any]:
    given = {
        "temperature": run["temperature"],
        "top_p": run["top_p"],
        "reasoning_effort": run["_effort"],
    }
    return {name: value for name, value in given.items() if value is not None}


def _system(run: Object) -> list[Message]:
    searches = SEARCH in [tool["type"] for tool in run["tools"]]
    text = "\n\n".join(filter(None, [run["instructions"], GUIDE if searches else ""]))
    return [Message("system", text)] if text else []


def _context(run: Object) -> dict[str, Any]:
    """Return the context, as `assistant.RunContext` has it."""
    chosen = run["tool_choice"]
    if isinstance(chosen, Mapping):
        chosen = chosen["function"]["name"] if chosen["type"] == "function" else chosen["type"]
    return {
        "tools": [_schema(tool) for tool in run["tools"]],
        "tool_choice": chosen,
        "parallel": run["parallel_tool_calls"],
        "most_completion": run["max_completion_tokens"],
        "most_prompt": run["max_prompt_tokens"],
        "drops": run["truncation_strategy"]["type"] == "auto",
    }


def _schema(tool: Mapping[str, Any]) -> dict[str, Any]:
    if tool["type"] != "function":
        return dict(SCHEMAS[tool["type"]])
    function = tool["function"]
    nothing = {"type": "object", "properties": {}}
    return {
        "name": function["name"],
        "description": function.get("description") or "",
        "parameters": function.get("parameters") or nothing,
    }


def _refused(run: Object, calls: Any) -> dict[str, str]:
    """Return outputs for calls of unknown functions."""
    functions = {tool["function"]["name"] for tool in run["tools"] if tool["type"] == "function"}
    return {
        call["id"]: f"unknown function {call['name']!r}"
        for call in calls
        if call["name"] not in functions and call["name"] not in SCHEMAS
    }
