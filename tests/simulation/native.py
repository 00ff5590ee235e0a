"""Clients of the native HTTP API, and the invariants of their turns and jobs.

A request whose process was killed is sent again with its idempotency key, as a client would.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import define, field
from genai_server.native.idempotency import HEADER
from genai_server.native.job_records import QUEUE

from genai_host.api import Cancellation, RouteRequest
from genai_host.errors import GenaiError, NotFound, ReplayError, StoreError
from simulation.plan import Broken, Operation
from simulation.schedule import Killed
from simulation.world import TOOLS

if TYPE_CHECKING:
    from simulation.process import Process
    from simulation.simulation import Simulation

OPERATIONS: Mapping[str, int] = {
    **dict.fromkeys(("post_turn", "post_job", "get_job"), 10),
    **dict.fromkeys(("post_resume", "post_again"), 7),
    **dict.fromkeys(("post_conversation", "post_cancel", "get_conversation", "delete_job"), 2),
}
_MAX_SECONDS = 3600.0
_ENDED = ("done", "failed", "paused", "cancelled")
_LIFE = 24 * 3600.0
_ERRORS = {each.code: each for each in (NotFound, ReplayError, StoreError)}


@define
class SentRequest:
    """A request of a client.

    Attributes:
        name: Name of its message; empty if there is none.
        until: When its key is forgotten.
    """

    path: str
    body: Mapping[str, Any]
    key: str
    name: str = ""
    until: float = math.inf


@define
class Accepted:
    """What the replies to clients have acknowledged.

    Attributes:
        jobs: Conversations of the acknowledged jobs, by id of the job.
        users: Owners of these jobs.
        until: When the result of a job may be deleted, by id of the job.
        removing: Jobs of which a client has requested the deletion.
        ended: States of the jobs that have ended.
        unanswered: Requests whose process was killed, by owner.
    """

    jobs: dict[str, str] = field(factory=dict)
    users: dict[str, str] = field(factory=dict)
    until: dict[str, float] = field(factory=dict)
    removing: set[str] = field(factory=set)
    ended: dict[str, str] = field(factory=dict)
    unanswered: dict[str, list[SentRequest]] = field(factory=dict)


class NativeClient:
    """A client of one owner."""

    def __init__(self, simulation: Simulation, owner: str) -> None:
        self._simulation = simulation
        self._known = simulation.accepted
        self._owner = owner

    def act(self, chosen: str, operation: Operation, process: Process) -> None:
        """Do an operation."""
        getattr(self, f"_{chosen}")(operation, process)

    def ask(
        self, process: Process, method: str, path: str, body: object = None, key: str = ""
    ) -> Any:
        """Send a request, and return its reply: the last event of a stream."""
        assert process.routes is not None
        request = RouteRequest(
            method,
            f"/api/v1/{path}",
            headers={"content-type": "application/json", **({HEADER: key} if key else {})},
            body=b"" if body is None else json.dumps(body).encode(),
            limits=Cancellation(),
            user=self._owner,
        )
        reply = process.routes.answer(request)
        body = reply.body if isinstance(reply.body, bytes) else b"".join(reply.body)
        if not process.is_alive:
            raise Killed  # with the connection
        if reply.headers.get("content-type") == "text/event-stream":
            form = _last_event(body)
        else:
            form = json.loads(body or b"{}")
        error = form.get("error") or {}
        self._simulation.log(f"  {method} {path}: {reply.status} {error.get('code', '')}")
        if reply.status == 500 or error.get("code") == "plugin":
            raise Broken("internal error", str(error))
        if error and "id" not in form:  # a job has the error of its turn
            raise _ERRORS.get(error["code"], GenaiError)(f"{error['code']}: {error['message']}")
        return form

    # turns

    def _post_conversation(self, operation: Operation, process: Process) -> None:
        feature = operation.rng.choice(("agent", "chat"))
        reply = self.ask(process, "POST", "conversations", {"feature": feature, "model": "sim"})
        self._simulation.owners[reply["id"]] = self._owner

    def _post_turn(self, operation: Operation, process: Process) -> None:
        id = self._picked(operation)
        if not id:
            self._post_conversation(operation, process)
            return
        name, message = self._message(operation)
        body = {"message": message, "stream": operation.rng.random() < 0.5}
        self._send(process, SentRequest(f"conversations/{id}/turns", body, operation.name, name))

    def _post_resume(self, operation: Operation, process: Process) -> None:
        id = self._picked(operation)
        if not id:
            return
        shown = self.ask(process, "GET", f"conversations/{id}")
        result: Any = None
        if shown["pause"] is not None:
            is_allowed = operation.rng.random() < 0.7
            calls = shown["pause"]["payload"]["calls"]
            for call in calls if is_allowed else ():
                self._simulation.world.approved.add(call["arguments"]["key"])
            result = {call["id"]: is_allowed for call in calls}
        body = {"result": result, "stream": operation.rng.random() < 0.5}
        self._send(process, SentRequest(f"conversations/{id}/resume", body, operation.name))

    def _post_again(self, operation: Operation, process: Process) -> None:
        """Send a request again whose process was killed."""
        waiting = self._known.unanswered.get(self._owner)
        if not waiting:
            self._post_turn(operation, process)
            return
        sent, sim = waiting.pop(0), self._simulation
        is_kept = sim.plan.kinds == ("kill",) and sim.clock.timestamp() < sent.until
        if sent.name and not is_kept:
            sim.attempts[sent.name] += 1
        self._send(process, sent)

    def _send(self, process: Process, sent: SentRequest) -> None:
        sim = self._simulation
        sent.until = min(sent.until, sim.clock.timestamp() + _LIFE)
        if sent.name and not sim.attempts[sent.name]:
            sim.attempts[sent.name] += 1
            sim.turns += 1
        try:
            reply = self.ask(process, "POST", sent.path, sent.body, f"{self._owner} {sent.key}")
        except Killed:
            self._known.unanswered.setdefault(self._owner, []).append(sent)
            raise
        if sent.path == "jobs":
            self._accept(reply)
        elif sent.name and "text" in reply.get("answer", reply):
            text = reply.get("answer", reply)["text"]
            if text != f"a{sent.name[1:]}":
                raise Broken("answer", f"{text!r} to {sent.name}")

    def _post_cancel(self, operation: Operation, process: Process) -> None:
        id = self._picked(operation)
        if id:
            self.ask(process, "POST", f"conversations/{id}/cancel")

    def _get_conversation(self, operation: Operation, process: Process) -> None:
        listed = self.ask(process, "GET", "conversations")["data"]
        for each in listed:
            if self._simulation.owners.get(each["id"], self._owner) != self._owner:
                raise Broken("owners", f"{self._owner} sees {each['id']}")
        for each in listed[:1]:
            self.ask(process, "GET", f"conversations/{each['id']}")

    # jobs

    def _post_job(self, operation: Operation, process: Process) -> None:
        name, message = self._message(operation)
        id = self._picked(operation)
        body: dict[str, Any] = {"message": message, "feature": "agent", "model": "sim"}
        if id and operation.rng.random() < 0.3:
            body = {"message": message, "conversation": id}
        self._send(process, SentRequest("jobs", body, operation.name, name))

    def _accept(self, job: Mapping[str, Any]) -> None:
        sim, known = self._simulation, self._known
        sim.owners.setdefault(job["conversation"], self._owner)
        known.jobs.setdefault(job["id"], job["conversation"])
        known.users[job["id"]] = self._owner
        known.until.setdefault(job["id"], sim.clock.timestamp() + _LIFE)

    def _get_job(self, operation: Operation, process: Process) -> None:
        mine = [id for id, user in self._known.users.items() if user == self._owner]
        if mine:
            self.look(operation.rng.choice(mine), process)

    def look(self, id: str, process: Process) -> None:
        """Check the state of a job."""
        known = self._known
        before = known.ended.get(id)
        try:
            job = self.ask(process, "GET", f"jobs/{id}")
        except NotFound as error:
            is_old = self._simulation.clock.timestamp() >= known.until[id]
            if id in known.removing or is_old:
                return
            raise Broken("lost", f"{id} is unknown") from error
        status = job["status"]
        if "before the job was accepted" in str(job["error"]):
            raise Broken("lost", f"{id}: {job['error']}")
        if before is not None and status != before:
            raise Broken("job", f"{id} was {before}, and is {status}")
        if status in _ENDED:
            known.ended[id] = status

    def _delete_job(self, operation: Operation, process: Process) -> None:
        mine = [id for id, user in self._known.users.items() if user == self._owner]
        remaining = [id for id in mine if id not in self._known.removing]
        if remaining:
            id = operation.rng.choice(remaining)
            self._known.removing.add(id)
            self.ask(process, "DELETE", f"jobs/{id}")

    def _message(self, operation: Operation) -> tuple[str, str]:
        """Return the name of a new message, and its text; a chat ignores what follows the name."""
        rng, name = operation.rng, self._simulation.new_name()
        rounds = rng.choice((0, 1))
        calls = [",".join(rng.choices(TOOLS, k=rng.choice((1, 2)))) for _ in range(rounds)]
        return name, "|".join((name, *calls))

    def _picked(self, operation: Operation) -> str:
        mine = sorted(id for id, owner in self._simulation.owners.items() if owner == self._owner)
        return operation.rng.choice(mine) if mine else ""


class NativeChecks:
    """Invariants of jobs when all clients have ended, in a process without faults."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation

    def run(self, process: Process) -> None:
        """Every acknowledged job is done at the end, and its turn has ended or waits."""
        sim, known = self._sim, self._sim.accepted
        queue = process.host.jobs(QUEUE)
        until = sim.clock.time + _MAX_SECONDS
        while queue.count() and sim.clock.time < until:
            sim.schedule.sleep(1.0)
        if queue.count():
            sim.fail("jobs", f"{queue.count()} jobs of the native API are never done")
        rows = sim.all_rows()
        for job, id in known.jobs.items():
            client = NativeClient(sim, known.users[job])
            sim.guarded("job", client.look, job, process)
            entries = rows[id][2] if id in rows else []
            is_waiting = any(row.form.get("asks") for row in entries)
            kinds = [row.kind for row in entries]
            if kinds and "turn_ended" not in kinds and not is_waiting:
                sim.fail("jobs", f"the turn of {job} in {id} has not ended")
            old = sim.clock.timestamp() >= known.until[job]
            if job not in known.removing and not old and job not in known.ended:
                sim.fail("jobs", f"{job} has not ended")


def _last_event(stream: bytes) -> Any:
    """Return the last event of a stream, as in a whole reply."""
    last = stream.strip().rsplit(b"\n\n", 1)[-1]
    kind, data = last.split(b"\n", 1)
    form = json.loads(data.removeprefix(b"data: "))
    return {"error": form} if kind == b"event: error" else form or {}
