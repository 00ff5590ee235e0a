"""A recorder that tolerates failures of the store.

A store that fails, for example because the disk is full, does not prevent an answer: the
conversation continues unrecorded, and a warning is logged. This ends where something must not
happen twice: a step that is not idempotent does not start unless its start is recorded, and a
`Pause` does not end unless its result is. The turn then stops with `NotRecorded`, and can be
resumed. If another process has continued the conversation, the turn ends with `Conflict`.
"""

from __future__ import annotations

import copy
import logging
from collections import deque
from collections.abc import Callable

from genai_host.conversations.record import Entry, Recorder, StepStarted, TurnEnded, TurnStarted
from genai_host.errors import Conflict, GenaiError, Interrupted, NotRecorded, StoreError, TurnPaused
from genai_host.util import concurrency

_log = logging.getLogger(__name__)


RESUMABLE = (TurnPaused, Interrupted, NotRecorded)
"""Errors that end neither a step nor its turn."""


class FailsafeRecorder:
    """A recorder that tolerates failures of the store.

    Entries that could not be written are buffered. They are retried, in order, with each required
    entry and at the end of each turn. An entry whose `append` was interrupted may have been
    written: it is appended again before the next one, except for the start of a turn, of which
    nothing has happened yet.

    Args:
        end: Ends the running turn; the feature cannot handle the error.
        failed: Why the conversation is not recorded at all. Then no other process can resume it, so
            no entry is required.

    Attributes:
        failed: Why the conversation is not recorded; None if it is.
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
        self._is_lost = failed is not None
        self._unwritten: deque[Entry] = deque()
        self._lock = concurrency.new_lock()
        self.failed = failed

    def append(self, entry: Entry, *, required: bool = False) -> None:
        """Append an entry. One that is required must be recorded before the conversation continues;
        if it cannot be, it is dropped.

        Raises:
            Conflict: Another process has continued the conversation; all later calls raise it too.
            NotRecorded: A required entry cannot be written.
        """
        if self._overtaken is not None:
            if isinstance(entry, TurnEnded):
                return
            raise copy.copy(self._overtaken)
        if self._is_lost:
            return
        before = self.failed
        try:
            with self._lock:
                if required and self.failed is not None and self.failed is not before:
                    # parallel steps do not wait for a failing store one after another
                    raise _not_recorded(entry, self.failed)
                self._write(entry, required)
        except Conflict as conflict:
            self._overtaken = conflict
            self._end(conflict)
            raise
        except NotRecorded as error:
            self._end(error)
            raise

    def flush(self) -> None:
        """Write all buffered entries. Raises `Conflict` if another process has continued the
        conversation, `StoreError` if they cannot be written."""
        if self._is_lost and self.failed is not None:
            raise self.failed
        flush = getattr(self._recorder, "flush", None)
        try:
            with self._lock:
                self._write_buffered()
                if flush is not None:
                    flush()
        except StoreError as error:
            self.failed = error
            raise
        except Conflict as conflict:
            self._overtaken = conflict
            raise
        self.failed = None

    def _write_buffered(self) -> None:
        while self._unwritten:
            self._recorder.append(self._unwritten[0])
            self._unwritten.popleft()

    def _write(self, entry: Entry, required: bool) -> None:
        if self.failed is not None and not required and not isinstance(entry, TurnEnded):
            self._unwritten.append(entry)
            return
        try:
            if self._unwritten:
                self._write_buffered()
            self._recorder.append(entry)
        except StoreError as error:
            self.failed = error
            if required:
                raise _not_recorded(entry, error) from error
            if not self._unwritten:
                warn_unrecorded(error)
            self._unwritten.append(entry)
        except BaseException as error:
            if not isinstance(error, Exception) and not isinstance(entry, TurnStarted):
                self._unwritten.append(entry)
            raise
        else:
            self.failed = None


def _not_recorded(entry: Entry, error: StoreError) -> NotRecorded:
    if isinstance(entry, StepStarted):
        what = f"step {entry.step} was not started: its start cannot be saved"
    else:
        what = "the result was not used: it cannot be saved"
    then = "resume the conversation when the store works again"
    return NotRecorded(
        f"{what}: {error}", file=error.file, hint="; ".join([*filter(None, [error.hint]), then])
    )


def warn_unrecorded(error: StoreError) -> None:
    """Log a warning in one line, since nothing else fails."""
    message = f"{error} ({error.hint})" if error.hint else str(error)
    _log.warning("the conversation continues unrecorded: %s", message)
