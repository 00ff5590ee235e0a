"""The event log of an open conversation, the state that its entries result in, and its agents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from genai_host.api import Codec, Feature, Message, schema_of
from genai_host.api.settings import read_settings
from genai_host.calls.agent import Agent
from genai_host.catalog.catalog import ModelChoice
from genai_host.conversations.journal import TurnJournal
from genai_host.conversations.record import Entry, TurnEnded, TurnStarted
from genai_host.conversations.recorder import FailsafeRecorder
from genai_host.conversations.replay import ConversationState
from genai_host.errors import Cancelled, GenaiError, InvalidParameter, NoRoute, StoreError

MakeAgent = Callable[[str, str | ModelChoice, Mapping[str, Any]], Agent]
"""Creates an agent from a role, a model name or the model selected before, and parameters."""


class ConversationAgents:
    """The agents of a conversation; immutable, a change creates another object.

    Args:
        keep_unavailable: Keep the name of a model that cannot run, as `unavailable`: a conversation
            can be shown, changed and undone without its model.

    Attributes:
        unavailable: Whether a model cannot run. No turn can start.

    Raises:
        NoRoute: No provider can run a model.
        InvalidParameter: A model parameter is invalid.
        ConfigurationError: A role is unknown, or a setting is invalid.
    """

    def __init__(
        self,
        feature: Feature[Any],
        make_agent: MakeAgent,
        models: Mapping[str, str | ModelChoice],
        parameters: Mapping[str, Any],
        settings: Mapping[str, Any],
        history: Iterable[Message],
        *,
        keep_unavailable: bool = False,
    ) -> None:
        self.unavailable = False
        self.parameters = dict(parameters)
        self.given = dict(settings)
        self.settings = read_settings(feature.settings, settings, owner=f"feature {feature.name}")
        self.agents: dict[str, Agent] = {}
        for role, name in models.items():
            try:
                agent = make_agent(role, name, parameters if role == "main" else {})
            except (NoRoute, InvalidParameter):
                if not keep_unavailable or isinstance(name, str):
                    raise
                agent, self.unavailable = Agent(role, (), choice=name), True
            self.agents[role] = agent
        self.models = {role: each.choice for role, each in self.agents.items() if each.choice}
        # it owns the history, even if the feature sends no prompts
        self.main = self.agents.setdefault("main", Agent("main", ()))
        self.main.reset(history)

    @property
    def roles(self) -> frozenset[str]:
        return frozenset(role for role, agent in self.agents.items() if agent.routes)

    def schema_of(self, output_type: Any) -> dict[str, Any]:
        """The schema to record: in the dialect of the first route."""
        routes = [route for each in (self.main, *self.agents.values()) for route in each.routes]
        return schema_of(output_type, routes[0].info.dialect if routes else "")


class ConversationLog:
    """Records entries, and applies them.

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
        return TurnJournal(started.turn, self._recorder, self._codec, steps)

    def append(self, entry: Entry, agents: ConversationAgents | None = None) -> None:
        """Record an entry, then apply it."""
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
