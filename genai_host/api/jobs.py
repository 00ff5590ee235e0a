"""Background jobs: what a worker gets to do. `Host.jobs` gives the queue of a name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from genai_host.api.cancellation import Cancellation

MOST_TRIES = 4
"""How often a job is tried before it is given up: it may be what ends its workers."""


@frozen
class Job:
    """An entry of a job queue. What is large or secret is stored elsewhere: the entry is written
    again whenever a worker takes or returns the job.

    Attributes:
        id: Unique in the queue.
        kind: Selects the function that does it.
        user: The user that it belongs to.
        about: What that function needs, as JSON.
        tries: How often it was taken, this time included; times when the server ended in order or
            the store failed do not count.
        is_cancelled: Whether it is to stop.
    """

    id: str
    kind: str
    user: str
    about: Mapping[str, Any]
    tries: int = 1
    is_cancelled: bool = False

    @property
    def is_exhausted(self) -> bool:
        """Whether it was tried too often: the function that does it must end it as failed."""
        return self.tries > MOST_TRIES


Work = Callable[[Job, Cancellation], None]
"""Does a job, which is removed when the function returns. If it raises `Interrupted` because the
cancellation says so, `StoreError` or `ConversationBusy`, the job is returned to the queue. Any
other exception is logged and counts as a try; the job is then tried again, but not for ever."""
