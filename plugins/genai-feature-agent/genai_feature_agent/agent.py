"""How an agent answers."""

from __future__ import annotations

from typing import Any

from attrs import evolve, field, frozen
from attrs import validators as must

from genai_feature_agent.envelope import Envelope
from genai_feature_agent.loop import AgentLoop
from genai_feature_agent.reactions import all_reactions
from genai_host.api import Answer, FeatureSteps, Text, ToolResult, Turn, about


@frozen
class Settings:
    system_prompt: str = field(
        default="You are a helpful assistant. Use the tools you are given where they help.",
        metadata=about("what the model is told before all else; empty for nothing of yours"),
    )
    round_trips: int = field(
        default=6,
        validator=must.ge(1),
        metadata=about("how often the model may be called in one turn"),
    )
    cost: float | None = field(
        default=None,
        validator=must.optional(must.gt(0)),
        metadata=about(
            "US dollars after which it is not called again in a turn; no bound unless set"
        ),
    )
    history_messages: int = field(
        default=1000,
        validator=must.ge(1),
        metadata=about("how many messages the history of a request may have"),
    )
    characters: int = field(
        default=1_000_000,
        validator=must.ge(1),
        metadata=about("how many characters a request may say, its history and context included"),
    )


def respond(turn: Turn[Settings]) -> FeatureSteps:
    """Answer with all that is said on the way, and with what the front end is to do, as
    `Answer.data`: `{"reactions": [...]}`, unless other data is asked for.

    Calls that a history ends with are made before the user is listened to. With them, the user
    may say nothing: who approves of a call has said what there is to say.
    """
    settings = turn.settings
    loop = AgentLoop(settings.system_prompt, settings.round_trips, settings.cost, turn.schema)
    envelope = Envelope(turn.history, turn.context)
    is_silent = bool(envelope.pending) and all(part == Text("") for part in turn.message.content)
    if envelope.pending:
        envelope = yield from loop.call_tools(envelope)
    if not is_silent:
        envelope = evolve(envelope.said(turn.message), ended=False)
    envelope = yield from loop.run(envelope)
    reactions = all_reactions(envelope.messages, envelope.reactions)
    data: Any = {"reactions": reactions} if turn.schema is None else loop.value
    adds = envelope.messages[len(turn.history) :]
    return Answer(_summary(envelope, reactions), data=data, adds=adds)


def _summary(envelope: Envelope, reactions: list[dict[str, Any]]) -> str:
    """What the assistant said; if a tool has ended the turn before it said anything, what
    that gave."""
    count = len(reactions) - len(envelope.reactions)
    texts = [reaction["message"] for reaction in reactions[:count]]
    if not texts:
        parts = envelope.messages[-1].content
        results = [each for each in parts if isinstance(each, ToolResult)]
        texts = [part.text for each in results for part in each.content if hasattr(part, "text")]
    return "\n".join(texts)
