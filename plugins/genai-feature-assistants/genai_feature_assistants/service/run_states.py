"""The states of runs, and how they go from one to another, whoever asks for it.

    queued → in_progress → completed, incomplete or failed
                         → requires_action → queued ...
    any that has not ended → cancelling → cancelled; and expired, when its time is over

Source: OpenAI API reference, "Run lifecycle".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from genai_feature_assistants.service.shelf import Object, Shelf
from genai_feature_assistants.service.steps import end_steps, usage_of
from genai_host.errors import NotFound

if TYPE_CHECKING:
    from genai_host.host import Host

ACTIVE = ("queued", "in_progress", "requires_action", "cancelling")
"""The states of a run that is at its thread."""

_LATE = 60
"""Seconds after which a run that had to end is taken for lost: whoever does it ends it
before."""

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


class RunStates:
    """Of all users of one host."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def shelf(self, user: str, thread: str) -> Shelf:
        return Shelf(self._host, user, "run", thread)

    def get(self, user: str, thread: str, id: str) -> Object:
        """As it is now: one whose time is over has expired. Raises `Missing`."""
        return self.settled(user, self.shelf(user, thread).get(id))

    def settled(self, user: str, run: Object) -> Object:
        """The same, for one that was read already."""
        if run["status"] not in ACTIVE:
            return run
        late = 0 if run["status"] == "requires_action" else _LATE
        if self.shelf(user, run["thread_id"]).now() < run["_until"] + late:
            return run
        return self.end(user, run, "expired")

    def active(self, user: str, thread: Object) -> Object | None:
        """The run that is at a thread."""
        run = self.shelf(user, thread["id"]).find(thread["_run"]) if thread["_run"] else None
        if run is None:
            return None
        run = self.settled(user, run)
        return run if run["status"] in ACTIVE else None

    def move(self, user: str, run: Object, status: str, **fields: Any) -> tuple[Object, bool]:
        """Have a run go on to another state: how it is then, and whether that was possible
        from the state that it was in."""
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

    def end(self, user: str, run: Object, status: str) -> Object:
        """Have a run end at which nobody works, and what it had begun: how it is then."""
        steps = Shelf(self._host, user, "step", run["id"])
        run, has_ended = self.move(user, run, status, usage=usage_of(steps))
        if has_ended:
            end_steps(steps, status)
            self.forget(user, run)
        return run

    def forget(self, user: str, run: Object) -> None:
        """What was on record of one that has ended: its steps and messages stay."""
        if run["_conversation"]:
            try:
                self._host.kept(owner_of(user)).delete(run["_conversation"])
            except NotFound:
                return


def owner_of(user: str) -> str:
    """Whose the records of a user's runs are: theirs, and not among their conversations."""
    return f"assistants/{user}"
