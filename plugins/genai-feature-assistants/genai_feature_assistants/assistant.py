"""The feature `assistant`: the turn of a run, without I/O.

    respond → Prompt → Pause("tools") for the calls of tools → Prompt ... → Answer

Tools are run by the server or by its client. The turn pauses for their outputs, and resumes from
its event log, in any process.
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
    Part,
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
    write_json,
)
from genai_host.errors import ContextOverflow

TOOLS = "tools"
"""What a turn waits for: the payload is `{"round", "text", "usage", "calls": [{"id", "name",
"arguments"}]}`, arguments as JSON text, the result `{id: output}`, each a text."""

_MIN_OUTPUT = 400  # characters that are not made less


@frozen
class RunContext:
    """The context of the turn of a run.

    Attributes:
        tools: Tools for the model: `{"name", "description", "parameters"}`.
        tool_choice: For the first prompt: `auto`, `none`, `required` or a name.
        parallel: Whether the model may make several calls at once.
        most_completion: Token limit of all answers together; None for no limit.
        most_prompt: Token limit of all prompts together; None for no limit.
        drops: Whether the oldest messages are left out if the prompt is too large.
    """

    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: str | None = None
    parallel: bool = True
    most_completion: int | None = None
    most_prompt: int | None = None
    drops: bool = True


def respond(turn: Turn[NoSettings]) -> FeatureSteps:
    """Answer a message, with calls of tools.

    `Answer.state` is `{"round", "usage", "incomplete"}`: the number of rounds with tools, the
    tokens
    of the last prompt, and the limit that ended the turn, if any.
    """
    run = _Run(turn, RunContext(**turn.context))
    while True:
        completion = yield from run.ask()
        if not completion.message.tool_calls or run.incomplete:
            return run.answer(completion)
        yield from run.call_tools(completion)


class _Run:
    def __init__(self, turn: Turn[NoSettings], context: RunContext) -> None:
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
        """Prompt the model with all messages so far."""
        completion = yield from self._fitting()
        completion.check_finish("stop", "length", "tool_calls")
        self._used = self._used + completion.usage
        self.incomplete = self._bound(completion)
        if not self._context.parallel:
            later = completion.tool_calls[1:]
            content = [part for part in completion.message.content if part not in later]
            completion = evolve(completion, message=evolve(completion.message, content=content))
        return completion

    def answer(self, completion: Completion) -> Answer:
        """Return the answer of the turn."""
        if not self._rounds and not self.incomplete:
            completion.check_text()
        known = {
            "round": self._rounds,
            "usage": _usage_json(completion.usage),
            "incomplete": self.incomplete,
        }
        return Answer(completion.text, data=completion.value, state=known)

    def call_tools(self, completion: Completion) -> Generator[Step[Any], Any, None]:
        message = _with_own_ids(completion.message, self._rounds, self._ids)
        calls = message.tool_calls
        call_data = [
            {
                "id": call.id,
                "name": call.name,
                "arguments": call.malformed or write_json(dict(call.arguments)).decode(),
            }
            for call in calls
        ]
        payload = {
            "round": self._rounds,
            "text": message.text,
            "usage": _usage_json(completion.usage),
            "calls": call_data,
        }
        given = yield from Pause[Any](TOOLS, payload)
        outputs = [ToolOutput(str(given.get(call.id, ""))) for call in calls]
        self._since += [message, tool_message(calls, outputs)]
        self._rounds += 1

    def _fitting(self) -> Generator[Step[Any], Any, Completion]:
        """Prompt, and shorten the prompt while it is too large.

        First the older half of the earlier messages is left out, then half of each output of a
        tool.
        """
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
        parameters = {} if most is None else {"max_tokens": max(1, most - self._used.output_tokens)}
        return Prompt(
            [*self._system, *self._before, *self._since],
            tools=[ToolSchema(**each) for each in context.tools],
            tool_choice=None if self._rounds else context.tool_choice,
            schema=self._schema,
            parameters=parameters,
        )

    def _bound(self, completion: Completion) -> str:
        """Return the limit that was reached, as the API names it."""
        context, used = self._context, self._used
        if completion.finish == "length":
            return "max_completion_tokens"
        if not completion.message.tool_calls:
            return ""
        if context.most_completion is not None and used.output_tokens >= context.most_completion:
            return "max_completion_tokens"
        is_over = context.most_prompt is not None and used.input_tokens >= context.most_prompt
        return "max_prompt_tokens" if is_over else ""


def _usage_json(usage: Usage) -> dict[str, int]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total,
    }


def _with_half_of_outputs(message: Message) -> Message:
    return evolve(message, content=[_half(each) for each in message.content])


def _half(result: Part) -> Part:
    if not isinstance(result, ToolResult):
        return result
    text = "".join(each.text for each in result.content if isinstance(each, Text))
    if len(text) < _MIN_OUTPUT:
        return result
    return evolve(result, content=[Text(f"{text[: len(text) // 2]} [...]")])


def _with_own_ids(message: Message, round: int, seen: set[str]) -> Message:
    """Return a message whose calls have ids that are unique in the run; `seen` collects them."""
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
    return evolve(message, content=parts)
