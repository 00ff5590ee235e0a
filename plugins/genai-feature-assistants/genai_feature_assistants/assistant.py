"""The feature `assistant`: what a run of an assistant says and asks for, without I/O.

    respond → Prompt → Wait("tools") for the calls of tools → Prompt ... → Answer

The tools are the server's to run, or its client's: a turn pauses for what comes of them, and
goes on from its record, in whatever process.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from genai_host.api import (
    Answer,
    Completion,
    FeatureSteps,
    Message,
    NoSettings,
    Pause,
    Prompt,
    Step,
    Text,
    ToolCall,
    ToolOutput,
    ToolResult,
    ToolSchema,
    Turn,
    Usage,
    tool_message,
)
from genai_host.api.json_text import write_json
from genai_host.errors import ContextOverflow, GenerationError, UnexpectedFinish

TOOLS = "tools"
"""What a turn waits for: the payload is `{"round", "text", "usage", "calls": [{"id", "name",
"arguments"}]}`, arguments as JSON text, the result `{id: output}`, each a text."""

_LEAST_OUTPUT = 400  # characters that are not made less
_DONE = ("stop", "length", "tool_calls")


@frozen
class Context:
    """What a run is to do: the context of its turn.

    tools            that the model may ask for: `{"name", "description", "parameters"}`
    tool_choice      of the first prompt: `auto`, `none`, `required` or the name of one
    parallel         whether it may ask for several at once
    most_completion  tokens that all answers may have; None for no bound
    most_prompt      the same for prompts
    drops            whether the oldest is left out where it is too much for the model
    """

    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: str | None = None
    parallel: bool = True
    most_completion: int | None = None
    most_prompt: int | None = None
    drops: bool = True


def respond(turn: Turn[NoSettings]) -> FeatureSteps:
    """Answer with what is known of it as `Answer.state`: `{"round", "usage", "incomplete"}`: the
    number of rounds with tools that went before, the tokens of the last prompt, and which bound
    ended it, if one did."""
    run = _Run(turn, Context(**turn.context))
    while True:
        completion = yield from run.ask()
        if not completion.message.tool_calls or run.incomplete:
            return run.answer(completion)
        yield from run.call_tools(completion)


class _Run:
    def __init__(self, turn: Turn[NoSettings], context: Context) -> None:
        self.incomplete = ""
        self._context = context
        self._schema = turn.schema
        self._system = [each for each in turn.history[:1] if each.role == "system"]
        self._before = list(turn.history[len(self._system) :])
        self._since = [turn.message]
        self._rounds = 0
        self._used = Usage()
        self._ids: set[str] = set()

    def ask(self) -> Generator[Step[Any], Any, Completion]:
        """What the model says to all that was said so far."""
        completion = yield from self._fitting()
        if completion.finish not in _DONE:
            raise UnexpectedFinish(
                f"the model stopped because of {completion.reason}",
                reason=completion.reason,
                detail=completion.text,
                **completion.place,
            )
        self._used = self._used + completion.usage
        self.incomplete = self._bound(completion)
        if not self._context.parallel:
            completion = evolve(completion, message=_with_one_call(completion.message))
        return completion

    def answer(self, completion: Completion) -> Answer:
        """What a completion ends it with."""
        if not completion.text.strip() and not self._rounds and not self.incomplete:
            raise GenerationError(
                "the model said nothing", reason=completion.reason, **completion.place
            )
        known = {
            "round": self._rounds,
            "usage": _told(completion.usage),
            "incomplete": self.incomplete,
        }
        return Answer(completion.text, data=completion.value, state=known)

    def call_tools(self, completion: Completion) -> Generator[Step[Any], Any, None]:
        message = _with_own_ids(completion.message, self._rounds, self._ids)
        calls = message.tool_calls
        told = [{"id": call.id, "name": call.name, "arguments": _arguments(call)} for call in calls]
        given = yield from Pause[Any](
            TOOLS,
            {
                "round": self._rounds,
                "text": message.text,
                "usage": _told(completion.usage),
                "calls": told,
            },
        )
        outputs = [ToolOutput(str(given.get(call.id, ""))) for call in calls]
        self._since += [message, tool_message(calls, outputs)]
        self._rounds += 1

    def _fitting(self) -> Generator[Step[Any], Any, Completion]:
        """Ask; again with less where it is too much: half of what was said before, or, when
        nothing of that is left, half of what each tool gave."""
        while True:
            try:
                return (yield from self._prompt())
            except ContextOverflow:
                if not self._context.drops:
                    raise
                if self._before:
                    self._before = self._before[(len(self._before) + 1) // 2 :]
                    continue
                shorter = [_with_half_of_outputs(each) for each in self._since]
                if shorter == self._since:
                    raise
                self._since = shorter

    def _prompt(self) -> Prompt:
        context = self._context
        most = context.most_completion
        parameters = {} if most is None else {"max_tokens": max(1, most - self._used.output)}
        return Prompt(
            [*self._system, *self._before, *self._since],
            tools=[ToolSchema(**each) for each in context.tools],
            tool_choice=None if self._rounds else context.tool_choice,
            schema=self._schema,
            parameters=parameters,
        )

    def _bound(self, completion: Completion) -> str:
        """The bound that has been reached, as the API names it."""
        context, used = self._context, self._used
        if completion.finish == "length":
            return "max_completion_tokens"
        if not completion.message.tool_calls:
            return ""
        if context.most_completion is not None and used.output >= context.most_completion:
            return "max_completion_tokens"
        is_over = context.most_prompt is not None and used.input >= context.most_prompt
        return "max_prompt_tokens" if is_over else ""


def _told(usage: Usage) -> dict[str, int]:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
    }


def _arguments(call: ToolCall) -> str:
    return call.malformed or write_json(dict(call.arguments)).decode()


def _with_half_of_outputs(message: Message) -> Message:
    parts = [_half(each) if isinstance(each, ToolResult) else each for each in message.content]
    return evolve(message, content=parts)


def _half(result: ToolResult) -> ToolResult:
    text = "".join(each.text for each in result.content if isinstance(each, Text))
    if len(text) < _LEAST_OUTPUT:
        return result
    return evolve(result, content=[Text(f"{text[: len(text) // 2]} [...]")])


def _with_one_call(message: Message) -> Message:
    later = message.tool_calls[1:]
    return evolve(message, content=[part for part in message.content if part not in later])


def _with_own_ids(message: Message, round: int, seen: set[str]) -> Message:
    """A message whose calls can be told apart from any others of the run.

    seen   the ids of those; gets these
    """
    parts = []
    number = 0
    for part in message.content:
        if isinstance(part, ToolCall):
            if not part.id or part.id in seen:
                part = evolve(part, id=f"{part.id or 'call'}-{round}-{number}")
            seen.add(part.id)
            number += 1
        elif isinstance(part, Text) and not part.text:
            continue
        parts.append(part)
    return Message(message.role, parts)
