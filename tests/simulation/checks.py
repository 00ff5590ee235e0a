"""Invariants at the end of a run, when all clients have ended."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from genai_host import Host, InMemoryRecord
from genai_host.conversations.record import TurnEnded
from genai_host.errors import GenaiError, NotFound
from genai_host_testing.replaying import timeless
from simulation import oracle
from simulation.assistants import AssistantsChecks
from simulation.clients import decide, settle
from simulation.native import NativeChecks
from simulation.plan import LIMITS, OWNERS, STRANGER, Broken
from simulation.process import Process
from simulation.world import ASKED, REPEATABLE

if TYPE_CHECKING:
    from simulation.simulation import Simulation

_MAX_JOB_SECONDS = 3600.0
_OF = 3  # one of so many conversations is copied


class FinalChecks:
    """Checks of one run, in a new process without faults."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation

    def run(self) -> None:
        if not self._sim.has_store:
            return
        for id in self._sim.all_rows():
            self._sim.guarded("rows", lambda id=id: self._sim.check_rows(id))
        self._check_effects()
        self._sim.world.trouble.share = 0.0
        if self._sim.plan.has_assistants:
            process = self._sim.new_process("assistants", lambda sql: "", has_budgets=False)
            AssistantsChecks(self._sim).run(process)
            process.close()
        self._sim.clock.time += 3600.0  # circuit breakers close
        process = self._sim.new_process("check", lambda sql: "", has_budgets=False)
        self._check_jobs(process)
        if process.routes is not None:
            self._sim.guarded("native", NativeChecks(self._sim).run, process)
        for number, (id, (owner, _, _)) in enumerate(self._sim.all_rows().items()):
            self._sim.guarded("usable", self._check_usable, process, owner, id)
            if self._is_sampled(number):
                self._sim.guarded("copied", self._check_copies, process, owner, id)
        self._check_effects()
        for owner in OWNERS:
            self._sim.guarded("lists", self._check_lists, process, owner)
            self._sim.guarded("usage", self._check_usage, process, owner)
        self._sim.guarded("imports", self._check_imports, process)
        self._sim.guarded("spent", self._check_spent)
        orphans = oracle.orphans(self._sim.file)
        if orphans:
            self._sim.fail("orphans", str(orphans))
        process.close()

    def _check_jobs(self, process: Process) -> None:
        """Every acknowledged job is done at the end, and its turn has ended or waits."""
        if process.worker is None:
            return
        until = self._sim.clock.time + _MAX_JOB_SECONDS
        while process.worker.queue.count() and self._sim.clock.time < until:
            self._sim.schedule.sleep(1.0)
        if process.worker.queue.count():
            self._sim.fail("jobs", f"{process.worker.queue.count()} are never done")
        rows = self._sim.all_rows()
        for job, id in self._sim.jobs.items():
            if job in self._sim.record_error:
                continue
            kinds = [row.kind for row in rows[id][2]] if id in rows else []
            asks = [row for row in rows[id][2] if row.form.get("asks")] if id in rows else []
            if kinds and "turn_ended" not in kinds and not asks:
                self._sim.fail("jobs", f"the turn of {job} in {id} has not ended")

    def _check_effects(self) -> None:
        for effect, count in self._sim.world.effects.items():
            tool, key = effect.split()
            if tool not in REPEATABLE and count > 1 + self._sim.copied[key]:
                self._sim.fail("done twice", f"{effect}: {count} times")
            if tool in ASKED and key not in self._sim.world.approved:
                self._sim.fail("not approved", effect)
        for effect, count in self._sim.world.logical.items():
            tool, place = effect.split()
            sent = self._sim.attempts[place.split(".")[0]]
            if tool not in REPEATABLE and count > sent:
                self._sim.fail("done twice", f"{effect}: {count} times, sent {sent} times")
        for id, (_, _, rows) in self._sim.all_rows().items():
            for key, is_allowed in oracle.decisions(rows).items():
                if (
                    not is_allowed
                    and self._sim.world.effects[f"pay {key}"]
                    and not self._sim.copied[key]
                ):
                    self._sim.fail("denied and done", f"{id}: {key}")

    def _is_sampled(self, number: int) -> bool:
        """Whether to check a conversation in ways that each take as long as its turns. Another
        third of them is checked in the run of the next seed."""
        return number % _OF == self._sim.plan.seed % _OF

    def _check_usable(self, process: Process, owner: str, id: str) -> None:
        """A conversation can be continued and reopened."""
        host, store = process.host, process.store.for_owner(owner)
        conversation = host.conversation(id, owner=owner, turn_limits=LIMITS)
        if conversation.status not in ("idle", "paused", "pending"):
            raise Broken("status", f"{id} is {conversation.status}")
        if store.summary(id).status == "running":
            raise Broken("status", f"{id} is listed as running, without a process")
        settle(conversation, lambda waiting: decide(self._sim.world, waiting, True))
        name = self._sim.new_name()
        self._sim.attempts[name] += 1
        answer = conversation.say(f"{name}|mail" if conversation.feature.name == "agent" else name)
        if answer.text != f"a{name[1:]}":
            raise Broken("answer", f"{answer.text!r} to {name}")
        rows = self._sim.check_rows(id)
        texts = [each.text for each in conversation.history if each.role == "user"]
        if texts != oracle.user_texts(rows):
            raise Broken("history", f"{id}: {texts}, not {oracle.user_texts(rows)}")
        again = host.conversation(id, owner=owner)
        if again.history != conversation.history or again.state != conversation.state:
            raise Broken("reopened", id)

    def _check_copies(self, process: Process, owner: str, id: str) -> None:
        """A conversation can be replayed, exported and imported, and others do not see it."""
        host, store = process.host, process.store.for_owner(owner)
        self._check_replay(host, owner, id)
        exported = store.export(id)
        copy = store.import_conversation(exported, host.codec)
        if {**store.export(copy), "id": id} != exported:
            raise Broken("export", id)
        for other in (each for each in OWNERS if each != owner):
            with contextlib.suppress(NotFound):
                process.store.for_owner(other).entries(id, host.codec)
                raise Broken("owners", f"{other} sees {id} of {owner}")
        store.delete(copy)

    def _check_replay(self, host: Host, owner: str, id: str) -> None:
        """Replaying the last turn gives the same answer, without a call of a model or a tool."""
        *entries, last = host.store_for(owner).entries(id, host.codec)
        assert isinstance(last, TurnEnded)
        assert last.answer is not None
        calls, effects = self._sim.world.calls, self._sim.world.effects.total()
        answer = host.reopen(InMemoryRecord(entries), turn_limits=LIMITS).resume()
        if timeless(answer) != timeless(last.answer):
            raise Broken("replay", f"{id}: {answer.text!r}")
        if (calls, effects) != (self._sim.world.calls, self._sim.world.effects.total()):
            raise Broken("replay", f"{id}: a call was made again")

    def _check_lists(self, process: Process, owner: str) -> None:
        store = process.store.for_owner(owner)
        mine = {id for id, (whose, _, _) in self._sim.all_rows().items() if whose == owner}
        listed = store.conversations(limit=None)
        if {each.id for each in listed} != mine:
            raise Broken("list", f"{owner}: {len(listed)} of {len(mine)}")
        if any(hit.conversation not in mine for hit in store.search("u*", limit=100)):
            raise Broken("owners", f"{owner} finds a conversation of another")
        for number, each in enumerate(listed):
            if self._is_sampled(number):
                store.markdown(each.id, process.host.codec)
            total = oracle.sums_of(oracle.rows_of(self._sim.file, each.id), 0)
            if abs(total.dollars - each.cost.dollars) > 1e-6 * max(1.0, total.dollars):
                raise Broken("cost", f"{each.id}: {each.cost}, not {total}")

    def _check_usage(self, process: Process, owner: str) -> None:
        totals = process.store.usage(user=owner)
        total = self._sim.gone[owner]
        for _, copied, rows in self._sim.all_rows((owner, f"assistants/{owner}")).values():
            total = total.plus(oracle.sums_of(rows, copied))
        sums = oracle.Sums()
        for row in totals:
            sums = oracle.Sums(row.calls, row.input_tokens + row.output_tokens, row.cost.dollars)
        if not sums.equals(total):
            raise Broken("usage", f"{owner}: {sums}, not {total}")

    def _check_imports(self, process: Process) -> None:
        """Conversations from mutated exports can be listed, exported and deleted."""
        store = process.store.for_owner(STRANGER)
        sql = "SELECT id FROM conversations WHERE owner = ?"
        ids = {id for (id,) in oracle.query(self._sim.file, sql, STRANGER)}
        if {each.id for each in store.conversations(limit=None)} != ids:
            raise Broken("list", f"{STRANGER}: not all of {ids}")
        for id in sorted(ids):
            store.export(id)
            with contextlib.suppress(GenaiError):
                store.markdown(id, process.host.codec)
            store.delete(id)

    def _check_spent(self) -> None:
        sql = "SELECT name, period, dollars, tokens FROM spent"
        for name, period, dollars, tokens in oracle.query(self._sim.file, sql):
            known, counted = self._sim.costs.get((name, period), (0.0, 0))
            if tokens < counted or dollars < known - 1e-6 * max(1.0, known):
                raise Broken("budget", f"{name} {period}: {dollars} is stored of {known}")
