"""Runs of an assistant at a thread: created, listed, shown and cancelled.

`read_run` reads a request; fields that it does not have come from the assistant and the thread.

    Runs.create → _begin → Threads.occupy
                → _reply → JobWorker.submit → RunWork.do, in any process

Source: OpenAI API reference, "Runs"; OpenAPI document 2.3.0, "CreateRunRequest", "RunObject".
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen
from genai_wire_openai.server.objects import Object, new_id, shown

from genai_feature_assistants.service.assistants import Assistants, Resources
from genai_feature_assistants.service.fields import (
    choice_in,
    format_in,
    metadata_change,
    metadata_in,
    tools_in,
    truncation_in,
)
from genai_feature_assistants.service.run_states import (
    DONE,
    RunStates,
    Streams,
    events_reply,
    job_of,
    wants_content,
)
from genai_feature_assistants.service.run_tools import SEARCH, RunTools
from genai_feature_assistants.service.run_work import last_error
from genai_feature_assistants.service.threads import Messages, MessageText, Threads, attached_to
from genai_host.api import (
    JsonReader,
    RouteRequest,
    RouteResponse,
    body_of,
    json_response,
    sse_event,
)
from genai_host.errors import GenaiError, NoRoute, ValidationError

if TYPE_CHECKING:
    from genai_host.api import BackgroundWorker, HostServices


_LIFE = 600
"""Seconds in which a run has to end, as OpenAI has it."""

_MIN_TOKENS = 256
_MAX_TOOLS = 128
_INSTRUCTIONS = 256_000
_OWN = ("assistant_id", "stream", "additional_messages", "thread", "tool_resources")


def read_run(given: JsonReader, assistant: Object, now: int, *, content: bool) -> dict[str, Any]:
    """Return the run of a request, queued, without its thread. The fields of the assistant are the
    defaults; `content` is whether its events include the texts that were found. Raises
    `ValidationError`."""
    tools = tools_in(given, _MAX_TOOLS) if "tools" in given else list(assistant["tools"])
    given.raw("tools")
    instructions = given.text_or_none("instructions", _INSTRUCTIONS)
    if instructions is None:
        instructions = assistant["instructions"] or ""
    more = given.text_or_none("additional_instructions", _INSTRUCTIONS)
    run: dict[str, Any] = {
        "id": new_id("run"),
        "object": "thread.run",
        "created_at": now,
        "assistant_id": assistant["id"],
        "status": "queued",
        "expires_at": now + _LIFE,
        **dict.fromkeys(("started_at", "cancelled_at", "failed_at", "completed_at")),
        **dict.fromkeys(("required_action", "last_error", "incomplete_details", "usage")),
        "model": given.text("model") or assistant["model"],
        "instructions": "\n".join(filter(None, [instructions, more])),
        "tools": tools,
        "metadata": metadata_in(given),
        "temperature": _or(given.number("temperature", 0, 2), assistant["temperature"]),
        "top_p": _or(given.number("top_p", 0, 1), assistant["top_p"]),
        "max_prompt_tokens": given.whole("max_prompt_tokens", _MIN_TOKENS),
        "max_completion_tokens": given.whole("max_completion_tokens", _MIN_TOKENS),
        "truncation_strategy": truncation_in(given),
        "tool_choice": choice_in(given, tools),
        "parallel_tool_calls": given.flag("parallel_tool_calls") is not False,
        "response_format": (
            format_in(given) if "response_format" in given else assistant["response_format"]
        ),
        "_until": now + _LIFE,
        "_part": 0,
        "_conversation": "",
        "_content": content,
        "_submitted": {},
        "_resources": None,  # until all else of the run is stored
        "_effort": given.text_or_none("reasoning_effort", 20) or assistant.get("reasoning_effort"),
    }
    given.raw("response_format")
    for name in _OWN:
        given.raw(name)
    given.nothing_else()
    if run["tool_choice"] == "required" and not tools:
        raise ValidationError("no tools to choose from", path="$.tool_choice")
    return run


def _or(value: Any, other: Any) -> Any:
    return other if value is None else value


def resources_of(assistant: Object, thread: Object) -> dict[str, Any]:
    """Return the files for code and the vector stores, of the assistant and of the thread."""
    given = [each.get("tool_resources") or {} for each in (assistant, thread)]
    files = [id for each in given for id in each.get("code_interpreter", {}).get("file_ids", ())]
    searched = [each.get("file_search", {}).get("vector_store_ids", ()) for each in given]
    stores = [id for ids in searched for id in ids]
    return {"files": list(dict.fromkeys(files)), "stores": list(dict.fromkeys(stores))}


_MAX_OUTPUT = 1_000_000  # characters
_ENDS = ("requires_action", "completed", "failed", "cancelled", "expired", "incomplete")


@frozen(eq=False, repr=False)
class Runs:
    """The runs of all users, and their requests."""

    _host: HostServices
    _assistants: Assistants
    _threads: Threads
    _messages: Messages
    _resources: Resources
    _states: RunStates
    _tools: RunTools
    _worker: BackgroundWorker
    _streams: Streams

    def create(self, request: RouteRequest) -> RouteResponse:
        given, user = body_of(request), request.user
        thread = self._threads.get(user, request.parameters["thread"])
        given.refuse("thread", "tool_resources")
        streams = given.flag("stream")
        messages = self._messages.read(user, given.objects("additional_messages"))
        run = self._begin(request, given, thread, messages)
        return self._reply(user, run, streams=streams, first=())

    def create_with_thread(self, request: RouteRequest) -> RouteResponse:
        given, user = body_of(request), request.user
        given.refuse("additional_messages", "additional_instructions")
        streams = given.flag("stream")
        thread = self._threads.make(user, given.object("thread") or JsonReader({}, "$.thread"))
        try:
            run = self._begin(request, given, thread)
        except Exception:  # a run that cannot be leaves no thread behind
            self._threads.remove(user, thread["id"])
            raise
        first = [("thread.created", shown(thread))]
        return self._reply(user, run, streams=streams, first=first)

    def show(self, request: RouteRequest) -> RouteResponse:
        return json_response(shown(self._get(request)))

    def page(self, request: RouteRequest) -> RouteResponse:
        user, thread = request.user, request.parameters["thread"]
        self._threads.get(user, thread)

        def show(run: Object) -> Object:
            return shown(self._states.settled(user, run))

        return json_response(self._states.shelf(user, thread).page(request.query, show))

    def update(self, request: RouteRequest) -> RouteResponse:
        run, fields = self._get(request), metadata_change(request)
        shelf = self._states.shelf(request.user, run["thread_id"])
        return json_response(shown(shelf.update(run["id"], **fields)))

    def cancel(self, request: RouteRequest) -> RouteResponse:
        user, run = request.user, self._get(request)
        if run["status"] == "requires_action":  # no worker has it
            run = self._states.end(user, run, "cancelled")
            self._worker.cancel(job_of(user, run).id)  # unless its client was quicker
            return json_response(shown(run))
        run, is_so = self._states.move(user, run, "cancelling")
        if not is_so and run["status"] != "cancelling":
            raise ValidationError(f"Cannot cancel run with status '{run['status']}'.")
        if is_so:
            self._streams.publish(run["id"], "thread.run.cancelling", shown(run))
        self._worker.cancel(job_of(user, run).id)
        return json_response(shown(run))

    def submit(self, request: RouteRequest) -> RouteResponse:
        """Submit the outputs of functions."""
        given, user, run = body_of(request), request.user, self._get(request)
        outputs = _outputs_in(given)
        streams = given.flag("stream")
        given.nothing_else()
        if run["status"] != "requires_action":
            raise _not_accepted(run)
        calls = run["required_action"]["submit_tool_outputs"]["tool_calls"]
        _must_be_these({call["id"] for call in calls}, outputs)
        submitted = {**run["_submitted"], **outputs}
        run, is_so = self._states.move(
            user,
            run,
            "queued",
            _submitted=submitted,
            _part=run["_part"] + 1,
            _queued=int(self._host.clock.now().timestamp()),
        )
        if not is_so:
            raise _not_accepted(run)
        return self._reply(user, run, streams=streams, first=())

    def _begin(
        self,
        request: RouteRequest,
        given: JsonReader,
        thread: Object,
        messages: Sequence[MessageText] = (),
    ) -> Object:
        """Make the run of a request, and make it the active run of its thread.

        Raises:
            ValidationError: The request is invalid.
            Missing: The assistant does not exist.
        """
        user = request.user
        assistant = self._assistants.get(user, given.required_text("assistant_id"))
        now = int(self._host.clock.now().timestamp())
        run = read_run(given, assistant, now, content=wants_content(request))
        run["thread_id"] = thread["id"]
        if "tool_resources" in given:
            assistant = {**assistant, "tool_resources": self._resources.read(user, given)}
        self._must_run(run["model"])
        searched = resources_of(assistant, thread)["stores"] or attached_to(messages, SEARCH)
        self._tools.must_have(run["tools"], searched)
        shelf = self._states.shelf(user, thread["id"])
        shelf.add(run)
        try:
            self._threads.occupy(user, thread["id"], run["id"])
        except Exception:
            shelf.delete(run["id"])
            raise
        try:
            self._threads.append_messages(user, thread["id"], messages)
            thread = self._threads.get(user, thread["id"])
            return shelf.update(run["id"], _resources=resources_of(assistant, thread))
        except GenaiError as error:
            self._states.end(user, run, "failed", last_error=last_error(error))
            raise

    def _must_run(self, model: str) -> None:
        try:
            candidates = self._host.explain(model)
        except NoRoute as error:
            raise ValidationError(error.message, path="$.model", hint=error.hint) from error
        if not any(candidate.runs for candidate in candidates):
            raise ValidationError(f"no provider can run {model!r}", path="$.model")

    def _reply(
        self, user: str, run: Object, *, streams: bool | None, first: Sequence[tuple[str, Object]]
    ) -> RouteResponse:
        """Start the work. The response is the run as it is now, or its events."""
        if streams:
            return events_reply(self._events(user, run, first))
        self._worker.submit(job_of(user, run))
        return json_response(shown(run))

    def _events(
        self, user: str, run: Object, first: Sequence[tuple[str, Object]]
    ) -> Generator[bytes, None, None]:
        with self._streams.listen(run["id"]) as events:
            self._worker.submit(job_of(user, run), here=True)
            yield b""
            for name, value in first:
                yield sse_event(name, value)
            if not run["_part"]:
                yield sse_event("thread.run.created", shown(run))
            yield sse_event("thread.run.queued", shown(run))
            for name, value in events:
                yield sse_event(name, value)
            now = self._states.get(user, run["thread_id"], run["id"])
            if now["status"] not in _ENDS:  # this process ends, and another continues the run
                message = "the server is shutting down; the run continues"
                error = {"message": message, "code": "server_error", "param": None}
                yield sse_event("error", {**error, "type": "server_error"})
            yield DONE

    def _get(self, request: RouteRequest) -> Object:
        names = request.parameters
        self._threads.get(request.user, names["thread"])
        return self._states.get(request.user, names["thread"], names["run"])


def _not_accepted(run: Object) -> ValidationError:
    text = f"Runs in status '{run['status']}' do not accept tool outputs."
    return ValidationError(text, path="$.tool_outputs")


def _outputs_in(given: JsonReader) -> dict[str, str]:
    outputs: dict[str, str] = {}
    for each in given.objects("tool_outputs"):
        output = each.text("output")
        if len(output) > _MAX_OUTPUT:
            raise ValidationError(
                f"an output must have at most {_MAX_OUTPUT} characters", path=each.at("output")
            )
        outputs[each.text("tool_call_id")] = output
        each.nothing_else()
    return outputs


def _must_be_these(ids: set[str], outputs: Mapping[str, str]) -> None:
    missing, unknown = sorted(ids - outputs.keys()), sorted(outputs.keys() - ids)
    if missing:
        raise ValidationError(
            f"Expected tool outputs for call_ids {missing}, got {sorted(outputs)}",
            path="$.tool_outputs",
        )
    if unknown:
        raise ValidationError(f"unknown calls: {unknown}", path="$.tool_outputs")
