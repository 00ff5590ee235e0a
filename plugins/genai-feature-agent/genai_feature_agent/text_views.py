"""Text views of `reactions.BUILT_IN` for clients without a front end; actions are not performed."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from genai_host.api import write_json


def message(reaction: Mapping[str, Any], width: int) -> list[str]:
    return [line for each in reaction["message"].split("\n") for line in _folded(each, width)]


def redirect(reaction: Mapping[str, Any], width: int) -> list[str]:
    return _folded(f"go to: {reaction['url']}", width)


def confirmation(reaction: Mapping[str, Any], width: int) -> list[str]:
    lines = message({"message": reaction["description"]}, width)
    for option in _options(reaction["options"]):
        lines += _folded(f"- {option}", width)
    return lines


def goto_question(reaction: Mapping[str, Any], width: int) -> list[str]:
    return _folded(f"go to the question: {reaction['question_id']}", width)


def change_display_type(reaction: Mapping[str, Any], width: int) -> list[str]:
    return _folded(f"show it as: {reaction['display-type']}", width)


def change_table_visualization_settings(reaction: Mapping[str, Any], width: int) -> list[str]:
    return _folded(f"show the columns: {', '.join(reaction['visible-columns'])}", width)


def api_call(reaction: Mapping[str, Any], width: int) -> list[str]:
    line = f"call: {reaction['method']} {reaction['url']}"
    body = reaction.get("body")
    return _folded(line if body is None else f"{line} {_text(body)}", width)


def writeback(reaction: Mapping[str, Any], width: int) -> list[str]:
    return message({"message": f"write back: {reaction['message']}"}, width)


def _options(options: Sequence[Any] | Mapping[str, Any]) -> list[str]:
    if isinstance(options, Mapping):
        return [f"{name}: {_text(value)}" for name, value in options.items()]
    return [_text(option) for option in options]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else write_json(value).decode()


def _folded(line: str, width: int) -> list[str]:
    return textwrap.wrap(line, width, break_on_hyphens=False) or [""]
