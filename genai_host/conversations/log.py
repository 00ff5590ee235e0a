"""The event log of an open conversation, and the state that its entries result in."""

from __future__ import annotations

from collections.abc import Iterable

from genai_host.api import Codec, Message
from genai_host.conversations.agents import ConversationAgents
from genai_host.conversations.journal import TurnJournal
from genai_host.conversations.record import Entry, TurnEnded, TurnStarted
from genai_host.conversations.recorder import FailsafeRecorder
from genai_host.conversations.replay import ConversationState
from genai_host.errors import Cancelled, GenaiError, StoreError


class ConversationLog:
    """Records entries, and applies them.

    Args:
        state: The state as of the last recorded entry.
        agents: The agents at that time.
        recorder: Records entries; None if the conversation is not recorded.
        codec: Encodes the results of steps.

    Attributes:
        pending: The unfinished turn and its steps; None if there is none.
    """

    def __init__(
        self,
        state: ConversationState,
        agents: ConversationAgents,
        recorder: FailsafeRecorder | None,
        codec: Codec,
    ) -> None:
        self.state = state
        self.agents = agents
        self.pending: tuple[TurnStarted, TurnJournal] | None = None
        self._recorder = recorder
        self._codec = codec
        if state.pending:
            started, *steps = state.pending
            assert isinstance(started, TurnStarted)  # only `TurnStarted` begins a turn
            self.pending = started, self.journal(started, steps)

    @property
    def error(self) -> StoreError | None:
        """Why the conversation is not recorded; None if it is."""
        return None if self._recorder is None else self._recorder.failed

    def journal(self, started: TurnStarted, steps: Iterable[Entry] = ()) -> TurnJournal:
        """The journal of a turn, with its recorded steps."""
        return TurnJournal(started.turn, self._recorder, self._codec, steps)

    def append(self, entry: Entry, agents: ConversationAgents | None = None) -> None:
        """Record an entry, then apply it.

        Args:
            entry: The entry.
            agents: The new agents, if they change.
        """
        try:
            if self._recorder is not None:
                self._recorder.append(entry)
        except BaseException as error:
            # an interrupt: the entry may be recorded, so apply it; see `FailsafeRecorder`
            if not isinstance(error, Exception) and not isinstance(entry, TurnStarted):
                self._apply(entry, agents)
            raise
        self._apply(entry, agents)

    def abandon(self, reason: GenaiError | None = None) -> Message:
        """End the unfinished turn, and return its message."""
        assert self.pending is not None  # checked by the caller
        started, _ = self.pending
        self.append(TurnEnded(started.turn, error=reason or Cancelled("dropped")))
        return started.message

    def flush(self) -> None:
        """Record what could not be recorded so far. Raises the errors of
        `FailsafeRecorder.flush`."""
        if self._recorder is not None:
            self._recorder.flush()

    def _apply(self, entry: Entry, agents: ConversationAgents | None) -> None:
        self.state.add(entry)
        self.agents = agents or self.agents
        self.agents.main.reset(self.state.history)
        if isinstance(entry, TurnEnded):
            self.pending = None
