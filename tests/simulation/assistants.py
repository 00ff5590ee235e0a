"""Clients of the Assistants API, and the invariants of their threads and runs.

A user's message is named `t7`. A model answers it with `a7`, and first requests the functions
that follow its bars, for example `t7|look|look,find`. Clients call them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from attrs import define, field
from genai_feature_assistants.service import JOBS

from genai_host.api import Cancellation, RouteRequest
from genai_host.errors import NotFound, ValidationError
from simulation import oracle
from simulation.plan import RUN_OWNERS, Broken, Operation
from simulation.world import text_of

if TYPE_CHECKING:
    from simulation.process import Process
    from simulation.simulation import Simulation

OPERATIONS: Mapping[str, int] = {
    **dict.fromkeys(("poll",), 30),
    **dict.fromkeys(("run",), 16),
    **dict.fromkeys(("message", "thread"), 7),
    **dict.fromkeys(("cancel_run", "steps", "thread_and_run", "delete_thread"), 3),
}
_FUNCTIONS = ("look", "find")
_ENDED = ("completed", "failed", "cancelled", "expired", "incomplete")
_REFUSED = ("active", "do not accept", "Cannot cancel", "Expected tool outputs", "unknown calls")
_MAX_SECONDS = 3600.0


@define
class Acknowledged:
    """What the replies to clients have acknowledged.

    Attributes:
        assistants: Assistants by owner.
        threads: Owners by thread.
        deleting: Threads of which a client has requested the deletion.
        deleted: Those whose deletion was acknowledged.
        said: Threads of the acknowledged messages.
        runs: Threads by run.
        ended: States of the runs that have ended, by run.
        cancelled: Runs whose cancellation was acknowledged.
        offered: Outputs that clients submitted, by call.
        taken: Outputs that were acknowledged, by call.
        calls: Runs of these calls.
    """

    assistants: dict[str, str] = field(factory=dict)
    threads: dict[str, str] = field(factory=dict)
    deleting: set[str] = field(factory=set)
    deleted: set[str] = field(factory=set)
    messages: dict[str, str] = field(factory=dict)
    runs: dict[str, str] = field(factory=dict)
    ended: dict[str, str] = field(factory=dict)
    cancelled: set[str] = field(factory=set)
    offered: dict[str, set[str]] = field(factory=dict)
    taken: dict[str, str] = field(factory=dict)
    calls: dict[str, str] = field(factory=dict)

    def check_call(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Check the messages that a model receives."""
        names = [_name(text_of(each)) for each in messages if each["role"] == "user"]
        if len(set(names) - {"Go on."}) != len(names) - names.count("Go on."):
            raise Broken("said twice", str(names))
        for each in messages:
            if each["role"] != "tool":
                continue
            call, output = each["tool_call_id"], text_of(each)
            if output not in self.offered.get(call, ()):
                raise Broken("tool output", f"{call} has {output!r}, which no client submitted")
            if output != self.taken.get(call, output):
                raise Broken("tool output", f"{call} has {output!r}, not {self.taken[call]!r}")

    def see(self, run: Mapping[str, Any], before: Mapping[str, str]) -> None:
        """Note the state of a run in a reply. A run that had ended before cannot change."""
        id, status = run["id"], run["status"]
        if status != before.get(id, status):
            raise Broken("run", f"{id} was {before[id]}, and is {status}")
        if status in _ENDED:
            self.ended[id] = status


class AssistantsClient:
    """A client of one owner."""

    def __init__(self, simulation: Simulation, owner: str) -> None:
        self._simulation = simulation
        self._known = simulation.assistants
        self._owner = owner

    def act(self, chosen: str, operation: Operation, process: Process) -> None:
        """Do an operation."""
        ended = dict(self._known.ended)
        try:
            getattr(self, f"_{chosen}")(operation, process)
        except NotFound as error:
            known = self._known
            thread = known.runs.get(operation.used, operation.used)
            if thread not in known.deleting:
                raise Broken("lost", f"{error} [{operation.name}]") from error
            raise
        except ValidationError as error:
            if not any(each in error.message for each in _REFUSED):
                raise Broken("refused", str(error)) from error
            if "active" in error.message and any(id in error.message for id in ended):
                raise Broken("locked", f"{error}: it has ended") from error
            raise

    def ask(self, name: str, process: Process, body: object = None, **path: str) -> Any:
        """Call a route, and return its reply."""
        request = RouteRequest(
            "POST",
            f"/v1/{name}",
            parameters=path,
            body=b"" if body is None else json.dumps(body).encode(),
            limits=Cancellation(),
            user=self._owner,
        )
        before = dict(self._known.ended)
        reply = json.loads(attrgetter(name)(process.service)(request).body)
        if reply["object"] == "thread.run":
            self._known.see(reply, before)
        self._simulation.log(f"  {name} {reply.get('id', '')} {reply.get('status', '')}")
        return reply

    def _thread(self, operation: Operation, process: Process) -> None:
        names, messages = self._messages(operation, operation.rng.choice((0, 1, 2)))
        thread = self.ask("threads.create", process, {"messages": messages})
        self._add_thread(thread["id"], names)

    def _message(self, operation: Operation, process: Process) -> None:
        thread = self._picked_thread(operation)
        if not thread:
            self._thread(operation, process)
            return
        [name], [message] = self._messages(operation, 1)
        self.ask("threads.add_message", process, message, thread=thread)
        self._known.messages[name] = thread

    def _run(self, operation: Operation, process: Process) -> None:
        thread = self._picked_thread(operation)
        if not thread:
            self._thread_and_run(operation, process)
            return
        names, messages = self._messages(operation, operation.rng.choice((0, 1, 1, 2)))
        body = {"assistant_id": self.assistant(process), "additional_messages": messages}
        run = self.ask("runs.create", process, body, thread=thread)
        self._add_run(run, names)

    def _thread_and_run(self, operation: Operation, process: Process) -> None:
        names, messages = self._messages(operation, 1)
        body = {"assistant_id": self.assistant(process), "thread": {"messages": messages}}
        run = self.ask("runs.create_with_thread", process, body)
        self._add_thread(run["thread_id"], ())
        self._add_run(run, names)

    def _poll(self, operation: Operation, process: Process) -> None:
        place = self._picked_run(operation)
        if place is None:
            return
        run = self.ask("runs.show", process, **place)
        if run["status"] == "requires_action" and operation.rng.random() < 0.8:
            self.submit(run, operation.name, process)

    def submit(self, run: Mapping[str, Any], name: str, process: Process) -> None:
        """Submit the outputs that a run requires."""
        known = self._known
        calls = run["required_action"]["submit_tool_outputs"]["tool_calls"]
        outputs = {call["id"]: f"{name} {call['id']}" for call in calls}
        for id, output in outputs.items():
            known.offered.setdefault(id, set()).add(output)
        tool_outputs = [{"tool_call_id": id, "output": output} for id, output in outputs.items()]
        place = {"thread": run["thread_id"], "run": run["id"]}
        self.ask("runs.submit", process, {"tool_outputs": tool_outputs}, **place)
        for id, output in outputs.items():
            if id in known.taken:
                raise Broken("tool output", f"{id} was submitted twice")
            known.taken[id] = output
            known.calls[id] = run["id"]

    def _cancel_run(self, operation: Operation, process: Process) -> None:
        place = self._picked_run(operation)
        if place is not None:
            self.ask("runs.cancel", process, **place)
            self._known.cancelled.add(place["run"])

    def _steps(self, operation: Operation, process: Process) -> None:
        place = self._picked_run(operation)
        if place is not None:
            self.ask("steps.page", process, **place)

    def _delete_thread(self, operation: Operation, process: Process) -> None:
        thread = self._picked_thread(operation)
        if thread:
            self._known.deleting.add(thread)
            self.ask("threads.delete", process, thread=thread)
            self._known.deleted.add(thread)

    def assistant(self, process: Process) -> str:
        """Return the assistant of this owner; create it first if there is none."""
        known = self._known.assistants
        if self._owner not in known:
            tools = [{"type": "function", "function": {"name": name}} for name in _FUNCTIONS]
            reply = self.ask("assistants.create", process, {"model": "sim", "tools": tools})
            known[self._owner] = reply["id"]
        return known[self._owner]

    def _messages(self, operation: Operation, count: int) -> tuple[list[str], list[Any]]:
        """Return the names of new messages, and the messages."""
        names, messages = [], []
        for _ in range(count):
            rounds = operation.rng.choice((0, 1, 1, 2))
            calls = [
                ",".join(operation.rng.choices(_FUNCTIONS, k=1 + n % 2)) for n in range(rounds)
            ]
            names.append(f"t{self._simulation.new_name()[1:]}")
            messages.append({"role": "user", "content": "|".join((names[-1], *calls))})
        self._simulation.log(f"  {operation.name} sends {names}")
        return names, messages

    def _add_thread(self, id: str, names: Sequence[str]) -> None:
        self._known.threads[id] = self._owner
        self._known.messages.update(dict.fromkeys(names, id))

    def _add_run(self, run: Mapping[str, Any], names: Sequence[str]) -> None:
        self._simulation.turns += 1
        self._known.runs[run["id"]] = run["thread_id"]
        self._known.messages.update(dict.fromkeys(names, run["thread_id"]))

    def _picked_thread(self, operation: Operation) -> str:
        """Return one of the last threads that may still exist."""
        known = self._known
        mine = [id for id, owner in known.threads.items() if owner == self._owner]
        remaining = [id for id in mine if id not in known.deleted][-3:]
        operation.used = operation.rng.choice(remaining) if remaining else ""
        return operation.used

    def _picked_run(self, operation: Operation) -> dict[str, str] | None:
        known = self._known
        mine = [
            run
            for run, thread in known.runs.items()
            if known.threads[thread] == self._owner and thread not in known.deleted
        ]
        active = [run for run in mine if run not in known.ended] or mine[-2:]
        if not active:
            return None
        run = operation.used = operation.rng.choice(active)
        return {"thread": known.runs[run], "run": run}


class AssistantsChecks:
    """Invariants of threads and runs when all clients have ended, in a process without faults."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation
        self._known = simulation.assistants

    def run(self, process: Process) -> None:
        self._sim.schedule.sleep(70.0)  # requests that did not finish are abandoned
        for thread, owner in self._known.threads.items():
            if thread not in self._known.deleting:
                AssistantsClient(self._sim, owner).ask("runs.page", process, thread=thread)
        self._await_jobs()
        self._sim.guarded("runs", self._check_runs)
        self._sim.guarded("messages", self._check_messages)
        self._sim.guarded("deleted", self._check_deleted)
        for thread, owner in self._known.threads.items():
            if thread not in self._known.deleting:
                client = AssistantsClient(self._sim, owner)
                self._sim.guarded("usable", self._check_usable, client, process, thread)
        self._sim.guarded("event logs", self._check_event_logs)

    def _await_jobs(self) -> None:
        """Wait until no run has work left."""
        sim = self._sim
        until = sim.clock.time + _MAX_SECONDS
        while self._jobs() and sim.clock.time < until:
            sim.schedule.sleep(1.0)
        if self._jobs():
            sim.fail("runs", f"{self._jobs()} are never done")

    def _jobs(self) -> list[str]:
        sql = "SELECT id FROM documents WHERE collection = ?"
        return [id for (id,) in oracle.query(self._sim.file, sql, JOBS)]

    def _check_runs(self) -> None:
        """Every acknowledged run has ended, or waits for its client."""
        known, runs = self._known, _documents(self._sim.file, "run/%")
        stored: set[str] = set()
        for id, thread in known.runs.items():
            if thread in known.deleting:
                continue
            status = runs[id]["status"] if id in runs else "lost"
            if status not in (*_ENDED, "requires_action"):
                self._sim.fail("run", f"{id} is {status}, without a job")
            if id in known.cancelled and status == "requires_action":
                self._sim.fail("run", f"{id} was cancelled, and is {status}")
            if id in known.ended and status != known.ended[id]:
                self._sim.fail("run", f"{id} was {known.ended[id]}, and is {status}")
        for step in _documents(self._sim.file, "step/%").values():
            status = runs.get(step["run_id"], {}).get("status", "")
            if step["status"] == "in_progress" and status in _ENDED:
                self._sim.fail("step", f"{step['id']} is in progress in a run that is {status}")
            for call in step["step_details"].get("tool_calls", ()):
                output = known.taken.get(call["id"], call["function"]["output"])
                if status == "completed" and call["function"]["output"] != output:
                    self._sim.fail("tool output", f"{call} does not have {output!r}")
                stored.add(call["id"])
        for id in known.taken.keys() - stored:
            if known.calls[id] in runs:
                self._sim.fail("tool output", f"{id} of {known.calls[id]} is in no step")

    def _check_messages(self) -> None:
        """Every acknowledged message is stored once, and every answer too."""
        known, sim = self._known, self._sim
        found: dict[str, list[str]] = {}
        answers: dict[str, int] = {}
        for message in _documents(sim.file, "message/%").values():
            text = message["content"][0]["text"]["value"]
            if message["role"] == "user":
                found.setdefault(_name(text), []).append(message["thread_id"])
            elif text.startswith("a"):
                answers[message["run_id"]] = answers.get(message["run_id"], 0) + 1
        for name, threads in found.items():
            if len(threads) > 1:
                sim.fail("said twice", f"{name} is in {threads}")
        for name, thread in known.messages.items():
            if thread not in known.deleting and found.get(name) != [thread]:
                sim.fail("lost", f"{name} of {thread} is in {found.get(name)}")
        for id, run in _documents(sim.file, "run/%").items():
            expected = 1 if run["status"] == "completed" else 0
            if not expected <= answers.get(id, 0) <= 1:
                sim.fail("answer", f"{id}, {run['status']}, has {answers.get(id, 0)} answers")

    def _check_deleted(self) -> None:
        """Nothing is left of the threads whose deletion was acknowledged."""
        sql = "SELECT collection, id FROM documents WHERE instr(collection || id, ?) > 0"
        for thread in self._known.deleted:
            remaining = oracle.query(self._sim.file, sql, thread)
            if remaining:
                self._sim.fail("deleted", f"{remaining} of {thread}")

    def _check_event_logs(self) -> None:
        """Only runs that can continue have an event log."""
        runs = _documents(self._sim.file, "run/%").values()
        used = {run["_conversation"] for run in runs if run["status"] not in _ENDED}
        sql = "SELECT id FROM conversations WHERE owner IN (?, ?)"
        for (id,) in oracle.query(self._sim.file, sql, *RUN_OWNERS):
            self._sim.check_rows(id)
            if id not in used:
                self._sim.fail("event log", f"{id} belongs to no run")

    def _check_usable(self, client: AssistantsClient, process: Process, thread: str) -> None:
        """A thread accepts a run, which is answered."""
        for run in _documents(self._sim.file, f"run/{thread}").values():
            if run["status"] == "requires_action":
                with suppress(ValidationError):  # it expires
                    client.ask("runs.cancel", process, thread=thread, run=run["id"])
        number = self._sim.new_name()[1:]
        messages = [{"role": "user", "content": f"t{number}|look"}]
        body = {"assistant_id": client.assistant(process), "additional_messages": messages}
        run = client.ask("runs.create", process, body, thread=thread)
        for _ in range(600):
            if run["status"] in _ENDED:
                break
            if run["status"] == "requires_action":
                client.submit(run, "check", process)
            self._sim.schedule.sleep(1.0)
            run = client.ask("runs.show", process, thread=thread, run=run["id"])
        stored = _documents(self._sim.file, f"message/{thread}").values()
        answers = [each["content"][0]["text"]["value"] for each in stored]
        if run["status"] != "completed" or answers[-1] != f"a{number}":
            raise Broken("answer", f"{run['id']} is {run['status']}: {answers}")


def _documents(file: str, kind: str) -> dict[str, Any]:
    """Return the documents of a kind by id, oldest first."""
    sql = "SELECT id, value FROM documents WHERE collection LIKE ? ORDER BY number"
    rows = oracle.query(file, sql, f"assistants/{kind}")
    return {id: json.loads(value) for id, value in rows}


def _name(text: str) -> str:
    return text.split("|")[0]
