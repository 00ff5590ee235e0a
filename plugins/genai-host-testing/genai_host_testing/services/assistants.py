"""A service with OpenAI's Assistants API, over real HTTP, that follows a script.

    with AssistantsService() as service:
        service.turns.append([Calls(("c1", "roll", "{}")), Says("four")])
        ...  # a run on any thread calls a function, then says something

No time passes in it: a run continues when it is asked for. `ResponsesService`, in
`services.responses`, follows the same script with the successor API.

Source: OpenAI's OpenAPI document 2.3.0.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from attrs import define, field, frozen

from genai_host_testing import FakeService
from genai_host_testing.fake_service import Received, Reply, json_reply
from genai_host_testing.services.assistants_events import events_of, streamed

Wire = dict[str, Any]

KEY = "sk-canary-77aa"
NOW = 1_760_000_000


class Calls:
    """The run requests functions: an id, a name and the text of the arguments of each."""

    def __init__(self, *calls: tuple[str, str, str]) -> None:
        self.calls = calls


@frozen
class Runs:
    """The run executes a program."""

    code: str
    logs: str = ""


@frozen
class Says:
    """The run writes a message."""

    text: str
    annotations: Sequence[Wire] = ()


@frozen
class Ends:
    """The run ends with a status, and further fields of the run."""

    status: str
    more: Mapping[str, Any] = field(factory=dict)


@frozen
class Stays:
    """The run keeps a status forever."""

    status: str = "in_progress"


Act = Calls | Runs | Says | Ends | Stays


@define
class _Fault:
    method: str
    piece: str
    reply: Reply
    times: int


class ScriptedService:
    """A service over real HTTP that follows a script.

    Attributes:
        turns: What each run does, the first one first.
        polls: Number of polls before a run continues.
        cut: Number of events after which each stream is cut; None for none.
        outputs: The submitted outputs of functions, in the format of the Assistants API.
    """

    api = "assistants"
    run_path = "/runs"

    def __init__(self, *turns: Sequence[Act]) -> None:
        self.turns = list(turns)
        self.polls = 1
        self.cut: int | None = None
        self.threads: dict[str, Wire] = {}
        self.messages: dict[str, list[Wire]] = {}
        self.runs: dict[str, Wire] = {}
        self.outputs: list[Wire] = []
        self.uploads: list[bytes] = []
        self._acts: dict[str, list[Act]] = {}
        self._left: dict[str, int] = {}
        self._faults: list[_Fault] = []
        self._numbers = itertools.count(1)
        self._http = FakeService(answer=self._answer)

    @property
    def url(self) -> str:
        return f"{self._http.url}/v1/"

    @property
    def requests(self) -> list[Received]:
        return self._http.requests

    @property
    def asked(self) -> list[str]:
        """Methods and paths of all requests, without queries."""
        return [f"{each.method} {urlsplit(each.path).path[4:]}" for each in self.requests]

    @property
    def cancels(self) -> int:
        """Number of requests to cancel a run."""
        return len([each for each in self.asked if each.endswith("/cancel")])

    def bodies(self, method: str, end: str) -> list[Any]:
        """Return the bodies of requests whose path ends with `end`."""
        return [
            json.loads(each.body)
            for each in self.requests
            if each.method == method and urlsplit(each.path).path.endswith(end)
        ]

    def fail(self, method: str, piece: str, reply: Reply, times: int = 1) -> None:
        """Answer the next requests whose path contains a piece with another reply."""
        self._faults.append(_Fault(method, piece, reply, times))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._http.stop()

    def _answer(self, received: Received) -> Reply:
        for fault in self._faults:
            if fault.times and received.method == fault.method and fault.piece in received.path:
                fault.times -= 1
                return fault.reply
        parts = urlsplit(received.path)
        pieces = [unquote(each) for each in parts.path.strip("/").split("/")[1:]]
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if pieces == ["files"]:
            self.uploads.append(received.body)
            return json_reply({"id": self._id("file"), "object": "file"})
        body = json.loads(received.body) if received.body else {}
        try:
            return self._routed(received.method, pieces, body, query)
        except KeyError as error:
            message = {"message": f"No such thing: {error}", "type": "invalid_request_error"}
            return json_reply({"error": message}, 404)

    def _routed(
        self, method: str, pieces: list[str], body: Wire, query: Mapping[str, str]
    ) -> Reply:
        raise NotImplementedError

    def _id(self, kind: str) -> str:
        return f"{kind}_{next(self._numbers)}"


class AssistantsService(ScriptedService):
    """The Assistants API; stores assistants, threads, messages, runs and steps."""

    def __init__(self, *turns: Sequence[Act]) -> None:
        super().__init__(*turns)
        self.assistants: dict[str, Wire] = {}
        self.steps: dict[str, list[Wire]] = {}
        self._told: set[str] = set()

    def _routed(
        self, method: str, pieces: list[str], body: Wire, query: Mapping[str, str]
    ) -> Reply:
        kind, *rest = pieces
        if kind == "assistants":
            return self._of_assistants(method, rest, body, query)
        if not rest:
            return json_reply(self._new_thread(body))
        thread, *rest = rest
        found = self.threads[thread]
        if not rest and method == "DELETE":
            del self.threads[thread]
            return json_reply({"id": thread, "object": "thread.deleted", "deleted": True})
        if not rest:
            return json_reply(found)
        if rest[0] == "messages":
            return self._of_messages(method, thread, rest[1:], body, query)
        return self._of_runs(method, thread, rest[1:], body, query)

    def _of_assistants(
        self, method: str, rest: list[str], body: Wire, query: Mapping[str, str]
    ) -> Reply:
        if not rest and method == "GET":
            return json_reply(page(list(self.assistants.values()), query))
        if not rest:
            id = self._id("asst")
            self.assistants[id] = {
                "id": id, "object": "assistant", "created_at": NOW, "name": None,
                "description": None, "instructions": None, "tools": [], "metadata": {},
                "temperature": 1.0, "top_p": 1.0, "response_format": "auto",
                "tool_resources": {}, **body,
            }  # fmt: skip
            return json_reply(self.assistants[id])
        found = self.assistants[rest[0]]
        if method == "DELETE":
            del self.assistants[rest[0]]
            return json_reply({"id": rest[0], "object": "assistant.deleted", "deleted": True})
        return json_reply(found)

    def _new_thread(self, body: Wire) -> Wire:
        id = self._id("thread")
        self.threads[id] = {
            "id": id, "object": "thread", "created_at": NOW,
            "metadata": body.get("metadata", {}), "tool_resources": body.get("tool_resources"),
        }  # fmt: skip
        self.messages[id] = []
        for each in body.get("messages", ()):
            self._add(id, each["role"], each["content"])
        return self.threads[id]

    def _of_messages(
        self, method: str, thread: str, rest: list[str], body: Wire, query: Mapping[str, str]
    ) -> Reply:
        if rest:
            return json_reply({each["id"]: each for each in self.messages[thread]}[rest[0]])
        if method == "GET":
            return json_reply(page(self.messages[thread], query))
        return json_reply(self._add(thread, body["role"], body["content"]))

    def _add(self, thread: str, role: str, content: Any, run: Wire | None = None) -> Wire:
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        made: Wire = {
            "id": self._id("msg"), "object": "thread.message", "created_at": NOW,
            "thread_id": thread, "status": "completed", "incomplete_details": None,
            "completed_at": NOW, "incomplete_at": None, "role": role,
            "content": [_as_answered(each) for each in parts],
            "assistant_id": run["assistant_id"] if run else None,
            "run_id": run["id"] if run else None, "attachments": [], "metadata": {},
        }  # fmt: skip
        self.messages[thread].append(made)
        return made

    def _of_runs(
        self, method: str, thread: str, rest: list[str], body: Wire, query: Mapping[str, str]
    ) -> Reply:
        if not rest:
            run = self._new_run(thread, body)
            return self._streamed(run) if body.get("stream") else json_reply(run)
        run = self.runs[rest[0]]
        if rest[1:] == ["steps"]:
            return json_reply(page(self.steps[run["id"]], query))
        if rest[1:] == ["cancel"]:
            run["status"] = "cancelled"
        elif rest[1:] == ["submit_tool_outputs"]:
            self.outputs += body["tool_outputs"]
            self._take(run, body["tool_outputs"])
            if body.get("stream"):
                return self._streamed(run)
        elif run["status"] == "queued":
            self._left[run["id"]] -= 1
            if self._left[run["id"]] <= 0:
                self._go_on(run)
        return json_reply(run)

    def _new_run(self, thread: str, body: Wire) -> Wire:
        id = self._id("run")
        assistant = self.assistants[body["assistant_id"]]
        for each in body.get("additional_messages", ()):
            self._add(thread, each["role"], each["content"])
        run = {
            "id": id, "object": "thread.run", "created_at": NOW, "thread_id": thread,
            "assistant_id": assistant["id"], "status": "queued", "required_action": None,
            "last_error": None, "expires_at": None, "started_at": None, "cancelled_at": None,
            "failed_at": None, "completed_at": None, "incomplete_details": None,
            "model": body.get("model", assistant["model"]), "instructions": "",
            "tools": body.get("tools", []), "metadata": body.get("metadata", {}), "usage": None,
            "max_prompt_tokens": None, "max_completion_tokens": None,
            "truncation_strategy": {"type": "auto", "last_messages": None},
            "tool_choice": "auto", "parallel_tool_calls": True, "response_format": "auto",
        }  # fmt: skip
        self.runs[id], self.steps[id] = run, []
        self._acts[id] = list(self.turns.pop(0))
        self._left[id] = self.polls
        return run

    def _go_on(self, run: Wire) -> None:
        """Perform the next acts, up to one that waits."""
        acts = self._acts[run["id"]]
        run["status"], run["required_action"] = "in_progress", None
        while acts:
            act = acts.pop(0)
            if isinstance(act, Says):
                content = {"value": act.text, "annotations": list(act.annotations)}
                made = self._add(
                    run["thread_id"], "assistant", [{"type": "text", "text": content}], run
                )
                self._step(run, "message_creation", {"message_id": made["id"]})
            elif isinstance(act, Runs):
                outputs = [{"type": "logs", "logs": act.logs}] if act.logs else []
                program = {"input": act.code, "outputs": outputs}
                call = {
                    "id": self._id("ci"), "type": "code_interpreter", "code_interpreter": program,
                }  # fmt: skip
                self._step(run, "tool_calls", [call])
            else:
                self._stand(run, act)
                return
        run["status"], run["completed_at"] = "completed", NOW

    def _stand(self, run: Wire, act: Act) -> None:
        if isinstance(act, Ends):
            run.update(act.more, status=act.status)
        elif isinstance(act, Stays):
            run["status"] = act.status
        elif isinstance(act, Calls):
            calls = [
                {"id": id, "type": "function", "function": {"name": name, "arguments": text}}
                for id, name, text in act.calls
            ]
            run["status"] = "requires_action"
            run["required_action"] = {
                "type": "submit_tool_outputs", "submit_tool_outputs": {"tool_calls": calls},
            }  # fmt: skip
            step = self._step(run, "tool_calls", calls)
            step["status"] = "in_progress"

    def _take(self, run: Wire, outputs: Sequence[Wire]) -> None:
        """Take the outputs of the functions that it requested."""
        by_id = {each["tool_call_id"]: each["output"] for each in outputs}
        step = self.steps[run["id"]][-1]
        step["status"] = "completed"
        step["step_details"]["tool_calls"] = [
            {**each, "function": {**each["function"], "output": by_id[each["id"]]}}
            for each in step["step_details"]["tool_calls"]
        ]
        run["status"], run["required_action"] = "queued", None
        self._left[run["id"]] = self.polls

    def _step(self, run: Wire, kind: str, details: Any) -> Wire:
        made = {
            "id": self._id("step"), "object": "thread.run.step", "created_at": NOW,
            "assistant_id": run["assistant_id"], "thread_id": run["thread_id"],
            "run_id": run["id"], "type": kind, "status": "completed",
            "step_details": {"type": kind, kind: details}, "last_error": None,
            "expired_at": None, "cancelled_at": None, "failed_at": None, "completed_at": NOW,
            "metadata": {}, "usage": None,
        }  # fmt: skip
        self.steps[run["id"]].append(made)
        return made

    def _streamed(self, run: Wire) -> Reply:
        """Perform the next acts and return them as events."""
        events: list[tuple[str, Any]] = [("thread.run.created", dict(run))]
        self._go_on(run)
        for step in self.steps[run["id"]]:
            if step["id"] not in self._told and step["status"] == "completed":
                self._told.add(step["id"])
                events += events_of(step, self.messages[run["thread_id"]])
        events.append((f"thread.run.{run['status']}", run))
        return streamed(events, self.cut)


def _as_answered(part: Wire) -> Wire:
    if part["type"] == "text" and isinstance(part["text"], str):
        return {"type": "text", "text": {"value": part["text"], "annotations": []}}
    return part


def page(found: Sequence[Wire], query: Mapping[str, str]) -> Wire:
    """Return a page of at most two objects, so that lists have several pages."""
    ordered = list(reversed(found)) if query.get("order", "desc") == "desc" else list(found)
    ids = [each["id"] for each in ordered]
    begin = ids.index(query["after"]) + 1 if "after" in query else 0
    data = ordered[begin : begin + 2]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": begin + 2 < len(ordered),
    }
