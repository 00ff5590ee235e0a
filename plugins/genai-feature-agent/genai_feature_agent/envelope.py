"""What a turn carries from step to step: what was said, and what is to be done next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

from genai_host.api import Message, ToolCall, ToolOutput, ToolResult, tool_message


def _messages(given: Sequence[Message]) -> tuple[Message, ...]:
    return tuple(given)


@frozen
class Envelope:
    """Never changed: what happens makes another one.

    Attributes:
        messages: All that was said, oldest first.
        context: JSON from the front end, or from the tool that replaced it.
        reactions: Of the tools that were called in this turn, in the order of the calls.
        round_trips: How often the model was called in this turn.
        cost: Of these calls, US dollars; those whose cost is not known are free.
        ended: Whether the model is not to be asked again in this turn.
    """

    messages: tuple[Message, ...] = field(default=(), converter=_messages)
    context: Mapping[str, Any] = field(factory=dict)
    reactions: tuple[Mapping[str, Any], ...] = ()
    round_trips: int = 0
    cost: float = 0.0
    ended: bool = False

    @property
    def pending(self) -> tuple[ToolCall, ...]:
        """The calls that the model asked for last, as far as they are not answered."""
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
        """Whether it is the model's turn to speak."""
        return bool(self.messages) and self.messages[-1].role in ("user", "tool") and not self.ended

    def said(self, message: Message) -> Envelope:
        """The same after somebody has spoken."""
        return evolve(self, messages=(*self.messages, message))

    def answered(self, calls: Sequence[ToolCall], outputs: Sequence[ToolOutput]) -> Envelope:
        """The same after tools were called: an output for each call, in their order. The
        last context that one of them gives holds from here on."""
        contexts = [self.context, *(each.context for each in outputs if each.context is not None)]
        reactions = [reaction for output in outputs for reaction in output.reactions]
        return evolve(
            self.said(tool_message(calls, outputs)),
            context=contexts[-1],
            reactions=(*self.reactions, *reactions),
            ended=any(output.ends for output in outputs),
        )
