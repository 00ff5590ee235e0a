"""The loop of the agent, without I/O: the model is called when the user or a tool spoke
last, tools are called when it asks for them, and what it says without asking for any ends
it.

    AgentLoop.run → _call_tools → _decisions (a human's, on the tools that ask for one)
                  → _ask        → _must_afford
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from genai_feature_agent.envelope import Envelope
from genai_feature_agent.prompts import prompt_messages
from genai_host.api import (
    AvailableTool,
    CallTools,
    Completion,
    ListTools,
    Message,
    Part,
    Pause,
    Progress,
    Prompt,
    Step,
    ToolCall,
    ToolOutput,
)
from genai_host.errors import GenerationError, LimitExceeded, UnexpectedFinish

APPROVAL = "approval"
"""What a turn waits for while a human decides on calls of tools: the payload is
`{"calls": [{"id", "tool", "arguments"}]}`, the result `{id: true}` for those that may run,
or true for all of them. What else is given lets none run."""

_NAME_SHOWN = 64  # characters; names of tools have no more
_NAMES_SHOWN = 10

_DONE = ("stop", "length", "tool_calls")


@frozen
class Added:
    """What a step has added, for whoever listens: the data of a `Progress`.

    Attributes:
        message: What was said.
        reactions: Of tools.
    """

    message: Message
    reactions: tuple[Mapping[str, Any], ...] = ()


class AgentLoop:
    """Of one turn.

    Args:
        system_prompt: What the model is told before all else.
        round_trips: How often it may be called.
        cost: US dollars that its calls may come to before another one; None for no bound.
        schema: JSON Schema of the answer in the end; None for free text.
    """

    def __init__(
        self,
        system_prompt: str = "",
        round_trips: int = 6,
        cost: float | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        self.value: Any = None
        self._system_prompt = system_prompt
        self._max_round_trips = round_trips
        self._max_cost = cost
        self._schema = schema
        self._tools: dict[str, AvailableTool] = {}
        self._offered_in: Mapping[str, Any] | None = None

    def run(self, envelope: Envelope) -> Generator[Step[Any], Any, Envelope]:
        """Do what there is to do. What needs nothing is returned as it is.

        Raises:
            LimitExceeded: The model would be called too often, or has cost too much.
            UnexpectedFinish: For what is no answer.
            GenerationError: For what is no answer.
        """
        while True:
            if envelope.pending:
                envelope = yield from self.call_tools(envelope)
            elif envelope.needs_model:
                envelope = yield from self._ask(envelope)
            else:
                return envelope

    def call_tools(self, envelope: Envelope) -> Generator[Step[Any], Any, Envelope]:
        """Call the tools that were asked for, all at once, after a human has decided on
        those that ask for it: a turn that waits has done nothing by halves."""
        calls = envelope.pending
        approved, refused = yield from self._decisions(envelope, calls)
        run = [call for call in calls if call.id not in refused]
        outputs: dict[str, ToolOutput] = dict.fromkeys(refused, _REFUSED)
        if run:
            given = yield from CallTools(run, envelope.context, approved)
            outputs.update((call.id, output) for call, output in zip(run, given, strict=True))
        after = envelope.answered(calls, [outputs[call.id] for call in calls])
        new = after.reactions[len(envelope.reactions) :]
        yield Progress(f"called {_names(calls)}", Added(after.messages[-1], new))
        return after

    def _decisions(
        self, envelope: Envelope, calls: Sequence[ToolCall]
    ) -> Generator[Step[Any], Any, tuple[frozenset[str], list[str]]]:
        """Ids of the calls that a human says may run, and of those that may not."""
        yield from self._offer(envelope.context)
        asking = [call for call in calls if self._asks(call)]
        if not asking:
            return frozenset(), []
        told = [
            {"id": call.id, "tool": call.name, "arguments": dict(call.arguments)} for call in asking
        ]
        given = yield from Pause[Any](APPROVAL, {"calls": told})
        approved = frozenset(call.id for call in asking if _is_approved(given, call.id))
        return approved, [call.id for call in asking if call.id not in approved]

    def _asks(self, call: ToolCall) -> bool:
        tool = self._tools.get(call.name)
        return tool is not None and tool.approval == "ask" and not call.malformed

    def _offer(self, context: Mapping[str, Any]) -> Generator[Step[Any], Any, None]:
        """Know the tools that apply in a context."""
        if context is not self._offered_in:
            offered = yield from ListTools(context)
            self._tools = {each.name: each for each in offered}
            self._offered_in = context

    def _ask(self, envelope: Envelope) -> Generator[Step[Any], Any, Envelope]:
        """Call the model."""
        self._must_afford(envelope)
        yield from self._offer(envelope.context)
        completion = yield from Prompt(
            prompt_messages(self._system_prompt, envelope.messages, envelope.context),
            tools=[each.schema for each in self._tools.values()],
            schema=self._schema,
        )
        if completion.finish not in _DONE:
            raise UnexpectedFinish(
                f"the model stopped because of {completion.reason}",
                reason=completion.reason,
                detail=completion.text,
                **completion.place,
            )
        after = evolve(
            envelope,
            round_trips=envelope.round_trips + 1,
            cost=envelope.cost + (completion.cost or 0.0),
        )
        message = _with_own_ids(completion.message)
        if not message.tool_calls and not message.text.strip():
            return self._silent(after, completion)
        self.value = completion.value
        if message.tool_calls:  # else it is the answer, which is told as such
            yield Progress(f"asks for {_names(message.tool_calls)}", Added(message))
        return after.said(message)

    def _must_afford(self, envelope: Envelope) -> None:
        """Looked at before a call, so that no more are made than may be."""
        times = self._max_round_trips
        if envelope.round_trips >= times:
            raise LimitExceeded(
                f"the model was called {times} times, and has not come to an end",
                limit="round_trips",
                hint="ask for less at once, or raise the setting round_trips",
            )
        if self._max_cost is not None and envelope.cost >= self._max_cost:
            raise LimitExceeded(
                f"the turn has cost {envelope.cost:g} US dollars, and has not come to an end",
                limit="cost",
                hint="ask for less at once, or raise the setting cost",
            )

    def _silent(self, envelope: Envelope, completion: Completion) -> Envelope:
        """After tools, some models end by saying nothing; services take no message that is
        empty, so that none is kept."""
        if envelope.messages[-1].role != "tool":
            raise GenerationError(
                "the model said nothing", reason=completion.reason, **completion.place
            )
        return evolve(envelope, ended=True)


_REFUSED = ToolOutput("a human was asked whether this may run, and said no", error=True)


def _is_approved(given: Any, id: str) -> bool:
    return given is True or (isinstance(given, Mapping) and given.get(id) is True)


def _names(calls: Sequence[ToolCall]) -> str:
    """In one line: a model may write anything as a name."""
    return ", ".join(" ".join(call.name.split())[:_NAME_SHOWN] for call in calls[:_NAMES_SHOWN])


def _with_own_ids(message: Message) -> Message:
    """A message whose calls can be told apart: a model may give several of them one id,
    and what a human says of one must not hold for another."""
    ids = [call.id for call in message.tool_calls]
    if all(ids) and len(set(ids)) == len(ids):
        return message
    taken: set[str] = set()
    parts: list[Part] = []
    for part in message.content:
        if isinstance(part, ToolCall):
            id, number = part.id, 0
            while not id or id in taken or (number and id in ids):
                number += 1
                id = f"{part.id or 'call'}-{number}"
            taken.add(id)
            parts.append(evolve(part, id=id))
        else:
            parts.append(part)
    return Message(message.role, parts)
