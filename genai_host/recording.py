"""What becomes of a conversation whose record fails.

A full disk does not keep an answer from the user: the conversation goes on unrecorded,
and says so. Being overtaken by another process ends the turn: what it would add belongs
to a conversation that is no longer that.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable

from genai_host.errors import Conflict, GenaiError, StoreError
from genai_host.record import Entry, Recorder, TurnEnded

_log = logging.getLogger(__name__)


class Recording:
    """A recorder, and how it fares.

    end      ends the turn under way, without asking the feature
    failed   why nothing is recorded any more; None while it is
    """

    def __init__(
        self,
        recorder: Recorder,
        end: Callable[[GenaiError], None],
        failed: StoreError | None = None,
    ) -> None:
        self._recorder = recorder
        self._end = end
        self._overtaken: Conflict | None = None
        self.failed = failed

    def append(self, entry: Entry) -> None:
        """Raises `Conflict`, now and from now on, if another process has gone on with
        the conversation. That the turn is over then is not for this record to say."""
        if self._overtaken is not None:
            if isinstance(entry, TurnEnded):
                return
            raise copy.copy(self._overtaken)
        if self.failed is not None:
            return
        try:
            self._recorder.append(entry)
        except Conflict as conflict:
            self._overtaken = conflict
            self._end(conflict)
            raise
        except StoreError as error:
            self.failed = error
            warn_unrecorded(error)


def warn_unrecorded(error: StoreError) -> None:
    """With the next step, in one line: nothing fails that would say it otherwise."""
    told = f"{error} ({error.hint})" if error.hint else str(error)
    _log.warning("the conversation goes on unrecorded: %s", told)
