"""The state that a turn carries from step to step: the messages, and the next action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

from genai_host.api import Message, ToolCall, ToolOutput, ToolResult, tool_message


def _messages(given: Sequence[Message]) -> tuple[Message, ...]:
    return tuple(given)


@frozen
class Envelope:
    """State of a turn. Immutable: each change returns a new object.

    Attributes:
        messages: All messages, oldest first.
        context: JSON from the front end, or from the tool that replaced it.
        reactions: Reactions of the tools called in this turn, in the order of the calls.
        round_trips: Number of model calls in this turn.
        cost: Cost of these calls in US dollars; calls of unknown cost count as free.
        ended: Whether the model is not called again in this turn.
    """

    messages: tuple[Message, ...] = field(default=(), converter=_messages)
    context: Mapping[str, Any] = field(factory=dict)
    reactions: tuple[Mapping[str, Any], ...] = ()
    round_trips: int = 0
    cost: float = 0.0
    ended: bool = False

    @property
    def pending(self) -> tuple[ToolCall, ...]:
        """Tool calls of the last model message that have no output yet."""
        answered: set[str] = set()
        for message in reversed(self.messages):
            if message.role != "tool":
                asked = message.tool_calls if message.role == "assistant" else ()
                return tuple(call for call in asked if call.id not in answered)
            results = (part for part in message.content if isinstance(part, ToolResult))
            answered.update(result.id for result in results)
        return ()

    @property
    def needs_model(self) -> bool:
        """Whether the model must be called next."""
        return bool(self.messages) and self.messages[-1].role in ("user", "tool") and not self.ended

    def with_message(self, message: Message) -> Envelope:
        """Return a copy with one more message."""
        return evolve(self, messages=(*self.messages, message))

    def answered(self, calls: Sequence[ToolCall], outputs: Sequence[ToolOutput]) -> Envelope:
        """Return a copy with an output for each call, in the order of the calls. The last context
        that an output contains replaces the current one.
        """
        contexts = [self.context, *(each.context for each in outputs if each.context is not None)]
        reactions = [reaction for output in outputs for reaction in output.reactions]
        return evolve(
            self.with_message(tool_message(calls, outputs)),
            context=contexts[-1],
            reactions=(*self.reactions, *reactions),
            ended=any(output.ends for output in outputs),
        )
