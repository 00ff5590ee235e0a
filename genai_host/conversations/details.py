"""Details, usage and cost that a turn adds up to.

A `Detail` shows a step behind an answer, and is made from recorded data only. `TurnUsage` adds up
the steps of a turn and enforces its `TurnLimits`. It is thread-safe, since steps can run in
parallel.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from genai_host.api import (
    CallFunction,
    CallTool,
    Citation,
    Codec,
    Completion,
    Cost,
    CountTokens,
    Detail,
    Embed,
    Embeddings,
    Image,
    Message,
    Moderate,
    ModerationResult,
    Pause,
    Prompt,
    RouteInfo,
    Step,
    TokenCount,
    ToolOutput,
)
from genai_host.api.messages import NO_USAGE
from genai_host.api.results import cost_of_call
from genai_host.api.services import TurnLimits
from genai_host.calls.retry import Attempt
from genai_host.conversations.record import StepPath
from genai_host.errors import GenaiError, LimitExceeded
from genai_host.util.text import shorten

_Described = tuple[str, dict[str, Any]]
"""Title and data of a detail."""


def detail_of(
    step: Step[Any], result: Any, error: GenaiError | None, new: Sequence[Message], codec: Codec
) -> Detail | None:
    """The detail of a step, from recorded data only; None if it has none. Messages of a prompt
    that are not `new`, as they are in the history or in earlier prompts, are omitted, so that
    details grow linearly."""
    describe = _DESCRIBERS.get(type(step))
    if describe is None:
        return None
    title, data = describe(step, result, codec)
    if isinstance(step, Prompt):
        data["added"] = codec.to_json(new)
    if error is not None:
        data["error"] = codec.to_json(error)
        title += f" failed: {error}"
    return Detail(step.step, title, data)


def _of_prompt(step: Prompt, completion: Completion | None, codec: Codec) -> _Described:
    data: dict[str, Any] = {"role": step.role, "messages": len(step.messages), "added": []}
    if step.parameters:
        data["parameters"] = dict(step.parameters)
    if step.tools:
        data["tools"] = [tool.name for tool in step.tools]
    if step.schema is not None:
        data["schema"] = dict(step.schema)
    if completion is None:
        return f"prompt of {step.role}", data
    data |= _of_route(completion.route)
    data["answer"] = codec.to_json(completion.message)
    data["finish"] = completion.finish
    data["usage"] = codec.to_json(completion.usage)
    data |= _of_call(completion)
    if completion.raw_reply:
        data["raw_reply"] = completion.raw_reply
    return f"prompt of {step.role} to {_named(completion.route)}", data


def _of_count(step: CountTokens, count: TokenCount | None, codec: Codec) -> _Described:
    data: dict[str, Any] = {"role": step.prompt.role, "messages": len(step.prompt.messages)}
    if count is None:
        return "count of tokens", data
    data |= _of_route(count.route)
    data |= {"tokens": count.tokens, "seconds": count.seconds}
    return f"count of tokens by {_named(count.route)}", data


def _of_embed(step: Embed, vectors: Embeddings | None, codec: Codec) -> _Described:
    data: dict[str, Any] = {"role": step.role, "texts": len(step.texts)}
    if vectors is None:
        return "embedding", data
    data |= _of_route(vectors.route)
    data["usage"] = codec.to_json(vectors.usage)
    data |= _of_call(vectors)
    return f"embedding by {_named(vectors.route)}", data


def _of_moderate(step: Moderate, verdict: ModerationResult | None, codec: Codec) -> _Described:
    data: dict[str, Any] = {"role": step.role, "text": step.text}
    if verdict is None:
        return "moderation", data
    data |= _of_route(verdict.route)
    data["flagged"] = verdict.flagged
    data["categories"] = dict(verdict.categories)
    data |= _of_call(verdict)
    return f"moderation by {_named(verdict.route)}", data


def _of_function(step: CallFunction[Any], result: Any, codec: Codec) -> _Described:
    data = {"arguments": codec.to_json(step.arguments), "result": codec.to_json(result)}
    return f"call of {step.function.__qualname__}", data


def _of_tool(step: CallTool, output: ToolOutput | None, codec: Codec) -> _Described:
    call = step.call
    data: dict[str, Any] = {"tool": call.name, "id": call.id}
    data["arguments"] = call.malformed or codec.to_json(call.arguments)
    title = shorten(f"tool {call.name}")
    if output is None:
        return title, data
    data["text"] = output.text
    data["failed"] = output.error
    images = sum(isinstance(part, Image) for part in output.content)
    if images:
        data["images"] = images
    if output.reactions:
        data["reactions"] = codec.to_json(output.reactions)
    return f"{title} failed" if output.error else title, data


def _of_wait(step: Pause[Any], result: Any, codec: Codec) -> _Described:
    data = {"payload": codec.to_json(step.payload), "result": codec.to_json(result)}
    return f"waited for {step.kind}", data


def _of_call(result: Completion | Embeddings | ModerationResult) -> dict[str, float]:
    """Duration of a call in seconds, and its cost in US dollars if known."""
    cost = {} if result.cost is None else {"cost": result.cost}
    return {"seconds": result.seconds, **cost}


def _of_route(route: RouteInfo | None) -> dict[str, str]:
    if route is None:
        return {}
    asked = {"configuration": route.configuration} if route.configuration else {}
    return {"model": route.model, "provider": route.provider, "dialect": route.dialect, **asked}


def _named(route: RouteInfo | None) -> str:
    if route is None:
        return "a model"
    asked = f"{route.configuration}, which is " if route.configuration else ""
    return f"{asked}{route.model}@{route.provider}"


_DESCRIBERS: Mapping[type[Step[Any]], Callable[..., _Described]] = {
    Prompt: _of_prompt,
    CountTokens: _of_count,
    Embed: _of_embed,
    Moderate: _of_moderate,
    CallFunction: _of_function,
    CallTool: _of_tool,
    Pause: _of_wait,
}


_RESULTS = (Completion, TokenCount, Embeddings, ModerationResult)
"""Results of models."""
_CALLS = (Prompt, Embed, Moderate)
"""Steps that call models, which can cost something."""
_BEFORE = 4  # messages allowed before the history, such as instructions


class TurnUsage:
    """Counts the steps of a turn, with usage and cost. Thread-safe.

    Attributes:
        usage: Tokens used, including failed calls if reported.
    """

    def __init__(self, history: Iterable[Message], turn_limits: TurnLimits, codec: Codec) -> None:
        self.usage = NO_USAGE
        self._limits = turn_limits
        self._codec = codec
        self._lock = threading.Lock()
        self._round_trips = 0
        self._steps = 0
        self._has_unknown_cost = False
        self._details: dict[StepPath, Detail] = {}
        self._costs: dict[StepPath, Cost] = {}
        self._completions: dict[StepPath, Completion] = {}
        self._images: dict[StepPath, list[Image]] = {}
        self._shown = tuple(history)
        self._new: list[Message] = []

    @property
    def details(self) -> list[Detail]:
        """Details, in the order of the steps."""
        return [self._details[path] for path in sorted(self._details)]

    @property
    def images(self) -> list[Image]:
        """Images of tools, in the order of their calls."""
        return [each for path in sorted(self._images) for each in self._images[path]]

    @property
    def cost(self) -> Cost:
        """Cost of all model calls, including failed ones."""
        return sum((self._costs[path] for path in sorted(self._costs)), Cost())

    @property
    def completion(self) -> Completion | None:
        """The last completion, in the order of the steps."""
        return self._completions[max(self._completions)] if self._completions else None

    def citations_of(self, text: str) -> tuple[Citation, ...]:
        """Citations of the last completion with this text."""
        for path in sorted(self._completions, reverse=True):
            message = self._completions[path].message
            if message.text == text:
                return message.citations
        return ()

    def count(self, step: Step[Any]) -> None:
        """Count a step before it starts. Raises `LimitExceeded` if it must not start."""
        self.count_past(step)
        limits = self._limits
        if self._steps > limits.steps:
            raise LimitExceeded(f"turn stopped after {limits.steps} steps", limit="steps")
        most = limits.max_model_calls
        if self._round_trips > most:
            raise LimitExceeded(
                f"turn reached its limit of model calls (max_model_calls={most}) without an answer",
                limit="max_model_calls",
            )
        if limits.cost is not None and isinstance(step, _CALLS):
            self._must_afford(limits.cost)

    def count_past(self, step: Step[Any]) -> None:
        """Count a recorded step, without checking limits."""
        with self._lock:
            self._steps += 1
            self._round_trips += isinstance(step, _CALLS)

    def enter(
        self, step: Step[Any], path: StepPath, outcome: Any, failed: Sequence[Attempt] = ()
    ) -> Detail | None:
        """Add a step that has ended; returns its detail."""
        error = outcome if isinstance(outcome, GenaiError) else None
        result = None if error else outcome
        new = self._not_shown(step.messages) if isinstance(step, Prompt) else ()
        detail = detail_of(step, result, error, new, self._codec)
        with self._lock:
            self._new.extend(new)
            if isinstance(result, Completion):
                self._new.append(result.message)
                self._completions[path] = result
            elif isinstance(result, ToolOutput):
                found = [part for part in result.content if isinstance(part, Image)]
                self._images[path] = found
            charged = [each for each in failed if each.cost != 0.0]
            calls = [*charged, result] if isinstance(result, _RESULTS) else charged
            for call in calls:
                if not isinstance(call, (TokenCount, ModerationResult)):
                    self.usage += call.usage
            if isinstance(result, _RESULTS) and result.cost is None:
                self._has_unknown_cost = True
            if calls:
                costs = [cost_of_call(call.cost) for call in calls]
                self._costs[path] = costs[0] if len(costs) == 1 else sum(costs, Cost())
            if detail is not None:
                self._details[path] = detail
        return detail

    def close(self) -> None:
        """Mark the end of parallel steps. Only now their messages count as shown, so that details
        do not depend on which step ended first."""
        self._shown += tuple(self._new)
        self._new.clear()

    def _must_afford(self, most: float) -> None:
        cost = self.cost
        if cost.dollars >= most:
            least = "at least " if cost.unknown else ""
            raise LimitExceeded(
                f"turn stopped: cost {least}{cost.dollars:.4g} of {most:g} US dollars",
                limit="cost",
                hint="raise the limit, or ask for less in one turn",
            )
        if self._has_unknown_cost and not self._limits.allow_unknown_cost:
            raise LimitExceeded(
                f"turn stopped: limit {most:g} US dollars, and the cost of a call is unknown",
                limit="cost",
                hint='install the price list: pip install "genai-host[prices]"; '
                "or set TurnLimits.max_model_calls in place of cost",
            )

    def _not_shown(self, messages: Sequence[Message]) -> Sequence[Message]:
        shown = self._shown
        for start in range(min(len(messages), _BEFORE) if shown else 0):
            end = start + len(shown)
            if messages[start:end] == shown:  # fast if they are the same objects
                return (*messages[:start], *messages[end:])
        known = set(map(id, shown))
        return [message for message in messages if id(message) not in known]
