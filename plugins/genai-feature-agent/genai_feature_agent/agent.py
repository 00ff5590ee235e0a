"""The turn of an agent."""

from __future__ import annotations

from typing import Any

from attrs import evolve, field, frozen
from attrs import validators as must

from genai_feature_agent.loop import AgentLoop, Envelope
from genai_feature_agent.reactions import all_reactions
from genai_host.api import Answer, FeatureSteps, Text, ToolResult, Turn, about


@frozen
class Settings:
    system_prompt: str = field(
        default="You are a helpful assistant. Use the tools you are given where they help.",
        metadata=about("system prompt; empty for the built-in instructions only"),
    )
    round_trips: int = field(
        default=6,
        validator=must.ge(1),
        metadata=about("maximum number of model calls in a turn"),
    )
    cost: float | None = field(
        default=None,
        validator=must.optional(must.gt(0)),
        metadata=about(
            "cost in US dollars after which a turn makes no further model call; no limit if not set"
        ),
    )
    history_messages: int = field(
        default=1000,
        validator=must.ge(1),
        metadata=about("maximum number of messages in the history of a request"),
    )
    characters: int = field(
        default=1_000_000,
        validator=must.ge(1),
        metadata=about("maximum number of characters of a request, including history and context"),
    )


def respond(turn: Turn[Settings]) -> FeatureSteps:
    """Answer with all messages of the turn, and with the actions for the front end as
    `Answer.data`: `{"reactions": [...]}`, unless the caller requested an output type.

    Pending calls at the end of the history run before the message of the user is added. With
    pending calls the message may be empty, because an approval needs no text.
    """
    settings = turn.settings
    loop = AgentLoop(settings.system_prompt, settings.round_trips, settings.cost, turn.schema)
    envelope = Envelope(turn.history, turn.context)
    is_silent = bool(envelope.pending) and all(part == Text("") for part in turn.message.content)
    if envelope.pending:
        envelope = yield from loop.call_tools(envelope)
    if not is_silent:
        envelope = evolve(envelope.with_message(turn.message), ended=False)
    envelope = yield from loop.run(envelope)
    reactions = all_reactions(envelope.messages, envelope.reactions)
    data: Any = {"reactions": reactions} if turn.schema is None else loop.value
    new_messages = envelope.messages[len(turn.history) :]
    return Answer(_summary(envelope, reactions), data=data, new_messages=new_messages)


def _summary(envelope: Envelope, reactions: list[dict[str, Any]]) -> str:
    """Return the last text of the assistant; without any, the output of the tool that ended the
    turn.
    """
    count = len(reactions) - len(envelope.reactions)
    texts = [reaction["message"] for reaction in reactions[:count]]
    if not texts:
        parts = envelope.messages[-1].content
        results = [each for each in parts if isinstance(each, ToolResult)]
        texts = [part.text for each in results for part in each.content if hasattr(part, "text")]
    return "\n".join(texts)
