"""One run: processes, clients, faults, and the checks during the run and at its end."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import random
import re
import secrets
import shutil
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest import mock

import genai_feature_agent
import genai_feature_assistants
import genai_feature_chat
from genai_feature_assistants.service import AssistantsService
from genai_server.routes import own_routes
from sqlalchemy import Engine, create_engine

from genai_host import Config, Host, RetryPolicy, StaticPlugins
from genai_host.config import BudgetConfig, BudgetsConfig
from genai_host.serving.router import HttpRoutes
from genai_host.store import Store
from genai_host.store.store import StoredRecord
from genai_host.usage.budgets import Account, Spent, user_of
from genai_host_testing import installed_wires
from simulation import oracle, postgresql
from simulation.assistants import Acknowledged
from simulation.checks import FinalChecks
from simulation.clients import JOB, Client, do_job
from simulation.faults import FULL, LOCKED
from simulation.native import Accepted
from simulation.plan import OWNERS, RUN_OWNERS, Broken, Failure, Operation, Plan
from simulation.process import Process
from simulation.schedule import Killed, Schedule, SimulatedClock, Stuck, installed
from simulation.world import SimulatedPrices, Trouble, World, text_of

DAY_DOLLARS, DAY_TOKENS = 0.2, 100
_QUEUE = "simulated"


class Simulation:
    """Runs a plan in a temporary directory.

    Args:
        plan: The plan.
        server: Address of a PostgreSQL server; empty for SQLite.

    Attributes:
        owners: Owners of the conversations that were acknowledged, by id.
        acknowledged: Number of entries that were acknowledged, by conversation.
        attempts: How often each message was sent.
        jobs: Conversations of the background jobs that were acknowledged, by id of the job.
        unrecorded: Jobs whose turn was answered and could not be recorded.
        keys: Idempotency keys whose work began and did not fail.
        replies: Replies that were acknowledged, by idempotency key.
        assistants: What the Assistants API has acknowledged.
        accepted: What the native API has acknowledged.
        copied: How many copies of a tool call were imported, by its key.
        gone: Calls of conversations that were deleted, by owner.
        connecting: Processes that use PostgreSQL, by name.
        costs: US dollars and tokens that were added to budgets.
    """

    def __init__(self, plan: Plan, server: str = "") -> None:
        self.plan = plan
        self.server = server
        self.folder = tempfile.mkdtemp(prefix="simulation-")
        self.file = os.path.join(self.folder, "store.db")
        if plan.seed % 8 and not server:  # creating a store takes longer than some turns
            shutil.copyfile(_empty_store(), self.file)
        self.clock = SimulatedClock()
        self.schedule = Schedule(random.Random(f"{plan.seed}/order"), self.clock)
        is_polled = plan.has_jobs or plan.has_assistants or plan.has_http
        kinds = [each for each in Trouble.KINDS if each != "hang" or not is_polled]
        self.world = World(self.schedule, Trouble(self._draw, plan.trouble, kinds))
        self.world.on_call = self._called
        self.trace: list[str] = []
        self.faults: list[str] = []
        self.failures: list[Failure] = []
        self.turns = 0
        self.outcomes: Counter[str] = Counter()
        self.attempts: Counter[str] = Counter()
        self.owners: dict[str, str] = {}
        self.acknowledged: Counter[str] = Counter()
        self.jobs: dict[str, str] = {}
        self.record_error: set[str] = set()
        self.keys: set[str] = set()
        self.replies: dict[str, object] = {}
        self.assistants = Acknowledged()
        self.accepted = Accepted()
        self.copied: Counter[str] = Counter()
        self.gone = dict.fromkeys(OWNERS, oracle.Sums())
        self._bodies: dict[tuple[str, int], str] = {}
        self.costs: dict[Account, tuple[float, int]] = {}
        self._names = 0
        self._full = 0
        self._lives: Counter[int] = Counter()
        self._processes: dict[int, Process] = {}
        self.connecting: dict[str, Process] = {}
        self._ids = random.Random(f"{plan.seed}/ids")

    def run(self) -> list[Failure]:
        """Run the plan, and return the violated invariants."""
        with ExitStack() as stack:
            if self.server:
                self.file = stack.enter_context(postgresql.database(self.server))
            stack.enter_context(installed(self.schedule))
            stack.enter_context(_random_numbers(self._ids))
            stack.enter_context(_engines(self.connecting))
            try:
                clients = [f"c{number}" for number in range(self.plan.clients)]
                for number, name in enumerate(list(clients)):
                    self.schedule.spawn(f"client {name}", partial(self._client, number, clients))
                self.schedule.spawn("end", lambda: self._end(clients))
                self._scheduled()
                self.schedule.spawn("check", partial(self.guarded, "check", FinalChecks(self).run))
                self._scheduled()
            finally:
                oracle.close()
                shutil.rmtree(self.folder, ignore_errors=True)
        return self.failures

    def _client(self, number: int, clients: list[str]) -> None:
        try:
            self.guarded("client", Client(self, number).run)
        finally:
            clients.remove(f"c{number}")

    def _end(self, clients: list[str]) -> None:
        """End all processes when the clients have ended."""
        self.schedule.until(lambda: not clients)
        task = self.schedule.current
        assert task is not None
        for process in self._processes.values():
            task.process = process
            if process.is_alive:
                with contextlib.suppress(Killed):
                    self.guarded("close", process.close)
            task.process = None
            process.kill()
        self._processes.clear()

    def _scheduled(self) -> None:
        try:
            self.schedule.run()
        except Stuck as stuck:
            self.fail("stuck", str(stuck))

    def process(self, slot: int) -> Process:
        """Return the process in a slot: the running one, or a new one."""
        current = self._processes.get(slot)
        if current is None or not current.is_alive:
            self._lives[slot] += 1
            current = self.new_process(f"p{slot}.{self._lives[slot]}", self._fault)
            self._processes[slot] = current
        return current

    def new_process(
        self, name: str, fault: Callable[[str], str], has_budgets: bool | None = None
    ) -> Process:
        make = partial(self._make_host, has_budgets=has_budgets)
        process = Process(name, self.file, make, fault, self.schedule, self)
        task = self.schedule.current
        assert task is not None
        before, task.process = (task.process, task.operation), process
        task.operation = Operation(self.plan, f"worker-{name}")
        if self.plan.has_jobs:
            process.worker = process.host.jobs(_QUEUE).worker(at_once=2)
            process.worker.start({JOB: partial(do_job, self, process.host)})
        if self.plan.has_assistants:
            process.service = AssistantsService(process.host)
        if self.plan.has_http:
            process.routes = HttpRoutes(process.host, own_routes())
            process.routes.start()
        task.process, task.operation = before
        return process

    def _make_host(self, store: Store, has_budgets: bool | None = None) -> Host:
        is_limited = self.plan.has_budgets if has_budgets is None else has_budgets
        user = BudgetConfig(DAY_DOLLARS, day_tokens=DAY_TOKENS) if is_limited else BudgetConfig()
        jitter = random.Random(f"{self.plan.seed}/jitter").uniform
        plugins = {
            **installed_wires(),
            "agent": genai_feature_agent,
            "assistants": genai_feature_assistants,
            "chat": genai_feature_chat,
            "world": self.world.plugin(),
        }
        return Host(
            config=Config(budgets=BudgetsConfig(user=user), provider_order=("near", "far")),
            discovery=StaticPlugins(plugins),
            clock=self.clock,
            retry_policy=RetryPolicy(jitter=lambda most: jitter(0.0, most)),
            store=store,
            prices=SimulatedPrices(),
        )

    def guarded(self, what: str, act: Callable[..., object], *arguments: Any) -> None:
        """Perform an action; an error that must not happen is a failure of the run."""
        try:
            act(*arguments)
        except Killed:
            raise
        except Broken as broken:
            self.fail(broken.kind, broken.what)
        except Exception as error:
            task = self.schedule.current
            if task is not None and task.process is not None and not task.process.is_alive:
                raise Killed from error
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{os.path.basename(place.filename)}:{place.lineno}"
            self.fail(f"{what}: {type(error).__name__} at {where}", traceback.format_exc(limit=-12))

    def fail(self, kind: str, what: str) -> None:
        self.failures.append(Failure(kind, what, list(self.trace), list(self.faults)))

    def log(self, line: str) -> None:
        self.trace.append(f"{self.clock.time:9.2f} {line}")

    def new_name(self) -> str:
        """Return the name of a new message."""
        self._names += 1
        return f"u{self._names}"

    # faults

    def _draw(self, what: str) -> random.Random:
        task = self.schedule.current
        if task is None or task.operation is None:
            return random.Random(0)
        generator: random.Random = task.operation.draw(what)[1]
        return generator

    def _fault(self, sql: str) -> str:
        """Return the fault of a write of the current task."""
        task = self.schedule.current
        if task is None or task.operation is None:
            return ""
        name, rng = task.operation.draw("write")
        if self._full > 0:
            self._full -= 1
            task.operation.has_failed = True
            return FULL
        if rng.random() >= self.plan.rate or name in self.plan.quiet:
            return ""
        kinds = ["kill before", "kill after", FULL, LOCKED]
        if task.name.startswith("client"):
            kinds += ["interrupt before", "interrupt after"]
        kinds = [kind for kind in kinds if kind.startswith(self.plan.kinds)]
        if not kinds:
            return ""
        kind: str = rng.choice(kinds)
        if kind == FULL:
            self._full = rng.randrange(6)
        task.operation.has_failed = True
        self.faults.append(name)
        self.log(f"  {name}: {kind}: {' '.join(sql.split())[:60]}")
        return kind

    # invariants during the run

    def _called(self, messages: Sequence[Mapping[str, Any]]) -> None:
        self.guarded("call", self._check_call, messages)

    def _check_call(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """A model must receive the turns that are in the history, and no others."""
        if not _name_of(messages).startswith("u"):
            self.assistants.check_call(messages)
            return
        wrong = oracle.wrong_messages(messages)
        if wrong:
            raise Broken("messages", wrong)
        task = self.schedule.current
        operation = task.operation if task else None
        talk = operation.talk if operation else None
        if talk is None or not talk.id or talk.record_error is not None:
            return
        rows = oracle.rows_of(self.file, talk.id)
        *before, newest = [text_of(each) for each in messages if each["role"] == "user"]
        mine = [
            n
            for n, row in enumerate(rows)
            if row.kind == "turn_started" and text_of(row.form["message"]) == newest
        ]
        if not mine:
            if talk.id in self.owners and rows:
                raise Broken("messages", f"{newest} is not recorded")
            return
        expected = oracle.user_texts(rows[: mine[-1]])
        if rows[mine[-1]].form.get("again"):
            expected = expected[:-1]
        if expected != before:
            raise Broken("messages", f"{talk.id}: {before} was sent, not {expected}")
        if self.plan.has_budgets:
            self._check_budget(self.owners.get(talk.id, ""))

    def _check_budget(self, user: str) -> None:
        day = self.clock.now().strftime("%Y-%m-%d")
        sql = "SELECT dollars, tokens FROM spent WHERE name = ? AND period = ?"
        for dollars, tokens in oracle.query(self.file, sql, user, day):
            if dollars >= DAY_DOLLARS or tokens >= DAY_TOKENS:
                raise Broken("budget", f"{user} calls with {dollars} $ and {tokens} tokens spent")

    def appended(self, record: StoredRecord) -> None:
        """A store has acknowledged an entry."""
        self.acknowledged[record.id] = max(self.acknowledged[record.id], record.number)

    def spent(self, account: Account, amount: Spent) -> None:
        """A store has acknowledged the cost of a call."""
        before = self.costs.get(account, (0.0, 0))
        self.costs[account] = before[0] + amount.dollars, before[1] + amount.tokens

    def copies(self, export: Mapping[str, Any]) -> None:
        """Note that a conversation is imported again: its last turn can be resumed in both."""
        self.copied.update(set(re.findall(r"\bk[0-9]+\b", json.dumps(export))))
        started = [each for each in export["entries"] if each["entry"] == "turn_started"]
        for each in started[-1:]:
            self.attempts[each["message"]["content"][0]["text"].split("|")[0]] += 1

    def check_rows(self, id: str) -> list[oracle.Row]:
        """Check the rows of an event log: all acknowledged rows must be unchanged."""
        rows = oracle.rows_of(self.file, id)
        if len(rows) < self.acknowledged[id]:
            raise Broken("lost", f"{id} has {len(rows)} entries of {self.acknowledged[id]}")
        wrong = oracle.wrong_order(rows)
        if wrong:
            raise Broken("event log", f"{id}: {wrong}")
        for row in rows:
            if self._bodies.setdefault((id, row.number), row.body) != row.body:
                raise Broken("changed", f"{id}: entry {row.number}")
        return rows

    @property
    def has_store(self) -> bool:
        return bool(self.server) or os.path.exists(self.file)

    def all_rows(
        self, owners: Sequence[str] = OWNERS
    ) -> dict[str, tuple[str, int, list[oracle.Row]]]:
        """Return owner, copied entries and rows of the conversations of these owners, by id."""
        if not self.has_store:
            return {}
        places = ", ".join("?" * len(owners))
        sql = f"SELECT id, owner, copied FROM conversations WHERE owner IN ({places}) ORDER BY id"
        rows = oracle.query(self.file, sql, *owners)
        return {id: (owner, copied, oracle.rows_of(self.file, id)) for id, owner, copied in rows}

    @contextmanager
    def removing(self, owners: Sequence[str] = OWNERS) -> Iterator[None]:
        """Note which conversations of these owners are deleted meanwhile."""
        before = self.all_rows(owners)
        try:
            yield
        finally:
            existing = {id for (id,) in oracle.query(self.file, "SELECT id FROM conversations")}
            for id, (owner, copied, rows) in before.items():
                is_known = id in self.owners or (owner in RUN_OWNERS and id in self.acknowledged)
                if id not in existing and is_known:
                    user = user_of(owner)
                    self.gone[user] = self.gone[user].plus(oracle.sums_of(rows, copied))
                    self.owners.pop(id, None)
                    self.acknowledged.pop(id, None)


def _name_of(messages: Sequence[Mapping[str, Any]]) -> str:
    return [text_of(each) for each in messages if each["role"] == "user"][-1]


@functools.cache
def _empty_store() -> str:
    """Return the file of a store without conversations."""
    folder = tempfile.mkdtemp(prefix="simulation-empty-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = os.path.join(folder, "store.db")
    with Store(file) as store:
        store.usage()
    return file


@functools.cache
def _compiling() -> Engine:
    """Return an engine whose compiled SQL all others use."""
    engine = create_engine("sqlite://")
    engine.connect().close()  # completes the dialect
    return engine


@contextmanager
def _engines(processes: Mapping[str, Process]) -> Iterator[None]:
    """Compile SQL for the first process only, and open connections to PostgreSQL by the process
    that the URL names."""
    shared = _compiling()

    def create_sharing(url: Any, **options: Any) -> Engine:
        if url.get_backend_name() == "postgresql":
            process = processes[url.query["application_name"]]
            return create_engine(url, creator=process.connect_server, **options)
        engine = create_engine(url, **options)
        engine.dialect, engine._compiled_cache = shared.dialect, shared._compiled_cache
        return engine

    with mock.patch("genai_host.store.engines.create_engine", create_sharing):
        yield


@contextmanager
def _random_numbers(rng: random.Random) -> Iterator[None]:
    """Generate ids and tokens of the host from the seed."""
    before = secrets.randbits, secrets.token_hex, os.urandom
    secrets.randbits = lambda k: rng.getrandbits(k)
    secrets.token_hex = lambda nbytes=None: rng.randbytes(nbytes or 32).hex()
    os.urandom = lambda size: rng.randbytes(size)
    try:
        yield
    finally:
        secrets.randbits, secrets.token_hex, os.urandom = before
