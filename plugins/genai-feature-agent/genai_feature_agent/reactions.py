"""The types of reactions that every front end of the agent supports, and their text views for
clients without a front end. Plugins add types with the hook `genai_reactions`.

A reaction that navigates to another page, or that the user has to answer, ends the turn, because
the next step of the model depends on the result.

Source: Metabot V3, the front end for these reactions. Fields without a specified form accept any
value that a front end could use.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from genai_host.api import Message, ReactionType, write_json

_TEXT = {"type": "string"}
# web schemes only, not for example `javascript:`; browsers skip control characters
_URL = {
    "type": "string",
    "pattern": r"^(?:[Hh][Tt][Tt][Pp][Ss]?:|(?![a-zA-Z][a-zA-Z0-9+.-]*:))[^\x00-\x20]*$",
}
_DISPLAY_TYPES = ("pie", "table", "bar", "line", "row", "area", "scalar")


def _kind(
    name: str, fields: Mapping[str, Any], *, optional: Sequence[str] = (), ends: bool = False
) -> ReactionType:
    schema = {
        "type": "object",
        "properties": dict(fields),
        "required": [field for field in fields if field not in optional],
        "additionalProperties": False,
    }
    return ReactionType(name, schema, ends=ends, text_view=f"{__name__}:view")


BUILT_IN = (
    _kind("message", {"message": _TEXT}),
    _kind("redirect", {"url": _URL}, ends=True),
    _kind(
        "confirmation",
        {"description": _TEXT, "options": {"type": ["array", "object"]}},
        ends=True,
    ),
    _kind("goto-question", {"question_id": {"type": ["integer", "string"]}}, ends=True),
    _kind("change-display-type", {"display-type": {"enum": list(_DISPLAY_TYPES)}}),
    _kind(
        "change-table-visualization-settings",
        {"visible-columns": {"type": "array", "items": _TEXT}},
    ),
    _kind("api-call", {"method": _TEXT, "url": _URL, "body": True}, optional=["body"]),
    _kind("writeback", {"message": _TEXT}),
)


def all_reactions(
    messages: Sequence[Message], of_tools: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the actions for a front end: the texts of the assistant since the last message of the
    user, then the reactions of the tools, in the order of their calls.
    """
    user_places = [number for number, each in enumerate(messages) if each.role == "user"]
    since = messages[user_places[-1] + 1 :] if user_places else messages
    texts = [each.text for each in since if each.role == "assistant" and each.text]
    of_texts = [{"type": "message", "message": text} for text in texts]
    return [*of_texts, *map(dict, of_tools)]


_TEXTS = {
    "message": "{message}",
    "redirect": "go to: {url}",
    "goto-question": "go to the question: {question_id}",
    "change-display-type": "show it as: {display-type}",
    "writeback": "write back: {message}",
}


def view(reaction: Mapping[str, Any], width: int) -> list[str]:
    """Return the lines of a reaction of `BUILT_IN`."""
    match reaction["type"]:
        case "confirmation":
            options = [f"- {each}" for each in _options(reaction["options"])]
            lines = [*reaction["description"].split("\n"), *options]
        case "change-table-visualization-settings":
            lines = [f"show the columns: {', '.join(reaction['visible-columns'])}"]
        case "api-call":
            body = reaction.get("body")
            more = [] if body is None else [_text(body)]
            lines = [" ".join(["call:", reaction["method"], reaction["url"], *more])]
        case "message" | "writeback" as kind:
            lines = _TEXTS[kind].format_map(reaction).split("\n")
        case kind:
            lines = [_TEXTS[kind].format_map(reaction)]
    return [each for line in lines for each in _folded(line, width)]


def _options(options: Sequence[Any] | Mapping[str, Any]) -> list[str]:
    if isinstance(options, Mapping):
        return [f"{name}: {_text(value)}" for name, value in options.items()]
    return [_text(option) for option in options]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else write_json(value).decode()


def _folded(line: str, width: int) -> list[str]:
    return textwrap.wrap(line, width, break_on_hyphens=False) or [""]
