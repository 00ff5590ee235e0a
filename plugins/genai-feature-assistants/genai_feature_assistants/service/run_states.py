"""States, steps and streams of runs.

`RunStates` changes the state of a run, for any process that asks:

    queued → in_progress → completed, incomplete or failed
                         → requires_action → queued ...
    queued, in_progress → cancelling → cancelled; requires_action → cancelled
    any that has not ended → expired, when its time is over

A server can be killed, or its store fail, between two writes of a request. `RunStates.settled`
completes then what it began, when a client next asks for the run or its thread.

Steps are messages that were created and tools that were called. `Streams` passes what happens in
a run to the listeners in this process; `sse_event` writes it.

Source: OpenAI API reference, "Run lifecycle", "Run steps", "Assistants streaming"; OpenAPI
document 2.3.0.
"""

from __future__ import annotations

import hashlib
import queue
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from genai_wire_openai.server.objects import Object, ObjectStore, shown

from genai_host.api import Job, RouteRequest, RouteResponse, json_response
from genai_host.errors import NotFound

if TYPE_CHECKING:
    from genai_host.api import BackgroundWorker, HostServices


KIND = "run"
"""Kind of the jobs of runs."""

USED = ("prompt_tokens", "completion_tokens", "total_tokens")
_STEP_STAMPS = {"cancelled": "cancelled_at", "failed": "failed_at", "expired": "expired_at"}
_CONTENT = "step_details.tool_calls[*].file_search.results[*].content"


def id_of(kind: str, run: str, round: int, what: str) -> str:
    """Return the id of a part of a run. A worker that repeats the part gets the same id."""
    digest = hashlib.sha256(f"{run}/{round}/{what}".encode()).hexdigest()
    return f"{kind}_{digest[:24]}"


def new_step(run: Object, round: int, kind: str, details: Any, now: int) -> dict[str, Any]:
    """Return a step in progress. `kind` is `message_creation` or `tool_calls`."""
    return {
        "id": id_of("step", run["id"], round, kind),
        "object": "thread.run.step",
        "created_at": now,
        "run_id": run["id"],
        "assistant_id": run["assistant_id"],
        "thread_id": run["thread_id"],
        "type": kind,
        "status": "in_progress",
        **dict.fromkeys(("cancelled_at", "completed_at", "expired_at", "failed_at", "last_error")),
        "step_details": {"type": kind, kind: details},
        "metadata": {},
        "usage": None,
    }


def end_steps(steps: ObjectStore, status: str, **fields: Any) -> list[Object]:
    """End the steps in progress of a run that ends with a status, and return them."""
    ended = {"status": "cancelled" if status == "incomplete" else status, **fields}
    if status in _STEP_STAMPS:
        ended[_STEP_STAMPS[status]] = steps.now()
    begun = list(steps.all({"status": "in_progress"}))
    return [steps.update(step["id"], **ended) for step in begun]


def usage_of(steps: ObjectStore) -> dict[str, int]:
    """Return the sum of the tokens of the steps."""
    used = [step["usage"] for step in steps.all() if step["usage"]]
    return {name: sum(each[name] for each in used) for name in USED}


def shown_step(step: Object, *, content: bool = False) -> dict[str, Any]:
    """Return a step as clients see it. `content` includes the texts that were found."""
    found = shown(step)
    if content or found["type"] != "tool_calls":
        return found
    calls = [without_content(call) for call in found["step_details"]["tool_calls"]]
    return {**found, "step_details": {"type": "tool_calls", "tool_calls": calls}}


def without_content(call: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a call without the texts that it found."""
    if call["type"] != "file_search" or "results" not in call["file_search"]:
        return call
    results = [
        {name: value for name, value in result.items() if name != "content"}
        for result in call["file_search"]["results"]
    ]
    return {**call, "file_search": {**call["file_search"], "results": results}}


class RunSteps:
    """The steps of the runs of all users."""

    def __init__(self, host: HostServices) -> None:
        self._host = host

    def shelf(self, user: str, run: str) -> ObjectStore:
        return ObjectStore(self._host, user, "step", run)

    def show(self, request: RouteRequest) -> RouteResponse:
        step = self._shelf(request).get(request.parameters["step"])
        return json_response(shown_step(step, content=wants_content(request)))

    def page(self, request: RouteRequest) -> RouteResponse:
        show = partial(shown_step, content=wants_content(request))
        return json_response(self._shelf(request).page(request.query, show))

    def _shelf(self, request: RouteRequest) -> ObjectStore:
        names = request.parameters
        ObjectStore(self._host, request.user, "run", names["thread"]).get(names["run"])
        return self.shelf(request.user, names["run"])


def wants_content(request: RouteRequest) -> bool:
    """Return whether the request includes the texts that were found."""
    names = ("include", "include[]", "include[0]")
    return any(_CONTENT in request.query.get(name, "") for name in names)


ACTIVE = ("queued", "in_progress", "requires_action", "cancelling")
"""The states of an active run."""

_LATE = 60
"""Seconds after which an overdue run counts as lost, and a queued run without a job."""

_FROM: Mapping[str, tuple[str, ...]] = {
    "in_progress": ("queued",),
    "requires_action": ("queued", "in_progress"),
    "queued": ("requires_action",),
    "cancelling": ("queued", "in_progress"),
}
_STAMPS = {
    "in_progress": "started_at",
    "cancelled": "cancelled_at",
    "failed": "failed_at",
    "completed": "completed_at",
    "incomplete": "completed_at",
}


def job_of(user: str, run: Object) -> Job:
    """Return the job of a run. It lasts until the run ends or requires an action."""
    about = {"thread": run["thread_id"], "run": run["id"], "part": run["_part"]}
    return Job(f"{run['id']}/{run['_part']}", KIND, user, about)


class RunStates:
    """The runs of all users."""

    def __init__(self, host: HostServices, worker: BackgroundWorker) -> None:
        self._host = host
        self._worker = worker

    def shelf(self, user: str, thread: str) -> ObjectStore:
        return ObjectStore(self._host, user, "run", thread)

    def get(self, user: str, thread: str, id: str) -> Object:
        """Return the current run. A run whose time is over has expired. Raises `Missing`."""
        return self.settled(user, self.shelf(user, thread).get(id))

    def settled(self, user: str, run: Object) -> Object:
        """Return a run as it is now; an overdue run expires, and a lost one is continued."""
        if run["status"] not in ACTIVE:
            return self.finish(user, run) if run.get("_ends") else run
        now = self.shelf(user, run["thread_id"]).now()
        late = 0 if run["status"] == "requires_action" else _LATE
        if now >= run["_until"] + late:
            return self.end(user, run, "expired")
        since = run.get("_queued", run["created_at"])
        if run["status"] in ("queued", "cancelling") and not since <= now < since + _LATE:
            return self._continued(user, run)
        return run

    def _continued(self, user: str, run: Object) -> Object:
        """Add the job of a run if it has none; a run that is incomplete fails."""
        if run["status"] == "queued" and run["_resources"] is None:
            message = "the server stopped while it created the run"
            error = {"code": "server_error", "message": message}
            return self.end(user, run, "failed", last_error=error)
        job = job_of(user, run)
        if self._worker.queue.find(job.id) is None:
            self._worker.submit(job)
        return run

    def active(self, user: str, thread: Object) -> Object | None:
        """Return the active run of a thread; None if there is none."""
        run = self.shelf(user, thread["id"]).find(thread["_run"]) if thread["_run"] else None
        if run is None:
            return None
        run = self.settled(user, run)
        return run if run["status"] in ACTIVE else None

    def is_active(self, user: str, run: Object) -> bool:
        """Whether a run exists, and has not ended."""
        found = self.shelf(user, run["thread_id"]).find(run["id"])
        return found is not None and found["status"] in ACTIVE

    def move(self, user: str, run: Object, status: str, **fields: Any) -> tuple[Object, bool]:
        """Change the status of a run, if its current status allows that.

        Returns:
            The run as it is then, and whether its status changed.
        """
        shelf = self.shelf(user, run["thread_id"])
        now = shelf.now()

        def make(found: Object) -> tuple[Object | None, tuple[Object, bool]]:
            if found["status"] not in _FROM.get(status, ACTIVE):
                return None, (found, False)
            value = {**found, "status": status, "required_action": None, **fields}
            if status not in ACTIVE:
                value["expires_at"] = None
            stamp = _STAMPS.get(status)
            if stamp is not None:
                value[stamp] = found[stamp] or now
            return value, (value, True)

        return shelf.change(run["id"], make)

    def end(self, user: str, run: Object, status: str, **fields: Any) -> Object:
        """End a run that no worker has, and its steps."""
        usage = usage_of(ObjectStore(self._host, user, "step", run["id"]))
        run, has_ended = self.move(user, run, status, usage=usage, _ends=True, **fields)
        return self.finish(user, run) if has_ended else run

    def finish(self, user: str, run: Object) -> Object:
        """End the steps of a run that has ended, and delete its event log. Its messages stay."""
        end_steps(ObjectStore(self._host, user, "step", run["id"]), run["status"])
        self.forget(user, run["_conversation"])
        if not run.get("_ends"):
            return run
        return self.shelf(user, run["thread_id"]).update(run["id"], _ends=False)

    def forget(self, user: str, conversation: str) -> None:
        """Delete the event log of a run, if it has one."""
        if conversation:
            with suppress(NotFound):
                self._host.store_for(owner_of(user)).delete(conversation)


def owner_of(user: str) -> str:
    """Return the owner of the event logs of runs. They are not conversations of the user."""
    return f"assistants/{user}"


_RunEvent = tuple[str, Object]
DONE = b"event: done\ndata: [DONE]\n\n"


class Streams:
    """The listeners of runs in this process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listening: dict[str, list[queue.SimpleQueue[_RunEvent | None]]] = {}

    def publish(self, run: str, event: str, value: Object) -> None:
        """Pass an event to the listeners of a run."""
        self._put(run, (event, value))

    def end(self, run: str) -> None:
        """End the streams of a run."""
        self._put(run, None)

    def has_listeners(self, run: str) -> bool:
        return run in self._listening

    @contextmanager
    def listen(self, run: str) -> Iterator[Iterator[_RunEvent]]:
        """Yield the events of a run from now on, until its end."""
        events: queue.SimpleQueue[_RunEvent | None] = queue.SimpleQueue()
        with self._lock:
            self._listening.setdefault(run, []).append(events)
        try:
            yield iter(events.get, None)
        finally:
            with self._lock:
                self._listening[run].remove(events)
                if not self._listening[run]:
                    del self._listening[run]

    def _put(self, run: str, value: _RunEvent | None) -> None:
        with self._lock:
            for events in self._listening.get(run, ()):
                events.put(value)


def events_reply(body: Generator[bytes, None, None]) -> RouteResponse:
    """Return a streamed response. The body yields nothing first: an error before that becomes the
    response."""
    next(body)
    headers = {"content-type": "text/event-stream", "cache-control": "no-cache"}
    return RouteResponse(body, headers=headers, keepalive=b": waiting\n\n")
