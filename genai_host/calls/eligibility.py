"""Which routes may receive a request, and what of it their services receive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve

from genai_host.api import DroppedFields, File, Image, Message, Part, ToolResult, picture_in_words
from genai_host.calls.route import Route

_NOTHING: frozenset[str] = frozenset()
_IMAGES = frozenset({"images"})


def eligible_routes(
    routes: Sequence[Route], parameters: Mapping[str, Any], dropped: DroppedFields | None = None
) -> list[Route]:
    """The routes for a request, without those that must not receive it. Models of all but the best
    route must accept the parameters. Raises `ValidationError` if no route is left."""
    needed = parameters.keys() if dropped is None else dropped.required(parameters)
    others = [each for each in routes[1:] if needed <= each.candidate.parameters.keys()]
    eligible = [*routes[:1], *others]
    if dropped is None or not dropped.may_change:
        return eligible
    errors = [dropped.error_at(route.receives) for route in eligible]
    if errors[0] is not None and all(errors):
        raise errors[0]
    return [route for route, error in zip(eligible, errors, strict=True) if error is None]


def sent_parameters(
    parameters: Mapping[str, Any], route: Route, dropped: DroppedFields | None
) -> Mapping[str, Any]:
    """The parameters that the service of an attempt receives."""
    if dropped is None:
        return parameters
    dropped.sent_to(route.receives)
    return dropped.parameters_for(route.receives, parameters)


def needs_of(message: Message) -> tuple[frozenset[str], frozenset[str]]:
    """The capabilities that a message requires, and those that it benefits from."""
    needs = set()
    wants = _NOTHING
    for part in message.content:
        if isinstance(part, Image) and message.role == "assistant":
            wants = _IMAGES
        elif isinstance(part, Image):
            needs.add("images")
        elif isinstance(part, File):
            needs.add("files")
        elif isinstance(part, ToolResult) and any(isinstance(each, Image) for each in part.content):
            wants = _IMAGES
    return frozenset(needs) if needs else _NOTHING, wants


def with_images_in_words(message: Message) -> Message:
    """Replace images in tool results and answers by text, for a model that accepts none there."""
    if not message.remember("needs", needs_of)[1]:
        return message
    return evolve(message, content=[_in_words(part) for part in message.content])


def _in_words(part: Part) -> Part:
    if isinstance(part, ToolResult):
        content = [picture_in_words(e) if isinstance(e, Image) else e for e in part.content]
        return evolve(part, content=content)
    return picture_in_words(part) if isinstance(part, Image) else part
