"""The operations of clients, determined by the seed."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from genai_server.native.idempotency import HEADER
from genai_server.native.jobs import record_result

from genai_host import Conversation, Host
from genai_host.api import Cancellation, Job, RouteRequest, RouteResponse
from genai_host.errors import (
    Conflict,
    ConversationBusy,
    GenaiError,
    Interrupted,
    NotFound,
    ReplayError,
    StoreError,
    TurnPaused,
    ValidationError,
)
from genai_host.serving.completion import close_on_disconnect
from genai_host.store import Store
from simulation import oracle
from simulation.assistants import OPERATIONS as _OF_ASSISTANTS, AssistantsClient
from simulation.mutations import mutated
from simulation.native import OPERATIONS as _OF_HTTP, NativeClient
from simulation.plan import LIMITS, OWNERS, STRANGER, Broken, Operation
from simulation.process import Process
from simulation.schedule import Killed
from simulation.world import TOOLS, World

if TYPE_CHECKING:
    from simulation.simulation import Simulation

JOB = "turn"
_JUMPS = (600.0, 3600.0, 86400.0, 40 * 86400.0, -600.0, -86400.0)
# and their relative frequency
_OPERATIONS: Mapping[str, int] = {
    "say": 14,
    "resume": 16,
    **dict.fromkeys(("open", "again", "abandon", "look", "keyed"), 5),
    **dict.fromkeys(("cancel", "undo", "fork", "carry", "import", "jump"), 3),
    **dict.fromkeys(("abandon", "configure", "delete", "kill", "copy", "wait"), 2),
    **dict.fromkeys(("reset", "rename", "purge", "close"), 1),
}
_OF_JOBS: Mapping[str, int] = {"job": 12, "cancel_job": 2}


def decide(world: World, waiting: Any, is_allowed: bool) -> dict[str, bool]:
    """Return the user's decision about tool calls that wait for approval."""
    for call in waiting.payload["calls"] if is_allowed else ():
        world.approved.add(call["arguments"]["key"])
    return {call["id"]: is_allowed for call in waiting.payload["calls"]}


def settle(talk: Conversation, give: Callable[[Any], Any]) -> None:
    """Resume a turn until it has ended."""
    for _ in range(10):
        if talk.status not in ("paused", "pending"):
            return
        waiting = talk.current_pause
        try:
            talk.resume(None if waiting is None else give(waiting))
        except TurnPaused:
            continue
        except (Conflict, ReplayError, StoreError, ValidationError):
            raise
        except GenaiError:
            return


def do_job(simulation: Simulation, host: Host, job: Job, ending: Cancellation) -> None:
    """Take the turn of a job, or resume it, as the native API does."""
    about = job.about
    try:
        talk = host.conversation(about["conversation"], owner=job.user)
        if talk.status != "pending" or talk.turns != about["turn"] + 1:
            return
        if job.is_cancelled or job.is_exhausted:
            talk.abandon()
            record_result(talk, ending)
            return
        try:
            with close_on_disconnect(ending, talk):
                talk.resume()
        except (Interrupted, StoreError, ConversationBusy):
            raise
        except GenaiError:
            record_result(talk, ending)
            raise
        try:
            record_result(talk, ending)
        except StoreError:  # the native API stores the answer in the job
            simulation.record_error.add(job.id)
    except (Interrupted, StoreError, ConversationBusy):
        raise
    except NotFound:
        return
    except Conflict as error:
        raise Interrupted(error.message) from error
    except GenaiError:
        return


class Client:
    """A client of one owner, in one process or its replacement after a crash."""

    def __init__(self, simulation: Simulation, number: int) -> None:
        self._simulation = simulation
        self._slot = number % simulation.plan.processes
        self._owner = ("ann", "ann", "bob")[number % 3]
        self._name = f"c{number}"
        self._assistants = AssistantsClient(simulation, self._owner)
        self._native = NativeClient(simulation, self._owner)

    def run(self) -> None:
        sim = self._simulation
        weights = {
            **_OPERATIONS,
            **(_OF_JOBS if sim.plan.has_jobs else {}),
            **(_OF_ASSISTANTS if sim.plan.has_assistants else {}),
            **(_OF_HTTP if sim.plan.has_http else {}),
        }
        task = sim.schedule.current
        assert task is not None
        for number in range(sim.plan.operations):
            operation = Operation(sim.plan, f"{self._name}.{number}")
            [chosen] = operation.rng.choices(list(weights), list(weights.values()))
            if operation.name in sim.plan.skip:
                continue
            task.operation, task.process = operation, None
            process = sim.process(self._slot)
            task.process = process
            sim.guarded("client", self._do, chosen, operation, process)
            task.process, task.operation = None, None
            sim.schedule.pause()

    def _do(self, chosen: str, operation: Operation, process: Process) -> None:
        sim = self._simulation
        outcome = "done"
        sim.log(f"{operation.name} {process.name} {self._owner}: {chosen}")
        try:
            self._act(chosen, operation, process)
        except Killed:
            outcome = "killed"
        except KeyboardInterrupt:
            outcome = "interrupted"
        except GenaiError as error:
            outcome = error.code
            self._check_error(error, operation, process)
        sim.outcomes[f"{chosen}: {outcome}"] += 1
        sim.log(f"{operation.name} {chosen}: {outcome}")

    def _act(self, chosen: str, operation: Operation, process: Process) -> None:
        sim, rng = self._simulation, operation.rng
        store = process.host.store_for(self._owner)
        match chosen:
            case "undo" | "abandon" | "reset" | "again" | "configure":
                talk = self._picked(operation, process)
                if talk is None:
                    return
                if chosen == "again":
                    self._turn(operation, process, talk, again=True)
                elif chosen == "configure":
                    talk.use(temperature=rng.choice((0.1, 0.9, None)))
                else:
                    getattr(talk, chosen)()
            case "cancel":
                for talk in [each for each in process.live.values() if each.status == "running"]:
                    talk.cancel()
            case "delete" | "rename":
                id = self._id(operation)
                if id and chosen == "delete":
                    with sim.removing():
                        store.delete(id)
                elif id:
                    store.rename(id, f"name {operation.name}")
            case "purge":
                with sim.removing():
                    store.delete_expired(number=rng.choice((3, 5)))
            case "wait":
                sim.schedule.sleep(rng.choice((0.1, 2.0, 30.0)))
            case "jump":
                sim.clock.offset += rng.choice(_JUMPS)
            case "kill" | "close":
                getattr(process, chosen)()
            case _ if chosen in _OF_ASSISTANTS:
                self._assistants.act(chosen, operation, process)
            case _ if chosen in _OF_HTTP:
                self._native.act(chosen, operation, process)
            case _:
                getattr(self, f"_{chosen}")(operation, process)

    def _check_error(self, error: GenaiError, operation: Operation, process: Process) -> None:
        what = f"{error} [{operation.name}]"
        has_fault = operation.has_failed or not process.is_alive or "closed" in str(error)
        if isinstance(error, StoreError) and not has_fault:
            raise Broken("the store fails without a fault", what)
        if isinstance(error, ReplayError) and "no turn to resume" not in str(error):
            raise Broken("cannot be replayed", what)

    # turns

    def _open(self, operation: Operation, process: Process) -> None:
        feature = operation.rng.choice(("agent", "agent", "chat"))
        talk = process.host.open(feature, "sim", owner=self._owner, turn_limits=LIMITS)
        if talk.id:
            self._simulation.owners[talk.id] = self._owner
        self._turn(operation, process, talk)

    def _say(self, operation: Operation, process: Process) -> None:
        talk = self._picked(operation, process)
        if talk is None:
            self._open(operation, process)
            return
        if talk.status == "pending" and operation.rng.random() < 0.5:
            if process.host.store_for(self._owner).is_running_elsewhere(talk.id):
                return
            talk.abandon()
        self._turn(operation, process, talk)

    def _turn(
        self, operation: Operation, process: Process, talk: Conversation, again: bool = False
    ) -> None:
        sim = self._simulation
        if again:
            last = talk.last_message
            name = last.text.split("|")[0] if last else ""
            message = None
        else:
            name, message = self._message(operation, talk)
        sim.attempts[name] += 1
        sim.log(f"  {operation.name} {talk.id} says {message or 'again ' + name}")
        operation.talk = process.live[talk.id] = talk
        sim.turns += 1
        if operation.rng.random() < 0.5:
            answer = talk.say(message, regenerate=again)
        else:
            *_, last_event = talk.stream(message, regenerate=again)
            assert last_event.answer is not None
            answer = last_event.answer
        expected = f"a{name[1:]}"
        if answer.text != expected:
            raise Broken("answer", f"{answer.text!r} to {name}")
        if talk.record_error is None and talk.id in sim.owners:
            rows = oracle.rows_of(sim.file, talk.id)
            if rows and not any(row.kind == "turn_ended" and expected in row.body for row in rows):
                raise Broken("lost", f"the answer to {name} is not recorded")

    def _message(self, operation: Operation, talk: Conversation) -> tuple[str, str]:
        """Return the name of a new message, and its text."""
        rng, name = operation.rng, self._simulation.new_name()
        rounds = rng.choice((0, 1, 1, 2)) if talk.feature.name == "agent" else 0
        calls = [",".join(rng.choices(TOOLS, k=rng.choice((1, 1, 2)))) for _ in range(rounds)]
        return name, "|".join((name, *calls))

    def _resume(self, operation: Operation, process: Process) -> None:
        talk = self._picked(operation, process)
        if talk is None:
            return
        if talk.status not in ("paused", "pending"):
            self._turn(operation, process, talk)
            return
        operation.talk = process.live[talk.id] = talk
        given: Any = None
        if talk.current_pause is not None:
            given = decide(self._simulation.world, talk.current_pause, operation.rng.random() < 0.7)
        self._simulation.log(f"  {operation.name} {talk.id} resumes with {given}")
        talk.resume(given)

    def _abandon(self, operation: Operation, process: Process) -> None:
        talk = self._picked(operation, process)
        if talk is None:
            return
        name = self._simulation.new_name()
        self._simulation.attempts[name] += 1
        operation.talk = process.live[talk.id] = talk
        events = talk.stream(f"{name}|note,mail" if talk.feature.name == "agent" else name)
        for _, _ in zip(range(operation.rng.randrange(4)), events, strict=False):
            pass
        events.close()

    def _keyed(self, operation: Operation, process: Process) -> None:
        """Send a request with an idempotency key; a changed system time invalidates all keys."""
        sim = self._simulation
        key = f"{self._owner} {operation.rng.randrange(3)} {sim.clock.offset}"
        request = RouteRequest(
            "POST", "/turns", headers={HEADER: key}, limits=Cancellation(), user=self._owner
        )

        def answer() -> RouteResponse:
            if key in sim.keys and sim.plan.kinds == ("kill",):  # otherwise the claim may be lost
                raise Broken("idempotency", f"{key} is used twice")
            sim.keys.add(key)
            try:
                self._open(operation, process)
            except GenaiError:
                sim.keys.discard(key)
                raise
            return RouteResponse(operation.name.encode())

        reply = process.replies.once(request, answer).body
        if sim.replies.setdefault(key, reply) != reply and sim.plan.kinds == ("kill",):
            raise Broken("idempotency", f"{key}: {reply!r}, not {sim.replies[key]!r}")

    # background jobs

    def _job(self, operation: Operation, process: Process) -> None:
        sim, worker = self._simulation, process.worker
        assert worker is not None
        with closing(
            process.host.open("agent", "sim", owner=self._owner, turn_limits=LIMITS)
        ) as talk:
            if talk.record_error is not None:
                raise talk.record_error
            sim.owners[talk.id] = self._owner
            name, message = self._message(operation, talk)
            sim.attempts[name] += 1
            sim.turns += 1
            about = {"conversation": talk.id, "turn": talk.begin(message)}
            sim.log(f"  {operation.name} {talk.id} begins {message}")
            job = Job(f"j{operation.name}", JOB, self._owner, about)
            worker.submit(job)
            sim.jobs[job.id] = talk.id  # the job is now acknowledged

    def _cancel_job(self, operation: Operation, process: Process) -> None:
        jobs = sorted(self._simulation.jobs)
        if jobs and process.worker is not None:
            process.worker.cancel(operation.rng.choice(jobs))

    # the store

    def _fork(self, operation: Operation, process: Process) -> None:
        id = self._id(operation)
        if not id:
            return
        store = process.host.store_for(self._owner)
        copy = store.fork(id, turn=operation.rng.choice([None, *sorted(store.times(id))]))
        self._simulation.owners[copy] = self._owner
        self._simulation.check_rows(copy)

    def _carry(self, operation: Operation, process: Process) -> None:
        """Export a conversation and import it: only its id may change."""
        sim, id = self._simulation, self._id(operation)
        if not id:
            return
        store = process.host.store_for(self._owner)
        exported = store.export(id)
        sim.copies(exported)  # before the import, which may end in a kill after its write
        copy = store.import_conversation(exported, process.host.codec)
        sim.owners[copy] = self._owner
        if {**store.export(copy), "id": id} != exported:
            raise Broken("export", id)

    def _import(self, operation: Operation, process: Process) -> None:
        """Import a mutated export: it is refused, or it harms nothing and can be deleted."""
        id = self._id(operation)
        if not id:
            return
        data = mutated(process.host.store_for(self._owner).export(id), operation.rng)
        store = process.host.store_for(STRANGER)
        try:
            copy = store.import_conversation(data, process.host.codec)
        except ValidationError:
            return
        self._simulation.log(f"  {operation.name} imported {json.dumps(data)[:3000]}")
        store.conversations(limit=None)
        store.search("u*")
        store.export(copy)
        store.usage(by=("day", "user", "model"))
        if operation.rng.random() < 0.5:
            store.delete(copy)

    def _look(self, operation: Operation, process: Process) -> None:
        sim, store = self._simulation, process.host.store_for(self._owner)
        listed = {each.id for each in store.conversations(limit=None)}
        hits = store.search("u1 OR u2", limit=5) + store.search("u*", limit=50)
        for each in listed | {hit.conversation for hit in hits}:
            if sim.owners.get(each, self._owner) != self._owner:
                raise Broken("owners", f"{self._owner} sees {each}")
        for row in store.usage(by=("day", "user", "model")):
            if not math.isfinite(row.cost.dollars):
                raise Broken("usage", str(row))
        id = self._id(operation)
        if id:
            store.summary(id)
            store.attempts(id)
            store.markdown(id, process.host.codec)

    # the world

    def _copy(self, operation: Operation, process: Process) -> None:
        """Read a copy of the current files, as after a crash of all processes."""
        sim = self._simulation
        if sim.server or not os.path.exists(sim.file):
            return
        place = os.path.join(sim.folder, f"copy-{operation.name}.db")
        for end in ("", "-wal"):
            if os.path.exists(sim.file + end):
                shutil.copyfile(sim.file + end, place + end)
        with Store(place, now=sim.clock.timestamp) as store:
            for owner in OWNERS:
                for each in store.for_owner(owner).conversations(limit=None):
                    entries = store.for_owner(owner).entries(each.id, process.host.codec)
                    if len(entries) < sim.acknowledged[each.id]:
                        raise Broken("lost", f"{each.id} in a copy: {len(entries)}")
                    if each.status == "running":
                        raise Broken("status", f"{each.id} is running in a copy")

    def _id(self, operation: Operation) -> str:
        mine = sorted(id for id, owner in self._simulation.owners.items() if owner == self._owner)
        return operation.rng.choice(mine) if mine else ""

    def _picked(self, operation: Operation, process: Process) -> Conversation | None:
        """Return a conversation: an object that another client uses, or a new one."""
        id = self._id(operation)
        if not id:
            return None
        if id in process.live and operation.rng.random() < 0.3:
            shared: Conversation = process.live[id]
            return shared
        return process.host.conversation(id, owner=self._owner, turn_limits=LIMITS)
