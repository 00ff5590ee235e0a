"""What is behind an answer: a `Detail` for each step that a person may ask about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from genai_host.api import (
    CallFunction,
    CallTool,
    Codec,
    Completion,
    CountTokens,
    Detail,
    Embed,
    Image,
    Message,
    Moderate,
    Prompt,
    RouteInfo,
    Step,
    TokenCount,
    ToolOutput,
    Vectors,
    Verdict,
    Wait,
)
from genai_host.errors import GenaiError
from genai_host.telling import one_line


def detail_of(
    step: Step[Any],
    result: Any,
    error: GenaiError | None,
    new: Sequence[Message],
    codec: Codec,
) -> Detail | None:
    """What is to be told of a step, made from what is on record and nothing else;
    None if nothing is.

    new   the messages of a prompt that are not known from the history or from the prompts
          before. The others are not told again: details grow with what is said, and not
          with its square
    """
    describe = _DESCRIBERS.get(type(step))
    if describe is None:
        return None
    title, data = describe(step, result, new, codec)
    if error is not None:
        data["error"] = codec.to_json(error)
        title += f" failed: {error}"
    return Detail(step.step, title, data)


def _of_prompt(
    step: Prompt, completion: Completion | None, new: Sequence[Message], codec: Codec
) -> tuple[str, dict[str, Any]]:
    data: dict[str, Any] = {
        "role": step.role,
        "messages": len(step.messages),
        "added": codec.to_json(new),
    }
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


def _of_count(
    step: CountTokens, count: TokenCount | None, new: Sequence[Message], codec: Codec
) -> tuple[str, dict[str, Any]]:
    data: dict[str, Any] = {"role": step.prompt.role, "messages": len(step.prompt.messages)}
    if count is None:
        return "count of tokens", data
    data |= _of_route(count.route)
    data |= {"tokens": count.tokens, "seconds": count.seconds}
    return f"count of tokens by {_named(count.route)}", data


def _of_embed(
    step: Embed, vectors: Vectors | None, new: Sequence[Message], codec: Codec
) -> tuple[str, dict[str, Any]]:
    data: dict[str, Any] = {"role": step.role, "texts": len(step.texts)}
    if vectors is None:
        return "embedding", data
    data |= _of_route(vectors.route)
    data["usage"] = codec.to_json(vectors.usage)
    data |= _of_call(vectors)
    return f"embedding by {_named(vectors.route)}", data


def _of_moderate(
    step: Moderate, verdict: Verdict | None, new: Sequence[Message], codec: Codec
) -> tuple[str, dict[str, Any]]:
    data: dict[str, Any] = {"role": step.role, "text": step.text}
    if verdict is None:
        return "moderation", data
    data |= _of_route(verdict.route)
    data["flagged"] = verdict.flagged
    data["categories"] = dict(verdict.categories)
    data |= _of_call(verdict)
    return f"moderation by {_named(verdict.route)}", data


def _of_function(
    step: CallFunction[Any], result: Any, new: Sequence[Message], codec: Codec
) -> tuple[str, dict[str, Any]]:
    data = {"arguments": codec.to_json(step.arguments), "result": codec.to_json(result)}
    return f"call of {step.function.__qualname__}", data


def _of_tool(
    step: CallTool, output: ToolOutput | None, new: Sequence[Message], codec: Codec
) -> tuple[str, dict[str, Any]]:
    call = step.call
    data: dict[str, Any] = {"tool": call.name, "id": call.id}
    data["arguments"] = call.malformed or codec.to_json(call.arguments)
    title = one_line(f"tool {call.name}")
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


def _of_wait(
    step: Wait[Any], result: Any, new: Sequence[Message], codec: Codec
) -> tuple[str, dict[str, Any]]:
    data = {"payload": codec.to_json(step.payload), "result": codec.to_json(result)}
    return f"waited for {step.kind}", data


def _of_call(result: Completion | Vectors | Verdict) -> dict[str, float]:
    """
    cost   US dollars; left out if it is not known
    """
    cost = {} if result.cost is None else {"cost": result.cost}
    return {"seconds": result.seconds, **cost}


def _of_route(route: RouteInfo | None) -> dict[str, str]:
    if route is None:
        return {}
    return {"model": route.model, "provider": route.provider, "dialect": route.dialect}


def _named(route: RouteInfo | None) -> str:
    return f"{route.model}@{route.provider}" if route else "a model"


_DESCRIBERS: Mapping[type[Step[Any]], Callable[..., tuple[str, dict[str, Any]]]] = {
    Prompt: _of_prompt,
    CountTokens: _of_count,
    Embed: _of_embed,
    Moderate: _of_moderate,
    CallFunction: _of_function,
    CallTool: _of_tool,
    Wait: _of_wait,
}
