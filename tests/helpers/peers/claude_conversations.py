"""What is said to the recording service, as whoever uses the `anthropic` SDK writes it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from peers.conversations import CONVERSATIONS, Kind, user

from genai_host.api import File, Image, Message, Prompt

_HI = [{"role": "user", "content": "hi"}]
_PDF = base64.b64encode(b"%PDF-1.7").decode()
_PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
WIRE_LOOK: Mapping[str, Any] = {
    "name": "look",
    "description": "looks",
    "input_schema": {
        "type": "object",
        "properties": {"at": {"type": "string"}},
        "required": ["at"],
    },
}
_ASKED = {"messages": _HI, "tools": [WIRE_LOOK]}
_ODD = 'é 🙂 \u2028 \x00 \n "\\ </script> \ufeff'


def _what(*blocks: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "what?"}, *blocks]}]}


SHARED: Mapping[str, Mapping[str, Any]] = {
    "plain": {"messages": _HI},
    "odd characters": {"messages": [{"role": "user", "content": _ODD}]},
    "system": {"system": "Be brief.", "messages": _HI},
    "history": {"messages": [
        *_HI, {"role": "assistant", "content": "hello"}, {"role": "user", "content": "and?"}]},
    "several texts": {"messages": [{"role": "user", "content": [
        {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]},
    "length": {"messages": _HI, "max_tokens": 7},
    "tools": _ASKED,
    "tool choice auto": {**_ASKED, "tool_choice": {"type": "auto"}},
    "tool choice none": {**_ASKED, "tool_choice": {"type": "none"}},
    "tool choice required": {**_ASKED, "tool_choice": {"type": "any"}},
    "tool choice look": {**_ASKED, "tool_choice": {"type": "tool", "name": "look"}},
    "one tool at a time": {
        **_ASKED, "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    "picture": _what({"type": "image", "source": {
        "type": "base64", "media_type": "image/png", "data": _PNG}}),
    "picture by its address": _what({"type": "image", "source": {
        "type": "url", "url": "https://x.invalid/a.png"}}),
    "file": _what({"type": "document", "title": "a.pdf", "source": {
        "type": "base64", "media_type": "application/pdf", "data": _PDF}}),
    "file by its address": {"messages": [{"role": "user", "content": [
        {"type": "document", "source": {"type": "url", "url": "https://x.invalid/a.pdf"}}]}]},
}  # fmt: skip
"""Of the conversations that are had with others as well, by name."""

_CITY: Any = next(each for each in CONVERSATIONS if each.name == "class").responses
_CACHED = {"type": "ephemeral", "ttl": "1h"}


def _asked(parameters: Mapping[str, Any], wire: Mapping[str, Any], only: Kind = "") -> Any:
    return Prompt([user("hi")], parameters=parameters), {"messages": _HI, **wire}, only


OWN: Mapping[str, tuple[Prompt, Mapping[str, Any], Kind]] = {
    "stop": _asked({"stop": ["x", "\n"]}, {"stop_sequences": ["x", "\n"]}),
    "effort": _asked(
        {"reasoning_effort": "low"},
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        "thinking",
    ),
    "thoughts that show": _asked(
        {"thinking_display": "summarized"},
        {"thinking": {"type": "adaptive", "display": "summarized"}},
        "thinking",
    ),
    "no thoughts": _asked(
        {"reasoning_effort": "none"}, {"thinking": {"type": "between_tools"}}, "thinking"
    ),
    "a budget for thoughts": _asked(
        {"thinking_budget": 2000, "max_tokens": 3000},
        {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 3000},
        "direct",
    ),
    "the cache": _asked({"prompt_cache": "1h"}, {"cache_control": _CACHED}),
    "text as a file": (
        Prompt([user("what?", File("é".encode(), "text/plain", "a.txt"))]),
        _what({"type": "document", "title": "a.txt", "source": {
            "type": "text", "media_type": "text/plain", "data": "é"}}),
        "",
    ),
    "several in the system": (
        Prompt([Message("system", ["a", "b"]), user("hi")]),
        {"messages": _HI, "system": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        "",
    ),
    "a picture alone": (
        Prompt([user(Image(url="https://x.invalid/a.png"))]),
        {"messages": [{"role": "user", "content": [
            {"type": "image", "source": {"type": "url", "url": "https://x.invalid/a.png"}}]}]},
        "",
    ),
}  # fmt: skip
"""What only Claude is told, and the kind of models that is."""

PARSED: tuple[Prompt, Any] = (
    next(each for each in CONVERSATIONS if each.name == "class").prompt,
    _CITY["text_format"],
)
"""A prompt that is answered as a class, and the class."""

TOLD: Mapping[str, tuple[Prompt, Mapping[str, Any], Kind]] = {
    **{each.name: (each.prompt, SHARED[each.name], "") for each in CONVERSATIONS
       if each.name in SHARED},
    **OWN,
}  # fmt: skip
"""All of them."""
