"""Jobs that several processes share: what is to be done, who does it, and until when that is
taken for granted.

A job is a document of the store. Whoever takes it writes its name and a time into it, by
compare-and-set, and does so again before that time is over. One whose worker was killed is
there for others when its time is over; one that was taken too often is given up.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen

from genai_host.errors import Conflict, NotFound

if TYPE_CHECKING:
    from genai_host.host import Host
    from genai_host.store.documents import Document, Documents

LEASE = 15.0
"""Seconds for which a job is taken."""

MOST_TRIES = 4
"""How often it may be taken before it is given up: it may be what kills its workers."""

_LOOKED_AT = 200


@frozen
class Job:
    """
    kind     what is to be done
    user     whose it is
    about    what it takes to do it, JSON
    tries    how often it was taken, this time among them
    """

    id: str
    kind: str
    user: str
    about: Mapping[str, Any]
    tries: int = 1


class Jobs:
    """Of one host, as one worker sees them.

    worker   its name, which no other has
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self.worker = secrets.token_hex(8)

    @property
    def _documents(self) -> Documents:
        return self._host.kept("").documents("assistants/jobs")

    def _now(self) -> float:
        return self._host.clock.now().timestamp()

    def add(self, job: Job, *, taken: bool) -> None:
        """There is something to do; nothing changes if that was known.

        taken   whether this worker does it
        """
        value = {"kind": job.kind, "user": job.user, "about": job.about, "ends": False}
        try:
            self._documents.put(job.id, {**value, **self._lease(job.tries, taken)}, expect=0)
        except Conflict:
            return

    def take(self, most: int) -> list[Job]:
        """Some that nobody does."""
        if most <= 0:
            return []
        taken = []
        for found in self._documents.list(limit=_LOOKED_AT, newest_first=False):
            if found.value["until"] > self._now():
                continue
            tries = found.value["tries"] + 1
            try:
                self._documents.put(
                    found.id, {**found.value, **self._lease(tries, True)}, expect=found.version
                )
            except Conflict:  # another was quicker
                continue
            taken.append(_job(found, tries))
            if len(taken) == most:
                break
        return taken

    def keep(self, id: str) -> bool | None:
        """Go on with it for another while: whether it is to be ended; None if it is not this
        worker's any more."""
        try:
            found = self._documents.get(id)
            if found.value["worker"] != self.worker:
                return None
            value = {**found.value, "until": self._now() + LEASE}
            self._documents.put(id, value, expect=found.version)
        except NotFound:
            return None
        except Conflict:
            return self.keep(id)
        return bool(found.value["ends"])

    def end(self, id: str) -> None:
        """Whoever does it is to stop."""
        try:
            found = self._documents.get(id)
            self._documents.put(id, {**found.value, "ends": True}, expect=found.version)
        except NotFound:
            return
        except Conflict:
            self.end(id)

    def is_mine(self, id: str) -> bool:
        try:
            return bool(self._documents.get(id).value["worker"] == self.worker)
        except NotFound:
            return False

    def done(self, id: str) -> None:
        """Forget it, if it is this worker's."""
        if self.is_mine(id):
            self._documents.delete(id)

    def drop(self, id: str) -> None:
        """Forget it, whoever does it."""
        self._documents.delete(id)

    def give_back(self, id: str, *, counts: bool) -> None:
        """It is not done: others may take it at once.

        counts   whether it was a try
        """
        try:
            found = self._documents.get(id)
            if found.value["worker"] == self.worker:
                tries = found.value["tries"] - (0 if counts else 1)
                lease = {"worker": "", "until": 0.0, "tries": max(0, tries)}
                self._documents.put(id, {**found.value, **lease}, expect=found.version)
        except (NotFound, Conflict):
            return

    def _lease(self, tries: int, taken: bool) -> dict[str, Any]:
        if not taken:
            return {"worker": "", "until": 0.0, "tries": 0}
        return {"worker": self.worker, "until": self._now() + LEASE, "tries": tries}


def _job(found: Document, tries: int) -> Job:
    value = found.value
    return Job(found.id, value["kind"], value["user"], value["about"], tries)
